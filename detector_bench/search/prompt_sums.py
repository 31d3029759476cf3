"""What compositions add up to on each prompt, so that the error on any set of prompts is a ratio of two sums.

Each error that can be chosen by is one: of wrong images and images, of squared distances and prompts. So the
errors of thousands of compositions on thousands of sets of prompts are two products of matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import CountArray, FloatArray, NClear, divide
from detector_bench.metrics.bias import prompt_bias_score_error
from detector_bench.metrics.counts import class_count, human_class_counts
from detector_bench.metrics.filtering import filter_confusion
from detector_bench.metrics.prompt_bias_error import squared_errors
from detector_bench.search.settings import SearchedError


class RatioOfSums(NamedTuple):
    """One error as two sums over prompts, each `[composition, prompt]`; all T2I models of a prompt together."""

    above: FloatArray
    below: FloatArray


@dataclass(frozen=True, eq=False)
class PromptSums:
    """What compositions add up to on each prompt."""

    weights: dict[SearchedError, float]
    """What each error counts for."""
    ratios: dict[SearchedError, RatioOfSums]
    kept: RatioOfSums
    """Human-clear images that are kept, and human-clear images."""

    @classmethod
    def of_counts(cls, counts: CountArray, weights: Mapping[SearchedError, float], *, n_clear: NClear) -> Self:
        """Reduce counts `[composition, t2i_model, prompt, truth, verdict]`."""
        classes = class_count(counts)
        clear = human_class_counts(counts).sum(axis=(1, -1)).astype(np.float64)
        kept = counts[..., :classes, :classes].sum(axis=(1, 3, 4)).astype(np.float64)
        return cls(
            dict(weights), {name: _ratio(name, counts, n_clear) for name in weights}, RatioOfSums(kept, clear)
        )

    @classmethod
    def joined(cls, sums: Sequence[Self]) -> Self:
        """The compositions of several, one after another."""
        first = sums[0]

        def together(ratios: Sequence[RatioOfSums]) -> RatioOfSums:
            return RatioOfSums(*(np.concatenate(each) for each in zip(*ratios, strict=True)))

        ratios = {name: together([each.ratios[name] for each in sums]) for name in first.ratios}
        return cls(first.weights, ratios, together([each.kept for each in sums]))

    def of(self, compositions: NDArray[np.intp] | slice) -> Self:
        """Some of the compositions."""
        ratios = {name: RatioOfSums(*(part[compositions] for part in each)) for name, each in self.ratios.items()}
        return type(self)(self.weights, ratios, RatioOfSums(*(part[compositions] for part in self.kept)))

    def flattened(self) -> Self:
        """All compositions' prompts one after another, as if they were those of one: `[1, prompt]`."""
        ratios = {name: RatioOfSums(*(part.reshape(1, -1) for part in each)) for name, each in self.ratios.items()}
        return type(self)(self.weights, ratios, RatioOfSums(*(part.reshape(1, -1) for part in self.kept)))

    @property
    def compositions(self) -> int:
        """How many there are."""
        return len(self.kept.above)

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return int(self.kept.above.shape[1])

    @property
    def is_squared(self) -> bool:
        """Whether the error is a mean square, whose root people read."""
        return list(self.weights) == ["prompt_bias_error"]

    def errors(self, sets: FloatArray) -> FloatArray:
        """The error on sets of prompts `[set, prompt]`: `[composition, set]`; NaN where it is undefined.

        A mean square is the unbiased one, and may lie below 0 by chance.
        """
        total = np.zeros((self.compositions, len(sets)))
        for name, ratio in self.ratios.items():
            total += self.weights[name] * divide(ratio.above @ sets.T, ratio.below @ sets.T)
        return total

    def kept_shares(self, sets: FloatArray) -> FloatArray:
        """Share of the human-clear images of sets of prompts that are kept: `[composition, set]`."""
        return divide(self.kept.above @ sets.T, self.kept.below @ sets.T)

    def influences(self) -> FloatArray:
        """How far each prompt pulls the error on all prompts: `[composition, prompt]`; their mean is 0."""
        total = np.zeros((self.compositions, self.prompts))
        for name, (above, below) in self.ratios.items():
            error = divide(above.sum(axis=1), below.sum(axis=1))[:, np.newaxis]
            total += self.weights[name] * divide(above - error * below, below.mean(axis=1)[:, np.newaxis])
        return total

    def picked(self, chosen: NDArray[np.intp]) -> Self:
        """Studies in which each prompt has the composition that was chosen for it: `[study, prompt]`; -1: none."""
        prompt = np.arange(self.prompts)

        def picked(ratio: RatioOfSums) -> RatioOfSums:
            return RatioOfSums(*(np.where(chosen < 0, 0.0, part[chosen, prompt]) for part in ratio))

        return type(self)(
            self.weights, {name: picked(each) for name, each in self.ratios.items()}, picked(self.kept)
        )


def shown_error(value: FloatArray | float, *, is_squared: bool) -> FloatArray:
    """The error as people read it: the root of a mean square; 0 where it, or a limit of it, lies below 0."""
    positive = np.maximum(np.asarray(value, dtype=np.float64), 0)
    shown: FloatArray = np.sqrt(positive) if is_squared else positive
    return shown


def _ratio(name: SearchedError, counts: CountArray, n_clear: NClear) -> RatioOfSums:
    if name in ("prompt_bias_error", "prompt_bias_score_difference"):
        if name == "prompt_bias_error":
            terms = squared_errors(counts, n_clear=n_clear).value
        else:
            terms = prompt_bias_score_error(counts, n_clear=n_clear).value
        return RatioOfSums(np.nan_to_num(terms).sum(axis=1), (~np.isnan(terms)).sum(axis=1).astype(np.float64))
    if name == "f1":
        of = filter_confusion(counts)
        wrong = of.false_positive + of.false_negative
        return _over_models(wrong, wrong + 2 * of.true_positive)
    classes = class_count(counts)
    both = counts[..., :classes, :classes]
    judged = both.sum(axis=(-2, -1))
    return _over_models(judged - np.trace(both, axis1=-2, axis2=-1), judged)


def _over_models(above: CountArray, below: CountArray) -> RatioOfSums:
    return RatioOfSums(above.sum(axis=1).astype(np.float64), below.sum(axis=1).astype(np.float64))
