"""Drawings of how an interval gets narrower with more labels, one for each T2I model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from detector_bench.vocabulary.columns import LABELS_ONLY, PREDICTION_POWERED

WIDTH, HEIGHT = 360, 170
_LEFT, _BOTTOM, _TOP, _RIGHT = 40, 34, 10, 10
_ESTIMATORS = ((LABELS_ONLY, "alone"), (PREDICTION_POWERED, "with"))
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_MOST_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    place: float
    text: str


@dataclass(frozen=True)
class LabelCurve:
    """Half-widths of the model bias score's interval by number of labels; in pixels of the drawing."""

    t2i_model: str
    lines: tuple[tuple[str, str], ...]
    """Class of each line, and its points."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    words: str
    """What the drawing shows, for those who do not see it."""


def label_curves(rows: pd.DataFrame) -> list[LabelCurve]:
    """One drawing for each T2I model; none of a T2I model without a forecast.

    Args:
        rows: as `Results.plan` gives its `label_curves`.
    """
    known = rows[rows["half_width"].map(math.isfinite)]
    return [_curve(str(name), own) for name, own in known.groupby("t2i_model", sort=False) if len(own) > 1]


def _curve(t2i_model: str, rows: pd.DataFrame) -> LabelCurve:
    most, widest = float(rows["labels"].max()), float(rows["half_width"].max())

    def x(labels: float) -> float:
        return round(_LEFT + labels / most * (WIDTH - _LEFT - _RIGHT), 1)

    def y(half_width: float) -> float:
        return round(HEIGHT - _BOTTOM - half_width / widest * (HEIGHT - _BOTTOM - _TOP), 1)

    lines, said = [], []
    for variant, kind in _ESTIMATORS:
        own = rows[rows["variant"] == variant].sort_values("labels")
        if own.empty:
            continue
        pairs = list(zip(own["labels"].astype(float), own["half_width"].astype(float), strict=True))
        lines.append((kind, " ".join(f"{x(labels)},{y(width)}" for labels, width in pairs)))
        (first, wide), (last, narrow) = pairs[0], pairs[-1]
        what = "labels alone" if kind == "alone" else "labels and all detectors"
        said.append(f"{what}: from {wide:.2f} at {first:,.0f} labels to {narrow:.2f} at {last:,.0f}")
    step = next((each for each in _STEPS if widest / each <= _MOST_TICKS), 0.5)
    heights = [number * step for number in range(int(widest / step) + 1)]
    ten = 10 ** math.floor(math.log10(most))
    across = next(size for size in (ten / 5, ten / 2, ten, 2 * ten) if most / size <= _MOST_TICKS)
    numbers = [number * across for number in range(int(most / across) + 1)]
    return LabelCurve(
        t2i_model,
        tuple(lines),
        tuple(Tick(x(number), f"{number:,.0f}") for number in numbers),
        tuple(Tick(y(height), f"{height:g}" if height == 0 else f"{round(height, 2):g}") for height in heights),
        f"Half-width of the interval of the model bias score of {t2i_model}, {'; '.join(said)}.",
    )
