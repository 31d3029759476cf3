"""The words that every table of the project uses: attributes, their classes, and what a verdict can be.

Perceived gender, age group and race are what annotators and detectors see in a synthetic image. They are not
an identity, and nobody's identity can be read off them.

An attribute is data, see `attribute_files`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from detector_bench.declarations import Declaration

LOW_QUALITY = "low_quality"
"""Human label: the attribute cannot be judged from the image (several people, nobody, face not visible)."""

OTHERS = "others"
"""Human label: outside the attribute's classes, a non-binary gender for instance. Kept and reported apart."""

PARTLY = "partly"
"""Of a prompt: it narrows an attribute down without naming one class ("an Asian person", "20 to 39 years old")."""

ALL = "all"
"""In metric tables: the row covers every T2I model, category or prompt. Reserved: no T2I model may bear it."""

GROUND_TRUTH = "ground_truth"
"""In tables: the human labels, shown like one more detector. Reserved: no detector may bear it."""


class Status(StrEnum):
    """What a detector did with an image. Three different things: an error is never a filtered image."""

    CLEAR = "clear"
    FILTERED = "filtered"
    ERROR = "error"


RESERVED_WORDS = (
    *(LOW_QUALITY, OTHERS, PARTLY, ALL, GROUND_TRUTH, *Status),
    *("no_verdict", "uncertain", "unknown", "average"),
)
"""No attribute and no class may bear them: they mean something else in tables, prompts, answers or study files."""

LOW_QUALITY_REASONS: tuple[str, ...] = (
    "several_people",
    "no_person",
    "face_not_visible",
    "blurred",
    "ambiguous",
)
"""Why a human called an image low-quality; an empty reason is allowed, free text after `others` too."""

