"""What is perceived in an image: attributes, their classes, and the words and codes that all tables share.

Codes of a truth or an answer: 0 to K-1 a class | K low_quality, filtered | K+1 others, error | K+2 unlabelled, not run.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detector_bench_next.errors import config_error
from detector_bench_next.files import read_yaml

LOW_QUALITY, OTHERS, ADJUDICATOR, GROUND_TRUTH, ALL = "low_quality", "others", "adjudicator", "ground_truth", "all"
REASONS = ("several_people", "no_person", "face_not_visible", "blurred", "ambiguous")
RESERVED_ANNOTATORS = ("consensus", "all_agree", "dawid_skene")


class Status(StrEnum):
    """What became of an image at a detector."""

    CLEAR = "clear"
    FILTERED = "filtered"
    ERROR = "error"


class AttributeClass(BaseModel):
    """A class of an attribute; `from` is its first value where the attribute has a unit."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str
    start: float | None = Field(default=None, alias="from")


class Attribute(BaseModel):
    """A perceived attribute and its classes, in the order of their codes."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str
    classes: tuple[AttributeClass, ...]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; their positions are the codes 0 to K-1."""
        return tuple(c.name for c in self.classes)

    @property
    def labels(self) -> tuple[str, ...]:
        """What a label may say: the classes, then low_quality, then others."""
        return (*self.class_names, LOW_QUALITY, OTHERS)


def read_attribute(path: Path) -> Attribute:
    """One attribute's YAML file."""
    try:
        return Attribute.model_validate(read_yaml(path))
    except ValidationError as error:
        raise config_error(error, path.name) from None


@cache
def built_in() -> dict[str, Attribute]:
    """The attributes that come along."""
    found = [read_attribute(path) for path in sorted((Path(__file__).parent / "built_in").glob("*.yaml"))]
    return {a.name: a for a in found}


def read_attributes(folder: Path) -> dict[str, Attribute]:
    """Built-in attributes and those of `folder/attributes/*.yaml`, by name."""
    own = [read_attribute(path) for path in sorted((folder / "attributes").glob("*.yaml"))]
    return {**built_in(), **{a.name: a for a in own}}
