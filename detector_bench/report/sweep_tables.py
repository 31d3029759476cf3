"""The table of a detector's threshold sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pandas as pd

from detector_bench.report.metric_lookup import best_of
from detector_bench.report.table import DASH, Cell, Column, Row, Table
from detector_bench.report.wording import attribute_in_words, count_cell, fixed, per_cent_cell, score_cell
from detector_bench.vocabulary import ALL

_PER_CENT = {
    "filter_rate": ("Filter rate", "Filtering (%)"),
    "recall": ("Recall", "Filtering (%)"),
    "precision": ("Precision", "Filtering (%)"),
    "f1": ("F1", "Filtering (%)"),
    "accuracy": ("Accuracy (%)", ""),
    "model_bias_score_deviation": ("Model bias score deviation (%)", ""),
}
_BEST = ("f1", "model_bias_score_deviation", "prompt_bias_score_difference")


def threshold_sweep(
    sweep: pd.DataFrame, *, t2i_model: str = ALL, thresholds: Sequence[float] | None = None
) -> Table:
    """One detector at several thresholds: an image is kept if its score reaches the threshold.

    Bold: the best F1, deviation and prompt bias score difference of the thresholds shown. A threshold marked with
    an asterisk lies at or below the one that the run itself used, where images that it filtered are missing.

    Args:
        sweep: columns as in `evaluation.sweeps.SWEEP_COLUMNS`, one detector.
        t2i_model: the one to show; "all" for all together.
        thresholds: which ones to show; None for all.
    """
    rows = sweep[sweep["t2i_model"] == t2i_model]
    if thresholds is not None:
        rows = rows[rows["threshold"].isin(list(thresholds))]
    detector, attribute = str(sweep["detector"].iloc[0]), str(sweep["attribute"].iloc[0])
    numbers = rows.pivot_table(index=["threshold", "known"], columns="metric", values="value", dropna=False)
    numbers = numbers.loc[numbers["images_clear"].notna()]
    best = {metric: best_of(numbers[metric].to_dict(), metric=metric) for metric in _BEST}
    table_rows = []
    for place, number in numbers.iterrows():
        threshold, known = cast(tuple[float, bool], place)
        mark = "" if known else "*"
        cells = [Cell(f"{fixed(threshold, decimals=3)}{mark}", key=repr(threshold))]
        cells.append(count_cell(number["images_clear"]))
        cells += [
            per_cent_cell(number[metric], bold=place in best.get(metric, frozenset())) for metric in _PER_CENT
        ]
        metric = "prompt_bias_score_difference"
        cells.append(score_cell(number[metric], bold=place in best[metric]))
        table_rows.append(Row(f"threshold {cells[0].text}", tuple(cells)))
    return Table(
        name=f"sweep_{detector}",
        caption=(
            f"{detector} at several thresholds, perceived {attribute_in_words(attribute)}"
            f"{'' if t2i_model == ALL else f', {t2i_model}'}: an image is kept if its score reaches the "
            "threshold. Bold: best F1, smallest deviation, smallest difference."
        ),
        attribute=attribute,
        columns=(
            Column("threshold", "Threshold", kind="name"),
            Column("images_clear", "Kept"),
            *(Column(metric, heading, group=group) for metric, (heading, group) in _PER_CENT.items()),
            Column("prompt_bias_score_difference", "Prompt bias score difference"),
        ),
        rows=tuple(table_rows),
        notes=_notes(numbers, rows),
    )


def _notes(numbers: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, ...]:
    notes = [f"Prompt bias scores are divided by n_clear: {name}." for name in pd.unique(rows["n_clear"]) if name]
    if not all(known for _, known in numbers.index):
        notes.append(
            "*: the run's own threshold was higher; images that it filtered as uncertain have no stored class and "
            "stay filtered here."
        )
    if numbers.drop(columns="images_clear").isna().any(axis=None):
        notes.append(f"{DASH}: undefined, because no image is kept, clear or low-quality.")
    return tuple(notes)