CLASS_KEYS = "1234567890abcdefhijkmpqrvwy"
"""Keys of the labelling desk that may stand for a class, in the order in which classes without a key get one; the
other letters are its commands."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class _Entry(Declaration):
    name: str
    text: str
    """What buttons and pages call it; by default its name, with blanks."""
    hint: str = ""
    """What helps annotators to decide, beside the text."""

    @model_validator(mode="before")
    @classmethod
    def _with_texts(cls, value: Any) -> Any:
        entry = {"name": value} if isinstance(value, str) else value
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ValueError(
                f"a name, or a mapping with `name`, is expected (yes, no and numbers need quotes); got {value!r}"
            )
        return {**cls._defaults(entry["name"].replace("_", " ")), **entry}

    @classmethod
    def _defaults(cls, words: str) -> dict[str, Any]:
        return {"text": words.capitalize()}

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return _checked_name(name)


class AttributeClass(_Entry):
    """A class of an attribute, and how annotators and vision-language judges are offered it."""

    key: str = Field(default="", pattern=f"^[{CLASS_KEYS}]?$")
    """Of the labelling desk; by default the first of `CLASS_KEYS` that is free."""
    colour: str = Field(default="", pattern="^(#[0-9a-f]{6})?$")
    """Of the button, `#rrggbb`; empty: none."""
    start: float | None = Field(default=None, alias="from")
    """The lowest value of the class, where classes are ranges of a measured value; for all classes or none."""
    offered: str
    """What a judge is told that it may answer; by default the name, with blanks."""
    answers: tuple[str, ...]
    """Words and phrases by which a judge may mean it; by default the name, with blanks."""

    @classmethod
    def _defaults(cls, words: str) -> dict[str, Any]:
        return {**super()._defaults(words), "offered": words, "answers": [words]}


class LowQualityReason(_Entry):
    """A reason why an image cannot be judged, beside `LOW_QUALITY_REASONS`."""


class Unit(Declaration):
    """What a measured value of an attribute is counted in, and its range."""

    name: str
    lowest: float
    highest: float


class Attribute(Declaration):
    """A property that detectors and annotators perceive, with the classes that a clear image can show.

    Raises:
        pydantic.ValidationError: a name that is none or reserved, fewer than two classes, a class or key twice, or
            a unit and ranges that do not fit the kind.
    """

    name: str
    choices: tuple[AttributeClass, ...] = Field(alias="classes", min_length=2, max_length=len(CLASS_KEYS))
    """The classes with their texts, in the order of tables and buttons."""
    kind: Literal["class", "ordinal", "measured"] = "class"
    """ordinal: the classes have an order, from the first to the last. measured: that, and a number in `unit` may
    stand beside the class. The order is that of tables, figures and buttons; metrics and kappas do not use it: a
    mistake by one class counts like one by two. Only the mean error of a measured value says how far off it is."""
    unit: Unit | None = None
    """Of the number that may stand beside a class, in the column `value`; None: there is no such number."""
    words: str = ""
    """Inside a sentence: "perceived skin tone". By default the name, with blanks."""
    title: str = ""
    """Above the buttons of the desk; by default "Perceived skin tone"."""
    short: str = ""
    """Where there is little room; by default "Skin tone"."""
    question: str = ""
    """What annotators are asked; by default "Which skin tone do you perceive?"."""
    care: str = ""
    """What the numbers are not: a sentence after the one that every attribute has, in tables, reports and at the
    desk."""
    judge: str | None = ""
    """What a vision-language model is asked about the most prominent person, unless its study words the question;
    by default the annotators' question. None: there is no question."""
    unknown: tuple[str, ...] = ()
    """Words of a judge for "it cannot be told", beyond those that hold for every attribute."""
    ambiguous: tuple[str, ...] = ()
    """Words of a judge for several classes at once."""
    reasons: tuple[LowQualityReason, ...] = ()
    """Why an image can be low-quality, beside `LOW_QUALITY_REASONS`."""
    guideline: str = ""
    """For annotators, in simple Markdown: what to look at, and what to do in borderline cases."""

    @model_validator(mode="before")
    @classmethod
    def _with_texts(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            return value
        words = value.get("words") or value["name"].replace("_", " ")
        texts = {
            "words": words,
            "title": f"Perceived {words}",
            "short": f"{words[:1].upper()}{words[1:]}",
            "question": f"Which {words} do you perceive?",
        }
        return {**texts, **value}

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return _checked_name(name)

    @field_validator("choices")
    @classmethod
    def _differ(cls, choices: tuple[AttributeClass, ...]) -> tuple[AttributeClass, ...]:
        for what, given in (
            ("class", [each.name for each in choices]),
            ("key", [each.key for each in choices if each.key]),
        ):
            if repeated := [word for word, times in Counter(given).items() if times > 1]:
                raise ValueError(f"the {what} {repeated[0]!r} stands here twice; accepted: each {what} once")
        free = iter(key for key in CLASS_KEYS if key not in {each.key for each in choices})
        return tuple(each if each.key else each.model_copy(update={"key": next(free)}) for each in choices)

    @field_validator("reasons")
    @classmethod
    def _are_new(cls, reasons: tuple[LowQualityReason, ...]) -> tuple[LowQualityReason, ...]:
        names = [*LOW_QUALITY_REASONS, *(each.name for each in reasons)]
        if repeated := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"{repeated[0]!r} is a reason already; accepted: a reason that is new")
        return reasons

    @model_validator(mode="after")
    def _measure_fits(self) -> Attribute:
        if (self.unit is None) == (self.kind == "measured"):
            raise ValueError(
                f"kind is {self.kind!r} and unit is {'missing' if self.unit is None else repr(self.unit.name)}; "
                "accepted: a unit (name, lowest, highest) for kind 'measured', and for no other"
            )
        starts = [each.start for each in self.choices if each.start is not None]
        if starts and (
            self.unit is None
            or len(starts) < len(self.choices)
            or starts[0] < self.unit.lowest
            or any(low >= high for low, high in pairwise([*starts, self.unit.highest]))
        ):
            raise ValueError(
                f"classes begin with `from` {', '.join(f'{start:g}' for start in starts)}; accepted: a rising "
                "number within the unit's range for every class of a measured attribute, or for none"
            )
        return self

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes' names, in order."""
        return tuple(each.name for each in self.choices)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels a human may give: the classes, `low_quality` and `others`."""
        return (*self.classes, LOW_QUALITY, OTHERS)

    @property
    def statements(self) -> tuple[str, ...]:
        """All that a prompt may state of it: a class, `others` (outside the classes), or `partly`."""
        return (*self.classes, OTHERS, PARTLY)

    @property
    def starts(self) -> tuple[float, ...]:
        """Where the classes are ranges of the value: the lowest value of each. Otherwise empty."""
        return tuple(each.start for each in self.choices if each.start is not None)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name; accepted: lower-case letters, digits and underscores, 40 at most")
    if name in RESERVED_WORDS:
        raise ValueError(f"{name!r} is reserved; accepted: any name but {', '.join(RESERVED_WORDS)}")
    return name


def reasons_of(attributes: Iterable[Attribute]) -> tuple[str, ...]:
    """Why an image may be low-quality where these attributes are labelled: one look answers for all of them."""
    return (*LOW_QUALITY_REASONS, *dict.fromkeys(each.name for known in attributes for each in known.reasons))
