"""Readings: numbers of networks whose class, score and reason are known by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from detector_bench_next.attributes import Attribute, built_in
from detector_bench_next.detectors.reading import Reading, Years, age_group, folded, probabilities
from detector_bench_next.errors import ConfigError

GENDER, AGE, RACE = (built_in()[name] for name in ("gender", "age", "race"))
READING: TypeAdapter[Any] = TypeAdapter(Reading)
TWO = {"classes": ["male", "female"]}
ONE = {"classes": ["male"], "otherwise": "female"}
THREE = {"classes": {"man": "male", "boy": "male", "woman": "female", "?": "uncertain", "dog": None}}

READ: list[tuple[dict[str, Any], Any, Attribute, tuple[Any, ...]]] = [
    # fields, numbers, attribute, label, score, value, reason
    (TWO, [0.25, 0.75], GENDER, ("female", 0.75, None, None)),
    (TWO, [0.5, 0.5], GENDER, ("male", 0.5, None, None)),  # the first of equals
    ({**TWO, "min_score": 0.8}, [0.25, 0.75], GENDER, ("female", 0.75, None, "uncertain")),
    ({**TWO, "min_score": 0.75}, [0.25, 0.75], GENDER, ("female", 0.75, None, None)),
    ({**TWO, "activation": "softmax"}, [0.0, np.log(3)], GENDER, ("female", 0.75, None, None)),
    ({**TWO, "activation": "sigmoid"}, [0.0, 800.0], GENDER, ("female", 1.0, None, None)),
    (ONE, [0.5], GENDER, ("female", 0.5, None, None)),  # strictly above
    (ONE, [0.75], GENDER, ("male", 0.75, None, None)),
    ({**ONE, "activation": "sigmoid"}, [-np.log(3)], GENDER, ("female", 0.75, None, None)),
    (THREE, [0.3, 0.25, 0.35, 0.1, 0.0], GENDER, ("female", 0.35, None, None)),
    ({**THREE, "decide": "likeliest_class"}, [0.3, 0.25, 0.35, 0.1, 0.0], GENDER, ("male", 0.55, None, None)),
    (THREE, [0.1, 0.1, 0.1, 0.4, 0.3], GENDER, (None, 0.4, None, "uncertain")),
    (THREE, [0.1, 0.1, 0.1, 0.3, 0.4], GENDER, (None, None, None, "other_class")),
    ({**THREE, "activation": "sigmoid"}, [0.0, np.log(3), -1.0, -1, -1], GENDER, ("male", 0.75, None, None)),
    ({"classes": "gear_race5"}, [0.1, 0.2, 0.1, 0.1, 0.5], RACE, (None, None, None, "other_class")),
    ({"classes": "gear_age7", "decide": "likeliest_class"}, [0.2, 0.2, 0, 0.3, 0.3, 0, 0], AGE,
     ("middle_aged", 0.6, 0.2 * 15 + 0.2 * 23 + 0.3 * 35.5 + 0.3 * 45.5, None)),
    ({"classes": {"w": "female"}, "labels": ["w", "Man", "cat"], "ignored": ["cat"], "activation": "softmax"},
     [0.0, np.log(3), 99.0], GENDER, ("male", 0.75, None, None)),
    ({"first_age": 1, "likeliest": 2}, [0.5, 0.3, 0.2], AGE, ("young", None, (0.5 * 1 + 0.3 * 2) / 0.8, None)),
    ({"likeliest": 1}, [0.4, 0.2, 0.4], AGE, ("young", None, 0.0, None)),  # the younger of equals
    ({}, [30.0], AGE, ("middle_aged", None, 30.0, None)),
    ({"bounds": [40, 60]}, [30.0], AGE, ("young", None, 30.0, None)),
    ({"label": "gender"}, "Female", GENDER, ("female", None, None, None)),
    ({"label": "x", "min_score": 0.9}, {"label": "male", "score": 0.5}, GENDER, ("male", 0.5, None, "uncertain")),
    ({"label": "x", "classes": {"Woman": "female", "no": None}}, "no", GENDER, (None, None, None, "other_class")),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "numbers", "attribute", "wanted"), READ)
def test_a_reading_gives_class_score_and_reason(
    fields: dict[str, Any], numbers: Any, attribute: Attribute, wanted: tuple[Any, ...]
) -> None:
    said = READING.validate_python(fields).read(numbers, attribute)
    assert (said.label, said.reason) == (wanted[0], wanted[3])
    assert said.score == (None if wanted[1] is None else pytest.approx(wanted[1]))
    assert said.value == (None if wanted[2] is None else pytest.approx(wanted[2]))


def test_the_networks_own_words_are_kept() -> None:
    said = READING.validate_python(THREE).read([0.3, 0.25, 0.35, 0.1, 0.0], GENDER)
    assert json.loads(said.raw)["answer"] == "woman"
    assert json.loads(said.raw)["probabilities"]["boy"] == 0.25
    assert READING.validate_python(TWO).read([0, 1], GENDER).raw is None
    assert READING.validate_python(ONE).read([1], GENDER).raw is None


STOPS = [
    (TWO, [1.2, -0.2], "1.2 is no probability: set `activation: softmax`"),
    (TWO, [0.5, 0.4], "add up to 0.9, not to 1: set `activation"),
    (TWO, [0.5, 0.3, 0.2], "has 3 numbers for 2 labels"),
    (ONE, [0.5, 0.5], "has 2 numbers for 1 labels"),
    ({}, [0.5, 0.1], "add up to 0.6"),
]


@pytest.mark.parametrize(("fields", "numbers", "told"), STOPS)
def test_numbers_that_contradict_the_study_stop_the_run(fields: dict[str, Any], numbers: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        READING.validate_python(fields).read(numbers, AGE if not fields else GENDER)


def test_what_costs_one_image() -> None:
    with pytest.raises(ValueError, match="999 is no age in years"):
        Years().read([999], AGE)
    with pytest.raises(ValueError, match="the word 'manly' means no class of gender"):
        READING.validate_python({"label": "x"}).read("manly", GENDER)


def test_labels_without_a_meaning_are_told_together() -> None:
    reading = READING.validate_python({"classes": {}, "labels": ["MALE", "lady", "droid", "robot"]})
    with pytest.raises(ValueError, match=r"known for 'droid', 'robot': say what each label means"):
        reading.meanings(GENDER)
    assert folded("Middle_Aged ") == folded("middle-aged")
    everything = READING.validate_python({**TWO, "labels": ["male", "x", "female"], "ignored": "all_others"})
    assert list(everything.meanings(GENDER)) == ["male", "female"]


def test_probabilities_cannot_overflow() -> None:
    assert probabilities([1000.0, 0.0], "softmax").tolist() == [1.0, 0.0]
    assert probabilities([-1000.0], "sigmoid").tolist() == [0.0]
    assert probabilities([1.0005, -0.0005], "none").tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("years", "group"), [(29.99, "young"), (30, "middle_aged"), (60, "elderly"), (0, "young")]
)
def test_a_bound_belongs_to_the_older_group(years: float, group: str) -> None:
    assert age_group(years, AGE) == group
