"""Confidence intervals from bootstrap distributions, and Wilson's for a share.

All functions work on the last axis of an array of resamples and ignore resamples in which the metric is undefined.
An interval of width 0 is no finding: where all resamples agree they say nothing about the doubt, and the limits
are NaN. (A detector with no error in 20 images is not certainly without errors; `wilson` says how good it is at
least.)
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from detector_bench.metrics.counts import CountArray, FloatArray, divide

ENOUGH_FOR_PERCENTILES = 400
"""From fewer resamples only a standard error is taken."""


class Interval(NamedTuple):
    """Limits, arrays of one shape; NaN where there is no interval."""

    low: FloatArray
    high: FloatArray


def percentile_interval(resampled: FloatArray, *, level: float) -> Interval:
    """The middle part of the resamples: `[..., resample]` to `[...]`."""
    ordered = _Ordered(resampled)
    return ordered.interval(np.asarray((1 - level) / 2), np.asarray((1 + level) / 2))


def standard_error_interval(resampled: FloatArray, value: FloatArray, *, level: float) -> Interval:
    """The value plus and minus a quantile of Student's t times the resamples' standard deviation.

    For large studies, whose metrics are normally distributed: a hundred resamples are enough for a standard
    deviation, but not for percentiles.

    Args:
        resampled: `[..., resample]`.
        value: the metric itself, `[...]`.
        level: 0.95 for a 95 % interval.
    """
    defined = (~np.isnan(resampled)).sum(axis=-1)
    middle = mean_of_defined(resampled)
    squares = np.nan_to_num((resampled - middle[..., np.newaxis]) ** 2).sum(axis=-1)
    error = np.sqrt(divide(squares, np.maximum(defined - 1, 0)))
    usable = (error > 0) & (defined >= resampled.shape[-1] / 2)
    half = np.where(usable, _student(np.maximum(defined - 1, 1), level=level) * error, np.nan)
    return Interval(value - half, value + half)


def stretched(interval: Interval, value: FloatArray, *, factor: FloatArray) -> Interval:
    """Move both limits away from the value by a factor; arrays of one shape, or that broadcast."""
    return Interval(*(value + factor * (limit - value) for limit in interval))


def bca_interval(resampled: FloatArray, value: FloatArray, acceleration: FloatArray, *, level: float) -> Interval:
    """Bias-corrected and accelerated interval (Efron 1987): `[..., resample]` to `[...]`.

    Where all resamples lie on one side of the value the correction is infinite, and the limits are NaN.

    Args:
        resampled: `[..., resample]`.
        value: the metric itself, `[...]`.
        acceleration: a sixth of the skewness of the jackknife values, `[...]`; see `metrics.jackknife`.
        level: 0.95 for a 95 % interval.
    """
    from scipy.special import ndtr, ndtri

    ordered = _Ordered(resampled)
    point = value[..., np.newaxis]
    below = ((resampled < point).sum(axis=-1) + (resampled <= point).sum(axis=-1)) / 2
    bias = ndtri(divide(below, ordered.defined))
    quantiles = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        moved = bias + ndtri(share)
        with np.errstate(invalid="ignore"):
            quantiles.append(np.asarray(ndtr(bias + moved / (1 - acceleration * moved))))
    return ordered.interval(*quantiles)


def wilson_interval(share: FloatArray, n: CountArray, *, level: float) -> Interval:
    """Wilson's score interval of a share of n images; NaN without an image.

    The same as `statsmodels.stats.proportion.proportion_confint(method="wilson")`, which takes a second to import.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    images = np.where(n > 0, n, np.nan).astype(np.float64)
    middle = (share + z * z / (2 * images)) / (1 + z * z / images)
    half = z * np.sqrt(share * (1 - share) / images + z * z / (4 * images * images)) / (1 + z * z / images)
    # Exactly 0 and 1 at the ends, where rounding would leave a trace of the difference.
    return Interval(np.where(share == 0, 0, middle - half), np.where(share == 1, 1, middle + half))


def wilson_interval_of_f1(f1: FloatArray, n: CountArray, *, level: float) -> Interval:
    """Wilson's interval of TP / (TP + FP + FN), carried over to F1, which grows with it.

    Args:
        f1: 2 TP / (2 TP + FP + FN).
        n: TP + FP + FN, as `metrics.f1` counts.
        level: 0.95 for a 95 % interval.
    """
    overlap = wilson_interval(f1 / (2 - f1), n, level=level)
    return Interval(*(2 * limit / (1 + limit) for limit in overlap))


def mean_of_defined(resampled: FloatArray) -> FloatArray:
    """Mean over the resamples in which the metric is defined."""
    defined = ~np.isnan(resampled)
    total = np.where(defined, resampled, 0).sum(axis=-1, dtype=np.float64)
    return divide(total, defined.sum(axis=-1))


def _student(degrees: CountArray, *, level: float) -> FloatArray:
    """Two-sided quantile of Student's t, for 30 degrees of freedom or more (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    quantile: FloatArray = z + first / degrees + second / degrees**2
    return quantile


class _Ordered:
    """Resamples in ascending order, undefined ones last."""

    def __init__(self, resampled: FloatArray) -> None:
        self._sorted = np.sort(resampled, axis=-1)
        self.defined = resampled.shape[-1] - np.isnan(resampled).sum(axis=-1)

    def interval(self, low: FloatArray, high: FloatArray) -> Interval:
        limits = [self._quantile(share) for share in (low, high)]
        enough = self.defined >= self._sorted.shape[-1] / 2
        first = self._sorted[..., 0]
        last = np.take_along_axis(self._sorted, np.maximum(self.defined - 1, 0)[..., np.newaxis], axis=-1)[..., 0]
        usable = enough & (last > first)
        return Interval(*(np.where(usable, limit, np.nan) for limit in limits))

    def _quantile(self, share: FloatArray) -> FloatArray:
        """Linear interpolation between neighbours, as `numpy.quantile` does by default."""
        known = ~np.isnan(share)
        place = np.where(known, share, 0) * np.maximum(self.defined - 1, 0)
        below = np.floor(place).astype(np.intp)
        above = np.minimum(below + 1, np.maximum(self.defined - 1, 0))
        lower, upper = (
            np.take_along_axis(self._sorted, index[..., np.newaxis], axis=-1)[..., 0] for index in (below, above)
        )
        quantile = lower + (place - below) * (upper - lower)
        return np.where(known, quantile, np.nan)
