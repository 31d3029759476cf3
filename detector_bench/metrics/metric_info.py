"""What a reader of one metric needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Better: TypeAlias = Literal["higher", "lower", "closest to zero", "none"]
Kind: TypeAlias = Literal["fraction", "score", "count", "measurement"]
Unit: TypeAlias = Literal["images", "prompts", "classes", "pairs", "verdicts"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """What a reader of one metric needs to know."""

    name: str
    """As in the column `metric` of a metric table."""
    meaning: str
    """One line, in words."""
    lowest: float
    highest: float | None
    """The range of the values; minus infinity: no lower bound, None: no upper bound."""
    better: Better
    """Which value makes the better detector; "none" where the metric describes the images or the T2I model."""
    kind: Kind
    """A fraction (papers print it in per cent), a bias score (printed as it is), a number of images, or a
    measurement in the attribute's unit, such as years."""
    counted: Unit
    """What the columns `n` and `n_left_out` count for this metric."""
