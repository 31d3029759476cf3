"""The mean over prompts of |p - 1/K|, without what chance adds, from estimates of p that are noisy.

The sizes of noisy differences are too large on average, and no correction of a single prompt is right everywhere,
since the size has a kink. But many prompts tell how p is spread over prompts: the distribution under which the
estimates at hand are likely (nonparametric maximum likelihood, Kiefer and Wolfowitz 1956; Jiang and Zhang 2009)
says how much of the spread is noise. Given it, the mean of |p - 1/K| follows by Bayes' rule. A fair T2I model
comes out near 0, a one-sided one near its score, and the interval comes from studies like this one, drawn from
what was found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import BoundedShares
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.counts import FloatArray

_Floats = NDArray[np.float32]

STEPS = 80
"""The true share of a cell is one of so many even steps from 0 to 1, or 1/K."""

ROUNDS = 60
"""Of the EM algorithm; more would make the distribution ever more jagged."""

_LEAST_VARIANCE = 1e-5
_EXACT = 1e-12
_DRAWN_CELLS = 8_000
_FEWEST_STUDIES, _MOST_STUDIES = 60, 400


class Unevenness(NamedTuple):
    """The mean over cells and classes of |p - 1/K|, scaled to 0 to 1."""

    value: float
    standard_error: float
    """Of the estimate about the truth: its spread and its bias in drawn studies, and that labels are whole."""
    freedom: float


def unevenness(shares: list[BoundedShares], chosen: NDArray[np.bool_], *, seed: int) -> Unevenness:
    """Estimate mean of sum_k |p_k - 1/K| / (2 (1 - 1/K)), the concentration of Lyu 2025's formula 1.

    Args:
        shares: of each class among the clear images of each cell.
        chosen: `[cell]`, which cells; those without a label are left out.
        seed: of the drawn studies.
    """
    classes = len(shares)
    cells = np.flatnonzero(chosen & ~np.isnan(shares[0].value))
    if not len(cells):
        return Unevenness(np.nan, np.nan, np.nan)
    used, scale = _used(shares)
    random, studies = np.random.default_rng(seed), _studies(cells)
    value, off, freedom, grain = 0.0, np.zeros(studies), 0.0, 0.0
    for share in used:
        known = (share.own_part + share.binomial_part)[cells] <= _EXACT
        value += scale * float(np.abs(share.value[cells[known]] - 1 / classes).sum())
        if not known.all():
            mean, difference = _deconvolved(share, cells[~known], 1 / classes, random, studies)
            value += scale * mean * int((~known).sum())
            off += scale * difference * int((~known).sum())
            grain += scale**2 * float(share.grain[cells[~known]].sum()) / len(used)
        freedom += share.freedom[cells].sum() / len(used)
    error = float(np.sqrt((off**2).mean() + grain)) / len(cells)
    return Unevenness(value / len(cells), error, float(freedom))


def unevenness_by_chance(shares: list[BoundedShares], chosen: NDArray[np.bool_], *, seed: int) -> FloatArray:
    """What a T2I model without bias in any prompt would be estimated to have: `[study]`, drawn.

    Args:
        shares: of each class among the clear images of each cell; their variances at 1/K decide.
        chosen: `[cell]`; those without a label are left out.
        seed: of the drawn studies.
    """
    classes = len(shares)
    cells = np.flatnonzero(chosen & ~np.isnan(shares[0].value))
    if not len(cells):
        return np.zeros(0)
    random, studies = np.random.default_rng([seed, 1]), _studies(cells)
    # Of shares that add up to 1: what one class has too much, the others have too little.
    noise = random.standard_normal((classes, studies, len(cells)))
    noise = (noise - noise.mean(axis=0)) * np.sqrt(classes / (classes - 1))
    found = np.zeros(studies)
    used, whole = _used(shares)
    for share, of_class in zip(used, noise, strict=False):
        grid, size, variance = _steps(share, cells, 1 / classes)
        fair = np.sqrt(np.maximum(share.variance(np.array(1 / classes))[cells], _LEAST_VARIANCE))
        scale = np.sqrt(_chi_square(share.freedom[cells], random, studies))
        drawn = (1 / classes + of_class * fair / scale).astype(np.float32)
        found += (_posterior(drawn, variance, grid) @ size).mean(axis=-1)
    return found * whole


def uneven_terms(shares: list[BoundedShares]) -> FloatArray:
    """Each cell's sum over classes of |p_k - 1/K|, scaled as the mean is, from plain estimates: `[cell]`."""
    used, scale = _used(shares)
    terms: FloatArray = scale * np.sum([np.abs(share.value - 1 / len(shares)) for share in used], axis=0)
    return terms


