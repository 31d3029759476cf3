"""How well a detector names the class of images that it and the human both call clear (Lyu 2025, section 3.5).

Every function takes counts `[..., truth, verdict]` and returns scores in [0, 1], higher is better.
`Score.n_left_out` counts human-clear images without a verdict. Filtered images are outside the question, but for
`alignment_accuracy`, which counts them as wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from detector_bench.metrics.counts import CountArray, Score, class_count, divide


def accuracy(counts: CountArray) -> Score:
    """Share of right classes over the images that human and detector both call clear."""
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.trace(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=(-2, -1))
    return Score(divide(right, judged), judged, counts[..., :classes, -1].sum(axis=-1))


def accuracy_per_class(counts: CountArray) -> Score:
    """Share of right classes among the images of each human class that the detector keeps: `[..., K]`."""
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=-1)
    return Score(divide(right, judged), judged, counts[..., :classes, -1])


def classification_precision_per_class(counts: CountArray) -> Score:
    """Share of right classes among the images that the detector puts into each class: `[..., K]`.

    Over images that both call clear; `filtering.precision` is another question. Not in the paper: it tells which
    class attracts the images of others. An image without a verdict could have come into any class, so every class
    counts all of them as left out.
    """
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    named = confusion.sum(axis=-2)
    left_out = counts[..., :classes, -1].sum(axis=-1, keepdims=True)
    return Score(divide(right, named), named, np.broadcast_to(left_out, named.shape))


def balanced_accuracy(counts: CountArray) -> Score:
    """Mean of `accuracy_per_class` over the classes that have an image clear to both.

    Every class weighs the same, however many images it has. `Score.n` counts the classes that are averaged,
    `Score.n_left_out` those without such an image. For two or more classes the same as
    `sklearn.metrics.balanced_accuracy_score`; not in the paper.
    """
    per_class = accuracy_per_class(counts).value
    present = ~np.isnan(per_class)
    averaged = present.sum(axis=-1)
    total = np.where(present, per_class, 0).sum(axis=-1)
    return Score(divide(total, averaged), averaged, per_class.shape[-1] - averaged)


def alignment_accuracy(counts: CountArray) -> Score:
    """Share of right classes among the human-clear images, a filtered image counted as wrong (BIGbench, Table 2).

    It is recall times accuracy: one number for a detector that has to answer for every image. BIGbench compares
    each image's answer with the human's and averages per attribute; how it counts an answer outside the classes
    is not said, and here it is wrong. `Score.n_left_out` counts the human-clear images without a verdict.
    """
    classes = class_count(counts)
    human_clear = counts[..., :classes, :]
    right = np.trace(human_clear[..., :classes], axis1=-2, axis2=-1)
    judged = human_clear[..., :-1].sum(axis=(-2, -1))
    return Score(divide(right, judged), judged, human_clear[..., -1].sum(axis=-1))


def mean_over_attributes(accuracies: Sequence[float]) -> float:
    """The last column of BIGbench's Table 2: the plain mean over attributes; NaN where one of them is missing."""
    return fmean(accuracies) if accuracies else math.nan
