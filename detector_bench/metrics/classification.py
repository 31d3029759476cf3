"""How well a detector names the class of images that it and the human both call clear (Lyu 2025, section 3.5).

Every function takes counts `[..., truth, verdict]` and returns scores in [0, 1], higher is better.
`Score.n_left_out` counts human-clear images without a verdict. Filtered images are outside the question, but for
`alignment_accuracy`, which counts them as wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np

from detector_bench.metrics.catalogue import CLASS
from detector_bench.metrics.counts import CountArray, Score, class_count, divide
from detector_bench.metrics.declaration import metric

_metric = partial(metric, over="images", section="Class and measured value")
_LYU = "Lyu 2025, section 3.5"
_NO_VERDICT = "human-clear images without a verdict"


@_metric(
    share=True,
    source=_LYU,
    left_out=_NO_VERDICT,
    headline=4,
    compared=3,
    swept=6,
)
def accuracy(counts: CountArray) -> Score:
    """Right classes among images clear to both: images whose class is the human's / images clear to the human
    and the detector."""
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.trace(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=(-2, -1))
    return Score(divide(right, judged), judged, counts[..., :classes, -1].sum(axis=-1))


@_metric(
    "accuracy",
    per_class=True,
    share=True,
    source=_LYU,
    left_out=_NO_VERDICT,
)
def accuracy_per_class(counts: CountArray) -> Score:
    """Right classes among one class's images clear to both: the accuracy over the images of one human class.

    `[..., K]`.
    """
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=-1)
    return Score(divide(right, judged), judged, counts[..., :classes, -1])


@_metric(
    "classification_precision",
    per_class=True,
    share=True,
    rows=("scopes",),
    left_out=_NO_VERDICT,
)
def classification_precision_per_class(counts: CountArray) -> Score:
    """Right classes among one verdict's images clear to both: the accuracy over the images that the detector
    puts into one class.

    `[..., K]`. `filtering.precision` is another question. Not in the paper: it tells which class attracts the
    images of others. An image without a verdict could have come into any class, so every class counts all of
    them as left out.
    """
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    named = confusion.sum(axis=-2)
    left_out = counts[..., :classes, -1].sum(axis=-1, keepdims=True)
    return Score(divide(right, named), named, np.broadcast_to(left_out, named.shape))


@_metric(
    form="mean of shares",
    made_of=(f"accuracy_{CLASS}",),
    rows=("scopes",),
    source="ours, as in scikit-learn",
    counted="classes",
    left_out="classes without such an image",
)
def balanced_accuracy(counts: CountArray) -> Score:
    """Mean of the accuracies of the classes that have images: mean of `accuracy_<class>` over the classes with
    an image clear to both.

    Every class weighs the same, however many images it has. `Score.n` counts the classes that are averaged,
    `Score.n_left_out` those without such an image. For two or more classes the same as
    `sklearn.metrics.balanced_accuracy_score`; not in the paper.
    """
    per_class = accuracy_per_class(counts).value
    present = ~np.isnan(per_class)
    averaged = present.sum(axis=-1)
    total = np.where(present, per_class, 0).sum(axis=-1)
    return Score(divide(total, averaged), averaged, per_class.shape[-1] - averaged)


@_metric(
    share=True,
    rows=("scopes",),
    source="BIGbench, Table 2",
    left_out=_NO_VERDICT,
)
def alignment_accuracy(counts: CountArray) -> Score:
    """Right classes among human-clear images, filtered ones counted as wrong: recall times accuracy = images
    whose class is the human's / human-clear images with a verdict.

    One number for a detector that has to answer for every image (BIGbench, Table 2). BIGbench compares each
    image's answer with the human's and averages per attribute; how it counts an answer outside the classes is
    not said, and here it is wrong. `Score.n_left_out` counts the human-clear images without a verdict.
    """
    classes = class_count(counts)
    human_clear = counts[..., :classes, :]
    right = np.trace(human_clear[..., :classes], axis1=-2, axis2=-1)
    judged = human_clear[..., :-1].sum(axis=(-2, -1))
    return Score(divide(right, judged), judged, human_clear[..., -1].sum(axis=-1))


def mean_over_attributes(accuracies: Sequence[float]) -> float:
    """The last column of BIGbench's Table 2: the plain mean over attributes; NaN where one of them is missing."""
    return fmean(accuracies) if accuracies else math.nan
