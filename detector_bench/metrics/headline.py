"""The metrics that stand for a detector where only a few can be shown."""

from __future__ import annotations

HEADLINE_METRICS = (
    "f1",
    "filter_rate",
    "recall",
    "accuracy",
    "model_bias_score",
    "model_bias_score_deviation",
    "model_bias_score_error",
    "prompt_bias_score_difference",
    "prompt_bias_error",
)
"""Names in the metric catalogue, in the order in which readers meet them: the filter, the class, the bias."""
