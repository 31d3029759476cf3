"""What a reader of one metric needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["higher", "lower", "closest to zero", "none"]
Kind: TypeAlias = Literal["fraction", "score", "count", "measurement"]
Unit: TypeAlias = Literal["images", "prompts", "classes", "pairs", "verdicts"]

OURS = "ours"
"""The source of what no other benchmark has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """What a reader of one metric needs to know; docs/metrics.md is made of these."""

    name: str
    """As in the column `metric` of a metric table."""
    meaning: str
    """One line, in words."""
    definition: str
    """How it is computed, in the symbols of docs/metrics.md."""
    source: str
    """The paper and its section, or `OURS`."""
    lowest: float
    highest: float | None
    """The range of the values; minus infinity: no lower bound, None: no upper bound."""
    better: Better
    """Which value makes the better detector; "none" where the metric describes the images or the T2I model."""
    kind: Kind
    """A fraction (papers print it in per cent), a bias score (printed as it is), a number of images, or a
    measurement in the attribute's unit, such as years."""
    counted: Unit
    """What the column `n` counts for this metric."""
    left_out: str = ""
    """What the column `n_left_out` counts; empty: it is always 0."""
    no_interval: str = ""
    """Why it has no confidence interval; empty: it has one."""
