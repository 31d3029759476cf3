"""What tables call a metric where it heads a row or a column of its own."""

from __future__ import annotations

METRIC_HEADINGS = {
    "f1": "F1 (%)",
    "filter_rate": "Filter rate (%)",
    "accuracy": "Accuracy (%)",
    "precision": "Precision (%)",
    "recall": "Recall (%)",
    "model_bias_score": "Model bias score",
    "model_bias_score_deviation": "Model bias score deviation (%)",
    "model_bias_score_error": "Model bias score error",
    "prompt_bias_score_difference": "Prompt bias score difference",
    "prompt_bias_error": "Prompt bias error",
}
"""By name in the metric catalogue; fractions are printed in per cent."""
