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

_ENOUGH_FOR_A_VARIANCE = 3
_ROUNDING = 1e-12
"""Resamples with a smaller variance are equal, but for the rounding of single precision."""


_DEGREES_OF_A_SCALE = 2
"""Student's t with d degrees of freedom has the variance d / (d - 2)."""

FEWEST_DEGREES_OF_PROMPTS = 5
"""Of fewer prompts the scatter is hardly known, and nothing bounds it: intervals by it hold 86 to 100 % instead of
95 %."""


class Interval(NamedTuple):
    """Limits, arrays of one shape; NaN where there is no interval."""

    low: FloatArray
    high: FloatArray


def percentile_interval(resampled: FloatArray, *, level: float) -> Interval:
    """The middle part of the resamples: `[..., resample]` to `[...]`."""
    ordered = _Ordered(resampled)
    return ordered.interval(np.asarray((1 - level) / 2), np.asarray((1 + level) / 2))


def score_interval(
    resampled: FloatArray,
    value: FloatArray,
    *,
    lowest: float,
    highest: float,
    spread: FloatArray,
    images: CountArray,
    at_most_images: bool,
    level: float,
) -> Interval:
    """Wilson's score interval of a number between two bounds, by its effective number of images.

    On the scale from `lowest` = 0 to `highest` = 1, a share p of n images has the variance p (1 - p) / n. So a
    number whose resamples have the mean m and the variance v scatters as a share of m (1 - m) / v images does: its
    effective number of images (Korn and Graubard 1998; with Wilson's interval Dean and Pagano 2015). Near a bound
    the limits are skewed as they should be, which percentiles are not; with many images both agree.

    Args:
        resampled: `[..., resample]`, neither centred nor stretched.
        value: the metric itself, `[...]`.
        lowest: of the metric's range.
        highest: of the metric's range.
        spread: see `metrics.bootstrap.spread_factors`; broadcasts against `[...]`.
        images: how many images give the number at a bound, where no resample differs: 1 / the step that one image
            makes, `[...]`.
        at_most_images: the effective number cannot be larger than `images`, as where prompts are drawn, of which
            each has several images.
        level: 0.95 for a 95 % interval.

    Returns:
        NaN where the metric is undefined in more than half of the resamples, or all agree inside the bounds.
    """
    width = highest - lowest
    share = (value - lowest) / width
    defined, middle, squares = _moments(resampled)
    # Few resamples estimate a variance badly: Student's t again, as in the spread factors.
    degrees = np.where(defined > _ENOUGH_FOR_A_VARIANCE, defined - 3, np.nan)
    variance = divide(squares, degrees) * (spread / width) ** 2
    centre = (middle - lowest) / width
    effective = divide(centre * (1 - centre), np.where(variance > _ROUNDING, variance, np.nan))
    at_bound = (share <= 0) | (share >= 1)
    known = np.where(np.isnan(effective) & at_bound & ~np.isnan(spread), images, effective)
    if at_most_images:
        known = np.minimum(known, images)
    inside = (share >= 0) & (share <= 1)
    usable = (defined >= resampled.shape[-1] / 2) & (known > 0) & inside
    limits = wilson_interval(np.where(inside, share, 0), np.where(usable, known, 0), level=level)
    return Interval(*(np.where(usable, lowest + width * limit, np.nan) for limit in limits))


