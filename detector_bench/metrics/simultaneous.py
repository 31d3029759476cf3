"""Many differences tested at once, so that the chance of a single false one among all stays at 5 %.

The statistic is the largest of all differences in units of its standard error (max-t). How large it gets by chance
is drawn from the normal distribution with the covariance of the differences themselves, so that detectors that
make the same mistakes do not count as independent chances to be wrong. Every difference, its interval, and every
rank that follows from the differences hold together with probability `level` (Romano and Wolf 2005; for ranks
Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray, divide

DRAWS = 10_000
"""Of the largest difference that chance makes; the smallest p-value is 1 in as many."""

_DRAWS_AT_ONCE = 1_000
_NOTHING = 1e-12
"""Differences and errors below it are rounding."""


class Differences(NamedTuple):
    """Differences from the same images: linear combinations of columns of influences."""

    value: FloatArray
    """`[difference]`; NaN where there is none."""
    columns: FloatArray
    """Influences of images (or prompts), centred, `[column, unit]`."""
    weights: FloatArray
    """What of the columns makes each difference, `[difference, column]`."""


class SimultaneousTests(NamedTuple):
    """One number for each difference, in the order in which they came; NaN where there is no test."""

    error: FloatArray
    """Standard error of each difference."""
    low: FloatArray
    high: FloatArray
    """Simultaneous interval: all of them hold together with probability `level`."""
    p_value: FloatArray
    """Chance that the largest of all differences is as many standard errors from 0 as this one, if all are 0."""


def simultaneous_tests(
    families: Sequence[Differences], *, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> list[SimultaneousTests]:
    """Test all differences of all families at once.

    Families share no draw. If they rest on the same images after all (two attributes, say), the probability that
    all intervals hold is larger than `level`, never smaller (Gaussian correlation inequality, Royen 2014).

    A standard error includes one unit more, as influential as the most influential one: where all units speak
    for the same detector, their scatter alone would say that there is no doubt. A difference in standard errors
    follows Student's t with as many degrees of freedom as there are units that make the difference: of images that
    two detectors judge alike nothing is learnt about which is better. Each is put on the scale of the normal
    distribution before the largest is taken.

    Args:
        families: differences from one set of images each.
        level: of the intervals together.
        seed: of the random numbers; equal seeds give equal p-values.
        draws: how many.

    Returns:
        One result for each family.
    """
    scatters = [_scatter(each) for each in families]
    sizes = [_normal_scores(each, scatter) for each, scatter in zip(families, scatters, strict=True)]
    largest = np.sort(_largest_by_chance(families, scatters, seed=seed, draws=draws))
    edge = float(np.quantile(largest, level, method="higher"))
    results = []
    for family, (error, freedom), size in zip(families, scatters, sizes, strict=True):
        # Detectors that agree on every image differ by nothing; an interval of width 0 would say that they must.
        half = np.where(error > _NOTHING, _student_quantiles(edge, freedom) * error, np.nan)
        reached = 1 - np.searchsorted(largest, size - _NOTHING) / len(largest)
        p_value = np.where(np.isnan(size), np.nan, np.maximum(reached, 1 / (draws + 1)))
        results.append(SimultaneousTests(error, family.value - half, family.value + half, p_value))
    return results


class _Scatter(NamedTuple):
    """Of each difference; NaN where nothing is known about it."""

    error: FloatArray
    """Standard error."""
    freedom: FloatArray
    """Degrees of freedom of the error: how many units there would be if all that matter mattered alike."""


def _scatter(family: Differences) -> _Scatter:
    errors, freedom = (np.full(len(family.value), np.nan) for _ in range(2))
    for number, weights in enumerate(family.weights):
        if np.isnan(family.value[number]):
            continue
        used = np.flatnonzero(weights)
        squares = (weights[used] @ family.columns[used]) ** 2
        total = squares.sum()
        if not np.isfinite(total):
            continue
        errors[number] = np.sqrt(total + squares.max(initial=0))
        freedom[number] = np.maximum(divide(total**2, (squares**2).sum()), 1) if total > 0 else 1
    return _Scatter(errors, freedom)


def _normal_scores(family: Differences, scatter: _Scatter) -> FloatArray:
    """Sizes of the differences in standard errors, on the scale of the normal distribution."""
    from scipy import stats

    ratio = divide(np.abs(family.value), scatter.error)
    # Exact ties differ by nothing, whatever their error.
    ratio = np.where(np.abs(family.value) < _NOTHING, 0.0, ratio)
    scores: FloatArray = stats.norm.isf(stats.t.sf(ratio, scatter.freedom))
    return np.where(ratio == 0, 0.0, scores)


def _student_quantiles(edge: float, freedom: FloatArray) -> FloatArray:
    from scipy import stats

    quantiles: FloatArray = stats.t.isf(stats.norm.sf(edge), freedom)
    return quantiles


def _largest_by_chance(
    families: Sequence[Differences], scatters: Sequence[_Scatter], *, seed: int, draws: int
) -> NDArray[np.float64]:
    """The largest difference of all families in standard errors, if all are 0: `[draw]`."""
    largest = np.zeros(draws)
    for number, (family, (error, _)) in enumerate(zip(families, scatters, strict=True)):
        tested = np.flatnonzero(error > _NOTHING)
        if not tested.size:
            continue
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        # A detector without a value has no influence either; none of the tested differences asks for it.
        columns = np.nan_to_num(family.columns)
        factor = _factor(columns @ columns.T)
        scaled = (family.weights[tested] @ factor) / error[tested, np.newaxis]
        # The unit more has no part in the covariance: what it adds to each error is drawn by itself.
        rest = np.sqrt(np.maximum(1 - (scaled**2).sum(axis=1), 0))
        for start in range(0, draws, _DRAWS_AT_ONCE):
            some = slice(start, min(start + _DRAWS_AT_ONCE, draws))
            size = some.stop - some.start
            drawn = scaled @ stream.standard_normal((factor.shape[1], size))
            drawn += rest[:, np.newaxis] * stream.standard_normal((len(tested), size))
            np.maximum(largest[some], np.abs(drawn).max(axis=0), out=largest[some])
    return largest


def _factor(covariance: FloatArray) -> FloatArray:
    """F with F F^T = covariance, which is singular where detectors agree."""
    variances, directions = np.linalg.eigh(covariance)
    factor: FloatArray = directions * np.sqrt(np.maximum(variances, 0))
    return factor
