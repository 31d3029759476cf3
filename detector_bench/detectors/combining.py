"""Several detectors' verdicts on one attribute made one: pure functions of arrays.

A verdict is the position of a class, or K, the number of classes, for filtered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Verdicts = NDArray[np.int8]


def by_votes(
    verdicts: Verdicts, *, classes: int, weights: NDArray[np.float64]
) -> tuple[Verdicts, NDArray[np.float64]]:
    """What most votes say; filtering is a vote, and so is the outcome where the most votes are shared.

    Args:
        verdicts: `[member, image]`.
        classes: K.
        weights: what each member's vote counts for.

    Returns:
        Verdicts and the share of the votes that they have, `[image]`.
    """
    votes = np.stack([(verdicts == each).T @ weights for each in range(classes + 1)])
    most = votes.max(axis=0)
    winners = np.isclose(votes, most, rtol=1e-9, atol=0)
    alone = winners.sum(axis=0) == 1
    found = np.where(alone, votes.argmax(axis=0), classes).astype(np.int8)
    return found, most / max(float(weights.sum()), np.finfo(np.float64).tiny)


def stacking_inputs(verdicts: Verdicts, scores: NDArray[np.float64], *, classes: int) -> NDArray[np.float64]:
    """What a stacking classifier reads: `[image, 1 + member x class]`.

    A constant 1; then for each member and class the member's score (1 where it has none) if it names the class,
    else 0. A member that filters has zeros only.

    Args:
        verdicts: `[member, image]`.
        scores: `[member, image]`; NaN: none.
        classes: K.
    """
    score = np.nan_to_num(scores, nan=1.0)
    named = [
        np.where(own == each, score[member], 0.0) for member, own in enumerate(verdicts) for each in range(classes)
    ]
    return np.stack([np.ones(verdicts.shape[1]), *named], axis=1)


def by_stacking(
    inputs: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> tuple[Verdicts, NDArray[np.float64]]:
    """The likeliest verdict by a multinomial logistic model.

    Args:
        inputs: `[image, input]`.
        coefficients: `[1 + K, input]`, the row of filtered last.

    Returns:
        Verdicts and their probabilities, `[image]`.
    """
    numbers = inputs @ coefficients.T
    numbers -= numbers.max(axis=1, keepdims=True)
    shares = np.exp(numbers)
    shares /= shares.sum(axis=1, keepdims=True)
    found = shares.argmax(axis=1)
    return found.astype(np.int8), shares[np.arange(len(found)), found]
