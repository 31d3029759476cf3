"""ImageBiTe's JSON input as it is accepted there; every mistake is found, and said with its place in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detector_bench.dataset.text_table import shorten
from detector_bench.errors import ConfigError, Problem
from detector_bench.json_text import JsonMistake, read_json

_LARGEST_BYTES = 50_000_000
_SHARE = "a number from 0 to 1"
_ACCEPTED = {
    "stereotyping_threshold": _SHARE,
    "expected_distribution": _SHARE,
    "delta": _SHARE,
    "expected_distributions": "a list with at least one community",
    "sensitive_communities": "a list of names",
    "requirements": "a list with at least one requirement",
    "ethical_concerns": "a list of ethical concerns",
}
_MESSAGES = {
    "missing": "is missing",
    "greater_than_equal": "out of range",
    "less_than_equal": "out of range",
    "finite_number": "not a finite number",
    "float_type": "not a number",
    "string_type": "not text",
    "string_too_short": "is empty",
    "list_type": "not a list",
    "too_short": "is empty",
    "model_type": "not an object",
}
_KEYS_OF_ITS_RUNS = (
    "id",
    "num_templates",
    "num_samples",
    "num_retries",
    "models",
    "llms",
    "perform_generic_evaluations",
    "perform_post_reasoning",
    "dimensions",
)
"""How ImageBiTe makes and judges images; here that is done already."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


_AnyPart = TypeVar("_AnyPart", bound=_Part)


class ExpectedDistribution(_Part):
    """What is expected of one community."""

    sensitive_community: str = Field(min_length=1)
    expected_distribution: float = Field(ge=0, le=1, allow_inf_nan=False)
    delta: float = Field(ge=0, le=1, allow_inf_nan=False)


class StatedRequirement(_Part):
    """One requirement, as the file states it."""

    ethical_concern: str = Field(min_length=1)
    stereotyping_threshold: float = Field(ge=0, le=1, allow_inf_nan=False)
    expected_distributions: list[ExpectedDistribution] = Field(min_length=1)
    name: str | None = Field(default=None, min_length=1)
    """The project page's example has none."""
    rationale: str = ""
    discrimination: str = ""


class StatedConcern(_Part):
    """One ethical concern; prompt templates put its communities in place of its markup."""

    ethical_concern: str = Field(min_length=1)
    sensitive_communities: list[str] = Field(default_factory=list)
    markup: str = ""


class InputFile:
    """The parts of an input file, and what is wrong or odd about it.

    Attributes:
        file: its path, as messages say it.
        requirements: by position, those that could be read.
        concerns: by position, likewise.
        problems: mistakes.
        warnings: what ImageBiTe accepts although it looks wrong, and keys that mean nothing here.
    """

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            ConfigError: there is no such file, or it cannot be read.
        """
        self.file = str(path)
        self.requirements: dict[int, StatedRequirement] = {}
        self.concerns: dict[int, StatedConcern] = {}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        content = self._content(path)
        if not isinstance(content, dict):
            if content is not None:
                self.problem("", "not an object", accepted="an object with the key `requirements`")
            return
        for key in content:
            if key not in ("requirements", "ethical_concerns", *_KEYS_OF_ITS_RUNS):
                self.warn(key, "unknown key, ignored")
        self.concerns = self._parts(StatedConcern, content, "ethical_concerns")
        self.requirements = self._parts(StatedRequirement, content, "requirements")

    def problem(self, place: str, message: str, *, value: Any = None, accepted: str | None = None) -> None:
        """Note a mistake in the file and where it stands."""
        self.problems.append(_problem(self.file, place, message, value=value, accepted=accepted))

    def warn(self, place: str, message: str, *, value: Any = None) -> None:
        """Note something odd that stays as it is."""
        self.warnings.append(_problem(self.file, place, message, value=value))

    def _content(self, path: Path) -> Any:
        try:
            return read_json(path, pairs=self._object, largest=_LARGEST_BYTES)
        except FileNotFoundError:
            raise ConfigError(f"there is no file {self.file!r}") from None
        except OSError as error:
            raise ConfigError(f"{self.file}: cannot be read: {error}") from error
        except JsonMistake as error:
            place = "" if error.line is None else f"line {error.line}, column {error.column}"
            self.problem(place, f"not JSON: {error}")
        return None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            for name in found:
                if names.count(name) > 1:
                    self.warn("", f"the key {name!r} stands several times in one object; the last one counts")
        return found

    def _entries(self, content: dict[str, Any], key: str) -> list[Any]:
        needed = key == "requirements"
        if key not in content:
            if needed:
                self.problem(key, "is missing", accepted=_ACCEPTED[key])
            return []
        entries = content[key]
        if not isinstance(entries, list):
            self.problem(key, "not a list", value=entries, accepted=_ACCEPTED[key])
            return []
        if needed and not entries:
            self.problem(key, "is empty", accepted=_ACCEPTED[key])
        return entries

    def _parts(self, model: type[_AnyPart], content: dict[str, Any], key: str) -> dict[int, _AnyPart]:
        read = {
            position: self._read(model, entry, place=f"{key}[{position}]")
            for position, entry in enumerate(self._entries(content, key))
        }
        return {position: part for position, part in read.items() if part is not None}

    def _read(self, model: type[_AnyPart], entry: Any, *, place: str) -> _AnyPart | None:
        try:
            part = model.model_validate(entry)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                where = place + _path(item["loc"])
                key = next((str(step) for step in reversed(item["loc"]) if isinstance(step, str)), "")
                self.problem(
                    where,
                    _MESSAGES.get(item["type"], item["msg"]),
                    value=None if item["type"] in ("missing", "too_short") else item["input"],
                    accepted=_ACCEPTED.get(key),
                )
            return None
        self._warn_of_unknown_keys(part, place)
        return part

    def _warn_of_unknown_keys(self, part: _Part, place: str) -> None:
        for key in part.model_extra or {}:
            self.warn(f"{place}.{key}", "unknown key, ignored")
        if isinstance(part, StatedRequirement):
            for position, expected in enumerate(part.expected_distributions):
                self._warn_of_unknown_keys(expected, f"{place}.expected_distributions[{position}]")


def _path(steps: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _problem(file: str, place: str, message: str, *, value: Any = None, accepted: str | None = None) -> Problem:
    text = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text and shorten(text)
    return Problem(f"{file}, {place}" if place else file, message, value=text, accepted=accepted)
