"""The count array that every metric is a function of, and the shape that every metric returns."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

CountArray: TypeAlias = NDArray[Any]
"""Numbers of images, int64, or float64 where images carry weights."""

FloatArray: TypeAlias = NDArray[np.float64]

FEWEST_IMAGES = 2
"""Of a single image nothing can be said about the T2I model behind it."""


class Score(NamedTuple):
    """What every metric returns: three arrays of one shape."""

    value: FloatArray
    """The metric as a fraction or score; NaN where its denominator is empty."""

    n: CountArray
    """How many images (shares) or prompts (means over prompts) the value rests on."""

    n_left_out: CountArray
    """How many images without a verdict, or prompts without a score, had to be left out."""


def class_count(counts: CountArray) -> int:
    """How many classes (K) the attribute of a count array has.

    Args:
        counts: `[..., truth, verdict]`, both axes of length K + 2.

    Raises:
        ValueError: the two last axes are no truth and verdict axes of one attribute with two or more classes.
    """
    minimum_labels = 4
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.shape[-1] < minimum_labels:
        raise ValueError(
            f"a count array ends in two axes of the same length K + 2, K >= 2 classes; got shape {counts.shape}"
        )
    return int(counts.shape[-1]) - 2


def human_class_counts(counts: CountArray) -> CountArray:
    """Images of each class by the human labels, whatever the detector said: `[..., K]`."""
    images: CountArray = counts[..., : class_count(counts), :].sum(axis=-1)
    return images


def detector_class_counts(counts: CountArray) -> CountArray:
    """Images that the detector puts into each class, whatever the human said: `[..., K]`.

    Images that a human calls low-quality or `others` are in it: a detector cannot know.
    """
    images: CountArray = counts[..., : class_count(counts)].sum(axis=-2)
    return images


def images_without_verdict(counts: CountArray) -> CountArray:
    """Images of any human label for which the detector gave no verdict: `[...]`."""
    images: CountArray = counts[..., -1].sum(axis=-1)
    return images


def count_images(counts: CountArray) -> CountArray:
    """All images in a count array: `[...]`."""
    images: CountArray = counts.sum(axis=(-2, -1))
    return images


def divide(numerator: CountArray, denominator: CountArray) -> FloatArray:
    """Divide element by element; NaN, without a warning, where the denominator is 0 or undefined."""
    top, bottom = np.broadcast_arrays(numerator, denominator)
    quotient = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=quotient, where=(bottom != 0) & ~np.isnan(bottom))
    return quotient


def human_as_detector(human: CountArray) -> CountArray:
    """The human labels in the shape of a detector's counts: a detector that is always right.

    Args:
        human: images per human label, `[..., K + 2]` in the order of the truth axis.

    Returns:
        `[..., truth, verdict]`: images of a class are given that class, all others are filtered.
    """
    labels = human.shape[-1]
    verdict_of_label = np.eye(labels, dtype=human.dtype)
    verdict_of_label[labels - 1] = verdict_of_label[labels - 2]
    counts: CountArray = human[..., :, np.newaxis] * verdict_of_label
    return counts
