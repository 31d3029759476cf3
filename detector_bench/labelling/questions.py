"""The questions that annotators answer, and the labels that each accepts: one image, or a pair of images."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from detector_bench.errors import ConfigError, nearest_hint
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
        reasons: what may be given for `low_quality`; none is accepted too. An answer is about all questions of a desk
            at once, so each takes the reasons of all.
    """

    name: str
    text: str
    classes: tuple[str, ...]
    value_range: tuple[float, float] | None = None
    reasons: tuple[str, ...] = LOW_QUALITY_REASONS

    @property
    def labels(self) -> tuple[str, ...]:
        """All accepted labels: the classes, `low_quality` and `others`."""
        return (*self.classes, LOW_QUALITY, OTHERS)


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
    attribute = ATTRIBUTES[name]
    value_range = None if attribute.unit is None else (attribute.unit.lowest, attribute.unit.highest)
    return Question(name, attribute.question, attribute.classes, value_range)


def questions_of(task: Task) -> dict[str, Question]:
    """All questions that a task may ask, by name: of images, one for each attribute of the vocabulary."""
    return {name: _image_question(name) for name in ATTRIBUTES} if task is Task.IMAGES else PAIR_QUESTIONS


def question_named(task: Task, name: str) -> Question:
    """Look a question up.

    Raises:
        ConfigError: the task has no such question; the message names the nearest.
    """
    known = questions_of(task)
    if name not in known:
        raise ConfigError(f"unknown question {name!r} in the task {task.value}: {nearest_hint(name, known)}")
    return known[name]
