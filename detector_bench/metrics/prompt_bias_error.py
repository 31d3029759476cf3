"""How far a detector's prompt bias scores lie from the true ones, whatever the number of images.

The published prompt bias score difference is a mean of distances between shares of few images. Chance alone
separates two shares, so it grows as images get fewer: a detector that measures a fair T2I model without any bias
of its own can show 0.32 at 5 images per prompt, 0.17 at 20 and 0.08 at 100. Its square does not have this trouble:
the part that chance adds to a squared distance is the variance of the distance, which can be estimated and taken
away.

With d the detector's minus the actual prompt bias score of a prompt, and s^2 an unbiased estimate of the variance
of d over other images of the prompt (paired: the images that made both scores are the same), the prompt bias error
is the root of the mean over prompts of d^2 - s^2. Not in the paper.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.catalogue import NClear
from detector_bench.metrics.counts import (
    FEWEST_IMAGES,
    CountArray,
    FloatArray,
    Score,
    class_count,
    count_images,
    detector_class_counts,
    divide,
    human_class_counts,
)
from detector_bench.metrics.declaration import metric
from detector_bench.metrics.intervals import FEWEST_DEGREES_OF_PROMPTS, Interval, stretching
from detector_bench.metrics.scopes import Scopes, mean_over_prompts, one_prompt_each


class SquaredErrors(NamedTuple):
    """One number for each prompt of each T2I model, `[...]`; NaN where the prompt tells nothing."""

    value: FloatArray
    """Unbiased estimate of the squared distance of the scores, d^2 - s^2; can lie below 0 by chance."""
    variance: FloatArray
    """Unbiased estimate of the variance of `value`: 4 d^2 s^2 - 2 s^4; can lie below 0 by chance."""
    variance_at_zero: FloatArray
    """What the variance is at least, reached where the true scores are equal: 2 s^4."""


def contrasts(classes: int) -> FloatArray:
    """What of the shares of the classes makes a score: `[contrast, class]`.

    Two classes: the first share minus the second, as in the prompt bias score. More: each share by itself, scaled
    so that for two classes the squared distance would be the same.
    """
    if classes == SIGNED_CLASSES:
        return np.array([[1.0, -1.0]])
    each_class: FloatArray = np.sqrt(2) * np.eye(classes)
    return each_class


def squared_errors(counts: CountArray, *, n_clear: NClear = "detector") -> SquaredErrors:
    """Squared distance of reported and actual score of each prompt, unbiased, with its variance.

    The variance of the distance is the sum of squared influences of the images, n / (n - 1) for n images: an image
    of a kept class moves the detector's score by (its contrast - the score) / kept images, a clear one the actual
    score likewise.

    Args:
        counts: `[..., truth, verdict]`.
        n_clear: see `prompt_bias_score`.
    """
    classes, images = class_count(counts), count_images(counts)
    distance, influence = influences_of_cells(counts, n_clear=n_clear)
    with np.errstate(invalid="ignore"):
        scatter = np.einsum("...tv,...tvm,...tvl->...ml", counts.astype(np.float64), influence, influence)
    scatter *= divide(images, images - 1)[..., np.newaxis, np.newaxis]
    trace = np.trace(scatter, axis1=-2, axis2=-1)
    at_zero = 2 * (scatter**2).sum(axis=(-2, -1))
    along = np.einsum("...m,...ml,...l->...", distance, scatter, distance)
    enough = np.minimum(human_class_counts(counts).sum(axis=-1), detector_class_counts(counts).sum(axis=-1))
    usable = (enough >= FEWEST_IMAGES) & (images > 1) & (classes > 1)
    return SquaredErrors(
        *(
            np.where(usable, each, np.nan)
            for each in ((distance**2).sum(axis=-1) - trace, 4 * along - at_zero, at_zero)
        )
    )


def prompt_bias_error_interval(
    counts: CountArray,
    *,
    n_clear: NClear = "detector",
    scopes: Scopes,
    level: float,
    unit: Literal["image", "prompt"] = "image",
) -> Interval:
    """Interval of `prompt_bias_error` for every scope: `[..., 1 + T2I models, 1 + categories]`.

    The mean of the squared errors plus and minus a normal quantile times its standard error, and the root of both.
    Over images (`unit="image"`) the error is the sum of the prompts' own variances, at least what it would be for
    equal scores, and one image more, judged otherwise, in one prompt: a detector that was right on all images has
    shown to be good, not to be perfect. Over prompts it is the scatter between the prompts of a category, each
    with all its T2I models.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`.
        scopes: the prompts' categories.
        level: 0.95 for a 95 % interval.
        unit: image or prompt; see `metrics.bootstrap`.
    """
    terms = squared_errors(counts, n_clear=n_clear)
    defined = ~np.isnan(terms.value)
    used = scopes.sums(defined.astype(np.int64), prompt_axis=-1)
    mean = divide(scopes.sums(np.nan_to_num(terms.value), prompt_axis=-1), used)
    if unit == "image":
        variance = _variance_over_images(terms, count_images(counts), scopes)
    else:
        variance = variance_over_prompts(terms.value, scopes)
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(divide(variance, used**2))
    return Interval(np.sqrt(np.maximum(mean - half, 0)), np.sqrt(np.maximum(mean, 0) + half))


@metric(
    over="prompts",
    section="Prompt bias",
    own_interval=prompt_bias_error_interval,
    rows=("scopes",),
    better="lower",
    kind="score",
    highest=2,
    left_out="prompts without two images clear to the human and two clear to the detector",
    headline=9,
    compared=4,
    swept=11,
)
def prompt_bias_error(counts: CountArray, *, n_clear: NClear = "detector", scopes: Scopes | None = None) -> Score:
    """Root mean square distance between reported and actual prompt bias scores, without what chance adds (can
    exceed 2 with n_clear human): √ of the mean over prompts of (B_detector - B_actual)² - s², s² an unbiased
    estimate of the variance of that distance; 0 where the mean lies below 0.

    In [0, 2] with `n_clear="detector"`, lower is better; see the module. It estimates the same number at 5
    images per prompt and at 500. For two classes and endless images neither the mean distance nor the error of
    the T2I model's bias score is larger. For more than two classes d^2 is twice the sum of the squared distances
    of the classes' shares, which is the same for two. Not in the paper.

    Args:
        counts: `[..., t2i_model, prompt, truth, verdict]`.
        n_clear: see `prompt_bias_score`.
        scopes: for one number for each T2I model and category.

    Returns:
        `Score.n` counts the prompts used, `Score.n_left_out` those with images that do not have two clear images
        by the human and two by the detector.
    """
    squared = mean_over_prompts(one_prompt_each(squared_errors(counts, n_clear=n_clear).value, counts), scopes)
    return squared._replace(value=np.sqrt(np.maximum(squared.value, 0)))


def variance_of_one_image(images: CountArray) -> FloatArray:
    """Variance of a prompt's squared error if one of its n images is judged otherwise, `[...]`; NaN without any.

    The score moves by d = 2 / n, and s^2 is as large to the first order, so that 4 d^2 s^2 - 2 s^4 is 32 / n^4.
    """
    return divide(np.full(np.shape(images), 32.0), np.asarray(images, dtype=np.float64) ** 4)


def influences_of_cells(counts: CountArray, *, n_clear: NClear) -> tuple[FloatArray, FloatArray]:
    """Distance of the scores `[..., contrast]`, and how one image of each truth and verdict moves it, to the first
    order: `[..., truth, verdict, contrast]`."""
    classes = class_count(counts)
    weights = contrasts(classes)
    of_label = np.zeros((classes + 2, len(weights)))
    of_label[:classes] = weights.T
    is_class = (np.arange(classes + 2) < classes).astype(np.float64)
    human, kept = human_class_counts(counts), detector_class_counts(counts)
    clear, reported = human.sum(axis=-1), kept.sum(axis=-1)
    base = reported if n_clear == "detector" else np.where(counts[..., :-1].sum(axis=(-2, -1)) > 0, clear, 0)
    detector = divide(kept @ weights.T, base[..., np.newaxis])
    actual = divide(human @ weights.T, clear[..., np.newaxis])
    by_verdict = is_class[np.newaxis, :] if n_clear == "detector" else is_class[:, np.newaxis]
    in_base = np.broadcast_to(by_verdict, (classes + 2, classes + 2))[..., np.newaxis]

    def spread_out(values: FloatArray) -> FloatArray:
        return values[..., np.newaxis, np.newaxis, :]

    of_detector = divide(of_label - spread_out(detector) * in_base, base[..., np.newaxis, np.newaxis, np.newaxis])
    of_human = divide(
        of_label[:, np.newaxis] - spread_out(actual) * is_class[:, np.newaxis, np.newaxis],
        clear[..., np.newaxis, np.newaxis, np.newaxis],
    )
    return detector - actual, of_detector - of_human


def _variance_over_images(terms: SquaredErrors, images: CountArray, scopes: Scopes) -> FloatArray:
    """Variance of the sum of the squared errors of each scope."""
    defined = ~np.isnan(terms.value)
    found, least = (
        scopes.sums(np.nan_to_num(each), prompt_axis=-1) for each in (terms.variance, terms.variance_at_zero)
    )
    one_image = np.where(defined, variance_of_one_image(images), 0)
    used = scopes.sums(defined.astype(np.int64), prompt_axis=-1)
    more: FloatArray = np.maximum(found, least) + divide(scopes.sums(one_image, prompt_axis=-1), used)
    return more


def variance_over_prompts(value: FloatArray, scopes: Scopes) -> FloatArray:
    """The variance of the sum over each scope, from the scatter between prompts, each with all its T2I models.

    Args:
        value: of every prompt of every T2I model, `[..., t2i_model, prompt]`; NaN where there is none.
        scopes: the prompts' categories.

    Returns:
        `[..., 1 + T2I models, 1 + categories]`; NaN where a scope has no two prompts.
    """
    models = value.shape[-2]
    found = np.full((*value.shape[:-2], 1 + models, 1 + len(scopes.categories)), np.nan)
    for row, chosen in enumerate([slice(None), *(slice(model, model + 1) for model in range(models))]):
        own = value[..., chosen, :]
        number = (~np.isnan(own)).sum(axis=-2)
        total = np.nan_to_num(own).sum(axis=-2)
        for column, members in enumerate(_prompts_of(scopes)):
            found[..., row, column] = _scatter_of_sums(
                total[..., members], number[..., members], scopes.category_of_prompt[members]
            )
    return found


def _prompts_of(scopes: Scopes) -> list[CountArray]:
    """Positions of all prompts, then of each category's."""
    everything = np.arange(len(scopes.category_of_prompt))
    return [
        everything,
        *(np.flatnonzero(scopes.category_of_prompt == each) for each in range(len(scopes.categories))),
    ]


def _scatter_of_sums(total: FloatArray, number: CountArray, category: CountArray) -> FloatArray:
    """Variance of a sum over prompts drawn anew within their categories, around the mean of the whole sum."""
    mean = divide(total.sum(axis=-1), number.sum(axis=-1))
    residual = total - mean[..., np.newaxis] * number
    squares, used, lost = np.zeros(mean.shape), np.zeros(mean.shape), np.zeros(mean.shape)
    for each in np.unique(category):
        own, present = residual[..., category == each], number[..., category == each] > 0
        prompts = present.sum(axis=-1)
        middle = divide(own.sum(axis=-1), prompts)[..., np.newaxis]
        squares += np.where(present, (own - middle) ** 2, 0).sum(axis=-1)
        used, lost = used + prompts, lost + (prompts > 0)
    lost = np.where(used - lost >= FEWEST_DEGREES_OF_PROMPTS, lost, used)
    variance: FloatArray = squares * stretching(used, lost) ** 2
    return variance
