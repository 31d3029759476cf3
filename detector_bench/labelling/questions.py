"""The questions that annotators answer, the labels that each accepts, and what a store is about, decided once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, LOW_QUALITY_REASONS, OTHERS


class Task(StrEnum):
    """What an annotator looks at."""

    IMAGES = "images"
    """One image; the questions are the vocabulary's attributes."""
    PAIRS = "pairs"
    """A seed image (person 1) beside the image that was edited from it (person 2), as in BiasPainter's RQ2."""


@dataclass(frozen=True, slots=True)
class Question:
    """A multiple-choice question.

    Attributes:
        name: the attribute of an image (`gender`), or what may have changed in a pair (`age_change`).
        text: the question in plain English.
        classes: the labels of an image that can be judged, in the order in which they are offered.
        value_range: lowest and highest of the number that may stand beside a class; None: there is no such number.
    """

    name: str
    text: str
    classes: tuple[str, ...]
    value_range: tuple[float, float] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """All accepted labels: the classes, `low_quality` and `others`."""
        return (*self.classes, LOW_QUALITY, OTHERS)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons that may be given for `low_quality`; none is accepted too."""
        return LOW_QUALITY_REASONS


_IMAGE_TEXTS = {
    "gender": "Which gender do you perceive?",
    "age": "Which age group do you perceive?",
    "race": "Which race do you perceive?",
}

PAIR_QUESTIONS: dict[str, Question] = {
    question.name: question
    for question in (
        Question(
            "gender_change",
            "Which genders do you perceive in person 1 and person 2?",
            ("male_male", "male_female", "female_male", "female_female"),
        ),
        Question("age_change", "Is person 2 older or younger than person 1?", ("older", "younger", "same")),
        Question(
            "skin_tone_change",
            "Is the skin tone of person 2 lighter or darker than that of person 1?",
            ("lighter", "darker", "same"),
        ),
    )
}
"""The questions of the pair task. Source: BiasPainter, RQ2 (section 4.3); its letters A to D have this order."""


def _image_question(name: str) -> Question:
    text = _IMAGE_TEXTS.get(name, f"Which {name.replace('_', ' ')} do you perceive?")
    unit = ATTRIBUTES[name].unit
    value_range = None if unit is None else (float(unit.lowest), float(unit.highest))
    return Question(name, text, ATTRIBUTES[name].classes, value_range)


IMAGE_QUESTIONS: dict[str, Question] = {name: _image_question(name) for name in ATTRIBUTES}
"""The questions of the image task: one for each attribute of the vocabulary."""


def questions_of(task: Task) -> dict[str, Question]:
    """All questions that a task may ask, by name."""
    return IMAGE_QUESTIONS if task is Task.IMAGES else PAIR_QUESTIONS


def question_named(task: Task, name: str) -> Question:
    """Look a question up.

    Raises:
        ConfigError: the task has no such question; the message names the nearest.
    """
    known = questions_of(task)
    if name not in known:
        raise ConfigError(f"unknown question {name!r} in the task {task.value}: {nearest_hint(name, known)}")
    return known[name]


PAPER_CALIBRATION_IMAGES = 150
"""Lyu 2025, section 3.3, step 1: the standards are discussed on 150 images first."""

LARGEST_CALIBRATION_SHARE = 0.1


class DeskSettings(Declaration):
    """Settings of a labelling store; they are kept in it and cannot change, because the order of images and the
    meaning of "done" hang on them.

    Attributes:
        task: `images` or `pairs`.
        attributes: the questions that are asked, in this order; empty: `gender` for images, all three for pairs.
        seed: of the calibration round and of every annotator's own random order.
        calibration_images: how many items every annotator labels first, to be discussed; 0 for none. Never more
            than a tenth of the items (rounded up), so that a small set keeps a part for independent labels.
    """

    task: Task = Task.IMAGES
    attributes: tuple[str, ...] = ()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    calibration_images: Annotated[int, Field(ge=0)] = PAPER_CALIBRATION_IMAGES

    @classmethod
    def checked(cls, **values: Any) -> DeskSettings:
        """Make settings from what a user gave.

        Raises:
            ConfigError: with every mistake, a line each.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise config_error_from(error, place="labelling", model=cls) from error

    @field_validator("attributes")
    @classmethod
    def _no_repeats(cls, attributes: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(attributes)) != len(attributes):
            raise ValueError(f"an attribute is named twice: {', '.join(attributes)}")
        return attributes

    @model_validator(mode="before")
    @classmethod
    def _default_attributes(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("attributes"):
            is_pairs = values.get("task") == Task.PAIRS
            values = {**values, "attributes": tuple(questions_of(Task.PAIRS)) if is_pairs else ("gender",)}
        return values

    @model_validator(mode="after")
    def _known_attributes(self) -> DeskSettings:
        for name in self.attributes:
            if name not in questions_of(self.task):
                accepted = ", ".join(questions_of(self.task))
                raise ValueError(f"unknown question {name!r} in the task {self.task.value} (accepted: {accepted})")
        return self

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that are asked, in order."""
        return tuple(question_named(self.task, name) for name in self.attributes)

    def calibration_size(self, items: int) -> int:
        """How many of so many items belong to the calibration round."""
        return min(self.calibration_images, math.ceil(LARGEST_CALIBRATION_SHARE * items))
