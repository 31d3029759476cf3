"""Which ranks of compositions the prompts leave open: sets that hold for all compositions at once.

As in `metrics/simultaneous.py` (Mogstad, Romano, Shaikh and Wilhelm 2024), with prompts as units: a composition is
behind another if it is so by more than the largest difference that chance makes among all pairs. The scatter of
all pairs follows from one matrix, so that thousands of compositions are ranked in seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics import FloatArray

MOST_RANKED = 2_500
"""Compositions; the ranks of more take minutes, and are left out."""

DRAWS = 400
"""Of the largest difference that chance makes: enough to tell 5 % from 7 %."""

_PAIRS_AT_ONCE = 2_000_000
_NOTHING = 1e-12


def open_ranks(
    errors: FloatArray, influences: FloatArray, *, freedom: int, level: float, seed: int = 0
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The best and the worst rank that each composition may have, `[composition]`; 0 where it has no error.

    Args:
        errors: on all prompts, `[composition]`; lower is better, NaN: none.
        influences: of prompts, `[composition, prompt]`, centred within categories.
        freedom: degrees of freedom of their scatter.
        level: all sets hold together with this probability.
        seed: of the draws.
    """
    ranked = np.flatnonzero(~np.isnan(errors))
    best, worst = (np.zeros(len(errors), dtype=np.intp) for _ in range(2))
    if len(ranked) < 2 or freedom < 1:
        best[ranked], worst[ranked] = 1, len(ranked)
        return best, worst
    prompts = influences.shape[1]
    # The variance of a mean over prompts, with the degrees that the categories' means took.
    own = influences[ranked] / np.sqrt(prompts * freedom)
    covariance = own @ own.T
    edge = _edge(own, covariance, freedom=freedom, level=level, seed=seed)
    value = errors[ranked]
    rows = max(1, _PAIRS_AT_ONCE // len(ranked))
    for start in range(0, len(ranked), rows):
        some = slice(start, start + rows)
        scatter = _pair_errors(covariance, some)
        behind = value[some, np.newaxis] - value[np.newaxis]
        best[ranked[some]] = 1 + ((behind > edge * scatter) & (scatter > _NOTHING)).sum(axis=1)
        worst[ranked[some]] = len(ranked) - ((-behind > edge * scatter) & (scatter > _NOTHING)).sum(axis=1)
    return best, worst


def _edge(own: FloatArray, covariance: FloatArray, *, freedom: int, level: float, seed: int) -> float:
    """How many standard errors the largest of all differences is by chance at most, with this probability."""
    from scipy import stats

    random = np.random.default_rng(seed)
    drawn = (own @ random.standard_normal((own.shape[1], DRAWS))).astype(np.float32)
    largest = np.zeros(DRAWS, dtype=np.float32)
    rows = max(1, _PAIRS_AT_ONCE // len(own))
    for start in range(0, len(own), rows):
        some = slice(start, start + rows)
        scatter = _pair_errors(covariance, some).astype(np.float32)
        inverse = np.divide(1, scatter, out=np.zeros_like(scatter), where=scatter > _NOTHING)
        for draw in range(DRAWS):
            differences = np.abs(drawn[some, draw, np.newaxis] - drawn[np.newaxis, :, draw]) * inverse
            largest[draw] = max(largest[draw], float(differences.max()))
    # From the scale of the normal distribution to Student's t.
    return float(stats.t.isf(stats.norm.sf(float(np.quantile(largest, level))), freedom))


def _pair_errors(covariance: FloatArray, some: slice) -> FloatArray:
    variance = np.diag(covariance)
    of_pairs = variance[some, np.newaxis] + variance[np.newaxis] - 2 * covariance[some]
    errors: FloatArray = np.sqrt(np.maximum(of_pairs, 0))
    return errors
