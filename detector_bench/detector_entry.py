"""One detector of a study, as its configuration names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from detector_bench.study_file import resolve_detector
from detector_bench.vocabulary import GROUND_TRUTH

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"


class DetectorEntry(BaseModel):
    """One detector of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=_NAME, max_length=80)
    """How tables and the folder `predictions/` call it."""
    kind: str
    """The registered name."""
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
    """An entry of `detectors` given in Python, in its full form; what is full already stays as it is."""
    if isinstance(entry, DetectorEntry) or (isinstance(entry, Mapping) and "parameters" in entry):
        return entry
    return resolve_detector(entry, folder=Path(), place=place)
