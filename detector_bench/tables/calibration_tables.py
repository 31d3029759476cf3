"""Tables of what `calibrate` finds: how far scores are probabilities, and which errors can be promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, fixed, per_cent_cell, score_cell, with_interval

_METRICS = {
    "log_loss": "Log loss",
    "brier_score": "Brier score",
    "expected_calibration_error": "Expected calibration error",
}
_SCORES = {
    "uncalibrated": "Uncalibrated",
    "in_sample": "In sample",
    "out_of_sample": "Out of sample",
    "change": "Change",
}
_UNITS = {"prompt": "other prompts", "image": "other images of these prompts"}


def calibration_table(rows: pd.DataFrame, *, attribute: str, level: float) -> Table:
    """The losses of a detector's scores before and after calibration.

    Args:
        rows: columns as in `evaluation.calibrations.CALIBRATION_COLUMNS`, of one detector.
        attribute: whose.
        level: of the intervals.
    """
    first = rows.iloc[0]
    return Table(
        name="calibration",
        caption=f"Scores of {first['detector']} for perceived {attribute_in_words(attribute)} as probabilities, "
        f"calibrated by {first['method']}: {int(first['n']):,} images of {int(first['n_prompts']):,} prompts. In "
        f"brackets: {100 * level:g} % intervals over prompts. Lower is better.",
        attribute=attribute,
        columns=(
            Column("metric", "Loss", kind="name"),
            *(Column(name, heading, has_intervals=True) for name, heading in _SCORES.items()),
        ),
        rows=tuple(_losses_row(name, rows[rows["metric"] == name]) for name in _METRICS),
        notes=(
            "In sample: by the map that all these images fitted. Out of sample: each image by a map that images "
            "of other prompts fitted. Change: out of sample less uncalibrated. The expected calibration error of "
            "resampled prompts is larger by chance, so that its interval may lie above it.",
        ),
    )


def _losses_row(metric: str, rows: pd.DataFrame) -> Row:
    by_scores = {str(row["scores"]): row for row in rows.to_dict("records")}
    cells = [_loss_cell(name, by_scores[name]) for name in _SCORES]
    return Row(_METRICS[metric], (Cell(_METRICS[metric], key=metric), *cells))


def _loss_cell(scores: str, row: Mapping[Any, Any]) -> Cell:
    value = float(row["value"])
    cell = Cell(f"{value:+.3f}", value=value) if scores == "change" else score_cell(value)
    return with_interval(cell, float(row["ci_low"]), float(row["ci_high"]))


def promise_table(rows: pd.DataFrame, *, attribute: str, confidence: float) -> Table:
    """The thresholds that promise an error.

    Args:
        rows: columns as in `evaluation.calibrations.PROMISE_COLUMNS`, of one detector.
        attribute: whose.
        confidence: of each promise.
    """
    first = rows.iloc[0]
    shown = [row for _, of_unit in rows.groupby("unit", sort=False) for row in _up_to_all(of_unit)]
    none = any(math.isnan(row["threshold"]) for row in shown)
    return Table(
        name="promised_errors",
        caption=f"What {first['detector']} can promise of its verdicts on perceived "
        f"{attribute_in_words(attribute)}, each by itself with {100 * confidence:g} % confidence: of those that "
        "it keeps, at most this share is wrong.",
        attribute=attribute,
        columns=(
            Column("unit", "Of", kind="name"),
            Column("error", "Wrong at most"),
            Column("threshold", "Lowest score"),
            Column("kept", "Kept here"),
            Column("wrong", "Wrong here"),
        ),
        rows=tuple(_promise_row(row) for row in shown),
        notes=(
            *([f"{DASH}: not with so few images or prompts, or so many wrong verdicts."] if none else []),
            "About images that humans can judge and the detector's own filters keep. The lowest score is the "
            "detector's own, before calibration.",
        ),
    )


def _up_to_all(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """The promises up to the first one that keeps every verdict: those of larger errors do so, too."""
    records = rows.to_dict("records")
    keeps_all = [place for place, row in enumerate(records) if row["threshold"] == 0]
    return records[: keeps_all[0] + 1] if keeps_all else records


def _promise_row(row: Mapping[Any, Any]) -> Row:
    threshold, error = float(row["threshold"]), float(row["error"])
    nothing = math.isnan(threshold)
    shares = [math.nan if nothing else float(row[name]) for name in ("kept", "wrong")]
    return Row(
        f"{row['unit']}, {error:g}",
        (
            Cell(_UNITS[str(row["unit"])], key=str(row["unit"])),
            Cell(f"{100 * error:g} %", value=error),
            Cell(DASH if nothing else fixed(threshold, decimals=4), value=threshold),
            *(per_cent_cell(share) for share in shares),
        ),
    )
