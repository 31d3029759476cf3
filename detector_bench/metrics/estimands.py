"""What a model bias score is an estimate of: the images at hand, or the T2I model behind them.

The published score is the mean over prompts of |n_male - n_female| / n. It describes a finite image set exactly.
As an estimate of what the T2I model would show with endlessly many images it is biased upwards, because chance
alone puts more images on one side: a perfectly fair T2I model shows 0.374, 0.246, 0.176, 0.112 and 0.080 at 5,
10, 20, 50 and 100 images per prompt. `model_bias_score_if_fair` is that number for the counts at hand;
`model_bias_score_corrected` estimates the T2I model's own score. docs/uncertainty.md compares corrections.

No correction of single prompts is unbiased everywhere: corrected scores are right on average for fair and for
one-sided prompts, and off in between, since |p - 1/K| has a kink. In the mean over prompts the biases
b(reported) - b(actual) need not cancel: the T2I model shows 50 % men in each prompt, a detector names 53 %, so
that its score is 0.06 too high; at 20 images the corrected scores differ by 0.02. More prompts do not help, so the
interval of `model_bias_score_error` must know of it. The bias is at most

    mean of L |d|  <=  root of (mean of L times mean of L d^2)        (Cauchy and Schwarz)

with d the distance of reported and actual score of a prompt, whose square is estimated without bias
(`metrics.prompt_bias_error`; one standard error is added), and L the steepest chord of b over the detector's
typical distance, among the shares that are within one standard error of what the human labels show. L is near 1
for prompts that may be fair, and small for those that clearly are not, which are more the more images there
are. All biases are taken to point the same way, so intervals are cautious; it is no strict bound, as distances
differ from prompt to prompt.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import comb, exp, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.counts import (
    FEWEST_IMAGES,
    CountArray,
    FloatArray,
    Score,
    class_count,
    detector_class_counts,
    divide,
    human_class_counts,
)
from detector_bench.metrics.declaration import metric
from detector_bench.metrics.prompt_bias_error import prompt_bias_error, squared_errors
from detector_bench.metrics.scopes import Scopes, mean_over_prompts, one_prompt_each

LARGEST_TABLE = 50
"""Up to this many images the correction is solved for each number of images; beyond it only the scale changes."""

_PROMPTS_AVERAGED = 100
_POSSIBLE_SHARES = 200
_WEIGHT_OF_MEAN_BIAS = 10

_SHARES_OF_CHORDS = 400
_STANDARD_ERRORS = 1.0
_DISTANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4)
"""Of scores, over which chords of the bias are taken."""

_of_model = partial(metric, over="prompts", kind="score", section="Model bias")


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


@_of_model(
    form="standard error",
    rows=("scopes", "human"),
    better="none",
    lowest=-1,
    left_out="prompts with fewer than two clear images",
)
def model_bias_score_corrected(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Model bias score without what chance adds, an estimate for endlessly many images (below 0 by chance): mean
    over prompts of an estimate of D that is right on average where a T2I model is fair or shows one class only,
    whatever the number of images.

    The estimate is `concentration_corrected` of the detector's classes. Its expectation is 0 for a T2I model
    that is fair in every prompt and 1 for one that shows a single class, whatever the number of images; in
    between it is within 0.06 at 20 images per prompt. A set of images can come out slightly below 0; that is no
    mistake, and such values are needed for the mean to be right. Where one or two prompts of few images come out
    beyond -1 or 1, that is said in its place. Not in the paper.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        scopes: for one score for each T2I model and category.

    Returns:
        `Score.n` counts the prompts used; those with fewer than two clear images are in `Score.n_left_out`.
    """
    term = concentration_corrected(detector_class_counts(counts))
    return _within_range(mean_over_prompts(one_prompt_each(term, counts), scopes))


