"""Thresholds that promise an error: of the verdicts that are kept, at most so many are wrong. Pure functions.

A threshold t keeps the verdicts whose score is at least t. Its error R(t) is the share of wrong ones among them,
in the population that the labelled images stand for. A threshold is found by tests of the null "R(t) is above the
promised error", one for each threshold of a grid that was fixed before any image was seen, so that

    with the promised confidence over labelled studies, R(threshold) <= error.

This is "learn then test" (Angelopoulos et al. 2021). Thresholds are tested in fixed sequences: from each of
`STARTS` downwards until a null stays, with an equal part of the risk for each sequence, so that all rejections
hold together.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from detector_bench.estimation.calibration import JudgedScores
from detector_bench.vocabulary.score_maps import FloatArray

Unit: TypeAlias = Literal["prompt", "image"]
"""What the promise is about: images of other prompts, drawn as these prompts were; or other images of these."""

ERRORS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3)
"""The errors that thresholds are sought for."""

STARTS = (5.0, 2.0)
"""Logits of the scores at which sequences begin: 0.993 and 0.88."""

STEP = 0.5
"""Between thresholds, on the scale of logits."""

BETS = ((1.0, 0.8), (0.5, 0.1), (0.25, 0.1))
"""Shares of the largest stake, and the weight of each in the mean over stakes."""


def _thresholds() -> FloatArray:
    steps = np.arange(0.0, max(STARTS) + STEP / 2, STEP)
    scores = 1 / (1 + np.exp(-steps))
    # Below 0.5 lie scores of more than two classes; at 0 all is kept.
    return np.array([0.0, 0.2, 0.3, 0.4, *np.round(scores, 6)])


THRESHOLDS = _thresholds()
"""Ascending; the same for every detector, so that no image chooses them."""


class Promise(NamedTuple):
    """One error with the threshold that promises it.

    Attributes:
        error: of the kept verdicts, at most this share is wrong.
        threshold: the lowest that may be promised; None: none may.
        kept: the share of the labelled images' verdicts that it keeps.
        wrong: the share of these that is wrong, here; NaN where none is kept.
    """

    error: float
    threshold: float | None
    kept: float
    wrong: float


def promises(
    verdicts: JudgedScores, *, unit: Unit, confidence: float, errors: tuple[float, ...] = ERRORS
) -> list[Promise]:
    """For each error, the lowest threshold that promises it.

    Args:
        verdicts: of labelled images, each prompt's a random sample of its images.
        unit: see `Unit`. With `prompt`, prompts are independent draws and count alike, whatever their images have
            to do with each other; with `image`, images are independent draws.
        confidence: that the promise holds, such as 0.95.
        errors: see `Promise`.
    """
    return [_promise(verdicts, error, unit=unit, risk=1 - confidence) for error in errors]


def _promise(verdicts: JudgedScores, error: float, *, unit: Unit, risk: float) -> Promise:
    p_value = _by_prompt if unit == "prompt" else _by_image
    found: float | None = None
    for start in STARTS:
        first = int(np.searchsorted(THRESHOLDS, 1 / (1 + np.exp(-start)) - 1e-5))
        for threshold in THRESHOLDS[first::-1]:
            if found is not None and threshold > found:
                continue  # it was rejected on the way of an earlier sequence, or a lower one was
            # Turned round, so that a p-value that is no number would promise nothing.
            if not p_value(verdicts, float(threshold), error) <= risk / len(STARTS):
                break
            found = float(threshold)
    return Promise(error, found, *_on(verdicts, found))


def _on(verdicts: JudgedScores, threshold: float | None) -> tuple[float, float]:
    if threshold is None or not len(verdicts):
        return 0.0, np.nan
    kept = verdicts.scores >= threshold
    return float(kept.mean()), float((~verdicts.right[kept]).mean()) if kept.any() else np.nan


def _by_image(verdicts: JudgedScores, threshold: float, error: float) -> float:
    """Clopper and Pearson: how likely so few wrong ones are among those kept, if `error` of all were wrong."""
    from scipy.stats import binom

    kept = verdicts.scores >= threshold
    return float(binom.cdf((kept & ~verdicts.right).sum(), kept.sum(), error))


def _by_prompt(verdicts: JudgedScores, threshold: float, error: float) -> float:
    """A p-value that holds for any number of prompts, and for any likeness of the images of one prompt.

    A prompt's gain is the mean over its images of `error` for one that is kept and right, `error` - 1 for one that
    is kept and wrong, and 0 for one that is not kept. Under the null its mean over prompts is at most 0. Whoever
    stakes a fixed share of a fortune of 1 on each prompt then expects to end with at most 1, so the fortune is
    above 1 / p with a probability of at most p (Waudby-Smith and Ramdas 2024). The mean over several stakes does
    the same.
    """
    kept = verdicts.scores >= threshold
    gain = np.where(kept, error - ~verdicts.right, 0.0)
    sizes = np.bincount(verdicts.prompt)
    gains = np.bincount(verdicts.prompt, weights=gain)[sizes > 0] / sizes[sizes > 0]
    largest = 1 / (1 - error)
    # Nobody loses more than all, whatever rounding says; then the fortune is 0.
    stakes = [np.maximum(share * largest * gains, -1.0) for share, _ in BETS]
    with np.errstate(divide="ignore"):
        fortunes = [np.log(weight) + np.log1p(each).sum() for each, (_, weight) in zip(stakes, BETS, strict=True)]
    return float(min(1.0, np.exp(-np.logaddexp.reduce(fortunes))))