def interval_of_ratio(
    numerator: FloatArray,
    denominator: FloatArray,
    *,
    of_numerator: Interval,
    of_denominator: Interval,
    correlation: FloatArray,
) -> Interval:
    """Interval of a ratio of two numbers of 0 or more, from the interval of each (Donner and Zou 2012, MOVER-R).

    Args:
        numerator: `[...]`.
        denominator: `[...]`.
        of_numerator: its interval.
        of_denominator: its interval.
        correlation: of the two, over studies.

    Returns:
        NaN where the denominator's interval is so wide that the ratio could be anything (its upper limit is twice
        the denominator or more, or its lower limit 0).
    """
    limits = []
    for top, bottom, sign in (
        (of_numerator.low, of_denominator.high, -1),
        (of_numerator.high, of_denominator.low, 1),
    ):
        both = numerator * denominator + correlation * (numerator - top) * (denominator - bottom)
        divisor = bottom * (2 * denominator - bottom)
        root = both**2 - top * (2 * numerator - top) * divisor
        limits.append(divide(both + sign * np.sqrt(np.maximum(root, 0)), np.where(divisor > 0, divisor, np.nan)))
    bounded = ~np.isnan(limits[0] + limits[1])
    return Interval(*(np.where(bounded, limit, np.nan) for limit in limits))


def interval_of_mean(values: FloatArray, intervals: Interval) -> Interval:
    """Interval of the mean of independent numbers, from the interval of each (Zou and Donner 2008, MOVER).

    The distances from the numbers to their limits are added like independent errors.

    Args:
        values: `[..., number]`; NaN for one that is left out.
        intervals: of each.
    """
    present = ~np.isnan(values)
    number = present.sum(axis=-1)
    mean = divide(np.where(present, values, 0).sum(axis=-1), number)
    below, above = (
        divide(np.sqrt((np.where(present, values - limit, 0) ** 2).sum(axis=-1)), number) for limit in intervals
    )
    return Interval(mean - below, mean + above)


def correlation_of(one: FloatArray, other: FloatArray) -> FloatArray:
    """Correlation of two numbers over the resamples in which both are defined; 0 where one does not vary."""
    both = ~np.isnan(one + other)
    one, other = (np.where(both, each, np.nan) for each in (one, other))
    one, other = (each - mean_of_defined(each)[..., np.newaxis] for each in (one, other))
    products = (np.nan_to_num(pair).sum(axis=-1) for pair in (one * other, one * one, other * other))
    crossed, of_one, of_other = products
    return np.nan_to_num(divide(crossed, np.sqrt(of_one * of_other)))


def standard_error_interval(resampled: FloatArray, value: FloatArray, *, level: float) -> Interval:
    """The value plus and minus a quantile of Student's t times the resamples' standard deviation.

    For large studies, whose metrics are normally distributed: a hundred resamples are enough for a standard
    deviation, but not for percentiles.

    Args:
        resampled: `[..., resample]`.
        value: the metric itself, `[...]`.
        level: 0.95 for a 95 % interval.
    """
    defined, _, squares = _moments(resampled)
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
        acceleration: a sixth of the skewness of the jackknife values, `[...]`; see `metrics.influence`.
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
    total = resampled.sum(axis=-1, dtype=np.float64)
    if not np.isnan(total).any() and resampled.shape[-1]:
        return np.asarray(total / resampled.shape[-1])
    defined = ~np.isnan(resampled)
    total = np.where(defined, resampled, 0).sum(axis=-1, dtype=np.float64)
    return divide(total, defined.sum(axis=-1))


def _moments(resampled: FloatArray) -> tuple[CountArray, FloatArray, FloatArray]:
    """How many resamples are defined, their mean, and the sum of their squared distances from it: `[...]` each."""
    middle = mean_of_defined(resampled)
    distances = resampled - middle[..., np.newaxis]
    undefined = np.isnan(distances)
    if undefined.any():
        distances[undefined] = 0
    squares = np.einsum("...i,...i->...", distances, distances)
    return (~undefined).sum(axis=-1), middle, squares


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


def stretching(drawn: CountArray, lost: FloatArray) -> FloatArray:
    """The factor by which resamples are moved away from the value: sqrt(drawn / (drawn - lost - 2)).

    Args:
        drawn: how many images, or prompts, a resample has.
        lost: how many degrees of freedom its means take, of images the sum of `own_weight` squared.

    Returns:
        NaN where nothing is left.
    """
    left = drawn - lost - _DEGREES_OF_A_SCALE
    return np.sqrt(divide(drawn, np.where(left > 0, left, np.nan)))
