"""How numbers and labels are written for people: decimals as in the paper, a dash where there is no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from detector_bench.metrics import metric_info
from detector_bench.metrics.metric_info import Kind
from detector_bench.tables.table import DASH, Arrow, Cell
from detector_bench.vocabulary import LOW_QUALITY


def fixed(value: float, *, decimals: int) -> str:
    """Round to a fixed number of decimals; NaN becomes a dash, and minus zero loses its sign."""
    if math.isnan(value):
        return DASH
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


_DECIMALS: dict[Kind, int] = {"fraction": 2, "score": 3, "count": 0, "measurement": 2}


def number_cell(
    value: float,
    *,
    kind: Kind,
    decimals: int | None = None,
    limits: tuple[float, float] | None = None,
    deviation: float | None = None,
    bold: bool = False,
    worst: bool = False,
) -> Cell:
    """A number as its kind of metric is written: `0.686 [0.67, 0.70] (8.78 % ↓)`.

    Args:
        value: NaN gives a dash alone.
        kind: a fraction is printed in per cent (the column's heading bears the sign), a measurement in the
            attribute's unit.
        decimals: None: as the paper prints them.
        limits: of its confidence interval, see `with_interval`.
        deviation: from the ground truth, a fraction of it; positive means overestimated. NaN gives a dash in
            parentheses.
        bold: the best of its column.
        worst: the worst of its column.
    """
    per_cent = kind == "fraction"
    decimals = _DECIMALS[kind] if decimals is None else decimals
    cell = Cell(fixed(100 * value if per_cent else value, decimals=decimals), value, bold=bold, worst=worst)
    if deviation is not None:
        cell = _with_deviation(cell, deviation, missing=math.isnan(value))
    return cell if limits is None else with_interval(cell, *limits, per_cent=per_cent, decimals=decimals)


def _with_deviation(cell: Cell, deviation: float, *, missing: bool) -> Cell:
    if missing:
        return replace(cell, deviation=math.nan)
    size = DASH if math.isnan(deviation) else fixed(100 * abs(deviation), decimals=2) + " %"
    arrow = Arrow.UP if deviation > 0 else Arrow.DOWN if deviation < 0 else Arrow.NONE
    return replace(cell, deviation=deviation, deviation_text=size, arrow=arrow)


def score_cell(value: float, *, decimals: int = 3, bold: bool = False) -> Cell:
    """A bias score, as it is."""
    return number_cell(value, kind="score", decimals=decimals, bold=bold)


def per_cent_cell(value: float, *, bold: bool = False) -> Cell:
    """A fraction, printed in per cent with two decimals; the column's heading bears the sign."""
    return number_cell(value, kind="fraction", bold=bold)


def count_cell(value: float) -> Cell:
    """A number of images."""
    return number_cell(value, kind="count")


def deviating_score_cell(value: float, deviation: float, *, bold: bool = False) -> Cell:
    """A score with its deviation from the ground truth: `0.686 (8.78 % ↓)`; see `number_cell`."""
    return number_cell(value, kind="score", deviation=deviation, bold=bold)


def with_interval(cell: Cell, low: float, high: float, *, per_cent: bool = False, decimals: int = 3) -> Cell:
    """A cell with its confidence interval: `91.5 [88.2, 94.0]`; a value without an interval stays alone.

    Per cent are printed with one decimal beside an interval, as its width leaves no meaning to a second.

    Args:
        cell: a number.
        low: lower limit, in the unit of the cell's value; NaN where there is no interval.
        high: upper limit.
        per_cent: whether the cell is printed in per cent.
        decimals: of the limits, where the cell is not printed in per cent.
    """
    value = math.nan if cell.value is None else cell.value
    factor, decimals = (100, 1) if per_cent else (1, decimals)
    text = fixed(factor * value, decimals=decimals) if per_cent else cell.text
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        return replace(cell, text=text, ci_low=math.nan, ci_high=math.nan)
    limits = ", ".join(fixed(factor * limit, decimals=decimals) for limit in (low, high))
    return replace(cell, text=text, ci_low=low, ci_high=high, interval_text=f"[{limits}]")


def whole(value: float) -> str:
    """A count inside a sentence."""
    return fixed(value, decimals=0)


def attribute_in_words(attribute: str) -> str:
    """An attribute inside a sentence: `skin_tone` becomes `skin tone`."""
    return attribute.replace("_", " ")


def attributes_in_words(attributes: Sequence[str]) -> str:
    """Attributes inside a sentence: `gender, race and skin tone`; "none" without any."""
    words = [attribute_in_words(name) for name in attributes]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "none"


def in_words(label: str) -> str:
    """A label for people: `low_quality` becomes `Low-quality`, `middle_aged` becomes `Middle aged`."""
    words = "low-quality" if label == LOW_QUALITY else label.replace("_", " ")
    return words[:1].upper() + words[1:]


def metric_cell(value: float, metric: str, **shown: Any) -> Cell:
    """A metric's number, as metrics of its kind are written; see `number_cell`."""
    return number_cell(value, kind=metric_info(metric).kind, **shown)


def in_per_cent(metric: str) -> bool:
    """Whether tables print the metric in per cent."""
    return metric_info(metric).kind == "fraction"


def metric_in_words(metric: str) -> str:
    """A metric for people: `filter_rate` becomes `Filter rate`."""
    return "F1" if metric == "f1" else in_words(metric)


def metric_heading(metric: str) -> str:
    """What a metric is called where it heads a row or a column of its own; fractions are printed in per cent."""
    return f"{metric_in_words(metric)} (%)" if in_per_cent(metric) else metric_in_words(metric)
