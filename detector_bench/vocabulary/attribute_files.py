"""Reads attributes from YAML: those of `built_in/`, and users' own in the folder `attributes` of an image set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from detector_bench.atomic_files import write_text
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, config_error_from, nearest_hint
from detector_bench.limited_text import shown
from detector_bench.vocabulary.attributes import Attribute

ATTRIBUTE_FOLDER = "attributes"
"""Where an image set has its own attributes, a YAML file each, and where a result folder keeps a copy."""

_BUILT_IN = Path(__file__).with_name("built_in")


class KnownAttributes(Mapping[str, Attribute]):
    """The built-in attributes, and users' own since they were read. A name means one thing as long as a process
    lives: two image sets may share an attribute, but never its name alone."""

    def __init__(self) -> None:
        self._known: dict[str, Attribute] = {}
        self._places: dict[str, Path] = {}
        for name in ("gender", "age", "race", "skin_tone"):
            path = _BUILT_IN / f"{name}.yaml"
            self._known[name] = _read(path)
        self.built_in = tuple(self._known)

    def __getitem__(self, name: str) -> Attribute:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def only_built_in(self) -> dict[str, Attribute]:
        """Those that every image set knows."""
        return {name: self[name] for name in self.built_in}

    def add(self, attribute: Attribute, *, place: Path | str) -> None:
        """Make a user's attribute known.

        Args:
            attribute: what was read.
            place: where from, for messages.

        Raises:
            ConfigError: a built-in attribute has this name, or this process knows another one by it.
        """
        name = attribute.name
        if name in self.built_in:
            classes = ", ".join(self[name].classes)
            raise ConfigError(f"{place}: name: {name!r} is built in (classes: {classes}); accepted: another name")
        if (known := self._known.get(name)) not in (None, attribute):
            raise ConfigError(
                f"{place}: name: {name!r} means something else in {self._places[name]}, which was read before "
                f"({_difference(known, attribute)}); accepted: the same definition, another name, or a new process"
            )
        # Replaced, not changed: other threads may be looking through them.
        self._places = {**self._places, name: Path(place)}
        self._known = {**self._known, name: attribute}


def read_attributes(files: Iterable[Path]) -> dict[str, Attribute]:
    """Read attributes from YAML files and make them known, by name in the order of the files.

    Raises:
        ConfigError: every mistake in all files, a line each: file, key, what was found and what is accepted.
    """
    found: dict[str, Attribute] = {}
    mistakes: list[str] = []
    for file in files:
        try:
            attribute = _read(file)
            if attribute.name in found:
                raise ConfigError(f"{file}: name: {attribute.name!r} is defined by a file beside it, too")
            ATTRIBUTES.add(attribute, place=file)
            found[attribute.name] = attribute
        except ConfigError as error:
            mistakes += str(error).splitlines()
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return found


def attributes_of(*folders: Path) -> dict[str, Attribute]:
    """The attributes that folders define in `attributes/*.yaml`, by name; they are then known.

    Args:
        folders: image sets or result folders. The first that defines a name counts: an image set goes before the
            copy in a result folder.

    Raises:
        ConfigError: as `read_attributes`.
    """
    found: dict[str, Attribute] = {}
    for folder in folders:
        try:
            files = sorted((folder / ATTRIBUTE_FOLDER).glob("*.y*ml"))
        except OSError as error:  # a name that no file system takes, for instance
            raise ConfigError(f"{shown(str(folder))}: cannot be read: {error.strerror}") from error
        found |= read_attributes(file for file in files if file.stem not in found)
    return found


def write_attributes(attributes: Iterable[Attribute], folder: Path) -> None:
    """Write `attributes/<name>.yaml` in a folder, so that it can be read without the place that they come from."""
    for attribute in attributes:
        content = attribute.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=115)
        write_text(folder / ATTRIBUTE_FOLDER / f"{attribute.name}.yaml", text)


def _read(path: Path) -> Attribute:
    content = read_mapping(path, keys="`name` and `classes`")
    try:
        return Attribute.model_validate(content)
    except ValidationError as error:
        raise config_error_from(error, place=str(path), model=Attribute) from error


def _difference(one: Attribute, other: Attribute) -> str:
    if one.classes != other.classes:
        return f"classes {', '.join(one.classes)} there, {', '.join(other.classes)} here"
    fields = [name for name in Attribute.model_fields if getattr(one, name) != getattr(other, name)]
    return f"`{Attribute.model_fields[fields[0]].alias or fields[0]}` differs"


ATTRIBUTES = KnownAttributes()
"""By name, in the order of tables. Age groups are cut at 30 and 60 years (BIGbench). Skin tones are the Monk
scale's ten shades, light to dark; their value is the mean brightness of the facial skin (BiasPainter), which falls
from shade to shade."""


def attribute_named(name: str) -> Attribute:
    """Look an attribute up by name.

    Raises:
        ConfigError: no such attribute; the message names the nearest known ones.
    """
    try:
        return ATTRIBUTES[name]
    except KeyError:
        raise ConfigError(f"unknown attribute {name!r}: {nearest_hint(name, ATTRIBUTES)}") from None
