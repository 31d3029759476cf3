"""Errors meant for the user: the command line prints their text, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


_LONGEST = 2000
"""Characters of one mistake that are shown."""


class DetectorBenchError(Exception):
    """Something the user can mend; the message says what is wrong, where, and what is accepted."""


class ConfigError(DetectorBenchError):
    """A study file, an option or a detector's parameter is wrong."""


class MissingExtraError(DetectorBenchError):
    """An optional package is needed that is not installed; the message says what to install."""


class WeightsError(DetectorBenchError):
    """A weights file is missing, or is not the file that was pinned by its sha256."""


class IncompletePredictionsError(DetectorBenchError):
    """Stored predictions do not cover the image set that they are to be evaluated on."""


class ChangedInputsError(DetectorBenchError):
    """Numbers would be made of other labels, images or settings than those that a folder has."""


class RunInterruptedError(DetectorBenchError):
    """The run was stopped; what it had done is stored, and running again goes on from there."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a data file: where it stands, the bad value, and what is accepted there.

    `row` counts as a spreadsheet does: the header is row 1, the first record is row 2. It is None for a
    mistake that concerns a whole file or column.
    """

    file: str
    message: str
    row: int | None = None
    column: str | None = None
    value: str | None = None
    accepted: str | None = None

    def __str__(self) -> str:
        place = self.file
        if self.row is not None:
            place += f", row {self.row}"
        if self.column is not None:
            place += f", column {self.column}"
        text = f"{place}: {self.message}"
        if self.value is not None:
            text += f": {self.value!r}"
        if self.accepted is not None:
            text += f" (accepted: {self.accepted})"
        return text


class DataError(DetectorBenchError):
    """One or more mistakes in an image set's files, all of them at once."""

    def __init__(self, problems: Sequence[Problem], *, advice: str = "") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        heading = f"{count} {'mistake' if count == 1 else 'mistakes'} in the data files:"
        super().__init__(
            "\n".join([heading, *(f"  {problem}" for problem in self.problems)] + [f"  {advice}"] * bool(advice))
        )


def nearest_hint(unknown: str, known: Iterable[str]) -> str:
    """Say which known names are closest to an unknown one, and list them all if none is close."""
    names = sorted(known)
    close = get_close_matches(unknown, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "known: " + (", ".join(names) if names else "none")


def config_error_from(error: ValidationError, *, place: str, model: type[BaseModel]) -> ConfigError:
    """Describe all mistakes that pydantic found, a line each.

    Args:
        error: what pydantic raised.
        place: where the configuration comes from, a file or a detector's name.
        model: the model that was validated, to find the names that are known at each place.
    """
    lines = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            known = _known_names(model, item["loc"][:-1])
            message = f"unknown key {str(item['loc'][-1])!r}: {nearest_hint(str(item['loc'][-1]), known)}"
        elif item["type"] == "missing":
            message = "is missing"
        elif item["type"] == "union_tag_not_found":
            message = f"the key {item['ctx']['discriminator']} is missing"
        elif isinstance(item["input"], str | int | float | bool) and repr(item["input"]) not in message:
            message += f"; got {item['input']!r}"
        lines.append(f"{place}: {_cut(where) + ': ' if where else ''}{_cut(message)}")
    return ConfigError("\n".join(lines))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _known_names(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    current: list[Any] = [model]
    for part in path:
        following: list[Any] = []
        for each in current:
            following += [model for name, field in _fields(each) if name == part for model in _models_in(field)]
        # Positions in lists, keys of mappings and tags of unions stay at the same models.
        current = following or current
    return sorted({name for each in current for name, _ in _fields(each)})


def _fields(model: Any) -> list[tuple[str, Any]]:
    """The names that a configuration uses, and what each holds."""
    if not _is_model(model):
        return []
    return [(field.alias or name, field.annotation) for name, field in model.model_fields.items()]


def _models_in(annotation: Any) -> list[Any]:
    if _is_model(annotation):
        # What a registry chose by a name, such as a score system, derives from the model of the field.
        return [annotation, *annotation.__subclasses__()]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def _is_model(value: Any) -> bool:
    from pydantic import BaseModel  # this module is imported by everything, and pydantic takes a while

    return isinstance(value, type) and issubclass(value, BaseModel)
