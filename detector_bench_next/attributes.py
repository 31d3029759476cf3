"""What is perceived in an image: attributes, their classes, and the words and codes that all tables share.

Codes of a truth or an answer, for K classes: 0 to K-1 a class | K low_quality, filtered | K+1 others, error |
K+2 unlabelled, not run. An attribute is data: those that come along lie in `built_in/`, a user's own in
`attributes/` of the image set. A `Taxonomy` is how a detector or another benchmark sorts people, in its own
words; a `Mapping` says what these mean in ours. Perceived gender, age group and race are what annotators and
detectors see in a synthetic image. They are nobody's identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from detector_bench_next.errors import ConfigError, config_error
from detector_bench_next.files import read_yaml, write_text

LOW_QUALITY, OTHERS = "low_quality", "others"  # labels: it cannot be told; outside the classes, reported apart
PARTLY = "partly"  # a prompt narrows an attribute down without naming one class ("an Asian person")
ALL = "all"  # in metric tables: the row covers every T2I model, category or prompt
GROUND_TRUTH = "ground_truth"  # in tables: the human labels, shown like one more detector
ADJUDICATOR = "adjudicator"  # the annotator whose label overrules all others
REASONS: tuple[str, ...] = ("several_people", "no_person", "face_not_visible", "blurred", "ambiguous")
"""Reasons of a low-quality image; an attribute may add its own."""
RESERVED_ANNOTATORS: tuple[str, ...] = ("consensus", "all_agree", "dawid_skene")
UNCHANGED: tuple[str, ...] = ("male_male", "female_female", "same")
"""Classes of pair attributes that mean no change."""
KEYS = "1234567890abcdefhijkmpqrvwy"
"""Keys of the labelling desk that may stand for a class; the other letters are its commands."""


class Status(StrEnum):
    """What a detector did with an image; an error is never a filtered image."""

    CLEAR = "clear"
    FILTERED = "filtered"
    ERROR = "error"


RESERVED: tuple[str, ...] = (ALL, LOW_QUALITY, OTHERS, PARTLY, GROUND_TRUTH, *Status)
RESERVED += ("no_verdict", "uncertain", "unknown", "average")
"""Names that no attribute and no class may have: they mean something else in tables, prompts or answers."""


class _Named(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
            raise ValueError(f"{name!r} is no name; accepted: a letter, then at most 39 of a-z, 0-9 and _")
        if name in RESERVED:
            raise ValueError(f"{name!r} is reserved; accepted: any name but {', '.join(RESERVED)}")
        return name


class _Choice(_Named):
    text: str = ""  # on buttons and pages; by default the name, with blanks
    hint: str = ""  # beside the text, for annotators

    @model_validator(mode="before")
    @classmethod
    def _with_texts(cls, value: Any) -> Any:
        entry = {"name": value} if isinstance(value, str) else value
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            accepted = "a name, or a mapping with `name`, is expected (yes, no and numbers need quotes)"
            raise ValueError(f"{accepted}; got {value!r}")
        words = entry["name"].replace("_", " ")
        defaults = {"text": words.capitalize(), "offered": words, "answers": [words]}
        return {**{key: own for key, own in defaults.items() if key in cls.model_fields}, **entry}


class Reason(_Choice):
    """A reason why an image is low-quality, beside `REASONS`."""


class AttributeClass(_Choice):
    """A class of an attribute, and how annotators and vision-language models are offered it."""

    key: str = Field(default="", pattern=f"^[{KEYS}]?$")  # of the desk; by default the first of KEYS that is free
    colour: str = Field(default="", pattern="^(#[0-9a-f]{6})?$")  # of the button
    start: float | None = Field(default=None, alias="from")  # lowest value, where classes are ranges: all or none
    offered: str = ""  # what a model is told that it may answer; by default the name, with blanks
    answers: tuple[str, ...] = ()  # words by which a model may mean it; by default the name, with blanks


class Unit(BaseModel):
    """What a measured value is counted in, and its range, ends included."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    lowest: float
    highest: float


