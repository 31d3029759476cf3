"""Writes a study's tables as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from detector_bench.atomic_files import write_text
from detector_bench.metrics import NClear
from detector_bench.tables.alignment_table import alignment_accuracy
from detector_bench.tables.bias_error_table import bias_errors
from detector_bench.tables.bias_tables import model_bias_scores, prompt_bias_score_difference
from detector_bench.tables.confusion_table import confusion as confusion_of
from detector_bench.tables.estimate_table import model_bias_estimates
from detector_bench.tables.image_tables import filtering_and_accuracy, label_shares, measured_values
from detector_bench.tables.label_doubt_table import label_doubt_table
from detector_bench.tables.metric_lookup import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.prompt_table import prompt_bias_scores
from detector_bench.tables.render_csv import to_csv
from detector_bench.tables.render_latex import to_latex
from detector_bench.tables.render_markdown import to_markdown
from detector_bench.tables.table import Table
from detector_bench.vocabulary import attribute_named

_FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


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
    """Build the tables of every attribute, and one over all attributes.

    Six tables each; errors of measured values, where the metric table has them; confusion matrices, where they
    are given; numbers by other labels than the consensus, where there are any; with intervals, the model bias
    scores' meanings. Of two or more attributes, alignment accuracy.

    The first attribute's tables bear their plain names; those of further attributes get a suffix, such as
    `filtering_and_accuracy_age`.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attributes: which ones to tabulate, the main one first.
        n_clear: see `prompt_bias_score_difference`.
        max_error_share: see `model_bias_scores`.
        prompts: columns `prompt_id, word`; without it `prompt_bias_scores` shows the prompts' ids.
        intervals: show confidence intervals, and `model_bias_estimates`.
        confusion: columns as in `schema.CONFUSION_COLUMNS`; None: no such table.
        label_doubt: columns as in `schema.LABEL_DOUBT_COLUMNS`; None: no such table.

    Returns:
        By name, in the order in which a reader wants them.

    Raises:
        ConfigError: no metrics of an attribute, or `max_error_share` is no fraction.
    """
    tables: dict[str, Table] = {}
    for position, attribute in enumerate(attributes):
        suffix = "" if position == 0 else f"_{attribute}"
        built = [
            filtering_and_accuracy(
                metrics, attribute=attribute, max_error_share=max_error_share, intervals=intervals
            ),
            model_bias_scores(metrics, attribute=attribute, max_error_share=max_error_share, intervals=intervals),
            prompt_bias_score_difference(
                metrics,
                attribute=attribute,
                n_clear=n_clear,
                max_error_share=max_error_share,
                intervals=intervals,
            ),
            bias_errors(metrics, attribute=attribute, n_clear=n_clear, max_error_share=max_error_share),
            prompt_bias_scores(metrics, attribute=attribute, prompts=prompts),
            label_shares(metrics, attribute=attribute, intervals=intervals),
        ]
        measured = (
            measured_values(metrics, attribute=attribute, max_error_share=max_error_share, intervals=intervals)
            if attribute_named(attribute).unit
            else None
        )
        if measured is not None:
            built.append(measured)
        if confusion is not None:
            built.append(confusion_of(confusion, attribute=attribute))
        doubt = (
            None
            if label_doubt is None
            else label_doubt_table(metrics, label_doubt, attribute=attribute, max_error_share=max_error_share)
        )
        if doubt is not None:
            built.append(doubt)
        if intervals:
            built.append(model_bias_estimates(metrics, attribute=attribute, max_error_share=max_error_share))
        for table in built:
            # The name is the LaTeX label too, which has to differ between attributes.
            tables[table.name + suffix] = replace(table, name=table.name + suffix)
    if len(attributes) > 1:
        table = alignment_accuracy(
            metrics, attributes=attributes, max_error_share=max_error_share, intervals=intervals
        )
        tables[table.name] = table
    return tables


def write_tables(tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Write `folder/<name>.{csv,md,tex}` for every table; equal tables give equal bytes.

    Each file appears whole or not at all.

    Args:
        tables: by file name without its ending, as `study_tables` gives them.
        folder: created if need be; `tables` in a study's output folder.

    Returns:
        The files written, in order.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    written = []
    for name, table in tables.items():
        for ending, render in _FORMATS.items():
            path = folder / f"{name}.{ending}"
            write_text(path, render(table))
            written.append(path)
    return written
