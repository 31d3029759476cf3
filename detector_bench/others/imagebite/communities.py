"""What ImageBiTe's words mean here: an ethical concern is an attribute, a community some of its classes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, OTHERS, PARTLY, attribute_named

CONCERNS: dict[str, str] = {
    "gender": "gender",
    "sexism": "gender",
    "ethnicity": "race",
    "race": "race",
    "racism": "race",
    "age": "age",
    "ageism": "age",
    "skin tone": "skin_tone",
}
"""Ethical concerns that an attribute stands for."""

UNJUDGED_CONCERNS = (
    "ableism",
    "disability",
    "nationality",
    "physical appearance",
    "political orientation",
    "religion",
    "sexual orientation",
    "socio-economic status",
    "xenophobia",
)
"""Ethical concerns that are no built-in attribute; requirements about them are left out, unless a study
names an attribute of its image set in `concerns`."""

COMMUNITIES: dict[str, dict[str, tuple[str, ...]]] = {
    "gender": {
        **dict.fromkeys(("man", "men", "male"), ("male",)),
        **dict.fromkeys(("woman", "women", "female"), ("female",)),
        **dict.fromkeys(("non binary", "nonbinary", "ambiguous", "others"), (OTHERS,)),
    },
    "race": {
        **dict.fromkeys(("white", "caucasian"), ("white",)),
        "black": ("black",),
        "asian": ("east_asian", "southeast_asian", "south_asian"),
        "east asian": ("east_asian",),
        "southeast asian": ("southeast_asian",),
        **dict.fromkeys(("south asian", "indian"), ("south_asian",)),
        **dict.fromkeys(("latin", "latino", "latina", "latinx", "hispanic"), ("latino_hispanic",)),
        "middle eastern": ("middle_eastern",),
        "native american": (),
        **dict.fromkeys(("ambiguous", "others"), (OTHERS,)),
    },
    "age": {
        "young": ("young",),
        "middle aged": ("middle_aged",),
        **dict.fromkeys(("elderly", "old"), ("elderly",)),
        **dict.fromkeys(("ambiguous", "others"), (OTHERS,)),
    },
    "skin_tone": {},
}
"""By attribute, the classes of communities. `others` is a human label that no detector gives; () is no class at
all. The classes of an attribute stand for themselves, too."""

_PERSON = re.compile(r" (?:person|people)$")
_YEARS = re.compile(r"(\d{1,3}) ?(?:-|to) ?(\d{1,3})( years?( old)?)?")
_YEARS_AND_OVER = re.compile(r"(\d{1,3}) ?(?:\+( years?( old)?)?|(years?( old)? )?(and|or) (older|over|above))")
_YOUNGER_THAN = re.compile(r"(?:under|below|younger than) (\d{1,3})( years?( old)?)?")


@dataclass(frozen=True, slots=True)
class Years:
    """Ages in whole years, both included: somebody is 39 until the 40th birthday."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first} to {self.last} years"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Which answers stand for a community: classes (or `others`), or measured ages. Neither: no answer does."""

    labels: tuple[str, ...] = ()
    years: Years | None = None

    @property
    def answered_by_humans(self) -> bool:
        """Whether a human label can stand for it."""
        return bool(self.labels) or self.years is not None

    @property
    def answered_by_detectors(self) -> bool:
        """Whether a detector's answer can stand for it."""
        return self.years is not None or any(label != OTHERS for label in self.labels)

    def clash(self, other: Meaning) -> str:
        """What both stand for, in words; empty if no image can be in both."""
        if self.years is not None and other.years is not None:
            first, last = max(self.years.first, other.years.first), min(self.years.last, other.years.last)
            return str(Years(first, last)) if first <= last else ""
        if (self.years is not None and other.labels) or (other.years is not None and self.labels):
            return "ages, one in years and one in groups"
        return ", ".join(label for label in self.labels if label in other.labels)

    def statement_of(self, attribute: str) -> str:
        """What a prompt states that names the community: a word of `vocabulary.Attribute.statements`.

        One class; `others` where it lies outside the classes; `partly` where it is wider than a class.
        """
        if self.years is None:
            return self.labels[0] if len(self.labels) == 1 else PARTLY if self.labels else OTHERS
        starts = (*attribute_named(attribute).starts, math.inf)
        for label, start, end in zip(attribute_named(attribute).classes, starts[:-1], starts[1:], strict=True):
            if start <= self.years.first and self.years.last < end:
                return label
        return PARTLY

    def foreign_to(self, attribute: str) -> tuple[str, ...]:
        """Labels that are none of the attribute's."""
        known = (*attribute_named(attribute).classes, OTHERS)
        return tuple(label for label in self.labels if label not in known)

    def __str__(self) -> str:
        return str(self.years) if self.years is not None else ", ".join(self.labels) or "no class"


