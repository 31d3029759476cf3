"""The taxonomies and mappings that come with the project, as `docs/taxonomies.md` shows them; and mappings in a
configuration: named, or written out by the user."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, Attribute
from detector_bench.vocabulary.taxonomy import Mapping, SharesByClass, Taxonomy

__all__ = [
    "MAPPINGS",
    "OURS",
    "TAXONOMIES",
    "Mapping",
    "MappingField",
    "SharesByClass",
    "Taxonomy",
    "mapping",
    "mapping_named",
    "own_mapping",
    "taxonomy_named",
]


def _ours(attribute: Attribute) -> Taxonomy:
    source = "this project's vocabulary" if attribute.name in ATTRIBUTES.built_in else "the image set's attributes"
    return Taxonomy(name=attribute.name, attribute=attribute.name, classes=attribute.classes, source=source)


OURS: dict[str, Taxonomy] = {name: _ours(ATTRIBUTES[name]) for name in ATTRIBUTES.built_in}
"""By built-in attribute: the classes that labels and predictions have in every table of the project."""

_FILE = read_mapping(Path(__file__).with_name("built_in") / "taxonomies.yaml", keys="`taxonomies` and `mappings`")

TAXONOMIES: dict[str, Taxonomy] = OURS | {
    entry["name"]: Taxonomy.model_validate(entry) for entry in _FILE["taxonomies"]
}
"""By name; ours bear the name of their attribute."""


def _mapping(source: str, target: str, *, variant: str = "", **stated: Any) -> Mapping:
    ends = {"source": TAXONOMIES[source], "target": TAXONOMIES[target]}
    return Mapping(name=f"{source}_to_{target}{variant}", **ends, **stated)


MAPPINGS: dict[str, Mapping] = {each.name: each for each in (_mapping(**entry) for entry in _FILE["mappings"])}
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
