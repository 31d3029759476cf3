"""Every metric that a metric table can hold: what it means, its range, and which direction is better."""

from __future__ import annotations

import math

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics.metric_info import MetricInfo
from detector_bench.metrics.score_catalogue import SCORE_METRICS
from detector_bench.vocabulary import ATTRIBUTES

CLASS = "<class>"
"""Stands for a class of the attribute in the names of metrics that exist once per class."""

LABEL = "<label>"
"""Stands for a human label (a class, low_quality or others) in the names of metrics that exist once per label."""

METRICS: dict[str, MetricInfo] = {
    info.name: info
    for info in (
        MetricInfo("images", "human-labelled images", 0, None, "none", "count", "images"),
        MetricInfo(
            "images_unlabelled", "images without a human label, left out", 0, None, "none", "count", "images"
        ),
        MetricInfo("images_others", "images with the human label 'others'", 0, None, "none", "count", "images"),
        MetricInfo("images_clear", "labelled images judged clear", 0, None, "none", "count", "images"),
        MetricInfo("images_filtered", "labelled images filtered out", 0, None, "none", "count", "images"),
        MetricInfo(
            "images_error",
            "labelled images on which the detector failed",
            0,
            None,
            "lower",
            "count",
            "images",
        ),
        MetricInfo("images_not_run", "labelled images without a prediction", 0, None, "lower", "count", "images"),
        MetricInfo(f"label_share_{LABEL}", "share of one human label", 0, 1, "none", "fraction", "images"),
        MetricInfo("precision", "human-clear share of the images kept", 0, 1, "higher", "fraction", "images"),
        MetricInfo("recall", "share of human-clear images kept", 0, 1, "higher", "fraction", "images"),
        MetricInfo(f"recall_{CLASS}", "share of one class's images kept", 0, 1, "higher", "fraction", "images"),
        MetricInfo("f1", "harmonic mean of precision and recall", 0, 1, "higher", "fraction", "images"),
        MetricInfo(
            "filter_rate",
            "share of human-low-quality images filtered out",
            0,
            1,
            "higher",
            "fraction",
            "images",
        ),
        MetricInfo("accuracy", "right classes among images clear to both", 0, 1, "higher", "fraction", "images"),
        MetricInfo(
            f"accuracy_{CLASS}",
            "right classes among one class's images clear to both",
            0,
            1,
            "higher",
            "fraction",
            "images",
        ),
        MetricInfo(
            f"classification_precision_{CLASS}",
            "right classes among one verdict's images clear to both",
            0,
            1,
            "higher",
            "fraction",
            "images",
        ),
        MetricInfo(
            "balanced_accuracy",
            "mean of the accuracies of the classes that have images",
            0,
            1,
            "higher",
            "fraction",
            "classes",
        ),
        MetricInfo(
            "alignment_accuracy",
            "right classes among human-clear images, filtered ones counted as wrong",
            0,
            1,
            "higher",
            "fraction",
            "images",
        ),
        MetricInfo(
            "mean_absolute_error",
            "mean distance between the detector's and the human's value, in the attribute's unit",
            0,
            None,
            "lower",
            "measurement",
            "images",
        ),
        MetricInfo(
            "mean_error",
            "mean of the detector's minus the human's value, in the attribute's unit",
            -math.inf,
            None,
            "closest to zero",
            "measurement",
            "images",
        ),
        MetricInfo(
            "cumulative_score_5",
            "share of images with an age at most 5 years from the human's",
            0,
            1,
            "higher",
            "fraction",
            "images",
        ),
        MetricInfo(
            "model_bias_score",
            "mean distance from equal classes per prompt, as reported",
            0,
            1,
            "none",
            "score",
            "prompts",
        ),
        MetricInfo(
            "model_bias_score_actual",
            "mean distance from equal classes per prompt, by the human labels",
            0,
            1,
            "none",
            "score",
            "prompts",
        ),
        MetricInfo(
            "model_bias_score_corrected",
            "model bias score without what chance adds: an estimate for endlessly many images (below 0 by chance)",
            -1,
            1,
            "none",
            "score",
            "prompts",
        ),
        MetricInfo(
            "model_bias_score_if_fair",
            "model bias score that a fair T2I model would show on average with as many clear images",
            0,
            1,
            "none",
            "score",
            "prompts",
        ),
        MetricInfo(
            "model_bias_score_deviation",
            "reported minus actual model bias score, as a part of the actual one",
            -1,
            None,
            "closest to zero",
            "fraction",
            "prompts",
        ),
        MetricInfo(
            "prompt_bias_score",
            "balance of the first against the second class, as reported (can leave its range with n_clear human)",
            -1,
            1,
            "none",
            "score",
            "images",
        ),
        MetricInfo(
            "prompt_bias_score_actual",
            "balance of the first against the second class, by the human labels",
            -1,
            1,
            "none",
            "score",
            "images",
        ),
        MetricInfo(
            "prompt_bias_score_difference",
            "mean distance between reported and actual prompt bias scores (can exceed 2 with n_clear human)",
            0,
            2,
            "lower",
            "score",
            "prompts",
        ),
        *SCORE_METRICS,
    )
}
"""By name; `<class>` and `<label>` in a name stand for each class or label of the attribute."""


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
    return MetricInfo(
        name, f"{info.meaning} ({word})", info.lowest, info.highest, info.better, info.kind, info.counted
    )


_PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    CLASS: tuple(dict.fromkeys(word for attribute in ATTRIBUTES.values() for word in attribute.classes)),
    LABEL: tuple(dict.fromkeys(word for attribute in ATTRIBUTES.values() for word in attribute.labels)),
}
