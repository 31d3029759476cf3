"""From a network's numbers to a verdict, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from detector_bench.detectors.reading import AgeReading, BinaryReading, ClassReading, Reading, Verdict, age_group
from detector_bench.errors import ConfigError

GENDER = ("male", "female")


def classes(numbers: list[float], **settings: object) -> Verdict:
    return ClassReading.model_validate({"output": "o", "classes": GENDER, **settings}).verdict(np.float32(numbers))


def binary(number: float, **settings: object) -> Verdict:
    return BinaryReading.model_validate({"output": "o", "classes": GENDER, **settings}).verdict(
        np.array([number], np.float64)
    )


def age(numbers: list[float], **settings: object) -> Verdict:
    return AgeReading.model_validate({"output": "o", **settings}).verdict(np.array(numbers))


@pytest.mark.parametrize(
    ("numbers", "label", "score"),
    [([0.25, 0.75], "female", 0.75), ([0.75, 0.25], "male", 0.75), ([0.5, 0.5], "male", 0.5), ([0, 0], "male", 0)],
)
def test_largest_class_wins_and_the_first_of_equals(numbers: list[float], label: str, score: float) -> None:
    assert classes(numbers) == Verdict(label, score)


def test_softmax_of_numbers_of_any_size() -> None:
    label, score, *_ = classes([1.0, 2.0], activation="softmax")
    assert label == "female"
    assert score == pytest.approx(math.e / (1 + math.e))
    assert classes([-1000.0, 1000.0], activation="softmax") == Verdict("female", 1.0)
    assert classes([3e4, 3e4], activation="softmax") == Verdict("male", 0.5)


@pytest.mark.parametrize(("score", "uncertain"), [(0.75, False), (0.76, True), (0.0, False), (1.0, True)])
def test_winner_below_the_lowest_score_is_uncertain(score: float, uncertain: bool) -> None:
    assert classes([0.25, 0.75], min_score=score).uncertain is uncertain
    assert binary(0.75, min_score=score).uncertain is uncertain
    assert binary(0.25, min_score=score).uncertain is uncertain


def test_class_uncertain_is_no_label() -> None:
    reading = ClassReading(output="o", classes=("male", "female", "uncertain"))
    assert reading.labels == GENDER
    assert reading.verdict(np.array([0.3, 0.2, 0.5])).uncertain
    assert reading.verdict(np.array([0.5, 0.2, 0.3])) == Verdict("male", 0.5)


@pytest.mark.parametrize(
    ("number", "threshold", "label", "score"),
    [
        (0.75, 0.5, "male", 0.75),
        (0.25, 0.5, "female", 0.75),
        (0.5, 0.5, "female", 0.5),  # the first class must be above the threshold
        (0.75, 0.9, "female", 0.25),
        (0.25, 0.125, "male", 0.25),
        (0.0, 0.5, "female", 1.0),
        (1.0, 0.5, "male", 1.0),
    ],
)
def test_one_number_is_the_first_class(number: float, threshold: float, label: str, score: float) -> None:
    assert binary(number, threshold=threshold) == Verdict(label, score)


def test_sigmoid_of_numbers_of_any_size(recwarn: pytest.WarningsRecorder) -> None:
    assert binary(math.log(3), activation="sigmoid").score == pytest.approx(0.75)
    assert binary(-math.log(3), activation="sigmoid") == Verdict("female", pytest.approx(0.75))
    assert binary(-1000.0, activation="sigmoid") == Verdict("female", 1.0)
    assert binary(1000.0, activation="sigmoid") == Verdict("male", 1.0)
    assert binary(0.0, activation="sigmoid") == Verdict("female", 0.5)
    assert not recwarn.list


def test_rounding_over_the_end_of_the_scale_is_taken_back() -> None:
    assert classes([-1e-7, 1 + 1e-6]) == Verdict("female", 1.0)
    assert binary(1 + 1e-6) == Verdict("male", 1.0)


@pytest.mark.parametrize("strange", [1.1, -0.1, 7.0, float("nan"), float("inf")])
def test_numbers_that_are_no_probabilities_are_refused(strange: float) -> None:
    for attempt in (lambda: classes([strange, 0.5]), lambda: binary(strange), lambda: age([strange, 0.5])):
        with pytest.raises(ConfigError, match=r"'o' holds .*, which is no probability: set its `activation`"):
            attempt()


@pytest.mark.parametrize("numbers", [[0.2], [0.2, 0.3, 0.5], []])
def test_wrong_number_of_classes_is_refused(numbers: list[float]) -> None:
    with pytest.raises(ConfigError, match=rf"'o' has {len(numbers)} numbers for 2 classes"):
        classes(numbers)


def test_expected_age() -> None:
    # 0.25 x 29 + 0.5 x 30 + 0.25 x 31 = 30, which belongs to the older group.
    assert age([0.25, 0.5, 0.25], first_age=29) == Verdict("middle_aged", value=30.0)
    assert age([0.5, 0.5, 0.0], first_age=29) == Verdict("young", value=29.5)
    assert age([0.0, 0.0, 1.0], first_age=58) == Verdict("elderly", value=60.0)
    assert age([0.5, 0.5]) == Verdict("young", value=0.5)


def test_expected_age_of_raw_numbers() -> None:
    assert age([0.0, math.log(3)], first_age=40, activation="softmax").value == pytest.approx(40.75)


def test_own_age_groups() -> None:
    verdict = age([0.0] * 18 + [1.0], groups=("young", "elderly"), bounds=(18,))
    assert verdict == Verdict("elderly", value=18.0)


def test_numbers_that_are_no_distribution_of_ages_are_refused() -> None:
    with pytest.raises(ConfigError, match="'o' has one number where one for each year of age is expected"):
        age([0.31])
    with pytest.raises(ConfigError, match=r"'o' adds up to 1\.4, where probabilities of ages add up to 1"):
        age([0.7, 0.7])


def test_a_bound_belongs_to_the_older_group() -> None:
    groups = ("young", "middle_aged", "elderly")
    years = [0, 29.999, 30, 59.999, 60, 100]
    found = [age_group(each, groups=groups, bounds=(30.0, 60.0)) for each in years]
    assert found == ["young", "young", "middle_aged", "middle_aged", "elderly", "elderly"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": "classes", "output": "o", "classes": ["male"]},
        {"read": "classes", "output": "o", "classes": GENDER, "min_score": 1.5},
        {"read": "classes", "output": "o", "classes": GENDER, "activation": "sigmoid"},
        {"read": "classes", "classes": GENDER},
        {"read": "binary", "output": "o", "classes": ["male", "female", "uncertain"]},
        {"read": "binary", "output": "o", "classes": GENDER, "threshold": -0.1},
        {"read": "age", "output": "o", "bounds": [30.0]},
        {"read": "age", "output": "o", "bounds": [60.0, 30.0]},
        {"read": "age", "output": "o", "bounds": [30.0, 30.0]},
        {"read": "mood", "output": "o"},
    ],
)
def test_wrong_readings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Reading).validate_python(wrong)
