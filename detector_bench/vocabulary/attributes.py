"""The words that every table of the project uses: attributes, their classes, and what a verdict can be.

Perceived gender, age group and race are what annotators and detectors see in a synthetic image. They are not
an identity, and nobody's identity can be read off them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from detector_bench.errors import ConfigError, nearest_hint

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


@dataclass(frozen=True, slots=True)
class Unit:
    """What a measured value of an attribute is counted in, and its range."""

    name: str
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property that detectors and annotators perceive, with the classes that a clear image can show."""

    name: str
    classes: tuple[str, ...]
    unit: Unit | None = None
    """Of the number that may stand beside a class, in the column `value`; None: there is no such number."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels a human may give: the classes, `low_quality` and `others`."""
        return (*self.classes, LOW_QUALITY, OTHERS)

    @property
    def statements(self) -> tuple[str, ...]:
        """All that a prompt may state of it: a class, `others` (outside the classes), or `partly`."""
        return (*self.classes, OTHERS, PARTLY)


ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        Attribute("gender", ("male", "female")),
        Attribute("age", ("young", "middle_aged", "elderly"), Unit("years", 0, 120)),
        Attribute(
            "race",
            (
                "white",
                "black",
                "latino_hispanic",
                "east_asian",
                "southeast_asian",
                "south_asian",
                "middle_eastern",
            ),
        ),
        Attribute(
            "skin_tone",
            tuple(f"monk_{shade:02d}" for shade in range(1, 11)),
            Unit("mean grey value", 0, 255),
        ),
    )
}
"""Age groups are cut at 30 and 60 years (BIGbench). Skin tones are the Monk scale's ten shades, light to dark;
their value is the mean brightness of the facial skin (BiasPainter), which falls from shade to shade."""

LOW_QUALITY_REASONS: tuple[str, ...] = (
    "several_people",
    "no_person",
    "face_not_visible",
    "blurred",
    "ambiguous",
)
"""Why a human called an image low-quality; an empty reason is allowed, free text after `others` too."""


def attribute_named(name: str) -> Attribute:
    """Look an attribute up by name.

    Raises:
        ConfigError: no such attribute; the message names the nearest known ones.
    """
    try:
        return ATTRIBUTES[name]
    except KeyError:
        raise ConfigError(f"unknown attribute {name!r}: {nearest_hint(name, ATTRIBUTES)}") from None
