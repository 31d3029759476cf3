"""How far a measured value, such as an age in years, lies from the human's; and how sure that distance is.

Everything is a function of `ErrorSums`, whose arrays are sums over images and so can be added up over prompts. An
error is the detector's value minus the human's. Only images with both values count; those with the human's alone
are left out, and counted.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.declaration import metric
from detector_bench.metrics.scopes import Scopes

CUMULATIVE_SCORE_LIMIT = 5.0
"""The largest error, in years, of an image that `cumulative_score` counts."""


class ErrorSums(NamedTuple):
    """Sums over images with a human value, arrays of one shape."""

    n: CountArray
    """Images that have the detector's value, too."""
    left_out: CountArray
    """Images without the detector's value."""
    errors: FloatArray
    """Sum of the errors, detector's minus human's value."""
    distances: FloatArray
    """Sum of the errors' absolute values."""
    squares: FloatArray
    """Sum of the errors' squares."""
    near: CountArray
    """Images with an error of at most `CUMULATIVE_SCORE_LIMIT`."""

    def pooled(self, scopes: Scopes) -> ErrorSums:
        """Sums of `[..., t2i_model, prompt]` for every scope: `[..., 1 + T2I models, 1 + categories]`."""
        return ErrorSums(*(scopes.sums(values, prompt_axis=-1) for values in self))


class StandardError(NamedTuple):
    """Of a mean; NaN where one observation, or none, says nothing about the scatter."""

    size: FloatArray
    degrees: CountArray
    """Degrees of freedom, for Student's t."""


_of_errors = partial(
    metric,
    over=None,
    section="Class and measured value",
    counted="images",
    left_out="images with the human's value alone",
    source="common in age estimation",
)


@_of_errors(highest=None, better="lower", kind="measurement")
def mean_absolute_error(sums: ErrorSums) -> Score:
    """Mean distance between the detector's and the human's value, in the attribute's unit: mean of |e|, e the
    detector's value minus the human's.

    0 or more, lower is better.
    """
    return Score(divide(sums.distances, sums.n), sums.n, sums.left_out)


@_of_errors(lowest=-math.inf, highest=None, better="closest to zero", kind="measurement")
def mean_error(sums: ErrorSums) -> Score:
    """Mean of the detector's minus the human's value, in the attribute's unit: mean of e; above 0 the detector's
    values are too high.

    0 is best.
    """
    return Score(divide(sums.errors, sums.n), sums.n, sums.left_out)


@_of_errors("cumulative_score_5", source="common in age estimation, as CS(5)")
def cumulative_score(sums: ErrorSums) -> Score:
    """Share of images with an age at most 5 years from the human's: images with |e| ≤ 5 years / images with both
    values.

    5 years are `CUMULATIVE_SCORE_LIMIT`. In [0, 1]; higher is better. The cumulative score CS(5) of age
    estimation; the limit itself counts as near enough.
    """
    return Score(divide(sums.near, sums.n), sums.n, sums.left_out)


def error_of_drawn_images(
    total: FloatArray, squares: FloatArray, n: CountArray, *, scopes: Scopes
) -> StandardError:
    """Standard error of a mean over images, had other images been made from the same prompts.

    The squared distances from each prompt's own mean, pooled over N images of H pairs of T2I model and prompt, and
    divided by N (N - H): what the bootstrap of images within prompts comes to with endlessly many resamples, its
    lost degrees of freedom given back (see `metrics.bootstrap`).

    Args:
        total: sum of the numbers that are averaged, `[..., t2i_model, prompt]`.
        squares: sum of their squares.
        n: how many there are.
        scopes: the category of each prompt.

    Returns:
        `[..., 1 + T2I models, 1 + categories]`.
    """
    within = np.maximum(squares - np.nan_to_num(divide(total * total, n)), 0)
    images = scopes.sums(n, prompt_axis=-1)
    degrees = images - scopes.sums((n > 0).astype(np.int64), prompt_axis=-1)
    variance = divide(scopes.sums(within, prompt_axis=-1), images * degrees)
    return StandardError(np.sqrt(variance), degrees)


def error_of_drawn_prompts(total: FloatArray, n: CountArray, *, scopes: Scopes) -> StandardError:
    """Standard error of a mean over images, had other prompts of the same categories been chosen.

    The mean is a ratio, sum of totals by sum of images, of prompts drawn with all their images by all T2I models.
    Linearised: each prompt contributes total - mean x images; the squared distances of these from their
    category's mean are added up, stretched by prompts / (prompts - categories), and divided by N squared.

    Args:
        total: sum of the numbers that are averaged, `[..., t2i_model, prompt]`.
        n: how many there are.
        scopes: the category of each prompt.

    Returns:
        `[..., 1 + T2I models, 1 + categories]`.
    """
    total, n = (np.concatenate([each.sum(axis=-2, keepdims=True), each], axis=-2) for each in (total, n))
    members = [scopes.category_of_prompt == category for category in range(len(scopes.categories))]
    every = [(members, np.ones(len(scopes.category_of_prompt), dtype=bool)), *(([each], each) for each in members)]
    sizes, degrees = [], []
    for categories, chosen in every:
        images = n[..., chosen].sum(axis=-1)
        mean = np.nan_to_num(divide(total[..., chosen].sum(axis=-1), images))[..., np.newaxis]
        squares = np.zeros(images.shape)
        prompts, filled = np.zeros_like(images), np.zeros_like(images)
        for category in categories:
            there = n[..., category] > 0
            asked = there.sum(axis=-1)
            share = np.where(there, total[..., category] - mean * n[..., category], 0)
            middle = np.nan_to_num(divide(share.sum(axis=-1), asked))[..., np.newaxis]
            squares += (np.where(there, share - middle, 0) ** 2).sum(axis=-1)
            prompts, filled = prompts + asked, filled + (asked > 0)
        variance = divide(squares * prompts, (prompts - filled) * images.astype(np.float64) ** 2)
        sizes.append(np.sqrt(variance))
        degrees.append(prompts - filled)
    return StandardError(np.stack(sizes, axis=-1), np.stack(degrees, axis=-1))
