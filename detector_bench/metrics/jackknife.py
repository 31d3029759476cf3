"""How skewed a metric's sampling distribution is, from leaving out one image or one prompt at a time (Efron
1987)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.scopes import Scopes, pool


def acceleration_of_images(
    counts: CountArray, metric: Callable[[CountArray], FloatArray], *, scopes: Scopes
) -> FloatArray:
    """The acceleration of a metric over images when images are drawn within prompts.

    Images with the same truth and verdict have the same influence, so leaving out one of each kind is enough.
    Influences are taken relative to the mean of their prompt, as each prompt is a sample of its own.

    Args:
        counts: `[detector, t2i_model, prompt, truth, verdict]`.
        metric: from counts `[..., truth, verdict]` to values `[...]`.
        scopes: the category of each prompt.

    Returns:
        `[1 + T2I models, 1 + categories, detector]`.
    """
    labels = counts.shape[-1]
    kinds = labels * labels
    pooled = pool(counts, scopes=scopes)
    one_less = pooled - np.eye(kinds).reshape(kinds, 1, 1, 1, labels, labels)
    left_out = np.nan_to_num(metric(np.maximum(one_less, 0)))
    images = counts.reshape(*counts.shape[:3], kinds)
    t2i_models, categories = pooled.shape[1] - 1, pooled.shape[2] - 1
    found = np.zeros((1 + t2i_models, 1 + categories, len(counts)))
    for model in range(1 + t2i_models):
        for category in range(1 + categories):
            some = images if model == 0 else images[:, model - 1 : model]
            if category > 0:
                some = some[:, :, scopes.category_of_prompt == category - 1]
            samples = some.reshape(len(counts), some.shape[1] * some.shape[2], kinds)
            found[model, category] = _acceleration(samples, left_out[..., model, category].T)
    return found


def acceleration_of_prompts(left_out: FloatArray, *, scopes: Scopes) -> FloatArray:
    """The acceleration of any metric when prompts are drawn within categories.

    Args:
        left_out: the metric without each prompt, `[..., prompt]`.
        scopes: the category of each prompt.

    Returns:
        `[...]`.
    """
    defined = ~np.isnan(left_out)
    influence = np.zeros(left_out.shape)
    for category in range(len(scopes.categories)):
        members = scopes.category_of_prompt == category
        values = np.where(defined[..., members], left_out[..., members], 0)
        mean = divide(values.sum(axis=-1, keepdims=True), defined[..., members].sum(axis=-1, keepdims=True))
        influence[..., members] = np.where(defined[..., members], mean - values, 0)
    return _sixth_of_skewness((influence**3).sum(axis=-1), (influence**2).sum(axis=-1))


def _acceleration(samples: CountArray, left_out: FloatArray) -> FloatArray:
    """From counts `[detector, sample, kind]` and the metric without one image `[detector, kind]`."""
    values = left_out[:, np.newaxis]
    mean = divide((samples * values).sum(axis=-1), samples.sum(axis=-1))
    influence = np.nan_to_num(mean)[..., np.newaxis] - values
    return _sixth_of_skewness(
        (samples * influence**3).sum(axis=(-2, -1)), (samples * influence**2).sum(axis=(-2, -1))
    )


def _sixth_of_skewness(cubes: FloatArray, squares: FloatArray) -> FloatArray:
    """0 where nothing varies."""
    return np.nan_to_num(divide(cubes, 6 * squares**1.5))
