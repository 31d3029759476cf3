"""The terms that bias scores are means of, for many resamples: as `metrics.bias`, laid out for speed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.counts import FEWEST_IMAGES, CountArray, FloatArray, divide
from detector_bench.metrics.estimands import (
    correction_table,
    standard_correction,
)

_STEPS_PER_STANDARD_ERROR = 64
_Floats = NDArray[np.float32]


class Terms(NamedTuple):
    """What one metric is the mean of: its terms, and how many they are once both are added up."""

    total: CountArray
    """`[..., judge, resample]`: of one pair the term, 0 where it is undefined; of several their sum."""
    n: CountArray
    """Of one pair 1 where the term is defined and 0 elsewhere; of several how many are defined."""

    @property
    def mean(self) -> FloatArray:
        """NaN where no term is defined."""
        return divide(self.total, self.n)


class BiasTerms:
    """The terms of every prompt of every T2I model.

    Args:
        class_counts: images of each class by the human (first) and each detector, `[pair, K, 1 + detector,
            resample]`.
        verdicts: images with a verdict, `[pair, detector, resample]`; None: all have one.
        drawn: `[pair]`: whether the counts are whole numbers, and not too large for a table of corrections.
        n_clear: denominator of detectors' prompt bias scores.
    """

    def __init__(
        self, class_counts: CountArray, verdicts: CountArray | None, *, drawn: NDArray[np.bool_], n_clear: NClear
    ) -> None:
        self._counts = class_counts
        self._classes = class_counts.shape[1]
        self._drawn = drawn
        self._clear = class_counts.sum(axis=1)
        self._denominators = self._clear
        if n_clear == "human":
            human = self._clear[:, :1] * np.ones_like(self._clear)
            if verdicts is not None:
                human[:, 1:] *= verdicts > 0
            self._denominators = human

    def by_metric(self) -> dict[str, Terms]:
        """The terms of every metric, `[pair, judge, resample]`; of the errors the detectors' alone."""
        corrected, enough = self._corrected(), self._clear >= FEWEST_IMAGES
        both = _flags(enough[:, 1:] & enough[:, :1])
        return {
            "model_bias_score": self.model_bias_score(),
            "model_bias_score_corrected": Terms(corrected, _flags(enough)),
            "model_bias_score_error": Terms((corrected[:, 1:] - corrected[:, :1]) * both, both),
            "prompt_bias_score_difference": self.prompt_bias_score_difference(),
        }

    def model_bias_score(self) -> Terms:
        """Concentrations of the classes, `[pair, judge, resample]`."""
        return Terms(self._concentration(), _flags(self._clear > 0))

    def prompt_bias_score_difference(self) -> Terms:
        """Distances to the human's score, `[pair, detector, resample]`."""
        error, defined = self._error()
        return Terms(error, _flags(defined))

    def prompt_scores(self) -> dict[str, FloatArray]:
        """Metrics of single prompts, `[pair, judge, resample]`; NaN where undefined."""
        error, defined = self._error()
        difference = np.full(self._clear.shape, np.nan, dtype=np.float32)
        difference[:, 1:] = np.where(defined, error, np.nan)
        found = {"prompt_bias_score_difference": difference}
        if self._classes == SIGNED_CLASSES:
            found["prompt_bias_score"] = np.where(self._denominators > 0, self._signed(), np.nan)
        return found

    def _concentration(self) -> _Floats:
        deviation = np.abs(self._classes * self._counts[:, 0] - self._clear)
        for index in range(1, self._classes):
            deviation += np.abs(self._classes * self._counts[:, index] - self._clear)
        return _ratio(deviation, 2 * (self._classes - 1) * self._clear)

    def _signed(self) -> _Floats:
        return _ratio(self._counts[:, 0] - self._counts[:, 1], self._denominators)

    def _error(self) -> tuple[_Floats, NDArray[np.bool_]]:
        defined = (self._denominators[:, 1:] > 0) & (self._clear[:, :1] > 0)
        if self._classes == SIGNED_CLASSES:
            signed = self._signed()
            error = np.abs(signed[:, 1:] - signed[:, :1])
        else:
            error = np.zeros_like(self._clear[:, 1:])
            for index in range(self._classes):
                share = _ratio(self._counts[:, index], self._denominators)
                error += np.abs(share[:, 1:] - share[:, :1])
        error[~defined] = 0
        return error, defined

    def _corrected(self) -> _Floats:
        value: _Floats = np.zeros_like(self._clear)
        # Two classes mirror each other, so that one of them is looked up for both.
        names = range(1) if self._classes == SIGNED_CLASSES else range(self._classes)
        if self._drawn.any():
            total = self._clear[self._drawn].astype(np.intp)
            table = _corrections(self._classes, int(total.max()))
            for index in names:
                count = self._counts[self._drawn, index].astype(np.intp)
                value[self._drawn] += np.take(table, total * len(table) + count)
        if not self._drawn.all():
            for index in names:
                value[~self._drawn] += self._corrected_large(index)
        value *= self._classes / (2 * (self._classes - 1))
        return value

    def _corrected_large(self, index: int) -> _Floats:
        total, fair = self._clear[~self._drawn], np.float32(1 / self._classes)
        distance = _ratio(self._counts[~self._drawn, index], total) - fair
        scale = np.sqrt(fair * (1 - fair) / np.maximum(total, np.float32(1)))
        steps = _standard_steps(self._classes)
        place = (distance / scale * _STEPS_PER_STANDARD_ERROR + len(steps) // 2 + 0.5).astype(np.intp)
        corrected: _Floats = np.abs(distance) + scale * np.take(steps, place, mode="clip")
        corrected[total < FEWEST_IMAGES] = 0
        both: _Floats = corrected * np.float32(2 if self._classes == SIGNED_CLASSES else 1)
        return both


@lru_cache(maxsize=1024)
def _corrections(classes: int, largest: int) -> _Floats:
    """Of up to so many images, by their number and the count of a class; for two classes what both add, by the
    count of the first."""
    table = correction_table(classes, images=np.arange(largest + 1))
    if classes != SIGNED_CLASSES:
        return table.astype(np.float32)
    total, count = np.indices(table.shape)
    other = np.where(total >= count, table[total, np.maximum(total - count, 0)], 0)
    return (table + other).astype(np.float32)


def _standard_steps(classes: int) -> _Floats:
    """The standard correction at even steps; 0 at both ends, which stand for everything beyond."""
    place, shift = standard_correction(classes)
    half = int(np.ceil(np.abs(place).max() * _STEPS_PER_STANDARD_ERROR)) + 1
    at = np.arange(-half, half + 1) / _STEPS_PER_STANDARD_ERROR
    return np.asarray(np.interp(at, place, shift, left=0.0, right=0.0), dtype=np.float32)


def _ratio(numerator: _Floats, denominator: _Floats) -> _Floats:
    # Counts are 0 or at least about 1, so that 0 stays 0 without a mask.
    return np.asarray(numerator / np.maximum(denominator, np.float32(1e-6)), dtype=np.float32)


def _flags(defined: NDArray[np.bool_]) -> _Floats:
    return defined.astype(np.float32)
