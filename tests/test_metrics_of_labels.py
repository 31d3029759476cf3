"""Metrics of plain labels: as scikit-learn has them, as the metric table has them, and by hand."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stored_study import FAILED, Picture, Said, filtered, kept, write_study

from detector_bench.metrics import of_labels

TRUTH = ["male", "female", "low_quality", "others", None]
VERDICTS = ["male", "female", "filtered", None]


def made_up(seed: int, images: int = 200) -> tuple[pd.Series, pd.Series, pd.Series]:
    random = np.random.default_rng(seed)
    columns = (random.choice(np.array(words, dtype=object), images) for words in (TRUTH, VERDICTS))
    return *(pd.Series(column, dtype=object) for column in columns), pd.Series(
        random.choice(["nurse", "chef", "dj"], images)
    )


def test_the_example_of_the_module() -> None:
    done = doctest.testmod(of_labels)
    assert (done.attempted, done.failed) == (4, 0)


@pytest.mark.parametrize("seed", range(3))
def test_filtering_and_accuracy_are_those_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, verdict, _ = made_up(seed)
    # A verdict is needed to compare, and `others` are neither clear nor low-quality.
    judged = truth.isin(["male", "female", "low_quality"]) & verdict.notna()
    clear, keeps = (each[judged].isin(["male", "female"]) for each in (truth, verdict))
    for name in ("precision", "recall", "f1"):
        expected = getattr(metrics, f"{name}_score")(clear, keeps)
        assert getattr(of_labels, name)(truth, verdict) == pytest.approx(expected), name
    assert of_labels.filter_rate(truth, verdict) == pytest.approx(metrics.recall_score(~clear, ~keeps))
    both = judged & truth.isin(["male", "female"]) & verdict.isin(["male", "female"])
    for name in ("accuracy", "balanced_accuracy"):
        expected = getattr(metrics, f"{name}_score")(truth[both], verdict[both])
        assert getattr(of_labels, name)(list(truth), verdict.to_numpy()) == pytest.approx(expected), name


def test_they_are_the_numbers_of_the_metric_table(tmp_path: Path) -> None:
    truth, verdict, prompts = made_up(9)
    pictures = [
        Picture(f"i{number}", "alpha", prompt, (label or "",))
        for number, (label, prompt) in enumerate(zip(truth, prompts, strict=True))
    ]

    def said(label: str | None) -> Said:
        return FAILED if label is None else filtered() if label == "filtered" else kept(label)

    verdicts = {picture.image_id: said(label) for picture, label in zip(pictures, verdict, strict=True)}
    results = write_study(tmp_path, pictures, dict.fromkeys(["nurse", "chef", "dj"], "job"), {"net": verdicts})
    for name in ("precision", "recall", "f1", "filter_rate", "accuracy"):
        assert getattr(of_labels, name)(truth, verdict) == results.number(name, detector="net").value
    for name in ("model_bias_score", "model_bias_score_deviation", "prompt_bias_score_difference"):
        found = getattr(of_labels, name)(truth, verdict, groups=prompts)
        assert found == results.number(name, detector="net").value, name
    actual = of_labels.model_bias_score(truth, truth, groups=prompts)
    assert actual == results.number("model_bias_score").value
    for prompt, score in of_labels.prompt_bias_scores(truth, verdict, groups=prompts).items():
        place = {"t2i_model": "alpha", "category": "job", "prompt_id": prompt}
        assert score == results.number("prompt_bias_score", detector="net", **place).value


def test_classes_decide_the_sign_and_what_even_shares_are() -> None:
    truth, groups = ["a", "a", "a", "b"], ["p"] * 4
    first = of_labels.prompt_bias_scores(truth, truth, groups=groups)
    assert first.to_dict() == {"p": 0.5}
    assert of_labels.prompt_bias_scores(truth, truth, groups=groups, classes=["b", "a"]).to_dict() == {"p": -0.5}
    two, three = (
        of_labels.model_bias_score(truth, truth, groups=groups, classes=classes) for classes in ("ab", "abc")
    )
    assert two != three


def test_nothing_to_divide_by_is_nan() -> None:
    assert math.isnan(of_labels.filter_rate(["male"], ["male"]))
    assert math.isnan(of_labels.accuracy([], []))
    assert math.isnan(of_labels.accuracy([None], ["male"]))


@pytest.mark.parametrize(
    ("truth", "verdict", "more", "message"),
    [
        (["male"], ["male", "male"], {}, "1 true labels, 2 predicted ones and 1 groups"),
        (["male"], ["mail"], {"classes": ["male", "female"]}, "unknown label 'mail' .accepted: male, female"),
        (["filtered"], ["male"], {}, "unknown label 'filtered'"),
        (["cat"], ["cat"], {}, "the class 'cat' alone is no attribute"),
    ],
)
def test_mistakes(truth: list[str], verdict: list[str], more: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        of_labels.accuracy(truth, verdict, **more)
