"""Metrics as pure functions of counts.

One contract: a metric takes an array of counts whose two last axes are

- truth: the attribute's K classes, then `low_quality`, then `others`: what the human says, K + 2 long;
- verdict: the K classes, then `filtered`, then no verdict (an error, or never run): what the detector says, K + 2
  long;

and returns a `Score` of arrays, one number for each element of the leading axes. Bias scores that average over
prompts take counts `[..., t2i_model, prompt, truth, verdict]`. A detector axis, a bootstrap axis or a threshold
axis is just one more leading axis. Counts may be weighted (floats). An empty denominator gives NaN, never 0.
"""

from __future__ import annotations

from detector_bench.benchmark import BENCHMARKS, BUILTIN
from detector_bench.metrics import estimated as _estimated  # noqa: F401 - it declares metrics
from detector_bench.metrics import refusals as _refusals  # noqa: F401 - it declares metrics
from detector_bench.metrics.bias import (
    concentration,
    model_bias_score,
    model_bias_score_actual,
    model_bias_score_deviation,
    prompt_bias_score,
    prompt_bias_score_actual,
    prompt_bias_score_difference,
    prompt_bias_score_error,
)
from detector_bench.metrics.catalogue import (
    METRICS,
    OURS,
    MetricInfo,
    NClear,
    metric_info,
    register_metrics,
    with_deviations,
)
from detector_bench.metrics.classification import (
    accuracy,
    accuracy_per_class,
    alignment_accuracy,
    balanced_accuracy,
    classification_precision_per_class,
    mean_over_attributes,
)
from detector_bench.metrics.counts import (
    CountArray,
    FloatArray,
    Score,
    class_count,
    count_images,
    detector_class_counts,
    divide,
    human_as_detector,
    human_class_counts,
    images_without_verdict,
)
from detector_bench.metrics.declaration import metric
from detector_bench.metrics.estimands import (
    concentration_corrected,
    concentration_if_fair,
    model_bias_score_corrected,
    model_bias_score_error,
    model_bias_score_if_fair,
)
from detector_bench.metrics.failing import DEFAULT_MAX_ERROR_SHARE, could_not_run, is_withheld
from detector_bench.metrics.filtering import (
    FilterConfusion,
    f1,
    filter_confusion,
    filter_rate,
    precision,
    recall,
    recall_per_class,
)
from detector_bench.metrics.image_counts import LABEL_SHARE, images_clear, label_shares
from detector_bench.metrics.joint_verdicts import JointVerdicts
from detector_bench.metrics.measured_values import cumulative_score, mean_absolute_error, mean_error
from detector_bench.metrics.prompt_bias_error import prompt_bias_error, prompt_bias_error_interval
from detector_bench.metrics.scopes import Scopes, pool

HEADLINE_METRICS = METRICS.built_in("headline")
"""The metrics that stand for a detector where only a few can be shown: the filter, the class, the bias."""

__all__ = [
    "DEFAULT_MAX_ERROR_SHARE",
    "HEADLINE_METRICS",
    "LABEL_SHARE",
    "METRICS",
    "OURS",
    "CountArray",
    "FilterConfusion",
    "FloatArray",
    "JointVerdicts",
    "MetricInfo",
    "NClear",
    "Scopes",
    "Score",
    "accuracy",
    "accuracy_per_class",
    "alignment_accuracy",
    "balanced_accuracy",
    "class_count",
    "classification_precision_per_class",
    "concentration",
    "concentration_corrected",
    "concentration_if_fair",
    "could_not_run",
    "count_images",
    "cumulative_score",
    "detector_class_counts",
    "divide",
    "f1",
    "filter_confusion",
    "filter_rate",
    "human_as_detector",
    "human_class_counts",
    "images_clear",
    "images_without_verdict",
    "is_withheld",
    "label_shares",
    "mean_absolute_error",
    "mean_error",
    "mean_over_attributes",
    "metric",
    "metric_info",
    "model_bias_score",
    "model_bias_score_actual",
    "model_bias_score_corrected",
    "model_bias_score_deviation",
    "model_bias_score_error",
    "model_bias_score_if_fair",
    "pool",
    "precision",
    "prompt_bias_error",
    "prompt_bias_error_interval",
    "prompt_bias_score",
    "prompt_bias_score_actual",
    "prompt_bias_score_difference",
    "prompt_bias_score_error",
    "recall",
    "recall_per_class",
    "register_metrics",
    "with_deviations",
]

# Benchmarks declare their metrics beside their formulas, which need what stands here.
for _name in BUILTIN:
    BENCHMARKS.get(_name).load_metrics()
