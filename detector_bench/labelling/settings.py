"""What a labelling store is about, decided once, when the store is made."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from detector_bench.config_errors import config_error_from
from detector_bench.labelling.questions import Question, Task, question_named, questions_of
from detector_bench.vocabulary import ATTRIBUTES, reasons_of

PAPER_CALIBRATION_IMAGES = 150
"""Lyu 2025, section 3.3, step 1: the standards are discussed on 150 images first."""

LARGEST_CALIBRATION_SHARE = 0.1


class DeskSettings(BaseModel):
    """Settings of a labelling store; they are kept in it and cannot change, because the order of images and the
    meaning of "done" hang on them.

    Attributes:
        task: `images` or `pairs`.
        attributes: the questions that are asked, in this order; empty: `gender` for images, all three for pairs.
        seed: of the calibration round and of every annotator's own random order.
        calibration_images: how many items every annotator labels first, to be discussed; 0 for none. Never more
            than a tenth of the items (rounded up), so that a small set keeps a part for independent labels.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        asked = tuple(question_named(self.task, name) for name in self.attributes)
        if self.task is Task.PAIRS:
            return asked
        reasons = reasons_of(ATTRIBUTES[name] for name in self.attributes)
        return tuple(replace(question, reasons=reasons) for question in asked)

    def calibration_size(self, items: int) -> int:
        """How many of so many items belong to the calibration round."""
        return min(self.calibration_images, math.ceil(LARGEST_CALIBRATION_SHARE * items))
