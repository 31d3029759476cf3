"""How far a detector's scores are probabilities, and score maps that make them so: fitted, and judged on prompts
that did not fit them. Pure functions of arrays.

One entry for each image that has a human label of a class and a verdict with a score: `scores`, the detector's
probability of the class that it names, and `right`, whether the human names that class, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.vocabulary.score_maps import SURE, Isotonic, Method, ScoreMap, Temperature, logits

FloatArray = NDArray[np.float64]
Places = NDArray[np.intp]

BINS = 10
"""Bins of the expected calibration error, with equally many images each."""

COLDEST, HOTTEST = 0.05, 20.0
"""Between these the temperature is sought; of verdicts that are all right, the best one would be 0."""


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """Verdicts of one detector with their scores; arrays have an entry for each image."""

    scores: FloatArray
    """In [0, 1]: the detector's probability of the class that it names."""
    right: NDArray[np.bool_]
    """Whether the human names this class, too."""
    prompt: Places
    """Position of the image's prompt."""

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, images: NDArray[np.bool_]) -> Self:
        """Some of the images."""
        return type(self)(self.scores[images], self.right[images], self.prompt[images])

    @property
    def prompts(self) -> Places:
        """Positions of the prompts that have an image, ascending."""
        return np.unique(self.prompt)


def fitted(verdicts: JudgedScores, method: Method) -> ScoreMap:
    """The score map that fits verdicts best.

    Args:
        verdicts: of at least one image.
        method: `temperature`: the one with the least log loss between 0.05 and 20; `isotonic`: the rising curve
            with the least squares, kept 1 / (n + 2) away from 0 and 1, since n images cannot tell rarer mistakes.
    """
    from scipy.optimize import isotonic_regression, minimize_scalar

    if method == "temperature":
        own = logits(verdicts.scores)
        signs = np.where(verdicts.right, -1.0, 1.0)

        def loss(log_temperature: float) -> float:
            return float(np.logaddexp(0.0, signs * own / np.exp(log_temperature)).mean())

        best = minimize_scalar(loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded")
        return Temperature(temperature=float(np.exp(best.x)))
    levels, places, counts = np.unique(verdicts.scores, return_inverse=True, return_counts=True)
    shares = np.bincount(places, weights=verdicts.right) / counts
    curve = isotonic_regression(shares, weights=counts).x
    edge = 1 / (len(verdicts) + 2)
    curve = np.clip(curve, edge, 1 - edge)
    # A level stretch needs its two ends only.
    ends = np.ones(len(curve), dtype=np.bool_)
    ends[1:-1] = (curve[1:-1] != curve[:-2]) | (curve[1:-1] != curve[2:])
    return Isotonic(scores=tuple(levels[ends].tolist()), shares=tuple(curve[ends].tolist()))


class CrossFitted(NamedTuple):
    """Scores as they are, and calibrated, of the same images.

    Attributes:
        uncalibrated: `[image]`.
        in_sample: `[image]`, by the map that all images fitted: better than it is.
        out_of_sample: `[repeat, image]`, by maps that other prompts fitted.
    """

    uncalibrated: FloatArray
    in_sample: FloatArray
    out_of_sample: FloatArray


def cross_fitted(verdicts: JudgedScores, method: Method, *, fold_of_prompt: Places) -> CrossFitted:
    """Calibrate each image's score by the images of other prompts.

    Args:
        verdicts: of images of two prompts at least.
        method: see `fitted`.
        fold_of_prompt: parts that prompts are dealt into, `[repeat, prompt]`; each part's images are calibrated by
            all others.
    """
    outside = np.empty((len(fold_of_prompt), len(verdicts)))
    for repeat, fold in enumerate(fold_of_prompt[:, verdicts.prompt]):
        for part in np.unique(fold):
            held_out = fold == part
            fit = verdicts.of(~held_out)
            mapped = fitted(fit, method)(verdicts.scores[held_out]) if len(fit) else verdicts.scores[held_out]
            outside[repeat, held_out] = mapped
    return CrossFitted(verdicts.scores, fitted(verdicts, method)(verdicts.scores), outside)


def log_losses(scores: FloatArray, right: NDArray[np.bool_]) -> FloatArray:
    """Minus the logarithm of the probability that was given to what came, by image: `[..., image]`."""
    kept = np.clip(scores, SURE, 1 - SURE)
    return np.asarray(-np.log(np.where(right, kept, 1 - kept)))


def brier_losses(scores: FloatArray, right: NDArray[np.bool_]) -> FloatArray:
    """The squared distance of the score from 1 where the verdict is right, from 0 where it is wrong, by image."""
    return np.asarray((scores - right) ** 2)


def bins_of(scores: FloatArray, *, bins: int = BINS) -> Places:
    """The bin of each image: equally many images in each, as far as equal scores stay together; `[..., image]`."""
    ordered = np.sort(scores, axis=-1)
    count = scores.shape[-1]
    # The bin of a score is that of the first image that has it.
    firsts = np.stack(
        [np.searchsorted(each, own) for each, own in zip(_rows(ordered), _rows(scores), strict=True)]
    )
    return np.asarray((firsts * min(bins, count) // count).reshape(scores.shape), dtype=np.intp)


def _rows(values: FloatArray) -> FloatArray:
    return values.reshape(-1, values.shape[-1])


class Losses(NamedTuple):
    """What is wrong with some scores; each `[..., resample]`, or a number.

    Attributes:
        log_loss: mean of `log_losses`.
        brier: mean of `brier_losses`.
        calibration_error: expected calibration error: over bins, the share of images times the distance between
            the mean score and the share that is right.
    """

    log_loss: FloatArray
    brier: FloatArray
    calibration_error: FloatArray


def losses(
    scores: FloatArray, verdicts: JudgedScores, *, times: FloatArray, prompts: Places, bins: int = BINS
) -> Losses:
    """The three losses over resampled prompts, the mean over repeats.

    Args:
        scores: `[repeat, image]` or `[image]`.
        verdicts: of the images.
        times: how often each of `prompts` was drawn, `[resample, prompt]`.
        prompts: their positions, ascending.
        bins: of the expected calibration error, made of the scores at hand and not of the resamples.
    """
    place = np.searchsorted(prompts, verdicts.prompt)
    sizes = times @ np.bincount(place, minlength=len(prompts))
    found = []
    for own in _rows(scores):
        means = [
            times @ np.bincount(place, weights=loss(own, verdicts.right), minlength=len(prompts)) / sizes
            for loss in (log_losses, brier_losses)
        ]
        cells = place * bins + bins_of(own, bins=bins)
        distance = np.bincount(cells, weights=own - verdicts.right, minlength=len(prompts) * bins)
        gaps = np.abs(times @ distance.reshape(len(prompts), bins)).sum(axis=1) / sizes
        found.append([*means, gaps])
    return Losses(*np.mean(found, axis=0))
