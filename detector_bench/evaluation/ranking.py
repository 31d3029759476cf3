"""The detectors in order, and how sure that order is."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from detector_bench.evaluation.comparison import COMPARED_METRICS, ComparisonFamily, Contest
from detector_bench.metrics import METRICS, JointVerdicts, NClear
from detector_bench.metrics.bootstrap import Unit


class RankedDetector(NamedTuple):
    """One detector's place by one metric."""

    detector: str
    rank: float
    """1 is best; equal detectors share the mean of their ranks."""
    rank_low: int
    """The best rank that the images leave open: 1 + the detectors shown to be better."""
    rank_high: int
    """The worst: all detectors but those shown to be worse."""
    score: float
    """The metric's value; NaN where there is none, and the detector comes last."""
    groups: str
    """Letters; detectors that share one cannot be told apart. Empty without a value."""
    better_than: tuple[str, ...]
    """Detectors that are shown to be worse."""


def rank_detectors(
    joint: JointVerdicts,
    names: Sequence[str],
    *,
    metrics: Sequence[str] = COMPARED_METRICS,
    unit: Unit = "image",
    seed: int = 0,
    level: float = 0.95,
    n_clear: NClear = "detector",
) -> dict[str, list[RankedDetector]]:
    """Rank detectors by each of some metrics, all pairs and metrics tested together.

    Args:
        joint: truth and verdicts.
        names: the detectors' names, in the order of `joint`.
        metrics: one or several of `metrics.influence.comparable_metrics()`.
        unit: see `metrics.bootstrap`.
        seed: of the random numbers.
        level: 0.95: all sets of ranks hold together in 95 % of studies.
        n_clear: denominator of prompt bias scores.

    Returns:
        By metric, best first; see `ranking`.

    Raises:
        ConfigError: a metric that cannot be ranked by.
    """
    contest = Contest(joint, tuple(names))
    family = ComparisonFamily.of([contest], metrics=metrics, unit=unit, seed=seed, level=level, n_clear=n_clear)
    return {name: ranking(family, name) for name in metrics}


def ranking(family: ComparisonFamily, metric: str, *, contest: int = 0) -> list[RankedDetector]:
    """The detectors of one contest in order, with what the family's tests leave open.

    The ranks that a detector can have are those that no test rules out: the sets of all detectors hold together
    with the probability of the family (Mogstad, Romano, Shaikh and Wilhelm 2024). Unlike a bootstrap of ranks,
    which takes chance for order where detectors are equal, this holds for ties.

    Args:
        family: with its tests.
        metric: one of the family's.
        contest: which one.

    Returns:
        Best first; detectors without a value last.
    """
    from scipy.stats import rankdata

    names = family.contests[contest].detectors
    scores = family.values[contest][metric]
    loss = np.where(np.isnan(scores), np.inf, METRICS[metric].loss(scores))
    ranks, better = rankdata(loss), family.better(metric, contest=contest)
    order = sorted(range(len(names)), key=lambda index: float(ranks[index]))
    with_value = [index for index in order if np.isfinite(loss[index])]
    apart = {frozenset((int(one), int(other))) for one, other in np.argwhere(better)}
    letters = _letters(apart, with_value)
    return [
        RankedDetector(
            names[index],
            float(ranks[index]),
            1 + int(better[:, index].sum()) if index in letters else len(with_value) + 1,
            len(with_value) - int(better[index].sum()) if index in letters else len(names),
            float(scores[index]),
            letters.get(index, ""),
            tuple(names[other] for other in order if better[index, other]),
        )
        for index in order
    ]


def _letters(apart: set[frozenset[int]], order: Sequence[int]) -> dict[int, str]:
    """A letter for every largest set of detectors no two of which can be told apart, best set first."""
    groups = _largest_groups(apart, order)
    place = {detector: position for position, detector in enumerate(order)}
    groups.sort(key=lambda group: sorted(place[detector] for detector in group))
    letters = dict.fromkeys(order, "")
    for number, group in enumerate(groups):
        letter = ascii_lowercase[number % 26] * (1 + number // 26)
        for detector in group:
            letters[detector] += letter
    return letters


def _largest_groups(apart: set[frozenset[int]], detectors: Sequence[int]) -> list[set[int]]:
    """Insert and absorb (Piepho 2004): split every group that holds a pair told apart, drop groups inside
    others."""
    groups = [set(detectors)]
    for pair in sorted(apart, key=sorted):
        split = [group - {one} for group in groups if pair <= group for one in pair]
        groups = [group for group in groups if not pair <= group] + split
        groups = [
            group
            for position, group in enumerate(groups)
            if group
            and not any(
                group < other or (group == other and position > index) for index, other in enumerate(groups)
            )
        ]
    return groups
