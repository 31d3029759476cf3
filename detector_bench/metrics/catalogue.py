"""Every metric that a metric table can hold: what it means, its range, and which direction is better."""

from __future__ import annotations

import math
from dataclasses import replace

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics.bias_catalogue import BIAS_METRICS
from detector_bench.metrics.metric_info import OURS, MetricInfo
from detector_bench.vocabulary import ATTRIBUTES

CLASS = "<class>"
"""Stands for a class of the attribute in the names of metrics that exist once per class."""

LABEL = "<label>"
"""Stands for a human label (a class, low_quality or others) in the names of metrics that exist once per label."""

_EXACT = "a number of these very images"
_LYU_FILTER = "Lyu 2025, section 3.5"
_NO_VERDICT = "clear and low-quality images without a verdict"
_CLEAR_NO_VERDICT = "human-clear images without a verdict"
_NO_VALUE = "images with the human's value alone"

IMAGE_COUNTS: tuple[MetricInfo, ...] = (
    MetricInfo(
        name="images",
        meaning="human-labelled images",
        definition="images with a human label of the attribute",
        source=OURS,
        lowest=0,
        highest=None,
        better="none",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_unlabelled",
        meaning="images without a human label, left out",
        definition="images without a human label of the attribute",
        source=OURS,
        lowest=0,
        highest=None,
        better="none",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_others",
        meaning="images with the human label 'others'",
        definition="images labelled `others`; they are in no other metric but a detector's bias scores",
        source=OURS,
        lowest=0,
        highest=None,
        better="none",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_clear",
        meaning="labelled images judged clear",
        definition="images with the verdict `clear`; of the human labels: with a class",
        source=OURS,
        lowest=0,
        highest=None,
        better="none",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_filtered",
        meaning="labelled images filtered out",
        definition="images with the verdict `filtered`",
        source=OURS,
        lowest=0,
        highest=None,
        better="none",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_error",
        meaning="labelled images on which the detector failed",
        definition="images with the verdict `error`",
        source=OURS,
        lowest=0,
        highest=None,
        better="lower",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name="images_not_run",
        meaning="labelled images without a prediction",
        definition="labelled images that have no row in the predictions",
        source=OURS,
        lowest=0,
        highest=None,
        better="lower",
        kind="count",
        counted="images",
        no_interval=_EXACT,
    ),
    MetricInfo(
        name=f"label_share_{LABEL}",
        meaning="share of one human label",
        definition="images with the label / labelled images",
        source=OURS,
        lowest=0,
        highest=1,
        better="none",
        kind="fraction",
        counted="images",
        left_out="images without a human label",
    ),
)
"""What the human labels and the verdicts are."""

FILTER_METRICS: tuple[MetricInfo, ...] = (
    MetricInfo(
        name="precision",
        meaning="human-clear share of the images kept",
        definition="TP / (TP + FP)",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_NO_VERDICT,
    ),
    MetricInfo(
        name="recall",
        meaning="share of human-clear images kept",
        definition="TP / (TP + FN)",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name=f"recall_{CLASS}",
        meaning="share of one class's images kept",
        definition="TP / (TP + FN) over the images of one human class",
        source=OURS,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name="f1",
        meaning="harmonic mean of precision and recall",
        definition="2 TP / (2 TP + FP + FN); `n` is TP + FP + FN",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_NO_VERDICT,
    ),
    MetricInfo(
        name="filter_rate",
        meaning="share of human-low-quality images filtered out",
        definition="TN / (TN + FP)",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out="low-quality images without a verdict",
    ),
)
"""Which images are clear enough to judge."""

CLASS_METRICS: tuple[MetricInfo, ...] = (
    MetricInfo(
        name="accuracy",
        meaning="right classes among images clear to both",
        definition="images whose class is the human's / images clear to the human and the detector",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name=f"accuracy_{CLASS}",
        meaning="right classes among one class's images clear to both",
        definition="the accuracy over the images of one human class",
        source=_LYU_FILTER,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name=f"classification_precision_{CLASS}",
        meaning="right classes among one verdict's images clear to both",
        definition="the accuracy over the images that the detector puts into one class",
        source=OURS,
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name="balanced_accuracy",
        meaning="mean of the accuracies of the classes that have images",
        definition="mean of `accuracy_<class>` over the classes with an image clear to both",
        source="ours, as in scikit-learn",
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="classes",
        left_out="classes without such an image",
    ),
    MetricInfo(
        name="alignment_accuracy",
        meaning="right classes among human-clear images, filtered ones counted as wrong",
        definition="recall times accuracy = images whose class is the human's / human-clear images with a verdict",
        source="BIGbench, Table 2",
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_CLEAR_NO_VERDICT,
    ),
    MetricInfo(
        name="mean_absolute_error",
        meaning="mean distance between the detector's and the human's value, in the attribute's unit",
        definition="mean of |e|, e the detector's value minus the human's",
        source="common in age estimation",
        lowest=0,
        highest=None,
        better="lower",
        kind="measurement",
        counted="images",
        left_out=_NO_VALUE,
    ),
    MetricInfo(
        name="mean_error",
        meaning="mean of the detector's minus the human's value, in the attribute's unit",
        definition="mean of e; above 0 the detector's values are too high",
        source="common in age estimation",
        lowest=-math.inf,
        highest=None,
        better="closest to zero",
        kind="measurement",
        counted="images",
        left_out=_NO_VALUE,
    ),
    MetricInfo(
        name="cumulative_score_5",
        meaning="share of images with an age at most 5 years from the human's",
        definition="images with |e| ≤ 5 years / images with both values",
        source="common in age estimation, as CS(5)",
        lowest=0,
        highest=1,
        better="higher",
        kind="fraction",
        counted="images",
        left_out=_NO_VALUE,
    ),
)
"""What a clear image shows: a class, or a measured value."""

METRICS: dict[str, MetricInfo] = {
    info.name: info for info in (*IMAGE_COUNTS, *FILTER_METRICS, *CLASS_METRICS, *BIAS_METRICS)
}
"""By name; `<class>` and `<label>` in a name stand for each class or label of the attribute."""


def register_metrics(*infos: MetricInfo) -> None:
    """Add metrics to the catalogue, such as those of a score system; the same one may come again.

    Raises:
        ConfigError: a name is taken by another metric.
    """
    for info in infos:
        if METRICS.setdefault(info.name, info) != info:
            raise ConfigError(f"metric {info.name!r} is registered twice, with different entries")


def metric_info(name: str) -> MetricInfo:
    """Look a metric up, class-specific names such as `recall_female` included.

    Raises:
        ConfigError: no such metric; the message names the nearest known ones.
    """
    if name in METRICS:
        return METRICS[name]
    known = {
        pattern.replace(placeholder, word): (pattern, word)
        for pattern in METRICS
        for placeholder, words in _PLACEHOLDERS.items()
        if placeholder in pattern
        for word in words
    }
    if name not in known:
        plain = [pattern for pattern in METRICS if "<" not in pattern]
        raise ConfigError(f"unknown metric {name!r}: {nearest_hint(name, [*plain, *known])}")
    pattern, word = known[name]
    info = METRICS[pattern]
    return replace(info, name=name, meaning=f"{info.meaning} ({word})")


_PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    CLASS: tuple(dict.fromkeys(word for attribute in ATTRIBUTES.values() for word in attribute.classes)),
    LABEL: tuple(dict.fromkeys(word for attribute in ATTRIBUTES.values() for word in attribute.labels)),
}
