"""What people read: tables made from a finished metric table.

Nothing here computes a statistic. A declared table selects rows of the long metric table, puts them into rows and
columns, and marks the best; a renderer turns the result into CSV, Markdown, LaTeX, HTML or a terminal's text.
"""

from __future__ import annotations

from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import TABLES, TableDeclaration, declare_table, makes_table
from detector_bench.tables.detected_tables import detected_bias_scores, detected_shares
from detector_bench.tables.error_tables import confusion
from detector_bench.tables.estimate_tables import bias_estimates, prompt_estimates
from detector_bench.tables.label_tables import label_doubt_table
from detector_bench.tables.metric_tables import (
    accuracy_by_category,
    alignment_accuracy,
    bias_errors,
    filtering_and_accuracy,
    filtering_and_accuracy_by_t2i_model,
    label_shares,
    measured_values,
    model_bias_estimates,
    model_bias_scores,
    model_bias_scores_by_category,
    prompt_bias_score_difference,
    prompt_bias_scores,
)
from detector_bench.tables.refusal_tables import bias_if_refused, refusals
from detector_bench.tables.render_latex import to_latex
from detector_bench.tables.render_terminal import to_rich
from detector_bench.tables.renderers import remove_tables, to_csv, to_html, to_markdown, write_tables
from detector_bench.tables.table import Arrow, Cell, Column, MetricColumn, Row, Table
from detector_bench.tables.tables_of_study import TableStyle, in_style_of, study_tables

__all__ = [
    "DEFAULT_MAX_ERROR_SHARE",
    "TABLES",
    "Arrow",
    "Cell",
    "Column",
    "MetricColumn",
    "Row",
    "Table",
    "TableDeclaration",
    "TableNumbers",
    "TableStyle",
    "accuracy_by_category",
    "alignment_accuracy",
    "bias_errors",
    "bias_estimates",
    "bias_if_refused",
    "confusion",
    "declare_table",
    "detected_bias_scores",
    "detected_shares",
    "filtering_and_accuracy",
    "filtering_and_accuracy_by_t2i_model",
    "in_style_of",
    "label_doubt_table",
    "label_shares",
    "makes_table",
    "measured_values",
    "model_bias_estimates",
    "model_bias_scores",
    "model_bias_scores_by_category",
    "prompt_bias_score_difference",
    "prompt_bias_scores",
    "prompt_estimates",
    "refusals",
    "remove_tables",
    "study_tables",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_rich",
    "write_tables",
]
