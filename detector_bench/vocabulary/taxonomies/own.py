"""Mappings in a configuration: named, or written out by the user."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.vocabulary.taxonomies.catalogue import MAPPINGS, OURS, TAXONOMIES, mapping
from detector_bench.vocabulary.taxonomies.taxonomy import Mapping, Taxonomy

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
    known = {label: ours for ours in OURS.values() for label in ours.classes}
    for label in targets:
        if label not in known:
            raise ConfigError(f"{label!r} is no class of ours: {nearest_hint(label, known)}")
    # A class of another attribute among them is refused by the mapping itself.
    return known[targets[0]]


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
