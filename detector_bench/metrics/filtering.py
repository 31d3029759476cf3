"""How well a detector tells clear images from low-quality ones (Lyu 2025, section 3.5).

Clear is the positive class: a human label among the attribute's classes. `low_quality` is the negative one.
Images labelled `others` and images without a verdict are in neither; `Score.n_left_out` counts the latter.
Every function takes counts `[..., truth, verdict]` and returns scores in [0, 1], higher is better.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from detector_bench.metrics.counts import CountArray, Score, class_count, divide
from detector_bench.metrics.declaration import metric

_LYU = "Lyu 2025, section 3.5"
_NO_VERDICT = "clear and low-quality images without a verdict"
_CLEAR_NO_VERDICT = "human-clear images without a verdict"
_metric = partial(metric, over="images", share=True, section="Filter")


class FilterConfusion(NamedTuple):
    """The confusion of the filter, each `[...]` images; the last two count images without a verdict."""

    true_positive: CountArray
    """Clear to the human, kept by the detector."""
    false_negative: CountArray
    """Clear to the human, filtered by the detector."""
    false_positive: CountArray
    """Low-quality to the human, kept by the detector."""
    true_negative: CountArray
    """Low-quality to the human, filtered by the detector."""
    clear_left_out: CountArray
    """Clear to the human, no verdict."""
    low_quality_left_out: CountArray
    """Low-quality to the human, no verdict."""


def filter_confusion(counts: CountArray) -> FilterConfusion:
    """Reduce counts `[..., truth, verdict]` to the confusion of clear against low-quality."""
    classes = class_count(counts)
    human_clear, human_low_quality = counts[..., :classes, :], counts[..., classes, :]
    return FilterConfusion(
        true_positive=human_clear[..., :classes].sum(axis=(-2, -1)),
        false_negative=human_clear[..., classes].sum(axis=-1),
        false_positive=human_low_quality[..., :classes].sum(axis=-1),
        true_negative=human_low_quality[..., classes],
        clear_left_out=human_clear[..., -1].sum(axis=-1),
        low_quality_left_out=human_low_quality[..., -1],
    )


@_metric(
    source=_LYU,
    left_out=_NO_VERDICT,
    column="Precision",
    swept=4,
)
def precision(counts: CountArray) -> Score:
    """Human-clear share of the images kept: TP / (TP + FP)."""
    confusion = filter_confusion(counts)
    kept = confusion.true_positive + confusion.false_positive
    left_out = confusion.clear_left_out + confusion.low_quality_left_out
    return Score(divide(confusion.true_positive, kept), kept, left_out)


@_metric(
    source=_LYU,
    left_out=_CLEAR_NO_VERDICT,
    column="Recall",
    headline=3,
    swept=3,
)
def recall(counts: CountArray) -> Score:
    """Share of human-clear images kept: TP / (TP + FN)."""
    confusion = filter_confusion(counts)
    clear = confusion.true_positive + confusion.false_negative
    return Score(divide(confusion.true_positive, clear), clear, confusion.clear_left_out)


@_metric(
    "recall",
    per_class=True,
    left_out=_CLEAR_NO_VERDICT,
)
def recall_per_class(counts: CountArray) -> Score:
    """Share of one class's images kept: TP / (TP + FN) over the images of one human class.

    `[..., K]`. Not in the paper. A filter that keeps one class better than another shifts every bias score,
    even when it classifies perfectly.
    """
    classes = class_count(counts)
    human_clear = counts[..., :classes, :]
    kept = human_clear[..., :classes].sum(axis=-1)
    judged = kept + human_clear[..., classes]
    return Score(divide(kept, judged), judged, human_clear[..., -1])


@_metric(
    form="f1",
    source=_LYU,
    left_out=_NO_VERDICT,
    column="F1",
    headline=1,
    compared=1,
    swept=5,
    chooses=True,
)
def f1(counts: CountArray) -> Score:
    """Harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN); `n` is TP + FP + FN.

    These are the images that the human or the detector calls clear.
    """
    confusion = filter_confusion(counts)
    either = confusion.true_positive + confusion.false_positive + confusion.false_negative
    value = divide(2 * confusion.true_positive, either + confusion.true_positive)
    return Score(value, either, confusion.clear_left_out + confusion.low_quality_left_out)


@_metric(
    source=_LYU,
    left_out="low-quality images without a verdict",
    column="Filter rate",
    headline=2,
    compared=2,
    swept=2,
)
def filter_rate(counts: CountArray) -> Score:
    """Share of human-low-quality images filtered out: TN / (TN + FP)."""
    confusion = filter_confusion(counts)
    low_quality = confusion.true_negative + confusion.false_positive
    value = divide(confusion.true_negative, low_quality)
    return Score(value, low_quality, np.asarray(confusion.low_quality_left_out))