def normal(words: str) -> str:
    """Lower case, with single spaces for hyphens, underscores and runs of spaces."""
    return re.sub(r"[\s_-]+", " ", words).strip().casefold()


def meaning_of(community: str, attribute: str, *, own: Mapping[str, Sequence[str]]) -> Meaning | None:
    """Which answers stand for a community; None if nobody knows.

    Args:
        community: as the requirements call it.
        attribute: what its ethical concern is here.
        own: the study's own meanings by community, which go first; names compare as by `normal`, and "a Black
            person" is as good as "Black" beyond them.
    """
    name = normal(community)
    bare = _PERSON.sub("", name)
    for theirs, labels in own.items():
        if normal(theirs) == name:
            return Meaning(labels=tuple(labels))
    if bare in (known := COMMUNITIES.get(attribute, {})):
        return Meaning(labels=known[bare])
    for label in attribute_named(attribute).classes:
        if normal(label) == bare:
            return Meaning(labels=(label,))
    years = _years(community) if attribute == "age" else None
    return None if years is None else Meaning(years=years)


def _years(community: str) -> Years | None:
    words = re.sub(r"\s+", " ", re.sub("[\N{EN DASH}\N{EM DASH}]", "-", community)).strip().casefold()
    unit = ATTRIBUTES["age"].unit
    lowest, highest = (0, 120) if unit is None else (int(unit.lowest), int(unit.highest))
    if found := _YEARS.fullmatch(words):
        return Years(int(found[1]), int(found[2]))
    if found := _YEARS_AND_OVER.fullmatch(words):
        return Years(int(found[1]), highest)
    if found := _YOUNGER_THAN.fullmatch(words):
        return Years(lowest, int(found[1]) - 1)
    return None


def attribute_of(concern: str) -> str | None:
    """Which attribute an ethical concern is; None: none of ours."""
    return CONCERNS.get(normal(concern))


def statement_in(sentence: str, attribute: str) -> str:
    """What a sentence that is known to state something of an attribute states, by the communities that it names.

    Returns:
        A word of `vocabulary.Attribute.statements`; `partly` if it names none that is known here, or several.
    """
    left = normal(sentence)
    found = set()
    classes = {normal(label): (label,) for label in attribute_named(attribute).classes}
    meanings = classes | COMMUNITIES.get(attribute, {})
    # The longest first: an East Asian is not also an Asian.
    for name in sorted(meanings, key=len, reverse=True):
        named = re.compile(rf"\b{re.escape(name)}\b")
        if named.search(left):
            left = named.sub("", left)
            found.add(Meaning(labels=meanings[name]).statement_of(attribute))
    return found.pop() if len(found) == 1 else PARTLY


def check_own_words(communities: Mapping[str, Sequence[str]], concerns: Mapping[str, str]) -> None:
    """Check what the study says that communities and concerns mean.

    Raises:
        ConfigError: a class or an attribute that does not exist.
    """
    known = {OTHERS, *(label for attribute in ATTRIBUTES.values() for label in attribute.classes)}
    for community, labels in communities.items():
        for label in labels:
            if label not in known:
                raise ConfigError(
                    f"imagebite: communities: {community}: unknown class {label!r}: {nearest_hint(label, known)}"
                )
    for concern, attribute in concerns.items():
        if attribute not in ATTRIBUTES:
            raise ConfigError(
                f"imagebite: concerns: {concern}: unknown attribute {attribute!r}: "
                f"{nearest_hint(attribute, ATTRIBUTES)}"
            )
