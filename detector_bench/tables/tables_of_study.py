"""A study's tables: every registered one, for each of its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE, NClear
from detector_bench.tables.building import TableNumbers
from detector_bench.tables.declaration import TABLES
from detector_bench.tables.metric_tables import alignment_accuracy
from detector_bench.tables.refusal_tables import refusal_notes, request_tables
from detector_bench.tables.table import Table

_IN_ORDER = (
    "filtering_and_accuracy",
    "model_bias_scores",
    "prompt_bias_score_difference",
    "bias_errors",
    "prompt_bias_scores",
    "label_shares",
    "refusals",
    "bias_if_refused",
    "measured_values",
    "confusion",
    "label_doubt",
    "detected_bias_scores",
    "detected_shares",
    "bias_estimates",
    "prompt_estimates",
    "model_bias_estimates",
    "model_bias_scores_by_category",
    "accuracy_by_category",
    "filtering_and_accuracy_by_t2i_model",
)
"""As a reader wants them; tables of plugins and other packages follow."""

_OF_BIAS = (
    *("model_bias_scores", "prompt_bias_scores", "detected_bias_scores", "bias_estimates", "prompt_estimates"),
    *("model_bias_estimates", "model_bias_scores_by_category"),
)
"""Tables below which it stands what was refused."""


class TableStyle(BaseModel):
    """How a study's tables look. The plain style is that of the numbers alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shaded: bool = False
    """Colour the cells of the HTML and LaTeX forms, as Lyu 2025 does; see `Column.full_shade`."""
    mark_worst: bool = False
    """Set the worst value of a column in italics, beside the best one in bold."""

    def applied(self, table: Table, *, display_names: Mapping[str, str] | None = None) -> Table:
        """The table in this style.

        Args:
            table: any table.
            display_names: what people read in place of the names of detectors and T2I models.
        """
        styled = replace(table, shaded=self.shaded, marks_worst=self.mark_worst)
        return styled.with_display_names(display_names or {})


def in_style_of(study: Mapping[str, Any], table: Table) -> Table:
    """A table in the style that a study file asks for.

    Args:
        study: the file's content; its `display_names` and `table_style` decide.
        table: any table.
    """
    style = TableStyle.model_validate(study.get("table_style") or {})
    return style.applied(table, display_names=study.get("display_names"))


def study_tables(
    metrics: pd.DataFrame,
    *,
    attributes: Sequence[str] = ("gender",),
    n_clear: NClear | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    prompts: pd.DataFrame | None = None,
    intervals: bool = False,
    confusion: pd.DataFrame | None = None,
    label_doubt: pd.DataFrame | None = None,
) -> dict[str, Table]:
    """Build the registered tables of every attribute, and of two or more attributes alignment accuracy.

    A table that a study has no numbers for is left out: errors of measured values, confusion matrices, numbers by
    other labels than the consensus, tables by category of prompt or by T2I model where there is only one. The
    meanings of the model bias scores come with the intervals. Where no image has a human label of an attribute,
    only what detectors report by themselves is left; where some have none, that stands beside the rest. Tables of
    refusals are those of image sets that know the requests behind their images.

    The first attribute's tables bear their plain names; those of further attributes get a suffix, such as
    `filtering_and_accuracy_age`.

    Args:
        metrics: a metric table (`vocabulary.columns.METRIC_COLUMNS`).
        attributes: which ones to tabulate, the main one first.
        n_clear: see `TableNumbers.of_table`.
        max_error_share: likewise.
        prompts: likewise.
        intervals: show confidence intervals, and `model_bias_estimates`.
        confusion: columns as in `vocabulary.columns.CONFUSION_COLUMNS`; None: no such table.
        label_doubt: columns as in `vocabulary.columns.LABEL_DOUBT_COLUMNS`; None: no such table.

    Returns:
        By name, in the order in which a reader wants them.

    Raises:
        ConfigError: no metrics of an attribute, or `max_error_share` is no fraction.
    """
    tables: dict[str, Table] = {}
    labelled = []
    refused = refusal_notes(metrics)
    names = [*_IN_ORDER, *(name for name in TABLES if name not in _IN_ORDER)]
    for position, attribute in enumerate(attributes):
        numbers = TableNumbers.of_table(
            metrics,
            attribute=attribute,
            n_clear=n_clear,
            max_error_share=max_error_share,
            prompts=prompts,
            intervals=intervals,
            confusion=confusion,
            label_doubt=label_doubt,
        )
        if numbers.lookup.has_labels:
            labelled.append(attribute)
        suffix = "" if position == 0 else f"_{attribute}"
        for name in names:
            table = TABLES.get(name).of(numbers)
            if table is not None:
                if refused and name in _OF_BIAS:
                    table = replace(table, notes=(*table.notes, *refused))
                # The name is the LaTeX label too, which has to differ between attributes.
                tables[name + suffix] = replace(table, name=name + suffix)
    for table in request_tables(metrics, prompts=prompts, intervals=intervals):
        tables[table.name] = table
    if len(labelled) > 1:
        table = alignment_accuracy(
            metrics, attributes=labelled, max_error_share=max_error_share, intervals=intervals
        )
        tables[table.name] = table
    return tables
