"""Do detectors meet images in one study as they did in another? Filter rates, error rates, agreement and scores.

Whether a difference is more than chance is judged with whole prompts as the unit, since images of a prompt are
alike, and for all differences at once: the largest of their t values is held against those of random signs of the
prompts' deviations (multiplier bootstrap, Chernozhukov, Chetverikov and Kato 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.partly_labelled import IntArray
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.joint_verdicts import Codes

SIGNS = 2_000
"""How many sets of random signs are drawn."""

LARGEST_CHANCE = 0.05
"""Of any warning, or of a refutation, where there is nothing to be warned of."""

MATTERS = 0.05
"""A difference of shares below this is no reason for a warning, however certain it is."""

FEWEST_PROMPTS = 4
"""Of both studies; with fewer nothing is tested."""

_LEAST_ERROR = 1e-9

SCORE_PARTS = 10
"""Scores are compared at the limits of so many equally frequent parts."""


class Difference(NamedTuple):
    """One number of both studies."""

    what: str
    """`filter_rate`, `error_rate`, `agreement` or `score`."""
    detectors: tuple[str, ...]
    """One, or the two that agree."""
    learnt_from: float
    """In the study with labels: a share; of scores their median."""
    here: float
    size: float
    """The difference of the shares; of scores the largest difference of the shares of images with a score below a
    limit (Kolmogorov-Smirnov, at deciles), 0 to 1."""
    p_value: float
    """Chance of one as certain as this anywhere in the table, were the studies alike; NaN: not tested."""

    @property
    def flagged(self) -> bool:
        """Whether it is more than chance explains, and matters."""
        return self.p_value < LARGEST_CHANCE and self.size >= MATTERS


@dataclass(frozen=True, eq=False)
class JudgedImages:
    """A study's verdicts and scores, as far as they are compared."""

    verdicts: Codes
    """`[detector, image]`."""
    scores: FloatArray
    """`[detector, image]`; NaN where there is none."""
    prompt: IntArray
    """`[image]`."""
    classes: int


def differences(
    study: JudgedImages, here: JudgedImages, *, detectors: tuple[str, ...], seed: int = 0
) -> list[Difference]:
    """Compare filter rates, error rates, agreement and scores of all detectors; what matters most comes first.

    Rates and scores also differ where labels are distributed otherwise, which the estimate allows: a difference is
    a reason to look, no proof that the estimate is wrong.

    Args:
        study: the one with labels.
        here: the one without.
        detectors: their names.
        seed: of the signs.
    """
    compared = [each for place, name in enumerate(detectors) for each in _of_detector(study, here, place, name)]
    for one, other in combinations(range(len(detectors)), 2):
        shares = [_agreement(judged, one, other) for judged in (study, here)]
        compared.append(_Compared("agreement", (detectors[one], detectors[other]), [shares[0]], [shares[1]]))
    distances = [
        np.array([after.value - before.value for before, after in zip(each.there, each.here, strict=True)])
        for each in compared
    ]
    moved = [
        np.stack([share.moved_by(study.prompt) for each in compared for share in each.there], axis=1),
        np.stack([share.moved_by(here.prompt) for each in compared for share in each.here], axis=1),
    ]
    adjusted = adjusted_p_values(np.concatenate(distances), moved, seed=seed)
    of_each = np.split(adjusted, np.cumsum([len(each) for each in distances])[:-1])
    found = [
        each.difference(distance, p_values)
        for each, distance, p_values in zip(compared, distances, of_each, strict=True)
    ]
    return sorted(found, key=lambda each: (not each.flagged, -each.size))


