"""How far off the error of the model bias score can be because no correction of single prompts is unbiased.

`model_bias_score_error` is a mean of reported minus actual `concentration_corrected`. Corrected scores are
right on average for fair and for one-sided prompts, and off in between, since |p - 1/K| has a kink. In the mean
over prompts these biases b(reported) - b(actual) need not cancel: the T2I model shows 50 % men in each prompt,
a detector names 53 %, so that its score is 0.06 too high; at 20 images the corrected scores differ by 0.02.
More prompts do not help, so the interval must know of it. The bias is at most

    mean of L |d|  <=  root of (mean of L times mean of L d^2)        (Cauchy and Schwarz)

with d the distance of reported and actual score of a prompt, whose square is estimated without bias
(`metrics.prompt_bias_error`; one standard error is added), and L the steepest chord of b over the detector's
typical distance, among the shares that are within one standard error of what the human labels show. L is near 1
for prompts that may be fair, and small for those that clearly are not, which are more the more images there
are. All biases are taken to point the same way, so intervals are cautious; it is no strict bound, as distances
differ from prompt to prompt.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from detector_bench.metrics.bias import NClear
from detector_bench.metrics.counts import (
    CountArray,
    FloatArray,
    class_count,
    detector_class_counts,
    divide,
    human_class_counts,
)
from detector_bench.metrics.estimands import FEWEST_IMAGES, LARGEST_TABLE, corrected_distance
from detector_bench.metrics.prompt_bias_error import prompt_bias_error, squared_errors
from detector_bench.metrics.scopes import Scopes

_POSSIBLE_SHARES = 400
_STANDARD_ERRORS = 1.0
_DISTANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4)
"""Of scores, over which chords are taken."""


def model_bias_score_error_bias(counts: CountArray, *, scopes: Scopes, times: float = 1.0) -> FloatArray:
    """The largest bias of `model_bias_score_error` to either side: `[..., 1 + T2I models, 1 + categories]`.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        scopes: the prompts' categories.
        times: what it would be with so many times the images, the shares of each kind being the same.

    Returns:
        Score points, 0 or more; 0 where no prompt tells anything.
    """
    n_clear: NClear = "detector"  # concentrations are shares of the images that each side calls clear
    terms = squared_errors(counts, n_clear=n_clear)
    usable = ~np.isnan(terms.value)
    typical = prompt_bias_error(counts, n_clear=n_clear).value[..., np.newaxis, np.newaxis]
    slope = np.where(usable, slopes_of_bias(times * counts, distance=typical), 0)
    variance = np.maximum(terms.variance, terms.variance_at_zero) / times

    def summed(values: FloatArray) -> FloatArray:
        found: FloatArray = scopes.sums(np.where(usable, values, 0), prompt_axis=-1)
        return found

    number = summed(usable.astype(np.float64))
    distances = summed(slope * terms.value) + _STANDARD_ERRORS * np.sqrt(summed(slope**2 * variance))
    bound: FloatArray = np.nan_to_num(divide(np.sqrt(summed(slope) * np.maximum(distances, 0)), number))
    return bound


def slopes_of_bias(counts: CountArray, *, distance: FloatArray) -> FloatArray:
    """By how much the bias of a prompt's corrected score changes with its score, at most among likely shares.

    Args:
        counts: `[..., truth, verdict]`.
        distance: how far apart the two scores typically are; broadcasts against `[...]`.

    Returns:
        `[...]`: score points per point of the prompt bias score; 0 for a prompt without two clear images on both
        sides.
    """
    classes, human = class_count(counts), human_class_counts(counts)
    clear = human.sum(axis=-1)
    # As if both sides had as few images as the one that has fewer.
    images = np.minimum(clear, detector_class_counts(counts).sum(axis=-1))
    shares = divide(human, clear[..., np.newaxis])
    whole = np.rint(np.where(images >= FEWEST_IMAGES, images, 0)).astype(np.int64)
    # Beyond the table a bias is that of its last row, scaled by the standard error.
    scaled_distance = np.nan_to_num(distance) * np.sqrt(np.maximum(whole / LARGEST_TABLE, 1))
    near = np.maximum(np.searchsorted(_DISTANCES, scaled_distance, side="right") - 1, 0)
    squares = np.zeros(whole.shape)
    for number, place in np.unique(np.stack([whole.ravel(), near.ravel()]), axis=1).T.tolist():
        if number:
            chosen = (whole == number) & (near == place)
            of_count = _chords(min(number, LARGEST_TABLE), classes, _DISTANCES[place])
            squares[chosen] = (of_count[_places(shares[chosen], number, classes)] ** 2).sum(axis=-1)
    # Two classes: the slope itself. The squared distance of scores is twice that of shares.
    scaled: FloatArray = classes / (2 * (classes - 1)) * np.sqrt(squares / 2)
    return scaled


def _places(shares: FloatArray, images: int, classes: int) -> CountArray:
    """Counts of so many images with these shares; of more than `LARGEST_TABLE`, as many standard errors from
    fair."""
    fair, known = 1 / classes, min(images, LARGEST_TABLE)
    found = known * (fair + (shares - fair) * np.sqrt(images / known))
    places: CountArray = np.clip(np.rint(found), 0, known).astype(np.int64)
    return places


@lru_cache(maxsize=1024)
def _chords(images: int, classes: int, distance: float) -> FloatArray:
    """Size of the steepest chord of the bias of an estimated |p - 1/K|, by count of the class."""
    from scipy.stats import binom

    count = np.arange(images + 1)
    estimate = corrected_distance(count, np.full(images + 1, images), classes=classes)
    share = (np.arange(_POSSIBLE_SHARES) + 0.5) / _POSSIBLE_SHARES
    # For two classes half the distance of the scores.
    step = distance / np.sqrt(2 * classes)

    def bias(at: FloatArray) -> FloatArray:
        found: FloatArray = binom.pmf(count, images, at[:, np.newaxis]) @ estimate - np.abs(at - 1 / classes)
        return found

    here = bias(share)
    chord = np.max([np.abs(bias(np.clip(share + side * step, 0, 1)) - here) for side in (-1, 1)], axis=0) / step
    # Relative likelihood of each share; the range of one standard error has exp(-1/2) or more.
    likelihood = binom.pmf(count[:, np.newaxis], images, share)
    likely = likelihood >= np.exp(-(_STANDARD_ERRORS**2) / 2) * likelihood.max(axis=1, keepdims=True)
    found: FloatArray = np.where(likely, chord, 0).max(axis=1)
    return found
