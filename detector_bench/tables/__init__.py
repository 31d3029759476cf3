"""What people read: tables made from a finished metric table.

Nothing here computes a statistic. A table function selects rows of the long metric table, puts them into rows
and columns, and marks the best; a renderer turns the result into CSV, Markdown, LaTeX, HTML or a terminal's text.
"""

from __future__ import annotations

from detector_bench.tables.alignment_table import alignment_accuracy
from detector_bench.tables.bias_error_table import bias_errors
from detector_bench.tables.bias_tables import (
    model_bias_scores,
    prompt_bias_score_difference,
)
from detector_bench.tables.confusion_table import confusion
from detector_bench.tables.estimate_table import model_bias_estimates
from detector_bench.tables.image_tables import filtering_and_accuracy, label_shares, measured_values
from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.prompt_table import prompt_bias_scores
from detector_bench.tables.render_csv import to_csv
from detector_bench.tables.render_html import to_html
from detector_bench.tables.render_latex import to_latex
from detector_bench.tables.render_markdown import to_markdown
from detector_bench.tables.render_terminal import to_rich
from detector_bench.tables.table import Arrow, Cell, Column, Row, Table
from detector_bench.tables.table_files import study_tables, write_tables

__all__ = [
    "DEFAULT_MAX_ERROR_SHARE",
    "Arrow",
    "Cell",
    "Column",
    "Row",
    "Table",
    "alignment_accuracy",
    "bias_errors",
    "confusion",
    "filtering_and_accuracy",
    "label_shares",
    "measured_values",
    "model_bias_estimates",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "prompt_bias_scores",
    "study_tables",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_rich",
    "write_tables",
]
