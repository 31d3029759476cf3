"""How numbers and labels are written for people: decimals as in the paper, a dash where there is no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from detector_bench.tables.table import DASH, Arrow, Cell
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY


def fixed(value: float, *, decimals: int) -> str:
    """Round to a fixed number of decimals; NaN becomes a dash, and minus zero loses its sign."""
    if math.isnan(value):
        return DASH
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def score_cell(value: float, *, decimals: int = 3, bold: bool = False) -> Cell:
    """A bias score, as it is."""
    return Cell(fixed(value, decimals=decimals), value=value, bold=bold)


def per_cent_cell(value: float, *, bold: bool = False) -> Cell:
    """A fraction, printed in per cent with two decimals; the column's heading bears the sign."""
    return Cell(fixed(100 * value, decimals=2), value=value, bold=bold)


def measurement_cell(value: float, *, bold: bool = False) -> Cell:
    """A measured number or a mean error, in the attribute's unit with two decimals; the heading names the unit."""
    return Cell(fixed(value, decimals=2), value=value, bold=bold)


def count_cell(value: float) -> Cell:
    """A number of images."""
    return Cell(fixed(value, decimals=0), value=value)


def deviating_score_cell(value: float, deviation: float, *, bold: bool = False) -> Cell:
    """A score with its deviation from the ground truth: `0.686 (8.78 % ↓)`.

    Args:
        value: the score; NaN gives a dash alone.
        deviation: fraction of the true score; positive means overestimated. NaN gives a dash in parentheses.
        bold: the best of its column.
    """
    if math.isnan(value):
        return Cell(DASH, value=value, deviation=math.nan)
    size = DASH if math.isnan(deviation) else fixed(100 * abs(deviation), decimals=2) + " %"
    arrow = Arrow.UP if deviation > 0 else Arrow.DOWN if deviation < 0 else Arrow.NONE
    return Cell(fixed(value, decimals=3), value, deviation, deviation_text=size, arrow=arrow, bold=bold)


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
    return ATTRIBUTES[attribute].words if attribute in ATTRIBUTES else attribute.replace("_", " ")


def attributes_in_words(attributes: Sequence[str]) -> str:
    """Attributes inside a sentence: `gender, race and skin tone`; "none" without any."""
    words = [attribute_in_words(name) for name in attributes]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "none"


def in_words(label: str) -> str:
    """A label for people: `low_quality` becomes `Low-quality`, `middle_aged` becomes `Middle aged`."""
    words = "low-quality" if label == LOW_QUALITY else label.replace("_", " ")
    return words[:1].upper() + words[1:]