def adjusted_p_values(differences: FloatArray, deviations: list[FloatArray], *, seed: int) -> FloatArray:
    """Chance of a t value as large as each difference's anywhere among them, were they all chance.

    Args:
        differences: `[number]`.
        deviations: for each study, by how much each of its prompts moves the numbers, `[prompt, number]`.
        seed: of the signs.
    """
    if min(map(len, deviations)) < FEWEST_PROMPTS:
        return np.full(len(differences), np.nan)
    parts = np.concatenate([each * np.sqrt(len(each) / (len(each) - 1)) for each in deviations])
    study = np.repeat(np.arange(len(deviations)), [len(each) for each in deviations])
    error = np.sqrt((parts**2).sum(axis=0))
    known = error > _LEAST_ERROR
    found = np.full(len(differences), np.nan)
    t = np.abs(differences[known]) / error[known]
    signs = np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), size=(SIGNS, len(parts)))
    moved = signs @ parts[:, known]
    # The error of each draw is that of its own deviations from its mean, as the study's is.
    square = np.broadcast_to((parts[:, known] ** 2).sum(axis=0), moved.shape).copy()
    for number, each in enumerate(deviations):
        own = study == number
        square -= (signs[:, own] @ parts[own][:, known]) ** 2 / len(each)
    least = np.sqrt(np.maximum(square, 0.01 * error[known] ** 2))
    largest = np.sort((np.abs(moved) / least).max(axis=1)) if known.any() else np.zeros(SIGNS)
    found[known] = 1 - np.searchsorted(largest, t) / (SIGNS + 1)
    return found


@dataclass(frozen=True, eq=False)
class _Share:
    """A share of some of the images."""

    counted: FloatArray
    """`[image]`: 1 if it has the property."""
    among: FloatArray
    """`[image]`: 1 if it is one of them."""

    @classmethod
    def of(cls, has: NDArray[np.bool_], among: NDArray[np.bool_]) -> _Share:
        return cls((has & among).astype(np.float64), among.astype(np.float64))

    @property
    def value(self) -> float:
        total = self.among.sum()
        return float(self.counted.sum() / total) if total else float("nan")

    def moved_by(self, prompt: IntArray) -> FloatArray:
        """By how much each prompt moves the share, `[prompt]`."""
        total = self.among.sum()
        off = (self.counted - self.value * self.among) / total if total else self.counted
        return by_prompt(off[:, np.newaxis], prompt)[:, 0]


@dataclass(frozen=True, eq=False)
class _Compared:
    """One number, or a distribution by its shares below several limits."""

    what: str
    detectors: tuple[str, ...]
    there: list[_Share]
    here: list[_Share]
    medians: tuple[float, float] | None = None

    def difference(self, distances: FloatArray, p_values: FloatArray) -> Difference:
        values = self.medians or (self.there[0].value, self.here[0].value)
        size = np.nan if np.isnan(distances).all() else float(np.nanmax(np.abs(distances)))
        p_value = np.nan if np.isnan(p_values).all() else float(np.nanmin(p_values))
        return Difference(self.what, self.detectors, *values, size, p_value)


def by_prompt(values: FloatArray, prompt: IntArray) -> FloatArray:
    """Sums over the images of each prompt that has any, `[prompt, value]`."""
    _, number = np.unique(prompt, return_inverse=True)
    return np.stack([np.bincount(number, each) for each in values.T], axis=1)


def _of_detector(study: JudgedImages, here: JudgedImages, place: int, name: str) -> list[_Compared]:
    """Filter rate among images with a verdict, error rate, and scores."""
    error = study.classes + 1
    filtered, failed = [], []
    for judged in (study, here):
        verdicts = judged.verdicts[place]
        filtered.append([_Share.of(verdicts == study.classes, verdicts != error)])
        failed.append([_Share.of(verdicts == error, np.ones(len(verdicts), dtype=np.bool_))])
    found = [
        _Compared("filter_rate", (name,), filtered[0], filtered[1]),
        _Compared("error_rate", (name,), failed[0], failed[1]),
    ]
    scores = [judged.scores[place] for judged in (study, here)]
    known = [~np.isnan(each) for each in scores]
    if not (known[0].any() and known[1].any()):
        return found
    both = np.concatenate([each[seen] for each, seen in zip(scores, known, strict=True)])
    limits = np.unique(np.quantile(both, np.arange(1, SCORE_PARTS) / SCORE_PARTS))
    there, now = (
        [_Share.of(np.nan_to_num(each, nan=np.inf) <= limit, seen) for limit in limits]
        for each, seen in zip(scores, known, strict=True)
    )
    medians = (float(np.nanmedian(scores[0])), float(np.nanmedian(scores[1])))
    return [*found, _Compared("score", (name,), there, now, medians)]


def _agreement(judged: JudgedImages, one: int, other: int) -> _Share:
    """The share of the images on which both say the same, among those with a verdict of both."""
    first, second, error = judged.verdicts[one], judged.verdicts[other], judged.classes + 1
    return _Share.of(first == second, (first != error) & (second != error))
