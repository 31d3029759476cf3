"""The Markdown of cards: text from data means itself, numbers carry their intervals, what is unknown says so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from detector_bench.results.metric_lookup import Number
from detector_bench.tables.renderers import escaped_markdown
from detector_bench.tables.wording import fixed, whole

TO_FILL_IN = "**to fill in**"
"""Stands wherever only the people behind a data set or detector can know the answer."""


def unknown(what: str) -> str:
    """That something is not known to the program: `unknown (**to fill in**: who paid for it)`."""
    return f"unknown ({TO_FILL_IN}: {what})"


def text(value: object) -> str:
    """A text from data, so that it stands for itself in Markdown, also inside a table."""
    return escaped_markdown(" ".join(str(value).split()))


def words(values: Iterable[object]) -> str:
    """Several texts from data, with commas."""
    return ", ".join(text(value) for value in values)


def share(number: Number) -> str:
    """A share in per cent with its interval: `33.6 [29.2, 38.3] %`; a dash without a number."""
    return _with_limits(number, factor=100, decimals=1, unit=" %")


def score(number: Number, *, decimals: int = 3) -> str:
    """A score with its interval: `0.267 [0.182, 0.375]`."""
    return _with_limits(number, factor=1, decimals=decimals, unit="")


def _with_limits(number: Number, *, factor: float, decimals: int, unit: str) -> str:
    value = fixed(factor * number.value, decimals=decimals)
    if number.missing:
        return value
    limits = ""
    if number.has_interval and not math.isnan(number.ci_low):
        low, high = (fixed(factor * each, decimals=decimals) for each in (number.ci_low, number.ci_high))
        limits = f" [{low}, {high}]"
    return f"{value}{limits}{unit}"


def count(value: float) -> str:
    """A number of images, with commas between thousands."""
    return whole(value) if math.isnan(value) else f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """A count and its noun: `1 image`, `2,000 images`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 1) -> str:
    """A table of cells that are Markdown already.

    Args:
        head: of the columns.
        rows: their cells.
        numbers_from: the first column that is set flush right.
    """
    rule = ["---" if place < numbers_from else "---:" for place in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


def document(*parts: str) -> str:
    """Paragraphs, tables and headings with blank lines between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
