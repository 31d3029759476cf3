"""The detectors of a study file: names, mappings, and what is described in files of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.installation import resource
from detector_bench.vocabulary import GROUND_TRUTH

_DEEPEST_EXTENDS = 5
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"


def resolve_detector(entry: Any, *, folder: Path, place: str, depth: int = 0) -> dict[str, Any]:
    """Bring one entry of `detectors` into its full form: name, kind, parameters.

    An entry is a registered name, or a mapping with `kind` (a registered name), `name` (how tables call it) and
    parameters. With `extends: FILE` it starts from the mapping in that file, and its own keys win; mappings are
    merged key by key. What does not lie below the folder is looked for among the files that come along:
    `detectors/gear.yaml`.

    Raises:
        ConfigError: an entry of another form, or a chain of `extends` that does not end.
    """
    if isinstance(entry, str):
        entry = {"kind": entry}
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{place}: a detector is its name, or a mapping; got {entry!r}")
    if depth > _DEEPEST_EXTENDS:
        raise ConfigError(f"{place}: `extends` goes deeper than {_DEEPEST_EXTENDS} files; is it a circle?")
    merged = dict(entry)
    base_file = merged.pop("extends", None)
    if base_file is not None:
        if not isinstance(base_file, str | Path):
            raise ConfigError(f"{place}: `extends` is the name of a file; got {base_file!r}")
        path = _described_in(folder, base_file)
        try:
            _require_plain_file(path)
            base = read_mapping(path)
        except ConfigError as error:
            raise ConfigError(f"{place}: extends: {error}") from error
        below = resolve_detector(base, folder=path.parent, place=str(path), depth=depth + 1)
        flat = {"name": below["name"], "kind": below["kind"], **below["parameters"]}
        merged = merge(flat, merged)
    kind = merged.pop("kind", None)
    if not isinstance(kind, str):
        raise ConfigError(f"{place}: `kind` is missing: the registered name of a detector")
    name = merged.pop("name", kind)
    if not isinstance(name, str):
        raise ConfigError(f"{place}: `name` is text; got {name!r}")
    return {"name": name, "kind": kind, "parameters": merged}


def _described_in(folder: Path, name: str | Path) -> Path:
    """The file that an entry extends: beside the study, or one of those that come along."""
    own = folder / name
    plain = Path(name)
    if plain.parts == ("detectors", plain.name) and plain.suffix == ".yaml":
        with suppress(DetectorBenchError, OSError, ValueError):  # names that are too long, or hold a zero
            return own if own.exists() else resource(f"configs/detectors/{plain.name}")
    return own


def _require_plain_file(path: Path) -> None:
    # A device or a pipe, which a stranger's study may name, would be read without an end.
    try:
        is_special = path.exists() and not (path.is_file() or path.is_dir())
    except (OSError, ValueError):  # no path at all, as reading it tells
        return
    if is_special:
        raise ConfigError(f"{str(path)!r} is no plain file")


def merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Lay `own` over `base`: mappings key by key, anything else whole."""
    merged = dict(base)
    for key, value in own.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def with_texts_replaced(value: Any, replacements: Mapping[str, str]) -> Any:
    """Replace texts that are a key of `replacements`, at any depth; keys of mappings stay."""
    if isinstance(value, str):
        return replacements.get(value, value)
    if isinstance(value, Mapping):
        return {key: with_texts_replaced(item, replacements) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts_replaced(item, replacements) for item in value]
    return value


def texts_in(value: Any) -> Iterator[str]:
    """All texts in plain data, at any depth; keys of mappings are none of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(item)


class DetectorEntry(BaseModel):
    """One detector of a study: its name, kind and parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=_NAME, max_length=80)
    """How tables and the folder `predictions/` call it."""
    kind: str
    """Name under which the detector's class is registered."""
    parameters: dict[str, Any] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name == GROUND_TRUTH:
            raise ValueError(f"{GROUND_TRUTH!r} is reserved for the human labels")
        return name


def with_named_parts(entries: Sequence[Any]) -> list[Any]:
    """Full entries of a study, in which a composite's part may be the name of another detector of the study."""
    full = [entry.model_dump() if isinstance(entry, DetectorEntry) else entry for entry in entries]
    named = {each["name"]: {"kind": each["kind"], **each["parameters"]} for each in full}
    for entry in full:
        parts = entry["parameters"].get("parts")
        if entry["kind"] == "composite" and isinstance(parts, Mapping):
            others = {name: each for name, each in named.items() if name != entry["name"]}
            replaced = {
                attribute: others.get(part, part) if isinstance(part, str) else part
                for attribute, part in parts.items()
            }
            entry["parameters"] = {**entry["parameters"], "parts": replaced}
    return full


def full_entry(entry: Any, *, place: str) -> Any:
    """An entry of `detectors` given in Python, in its full form; what is full already stays as it is.

    A path stands for a mapping that extends the file there.
    """
    if isinstance(entry, Path):
        entry = {"extends": str(entry)}
    if isinstance(entry, DetectorEntry) or (isinstance(entry, Mapping) and "parameters" in entry):
        return entry
    return resolve_detector(entry, folder=Path(), place=place)
