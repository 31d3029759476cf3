"""What a reader of one metric needs to know."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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


def with_deviations(*scores: MetricInfo) -> tuple[MetricInfo, ...]:
    """Scores that describe a T2I model, and of each how far a detector misses it, as a part of the score."""
    deviations = (
        replace(
            score,
            name=f"{score.name}_deviation",
            meaning=f"reported minus actual {score.name}, as a part of the actual one",
            definition=f"(reported - actual `{score.name}`) / actual `{score.name}`",
            source=OURS,
            # A score can be near or below 0.
            lowest=-1 if score.lowest >= 0 else -math.inf,
            highest=None,
            better="closest to zero",
            kind="fraction",
        )
        for score in scores
    )
    return (*scores, *deviations)
