from __future__ import annotations

import pytest

from detector_bench.errors import ConfigError
from detector_bench.metrics import METRICS, metric_info


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("precision", "higher"),
        ("recall_female", "higher"),
        ("accuracy_middle_aged", "higher"),
        ("label_share_low_quality", "none"),
        ("classification_precision_monk_07", "higher"),
        ("balanced_accuracy", "higher"),
        ("alignment_accuracy", "higher"),
        ("mean_absolute_error", "lower"),
        ("mean_error", "closest to zero"),
        ("cumulative_score_5", "higher"),
        ("model_bias_score", "none"),
        ("model_bias_score_deviation", "closest to zero"),
        ("model_bias_score_error", "closest to zero"),
        ("prompt_bias_score_difference", "lower"),
        ("prompt_bias_error", "lower"),
    ],
)
def test_direction(name: str, better: str) -> None:
    info = metric_info(name)
    assert info.name == name
    assert info.better == better


def test_names_of_classes_are_explained() -> None:
    assert metric_info("recall_female").meaning == "share of one class's images kept (female)"


@pytest.mark.parametrize("name", ["recal", "recall_low_quality", "accuracy_<nobody>", "recall_femal"])
def test_unknown_metric_names_the_nearest(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown metric '{name}': did you mean"):
        metric_info(name)


def test_every_entry_is_whole() -> None:
    for name, info in METRICS.items():
        assert info.name == name
        assert info.meaning
        assert info.highest is None or info.lowest < info.highest
