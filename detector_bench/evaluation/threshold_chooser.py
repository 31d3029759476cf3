"""Chooses a threshold on some prompts and counts what it does on the others: the arithmetic of `out_of_sample`.

Parts of a study's prompts (folds): what is chosen on some of them is judged on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.evaluation.image_index import IntArray
from detector_bench.evaluation.sweeps import Sweep
from detector_bench.metrics import FloatArray, MetricInfo, NClear, divide
from detector_bench.metrics.scopes import PromptSubsets
from detector_bench.vocabulary import ALL

Places = NDArray[np.intp]

FOLDS = 5

_REPEATS_IN_RESAMPLE = 4
_RESAMPLES_AT_ONCE = 50
_BEST_AT_ZERO = "closest to zero"


@dataclass(frozen=True, slots=True)
class ThresholdChooser:
    """Chooses among the thresholds of one detector by one metric."""

    counts: IntArray
    """`[threshold, t2i_model, prompt, truth, verdict]`: thresholds that compete, and prompts that have images."""
    thresholds: FloatArray
    category_of_prompt: Places
    metric: MetricInfo
    n_clear: NClear

    @classmethod
    def of_sweep(cls, sweep: Sweep, metric: MetricInfo, *, n_clear: NClear, t2i_model: str = ALL) -> Self:
        """Take the thresholds above `Sweep.known_above`, and the prompts that have images of the T2I model."""
        model = slice(None) if t2i_model == ALL else [sweep.t2i_models.index(t2i_model)]
        counts = sweep.counts[:, model]
        known = sweep.thresholds > sweep.known_above
        asked = counts[:1].sum(axis=(0, 1, 3, 4)) > 0
        categories = sweep.category_of_prompt[asked]
        return cls(counts[known][:, :, asked], sweep.thresholds[known], categories, metric, n_clear)

    @property
    def prompts(self) -> int:
        """How many prompts have images."""
        return len(self.category_of_prompt)

    @property
    def folds(self) -> int:
        """Into how many parts prompts are dealt: five, or as many as have two prompts each, but at least two."""
        return max(2, min(FOLDS, self.prompts // 2))

    @property
    def signed(self) -> bool:
        """Whether the metric is best at 0, and so judged by its mean square."""
        return self.metric.better == _BEST_AT_ZERO

    def values(self, weights: FloatArray) -> FloatArray:
        """The metric at every threshold on sets of prompts: weights `[set, prompt]` to `[set, threshold]`."""
        score = self.metric.scores(self.counts, scopes=PromptSubsets.of_weights(weights), n_clear=self.n_clear)
        return score.value[:, 0].T

    def best(self, values: FloatArray) -> Places:
        """Position of the best along the last axis, the first of equals; -1 where no value is defined."""
        # Rounded, so that equal values stay equal whatever the order in which prompts were added up.
        distance = np.round(self.metric.loss(values), 12)
        distance = np.where(np.isnan(distance), np.inf, distance)
        return np.where(np.isinf(distance).all(axis=-1), -1, distance.argmin(axis=-1))

    def dealt(self, *, repeats: int, random: np.random.Generator) -> Places:
        """Deal the prompts out into parts: `[repeat, prompt]`."""
        return prompt_folds(self.category_of_prompt, folds=self.folds, repeats=repeats, random=random)

    def chosen(self, fold_of_prompt: Places, times: Places | None = None) -> Places:
        """The threshold that the other parts choose for each part: `[repeat, fold]`, -1: none.

        Args:
            fold_of_prompt: of each prompt, `[repeat, prompt]`.
            times: how often each prompt is in the study, `[repeat, prompt]`; None: once.
        """
        others = without_fold(fold_of_prompt, folds=self.folds)
        if times is not None:
            others *= times[:, np.newaxis]
        return self.best(self.values(others.reshape(-1, self.prompts))).reshape(others.shape[:2])

    def held_out(self, fold_of_prompt: Places, chosen: Places) -> float:
        """Each prompt judged with the threshold that the other parts chose, all counted together.

        Mean over the repeats; NaN where most have a part without a threshold, or no value.
        """
        everyone = np.broadcast_to(np.arange(self.prompts), fold_of_prompt.shape)
        values = self._counted(everyone, fold_of_prompt, chosen)
        return float(np.nanmean(values)) if np.isnan(values).mean() <= 1 / 2 else np.nan

    def mean_square(self, fold_of_prompt: Places, chosen: Places) -> float:
        """Mean square of a signed metric on as many new prompts of the same categories as there are.

        Mean over parts of m^2 - w / n, at least 0, plus the mean of w / N; m is the mean of the part's n prompts
        at the threshold that the others chose for it, w the variance of prompts within categories at that
        threshold, N the number of prompts. NaN where every category has a single prompt, or most parts have no
        value.
        """
        shares = self._shares()
        within = _variance_within(shares, self.category_of_prompt)
        at = np.take_along_axis(chosen, fold_of_prompt, axis=-1)
        share = np.where(at < 0, np.nan, shares[np.arange(self.prompts), at])
        there = ~np.isnan(share)
        part = fold_of_prompt + chosen.shape[1] * np.arange(len(fold_of_prompt))[:, np.newaxis]
        size = np.bincount(part[there], minlength=chosen.size)
        mean = divide(np.bincount(part[there], share[there], chosen.size), size)
        scatter = np.where(chosen < 0, np.nan, within[chosen]).ravel()
        squares = mean**2 - divide(scatter, size)
        if np.isnan(squares).mean() > 1 / 2:
            return np.nan
        # A square below 0 is an estimate of one near 0.
        return max(float(np.nanmean(squares)), 0.0) + float(np.nanmean(scatter)) / self.prompts

    def _shares(self) -> FloatArray:
        """What each prompt adds to the metric at each threshold, `[prompt, threshold]`."""
        everything = self.values(np.ones((1, self.prompts)))
        without_one = self.values(1 - np.eye(self.prompts))
        return self.prompts * everything - (self.prompts - 1) * without_one

    def resampled(self, random: np.random.Generator, *, resamples: int) -> FloatArray:
        """`held_out` of studies whose prompts are drawn again, everything chosen anew: `[resample]`."""
        blocks = [
            self._resampled(random, resamples=min(_RESAMPLES_AT_ONCE, resamples - start))
            for start in range(0, resamples, _RESAMPLES_AT_ONCE)
        ]
        return np.concatenate(blocks)

    def _resampled(self, random: np.random.Generator, *, resamples: int) -> FloatArray:
        studies, parts = [], []
        for _ in range(resamples):
            drawn = drawn_prompts(self.category_of_prompt, random=random)
            # Copies of a prompt are one prompt: in two parts, one would choose the threshold of the other.
            present = np.unique(drawn)
            fold = np.zeros((_REPEATS_IN_RESAMPLE, self.prompts), dtype=np.intp)
            fold[:, present] = prompt_folds(
                self.category_of_prompt[present], folds=self.folds, repeats=_REPEATS_IN_RESAMPLE, random=random
            )
            studies.append(drawn)
            parts.append(fold)
        prompts = np.repeat(np.stack(studies), _REPEATS_IN_RESAMPLE, axis=0)
        folds = np.concatenate(parts)
        times = np.apply_along_axis(np.bincount, 1, prompts, minlength=self.prompts)
        values = self._counted(prompts, folds, self.chosen(folds, times))
        mean: FloatArray = values.reshape(resamples, _REPEATS_IN_RESAMPLE).mean(axis=-1)
        return mean

    def _counted(self, drawn: Places, fold_of_prompt: Places, chosen: Places) -> FloatArray:
        """The metric of prompts `[study, prompt]`, each with the threshold chosen for its part: `[study]`."""
        at = np.take_along_axis(chosen, np.take_along_axis(fold_of_prompt, drawn, axis=-1), axis=-1)
        # Axes: study, prompt, t2i_model, truth, verdict.
        counts = np.moveaxis(self.counts, 2, 1)[at, drawn]
        whole = PromptSubsets.of_weights(np.ones((1, self.prompts)))
        value = self.metric.scores(np.moveaxis(counts, 1, 2), scopes=whole, n_clear=self.n_clear).value[:, 0, 0]
        return np.where((chosen < 0).any(axis=-1), np.nan, value)


def _variance_within(shares: FloatArray, category_of_prompt: Places) -> FloatArray:
    """Variance of values `[prompt, threshold]` within categories: `[threshold]`; NaN where it cannot be told."""
    there = ~np.isnan(shares)
    squares, degrees = np.zeros(shares.shape[1]), np.zeros(shares.shape[1], dtype=np.intp)
    for category in np.unique(category_of_prompt):
        of_category = category_of_prompt == category
        values, defined = shares[of_category], there[of_category]
        size = defined.sum(axis=0)
        from_mean = values - divide(np.where(defined, values, 0.0).sum(axis=0), size)
        squares += np.where(defined, from_mean**2, 0.0).sum(axis=0)
        degrees += np.maximum(size - 1, 0)
    return divide(squares, degrees)


def prompt_folds(category_of_prompt: Places, *, folds: int, repeats: int, random: np.random.Generator) -> Places:
    """Deal prompts out at random, again and again, into parts that have equally many of each category.

    All images of a prompt, by all T2I models, go together. Parts differ by at most one prompt in a category and
    in all, since a category goes on where the one before it ended.

    Returns:
        The part of each prompt, `[repeat, prompt]`.
    """
    prompts = len(category_of_prompt)
    dealt = np.empty((repeats, prompts), dtype=np.intp)
    for repeat in range(repeats):
        # Shuffled first, so that categories (in order, as the sort is stable) hold their prompts in random order.
        shuffled = random.permutation(prompts)
        order = shuffled[np.argsort(category_of_prompt[shuffled], kind="stable")]
        dealt[repeat, order] = np.arange(prompts) % folds
    return dealt


def without_fold(fold_of_prompt: Places, *, folds: int) -> FloatArray:
    """Which prompts are left to choose on when a part is held out, as 0 or 1.

    Args:
        fold_of_prompt: `[repeat, prompt]`.
        folds: how many parts there are.

    Returns:
        `[repeat, fold, prompt]`.
    """
    chosen_on: FloatArray = (fold_of_prompt[:, np.newaxis, :] != np.arange(folds)[:, np.newaxis]).astype(
        np.float64
    )
    return chosen_on


def drawn_prompts(category_of_prompt: Places, *, random: np.random.Generator) -> Places:
    """As many prompts as there are, drawn with replacement within each category."""
    drawn = np.empty_like(category_of_prompt)
    for category in np.unique(category_of_prompt):
        members = np.flatnonzero(category_of_prompt == category)
        drawn[members] = random.choice(members, size=members.size)
    return drawn