class Attribute(_Named):
    """A perceived attribute with its classes, in the order of their codes, of tables and of buttons.

    Kind `ordinal`: the classes have an order. `measured`: that, and a number in `unit` may stand beside the class.
    """

    classes: tuple[AttributeClass, ...] = Field(min_length=2, max_length=len(KEYS))
    kind: Literal["class", "ordinal", "measured"] = "class"
    unit: Unit | None = None
    words: str = ""  # inside a sentence; by default the name, with blanks
    title: str = ""  # above the buttons; by default "Perceived " and the words
    short: str = ""  # where there is little room
    question: str = ""  # what annotators are asked
    care: str = ""  # what the numbers are not: a sentence for tables, reports and the desk
    judge: str | None = ""  # what a model is asked unless its study words it; "": the question, None: nothing
    unknown: tuple[str, ...] = ()  # words of a model for "it cannot be told", beyond those of every attribute
    ambiguous: tuple[str, ...] = ()  # words of a model for several classes at once
    reasons: tuple[Reason, ...] = ()
    guideline: str = ""  # for annotators, in simple Markdown

    @model_validator(mode="before")
    @classmethod
    def _with_texts(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return value
        words = str(value.get("words") or value["name"].replace("_", " "))
        texts = {"words": words, "title": f"Perceived {words}", "short": words[:1].upper() + words[1:]}
        return {**texts, "question": f"Which {words} do you perceive?", **value}

    @field_validator("classes")
    @classmethod
    def _with_keys(cls, classes: tuple[AttributeClass, ...]) -> tuple[AttributeClass, ...]:
        _no_repeats("class", [own.name for own in classes])
        _no_repeats("key", [own.key for own in classes if own.key])
        free = iter(key for key in KEYS if key not in {own.key for own in classes})
        return tuple(own if own.key else own.model_copy(update={"key": next(free)}) for own in classes)

    @field_validator("reasons")
    @classmethod
    def _are_new(cls, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
        _no_repeats("reason", [*REASONS, *(own.name for own in reasons)])
        return reasons

    @model_validator(mode="after")
    def _measure_fits(self) -> Self:
        if (self.unit is None) == (self.kind == "measured"):
            unit = repr(self.unit.name) if self.unit else "missing"
            accepted = "a unit (name, lowest, highest) for kind 'measured', and for no other"
            raise ValueError(f"kind is {self.kind!r} and unit is {unit}; accepted: {accepted}")
        ends = (*self.starts, self.unit.highest) if self.unit and len(self.starts) == len(self.classes) else ()
        rising = self.unit and ends and all(a < b for a, b in pairwise(ends)) and ends[0] >= self.unit.lowest
        if self.starts and not rising:
            accepted = (
                "a rising number within the unit's range for every class of a measured attribute, or for none"
            )
            begin = ", ".join(f"{start:g}" for start in self.starts)
            raise ValueError(f"classes begin with `from` {begin}; accepted: {accepted}")
        return self

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; a position is a code."""
        return tuple(own.name for own in self.classes)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels that a human may give: the classes, low_quality, others; a position is a code."""
        return (*self.class_names, LOW_QUALITY, OTHERS)

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """What a prompt may state: a class, others (outside the classes), or partly."""
        return (*self.class_names, OTHERS, PARTLY)

    @cached_property
    def starts(self) -> tuple[float, ...]:
        """The lowest value of each class, where classes are ranges of the value; otherwise empty."""
        return tuple(own.start for own in self.classes if own.start is not None)

    @property
    def filtered(self) -> int:
        """Code K: of an answer; of a truth, low_quality."""
        return len(self.classes)

    @property
    def error(self) -> int:
        """Code K + 1: of an answer; of a truth, others."""
        return len(self.classes) + 1

    @property
    def not_run(self) -> int:
        """Code K + 2: of an answer; of a truth, unlabelled."""
        return len(self.classes) + 2

    low_quality, others, unlabelled = filtered, error, not_run


def _no_repeats(what: str, names: list[str]) -> None:
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the {what} {repeated[0]!r} stands here twice; accepted: each {what} once")


def reasons(attributes: Iterable[Attribute]) -> tuple[str, ...]:
    """Reasons of low quality where these attributes are labelled: one look answers for all of them."""
    return (*REASONS, *dict.fromkeys(own.name for attribute in attributes for own in attribute.reasons))


_BUILT_IN = Path(__file__).parent / "built_in"


@cache
def built_in() -> dict[str, Attribute]:
    """The attributes that come along: gender, age, race, skin_tone. Read, not changed, by all."""
    return {name: _read(_BUILT_IN / f"{name}.yaml") for name in ("gender", "age", "race", "skin_tone")}


@cache
def pair_attributes() -> dict[str, Attribute]:
    """Questions about a seed image and the image edited from it (BiasPainter, RQ2)."""
    names = ("gender_change", "age_change", "skin_tone_change")
    return {name: _read(_BUILT_IN / "pairs" / f"{name}.yaml") for name in names}


def read_attributes(folder: Path) -> dict[str, Attribute]:
    """Built-in attributes, then those of `folder/attributes/*.yaml`, by name.

    Raises:
        ConfigError: every mistake in all files, a line each.
    """
    found, mistakes = dict(built_in()), []
    for path in sorted((folder / "attributes").glob("*.y*ml")):
        try:
            own = _read(path)
            if own.name in found:
                why = "is built in" if own.name in built_in() else "is defined by a file beside it, too"
                raise ConfigError(f"{path}: name: {own.name!r} {why}; give it another name")
            found[own.name] = own
        except ConfigError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return found


def write_attributes(attributes: Iterable[Attribute], folder: Path) -> None:
    """Write `attributes/NAME.yaml` in a folder, for all but the built-in ones."""
    for own in attributes:
        if own.name not in built_in():
            content = own.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=115)
            write_text(folder / "attributes" / f"{own.name}.yaml", text)


def _read(path: Path) -> Attribute:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a mapping with `name` and `classes` is expected")
    try:
        return Attribute.model_validate(content)
    except ValidationError as error:
        raise config_error(error, str(path), Attribute) from None


class Taxonomy(NamedTuple):
    """Classes of a detector, data set or benchmark, in its own words (for a network, in the order of outputs)."""

    name: str
    attribute: str
    classes: tuple[str, ...]
    years: tuple[float, ...] | None = None
    """A number of years for each class of ages."""


class Mapping(NamedTuple):
    """What each class of one taxonomy means in another, in the source's order; None: outside, it leaves the
    denominator."""

    source: Taxonomy
    target: Taxonomy
    table: dict[str, str | None]


@cache
def taxonomies() -> dict[str, Taxonomy]:
    """By name; ours bear the name of their attribute."""
    found = {name: Taxonomy(name, name, attribute.class_names) for name, attribute in built_in().items()}
    for entry in read_yaml(_BUILT_IN / "taxonomies.yaml")["taxonomies"]:
        years = tuple(map(float, entry["years"])) if "years" in entry else None
        found[entry["name"]] = Taxonomy(entry["name"], entry["attribute"], tuple(entry["classes"]), years)
    return found


@cache
def mappings() -> dict[str, Mapping]:
    """Mappings that are written down, by name. Of two with the same ends the first is the default."""
    found = {}
    for entry in read_yaml(_BUILT_IN / "taxonomies.yaml")["mappings"]:
        source, target = (taxonomies()[entry[end]] for end in ("source", "target"))
        name = f"{source.name}_to_{target.name}{entry.get('variant', '')}"
        found[name] = Mapping(source, target, {own: entry["table"][own] for own in source.classes})
    return found


def mapping(source: str, target: str) -> Mapping:
    """The mapping from one taxonomy to another, by their names; by way of ours if none is written down.

    Raises:
        ConfigError: no way from one to the other.
    """
    first, last = taxonomies()[source], taxonomies()[target]
    ways = {(own.source.name, own.target.name): own for own in reversed(mappings().values())}
    if first == last:
        return Mapping(first, last, {name: name for name in first.classes})
    if (source, target) in ways:
        return ways[source, target]
    start, end = ways.get((source, first.attribute)), ways.get((first.attribute, target))
    if start is None or end is None:
        known = ", ".join(sorted({b for a, b in ways if a == source})) or "none"
        ends = f"{source!r} ({first.attribute}) to {target!r} ({last.attribute})"
        raise ConfigError(f"no mapping from {ends}; known: to {known}")
    table = {word: None if label is None else end.table[label] for word, label in start.table.items()}
    return Mapping(first, last, table)
