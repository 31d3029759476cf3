"""From a network's numbers to a verdict, worked out by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from detector_bench.detectors.reading import (
    AgeReading,
    BinaryReading,
    BinsReading,
    ClassReading,
    NetworkVerdict,
    Reading,
    age_group,
)
from detector_bench.errors import ConfigError

GENDER = ("male", "female")


def classes(numbers: list[float], **settings: object) -> NetworkVerdict:
    return ClassReading.model_validate({"output": "o", "classes": GENDER, **settings}).verdict(np.float32(numbers))


def binary(number: float, **settings: object) -> NetworkVerdict:
    return BinaryReading.model_validate({"output": "o", "classes": GENDER, **settings}).verdict(
        np.array([number], np.float64)
    )


def age(numbers: list[float], **settings: object) -> NetworkVerdict:
    return AgeReading.model_validate({"output": "o", **settings}).verdict(np.array(numbers))


@pytest.mark.parametrize(
    ("numbers", "label", "score"),
    [([0.25, 0.75], "female", 0.75), ([0.75, 0.25], "male", 0.75), ([0.5, 0.5], "male", 0.5), ([0, 0], "male", 0)],
)
def test_largest_class_wins_and_the_first_of_equals(numbers: list[float], label: str, score: float) -> None:
    assert classes(numbers) == NetworkVerdict(label, score)


def test_softmax_of_numbers_of_any_size() -> None:
    label, score, *_ = classes([1.0, 2.0], activation="softmax")
    assert label == "female"
    assert score == pytest.approx(math.e / (1 + math.e))
    assert classes([-1000.0, 1000.0], activation="softmax") == NetworkVerdict("female", 1.0)
    assert classes([3e4, 3e4], activation="softmax") == NetworkVerdict("male", 0.5)


@pytest.mark.parametrize(("score", "uncertain"), [(0.75, False), (0.76, True), (0.0, False), (1.0, True)])
def test_winner_below_the_lowest_score_is_uncertain(score: float, uncertain: bool) -> None:
    assert classes([0.25, 0.75], min_score=score).uncertain is uncertain
    assert binary(0.75, min_score=score).uncertain is uncertain
    assert binary(0.25, min_score=score).uncertain is uncertain


def test_class_uncertain_is_no_label() -> None:
    reading = ClassReading(output="o", classes=("male", "female", "uncertain"))
    assert reading.labels == GENDER
    assert reading.verdict(np.array([0.3, 0.2, 0.5])).uncertain
    assert reading.verdict(np.array([0.5, 0.2, 0.3])) == NetworkVerdict("male", 0.5)


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
    assert binary(number, threshold=threshold) == NetworkVerdict(label, score)


def test_sigmoid_of_numbers_of_any_size(recwarn: pytest.WarningsRecorder) -> None:
    assert binary(math.log(3), activation="sigmoid").score == pytest.approx(0.75)
    assert binary(-math.log(3), activation="sigmoid") == NetworkVerdict("female", pytest.approx(0.75))
    assert binary(-1000.0, activation="sigmoid") == NetworkVerdict("female", 1.0)
    assert binary(1000.0, activation="sigmoid") == NetworkVerdict("male", 1.0)
    assert binary(0.0, activation="sigmoid") == NetworkVerdict("female", 0.5)
    assert not recwarn.list


def test_rounding_over_the_end_of_the_scale_is_taken_back() -> None:
    assert classes([-1e-7, 1 + 1e-6]) == NetworkVerdict("female", 1.0)
    assert binary(1 + 1e-6) == NetworkVerdict("male", 1.0)


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
    assert age([0.25, 0.5, 0.25], first_age=29) == NetworkVerdict("middle_aged", value=30.0)
    assert age([0.5, 0.5, 0.0], first_age=29) == NetworkVerdict("young", value=29.5)
    assert age([0.0, 0.0, 1.0], first_age=58) == NetworkVerdict("elderly", value=60.0)
    assert age([0.5, 0.5]) == NetworkVerdict("young", value=0.5)


def test_expected_age_of_raw_numbers() -> None:
    assert age([0.0, math.log(3)], first_age=40, activation="softmax").value == pytest.approx(40.75)


def test_own_age_groups() -> None:
    verdict = age([0.0] * 18 + [1.0], groups=("young", "elderly"), bounds=(18,))
    assert verdict == NetworkVerdict("elderly", value=18.0)


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


def test_expected_age_over_the_likeliest_ages() -> None:
    # (0.3 x 20 + 0.5 x 24) / 0.8 = 22.5; of all three, 0.3 x 20 + 0.2 x 22 + 0.5 x 24 = 22.4
    shares = [0.3, 0.0, 0.2, 0.0, 0.5]
    assert age(shares, first_age=20, likeliest=2).value == pytest.approx(22.5)
    assert age(shares, first_age=20, likeliest=1).value == 24
    assert age(shares, first_age=20, likeliest=9).value == pytest.approx(22.4)
    assert age(shares, first_age=20).value == pytest.approx(22.4)
    assert age([0.25, 0.25, 0.25, 0.25], likeliest=2).value == 0.5  # the younger of equals


# The network's own words


def mapped(numbers: list[float], **settings: object) -> NetworkVerdict:
    reading = ClassReading.model_validate({"output": "o", "taxonomy": "gear_race5", **settings})
    return reading.verdict(np.array(numbers))


def test_the_networks_words_become_ours_and_stay_in_raw() -> None:
    found = mapped([0.1, 0.05, 0.25, 0.5, 0.1])  # white, black, asian, indian, other
    assert found[:5] == ("south_asian", 0.5, None, False, False)
    assert found.reason is None
    assert json.loads(found.raw or "") == {
        "answer": "indian",
        "probabilities": {"white": 0.1, "black": 0.05, "asian": 0.25, "indian": 0.5, "other": 0.1},
    }
    assert mapped([0.0, math.log(2), math.log(4), 0.0, 0.0], activation="softmax").score == pytest.approx(4 / 9)


def test_a_word_without_a_class_filters_and_keeps_the_answer() -> None:
    found = mapped([0.2, 0.1, 0.1, 0.2, 0.4], min_score=0.9)
    assert (found.label, found.score, found.outside, found.reason) == ("other", None, True, "other_class")
    assert json.loads(found.raw or "")["answer"] == "other"


def test_a_winner_below_the_lowest_score_is_uncertain_and_keeps_the_answer() -> None:
    found = mapped([0.2, 0.1, 0.1, 0.5, 0.1], min_score=0.6)
    assert (found.score, found.reason) == (0.5, "uncertain")
    assert json.loads(found.raw or "")["answer"] == "indian"


OWN = {"a": "white", "b": "black", "c": "black", "d": None, "e": None}


@pytest.mark.parametrize(
    ("numbers", "word", "by_class"),
    [
        # a is the likeliest word; b and c add up to more.
        ([0.4, 0.3, 0.25, 0.05, 0.0], ("white", 0.4), ("black", 0.55)),
        # d and e together are likelier than any class, but neither is the likeliest word.
        ([0.0, 0.4, 0.0, 0.25, 0.35], ("black", 0.4), ("e", None)),
        # d is the likeliest word; b and c add up to more than all that is outside.
        ([0.0, 0.28, 0.32, 0.4, 0.0], ("d", None), ("black", 0.6)),
        # Equals: the first.
        ([0.5, 0.25, 0.25, 0.0, 0.0], ("white", 0.5), ("white", 0.5)),
    ],
)
def test_the_likeliest_word_or_the_likeliest_class(
    numbers: list[float], word: tuple[str, float | None], by_class: tuple[str, float | None]
) -> None:
    for decide, expected in (("likeliest_word", word), ("likeliest_class", by_class)):
        found = mapped(numbers, taxonomy=OWN, decide=decide)
        assert (found.label, found.score) == (expected[0], expected[1] and pytest.approx(expected[1])), decide


def test_labels_are_those_that_a_word_means() -> None:
    reading = ClassReading.model_validate({"output": "o", "taxonomy": "gear_race5"})
    assert reading.labels == ("white", "black", "east_asian", "south_asian")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0.5, 0.5], "'o' has 2 numbers for 5 classes"),
        ([1, 1, 0, 0, 0], r"'o' adds up to 2, where probabilities of words add up to 1"),
        ([7, 1, 0, 0, 0], "'o' holds 7, which is no probability: set its `activation`"),
    ],
)
def test_numbers_that_are_no_probabilities_of_the_words_are_refused(numbers: list[float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mapped(numbers)
    bins = BinsReading.model_validate(
        {"output": "o", "taxonomy": {f"bin {i}": "young" for i in range(5)}, "years": [1, 2, 3, 4, 5]}
    )
    with pytest.raises(ConfigError, match=message):
        bins.verdict(np.array(numbers))


# Bins of ages


def bins(numbers: list[float], **settings: object) -> NetworkVerdict:
    reading = BinsReading.model_validate({"output": "o", "taxonomy": "gear_age7", **settings})
    return reading.verdict(np.array(numbers))


def test_bins_add_up_to_a_group_and_average_to_years() -> None:
    # Young 0.1 + 0.2 + 0.2, middle-aged 0.4, elderly 0.1; the likeliest bin is 31-40.
    shares = [0.1, 0.2, 0.2, 0.4, 0.0, 0.0, 0.1]
    found = bins(shares)
    assert (found.label, found.score) == ("young", pytest.approx(0.5))
    # 0.1 x 15 + 0.2 x 23 + 0.2 x 28 + 0.4 x 35.5 + 0.1 x 65 = 1.5 + 4.6 + 5.6 + 14.2 + 6.5
    assert found.value == pytest.approx(32.4)
    assert json.loads(found.raw or "")["answer"] == "31-40"
    likeliest = bins(shares, decide="likeliest_word")
    assert (likeliest.label, likeliest.score) == ("middle_aged", pytest.approx(0.4))
    assert likeliest.value == found.value


def test_years_end_with_the_last_bin() -> None:
    assert bins([0, 0, 0, 0, 0, 0, 1])[:3] == ("elderly", 1.0, 65.0)
    assert bins([1, 0, 0, 0, 0, 0, 0])[:3] == ("young", 1.0, 15.0)
    assert bins([0, 0, 0, 0, 0, 0, 1], years=[10, 23, 28, 35, 45, 55, 70]).value == 70.0


def test_own_bins_bring_their_years() -> None:
    own = {"minor": "young", "adult": "middle_aged", "pensioner": "elderly"}
    assert bins([0.25, 0.5, 0.25], taxonomy=own, years=[9, 42, 75])[:3] == ("middle_aged", 0.5, 42.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": "classes", "output": "o"},
        {"read": "classes", "output": "o", "classes": GENDER, "taxonomy": "gear_race5"},
        {"read": "classes", "output": "o", "taxonomy": "gear_race4"},
        {"read": "classes", "output": "o", "taxonomy": {"white": "whyte"}},
        {"read": "bins", "output": "o", "taxonomy": "gear_race5"},
        {"read": "bins", "output": "o", "taxonomy": {"minor": "young", "adult": "middle_aged"}},
        {"read": "bins", "output": "o", "taxonomy": "gear_age7", "years": [15, 65]},
        {"read": "bins", "output": "o", "taxonomy": "gear_age7", "years": [15, 23, 28, 35, 45, 55, 50]},
        {"read": "age", "output": "o", "likeliest": 0},
        {"read": "classes", "output": "o", "classes": ["male"]},
        {"read": "classes", "output": "o", "classes": GENDER, "min_score": 1.5},
        {"read": "classes", "output": "o", "classes": GENDER, "activation": "sigmoid"},
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
