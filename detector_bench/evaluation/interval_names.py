"""What kind of number each metric of a metric table is, as far as its interval is concerned."""

from __future__ import annotations

from collections.abc import Callable

from detector_bench import metrics
from detector_bench.metrics import CountArray
from detector_bench.metrics.counts import FloatArray
from detector_bench.vocabulary import Attribute

_SHARES = ("precision", "recall", "f1", "filter_rate", "accuracy", "alignment_accuracy")
MEAN_OF_SHARES = "balanced_accuracy"
"""A mean of the shares `accuracy_<class>`."""

MEAN_OF_SHARES_PREFIX = "accuracy_"
_PER_CLASS = ("recall_", "accuracy_", "classification_precision_")
_LABEL_SHARE = "label_share_"


DEVIATION = "model_bias_score_deviation"
"""The ratio of two model bias scores, less 1."""

PROMPT_DIFFERENCE = "prompt_bias_score_difference"
CORRECTED = ("model_bias_score_corrected", "model_bias_score_error")
"""Have no bounds that their scatter would respect: prompts of few images can come out above 1 or below -1."""


def is_share(metric: str) -> bool:
    """Whether a metric is a share of images (F1 counts as one: it is a function of the share TP / (TP + FP +
    FN))."""
    return metric in _SHARES or metric.startswith((*_PER_CLASS, _LABEL_SHARE))


def resampled_name(metric: str, attribute: Attribute) -> str:
    """How `metrics.bootstrap` calls a metric: classes and labels by number."""
    for prefix in (*_PER_CLASS, _LABEL_SHARE):
        if metric.startswith(prefix):
            return f"{prefix}{attribute.labels.index(metric.removeprefix(prefix))}"
    return metric


def over_images(metric: str, attribute: Attribute) -> Callable[[CountArray], FloatArray] | None:
    """A metric as a function of pooled counts `[..., truth, verdict]`; None for means over prompts."""
    prefix = next((each for each in (*_PER_CLASS, _LABEL_SHARE) if metric.startswith(each)), None)
    if prefix is not None:
        index = attribute.labels.index(metric.removeprefix(prefix))
        function = {
            "recall_": metrics.recall_per_class,
            "accuracy_": metrics.accuracy_per_class,
            "classification_precision_": metrics.classification_precision_per_class,
            _LABEL_SHARE: metrics.label_shares,
        }[prefix]
        return lambda counts: function(counts).value[..., index]
    if metric not in (*_SHARES, MEAN_OF_SHARES):
        return None
    whole: Callable[[CountArray], metrics.Score] = getattr(metrics, metric)
    return lambda counts: whole(counts).value
