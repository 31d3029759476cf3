"""The detectors in order, and how sure that order is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from detector_bench.errors import ConfigError
from detector_bench.evaluation.comparison import bootstrap_p_value, holm, scattered, scope_values
from detector_bench.metrics import JointVerdicts, NClear, metric_info
from detector_bench.metrics.bootstrap import Unit
from detector_bench.metrics.counts import FloatArray

RANKED_METRICS = ("f1", "accuracy", "model_bias_score_deviation", "prompt_bias_score_difference")
"""Whose ranks are averaged unless other metrics are named."""

RANKABLE_METRICS = (*RANKED_METRICS, "filter_rate", "precision", "recall")


class RankedDetector(NamedTuple):
    """One detector's place."""

    detector: str
    rank: float
    """1 is best; equal detectors share the mean of their ranks."""
    rank_low: float
    rank_high: float
    """Interval of the rank."""
    score: float
    """The metric's value, or the mean of the ranks by several metrics."""
    probability_best: float
    """Share of the resamples in which it is first; a shared first place counts in equal parts."""
    groups: str
    """Letters; detectors that share one cannot be told apart."""


def rank_detectors(
    joint: JointVerdicts,
    names: Sequence[str],
    *,
    metrics: Sequence[str] = RANKED_METRICS,
    resamples: int = 10_000,
    unit: Unit = "image",
    seed: int = 0,
    level: float = 0.95,
    n_clear: NClear = "detector",
) -> list[RankedDetector]:
    """Rank detectors by one metric, or by the mean of their ranks by several.

    The same is done in every resample, which gives each rank an interval and each detector a probability of being
    the best. Detectors cannot be told apart if the paired bootstrap, after Holm's adjustment for all pairs, does
    not reject that they are equal at 1 - level. A detector without a value (no image kept, say) comes last.

    Args:
        joint: truth and verdicts.
        names: the detectors' names, in the order of `joint`.
        metrics: one or several of `RANKABLE_METRICS`.
        resamples: how many.
        unit: see `metrics.bootstrap`.
        seed: of the random numbers.
        level: 0.95 for 95 % intervals.
        n_clear: denominator of prompt bias scores.

    Returns:
        Best first.

    Raises:
        ConfigError: a metric that cannot be ranked by.
    """
    for name in metrics:
        if name not in RANKABLE_METRICS:
            raise ConfigError(f"cannot rank by {name!r} (accepted: {', '.join(RANKABLE_METRICS)})")
    values = scope_values(joint, n_clear=n_clear)
    scatter = scattered(joint, values, resamples=resamples, unit=unit, seed=seed, n_clear=n_clear)
    losses = [_loss(values[name][:, np.newaxis], name) for name in metrics]
    drawn_losses = [_loss(scatter[name], name) for name in metrics]
    if len(metrics) == 1:
        loss, drawn_loss, score = losses[0], drawn_losses[0], values[metrics[0]]
    else:
        loss = np.mean([_ranks(each) for each in losses], axis=0)
        drawn_loss = np.mean([_ranks(each) for each in drawn_losses], axis=0)
        score = loss[:, 0]
    ranks, drawn_ranks = _ranks(loss)[:, 0], _ranks(drawn_loss)
    low, high = np.quantile(drawn_ranks, [(1 - level) / 2, (1 + level) / 2], axis=1, method="inverted_cdf")
    best = drawn_loss == drawn_loss.min(axis=0)
    probability = (best / best.sum(axis=0)).mean(axis=1)
    order = sorted(range(len(names)), key=lambda index: (ranks[index], -probability[index]))
    letters = _letters(_told_apart(loss[:, 0], drawn_loss, level=level), order)
    return [
        RankedDetector(
            names[index],
            float(ranks[index]),
            float(low[index]),
            float(high[index]),
            float(score[index]),
            float(probability[index]),
            letters[index],
        )
        for index in order
    ]


def _loss(values: FloatArray, metric: str) -> FloatArray:
    """The smaller, the better; infinite where there is no value."""
    better = metric_info(metric).better
    loss = -values if better == "higher" else np.abs(values) if better == "closest to zero" else values
    return np.where(np.isnan(loss), np.inf, loss)


def _ranks(loss: FloatArray) -> FloatArray:
    """Ranks of `[detector, resample]` along the first axis, ties averaged."""
    from scipy.stats import rankdata

    ranks: FloatArray = rankdata(loss, axis=0)
    return ranks


def _told_apart(loss: FloatArray, drawn: FloatArray, *, level: float) -> set[frozenset[int]]:
    pairs = list(combinations(range(len(loss)), 2))
    p_values = []
    for one, other in pairs:
        both = np.isfinite(drawn[one]) & np.isfinite(drawn[other])
        if np.isfinite([loss[one], loss[other]]).all():
            p_values.append(bootstrap_p_value((drawn[one] - drawn[other])[both], float(loss[one] - loss[other])))
        else:
            # Without a value: apart from those that have one, together with others that have none.
            p_values.append(1.0 if np.isinf(loss[one]) and np.isinf(loss[other]) else 0.0)
    adjusted = holm(p_values)
    return {frozenset(pair) for pair, p in zip(pairs, adjusted, strict=True) if p < 1 - level}


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