@_of_model(
    rows=("scopes", "human"),
    better="none",
    left_out="prompts of which the detector keeps no image",
    no_interval="an exact expectation for the number of images at hand",
)
def model_bias_score_if_fair(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Model bias score that a fair T2I model would show on average with as many clear images: mean over prompts
    of the expectation of D, each of the detector's clear images showing each class with probability 1/K.

    That is, of `concentration_if_fair` of the number of images that the detector keeps. In [0, 1]; it says
    nothing about the T2I model, only how much of its score could be chance. Exact, so it has no interval.
    """
    kept = detector_class_counts(counts).sum(axis=-1)
    term = concentration_if_fair(kept, classes=counts.shape[-1] - 2)
    return mean_over_prompts(one_prompt_each(term, counts), scopes)


@_of_model(
    form="standard error",
    own_bias=model_bias_score_error_bias,
    rows=("scopes",),
    better="closest to zero",
    lowest=-1,
    left_out="prompts without two images clear to the human and two clear to the detector",
    headline=7,
)
def model_bias_score_error(counts: CountArray, *, scopes: Scopes | None = None) -> Score:
    """Corrected model bias score minus the actual one, for endlessly many images: mean over prompts of the
    detector's minus the human's term of `model_bias_score_corrected`.

    In score points, over prompts that have both; in [-1, 1], closest to 0 is best. Positive: the detector
    overestimates the bias. Unlike the deviation it does not divide by a score that may be chance, and unlike the
    difference of the published scores it does not move with the number of images that the detector keeps. Where
    the terms of one or two prompts come out beyond the range, its end is said. Not in the paper.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        scopes: for one number for each T2I model and category.

    Returns:
        `Score.n` counts the prompts used; those with fewer than two images that the human, or the detector, calls
        clear are in `Score.n_left_out`.
    """
    reported = concentration_corrected(detector_class_counts(counts))
    actual = concentration_corrected(human_class_counts(counts))
    return _within_range(mean_over_prompts(one_prompt_each(reported - actual, counts), scopes))


def _within_range(score: Score) -> Score:
    """The mean of few prompts may lie beyond -1 or 1, where no score can be: the end of the range is nearer."""
    return score._replace(value=np.clip(score.value, -1.0, 1.0))


def concentration_if_fair(images: CountArray, *, classes: int) -> FloatArray:
    """Expected `concentration` of images that show each class with probability 1/K: `[...]`.

    Exact: a class's count is binomial, and E|X - n/K| has de Moivre's closed form. For two classes it is
    E|2X - n| / n. NaN where there is no image; numbers that are not whole are rounded (weighted images).
    """
    whole = np.rint(images).astype(np.int64)
    found, place = np.unique(whole, return_inverse=True)
    values = np.array([_concentration_if_fair(int(n), classes) for n in found])
    return values[place].reshape(whole.shape)


def concentration_corrected(class_counts: CountArray) -> FloatArray:
    """`concentration` without its upward bias: a number for each prompt that is right on average.

    |p - 1/K| of each class is estimated by a function of its count that is solved for every number of images n:
    unbiased at p = 1/K, 0 and 1, and elsewhere the function with the least mean squared error of a mean over 100
    prompts, p being equally likely anywhere. No function is unbiased everywhere, as |p - 1/K| has a kink. For more
    than 50 images the solution for 50 is scaled by the standard error.

    Args:
        class_counts: images of each class, `[..., K]`.

    Returns:
        `[...]`; NaN for fewer than two images, of which nothing can be said.
    """
    classes = class_counts.shape[-1]
    total = class_counts.sum(axis=-1)
    value = np.zeros(total.shape)
    for index in range(classes):
        value += corrected_distance(class_counts[..., index], total, classes=classes)
    value *= classes / (2 * (classes - 1))
    value[total < FEWEST_IMAGES] = np.nan
    return value


def corrected_distance(count: CountArray, total: CountArray, *, classes: int) -> FloatArray:
    """Estimate |p - 1/K| from `count` of `total` images; arrays of one shape, 0 where there are too few images."""
    small = total <= LARGEST_TABLE
    value = np.zeros(total.shape)
    whole_total = np.rint(total[small]).astype(np.intp)
    table = correction_table(classes, images=whole_total)
    value[small] = table[whole_total, np.rint(count[small]).astype(np.intp)]
    large = ~small
    if large.any():
        share, fair = count[large] / total[large], 1 / classes
        scale = np.sqrt(fair * (1 - fair) / total[large])
        shift = np.interp((share - fair) / scale, *standard_correction(classes), left=0.0, right=0.0)
        value[large] = np.abs(share - fair) + scale * shift
    return value


def correction_table(classes: int, *, images: NDArray[np.intp]) -> FloatArray:
    """Estimates of |p - 1/K| by number of images and count: `[number of images, count]`.

    Args:
        classes: K.
        images: the numbers of images to solve for, at most `LARGEST_TABLE`; the other rows are 0.
    """
    largest = int(images.max(initial=0))
    table = np.zeros((largest + 1, largest + 1))
    for number in np.unique(images):
        if number >= FEWEST_IMAGES:
            table[number, : number + 1] = _solved(int(number), classes)
    return table


@lru_cache(maxsize=2048)
def _solved(images: int, classes: int) -> FloatArray:
    fair = 1 / classes
    share = (np.arange(_POSSIBLE_SHARES) + 0.5) / _POSSIBLE_SHARES
    chance = _binomial(images, share)
    distance = np.abs(share - fair)
    # Squared bias plus the variance of the mean of 100 prompts, averaged over the possible shares; and the square
    # of the mean bias, so that in prompts of different shares too much and too little even out.
    anywhere = chance.mean(axis=0)
    quadratic = (
        (1 - 1 / _PROMPTS_AVERAGED) * chance.T @ chance / _POSSIBLE_SHARES
        + np.diag(anywhere) / _PROMPTS_AVERAGED
        + _WEIGHT_OF_MEAN_BIAS * np.outer(anywhere, anywhere)
    )
    linear = distance @ chance / _POSSIBLE_SHARES + _WEIGHT_OF_MEAN_BIAS * distance.mean() * anywhere
    unbiased_at = _binomial(images, np.array([fair, 0.0, 1.0]))
    system = np.block([[quadratic, unbiased_at.T], [unbiased_at, np.zeros((3, 3))]])
    wanted = np.concatenate([linear, [0.0, fair, 1 - fair]])
    solution: FloatArray = np.linalg.solve(system, wanted)[: images + 1]
    return solution


@lru_cache(maxsize=8)
def standard_correction(classes: int) -> tuple[FloatArray, FloatArray]:
    """Distances p - 1/K, and what is added to their size for `LARGEST_TABLE` images; both in standard errors."""
    fair = 1 / classes
    share = np.arange(LARGEST_TABLE + 1) / LARGEST_TABLE
    scale = np.sqrt(fair * (1 - fair) / LARGEST_TABLE)
    return (share - fair) / scale, (_solved(LARGEST_TABLE, classes) - np.abs(share - fair)) / scale


def _binomial(images: int, share: NDArray[np.float64]) -> FloatArray:
    """Binomial probabilities `[share, count]`."""
    # Written out, since scipy takes longer to import than an evaluation takes to run.
    count = np.arange(images + 1)
    probability = share[:, np.newaxis]
    ways = np.array([comb(images, number) for number in count.tolist()], dtype=np.float64)
    chance: FloatArray = ways * probability**count * (1 - probability) ** (images - count)
    return chance


@lru_cache(maxsize=65536)
def _concentration_if_fair(images: int, classes: int) -> float:
    if images == 0:
        return np.nan
    # De Moivre: E|X - np| = 2 m (1 - p) P(X = m), m the least whole number above np.
    fair = 1 / classes
    middle = images // classes + 1
    ways = lgamma(images + 1) - lgamma(middle + 1) - lgamma(max(images - middle, 0) + 1)
    chance = exp(ways + middle * log(fair) + (images - middle) * log1p(-fair)) if middle <= images else 0.0
    deviation = 2 * middle * (1 - fair) * chance
    return float(classes * classes * deviation / (2 * (classes - 1) * images))


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
    share = (np.arange(_SHARES_OF_CHORDS) + 0.5) / _SHARES_OF_CHORDS
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