def _used(shares: list[BoundedShares]) -> tuple[list[BoundedShares], float]:
    """The classes that are looked at, of two the first, which the other mirrors; and what their distances from 1/K
    are multiplied by."""
    classes = len(shares)
    return (shares[:1], 2.0) if classes == SIGNED_CLASSES else (shares, classes / (2 * (classes - 1)))


def _studies(cells: NDArray[np.intp]) -> int:
    return int(np.clip(_DRAWN_CELLS // len(cells), _FEWEST_STUDIES, _MOST_STUDIES))


def _steps(share: BoundedShares, cells: NDArray[np.intp], fair: float) -> tuple[_Floats, _Floats, _Floats]:
    """The shares that may be true, their distances from 1/K, and the variances of the estimates there, `[cell,
    step]`: endless where images that were set apart rule a share out, so that no estimate makes it likely."""
    grid = np.unique(np.append(np.linspace(0, 1, STEPS + 1), fair)).astype(np.float32)
    at_grid = share.variance(grid[:, np.newaxis].astype(np.float64)) + share.grain
    variance = np.maximum(at_grid[:, cells].T, _LEAST_VARIANCE).astype(np.float32)
    low, high = share.certain, share.certain + share.open_part
    # Each cell has steps that are possible, if only the one that is nearest.
    beyond = np.maximum(low - grid[:, np.newaxis], grid[:, np.newaxis] - high) > 0.51 / STEPS
    variance[np.broadcast_to(beyond, at_grid.shape)[:, cells].T] = np.inf
    return grid, np.abs(grid - np.float32(fair)), variance


def _deconvolved(
    share: BoundedShares, cells: NDArray[np.intp], fair: float, random: np.random.Generator, studies: int
) -> tuple[float, FloatArray]:
    """The mean over cells of |p - 1/K|; and, of studies drawn from what was found, how far that lies off,
    `[study]`."""
    grid, size, variance = _steps(share, cells, fair)
    posterior = _posterior(share.value[cells].astype(np.float32), variance, grid)
    place = _drawn(posterior, random, studies)
    noise = random.standard_normal(place.shape) / np.sqrt(_chi_square(share.freedom[cells], random, studies))
    again = (grid[place] + noise * np.sqrt(variance[np.arange(len(cells)), place])).astype(np.float32)
    repeated = (_posterior(again, variance, grid) @ size).mean(axis=-1)
    return float((posterior @ size).mean()), np.asarray(repeated - size[place].mean(axis=-1), dtype=np.float64)


def _posterior(estimate: _Floats, variance: _Floats, grid: _Floats) -> _Floats:
    """Chances of each true share given the estimate, the distribution over cells being fitted: `[..., cell,
    step]`."""
    distance = (estimate[..., np.newaxis] - grid) ** 2
    log = -0.5 * (distance / variance + np.log(variance))
    likelihood = np.exp(log - log.max(axis=-1, keepdims=True))
    weights = np.full((*estimate.shape[:-1], len(grid)), 1 / len(grid), dtype=np.float32)
    for _ in range(ROUNDS):
        total = np.einsum("...cg,...g->...c", likelihood, weights)
        weights = weights * np.einsum("...cg,...c->...g", likelihood, 1 / total) / estimate.shape[-1]
    posterior: _Floats = likelihood * weights[..., np.newaxis, :]
    posterior /= posterior.sum(axis=-1, keepdims=True)
    return posterior


def _drawn(posterior: _Floats, random: np.random.Generator, studies: int) -> NDArray[np.intp]:
    """Places of true shares, `[study, cell]`."""
    summed = posterior.cumsum(axis=-1)
    summed /= summed[:, -1:]
    chance = random.random((studies, len(posterior)))
    return np.stack([np.searchsorted(of_cell, chance[:, cell]) for cell, of_cell in enumerate(summed)], axis=1)


def _chi_square(freedom: FloatArray, random: np.random.Generator, studies: int) -> FloatArray:
    """Chi-square over its degrees of freedom, `[study, cell]`; 1 where these are endless."""
    finite = np.isfinite(freedom)
    found = np.ones((studies, len(freedom)))
    found[:, finite] = random.chisquare(freedom[finite], (studies, int(finite.sum()))) / freedom[finite]
    return found
