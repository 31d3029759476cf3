"""Errors meant for the user: the command line prints their text, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


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

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        heading = f"{count} {'mistake' if count == 1 else 'mistakes'} in the data files:"
        super().__init__("\n".join([heading, *(f"  {problem}" for problem in self.problems)]))


def nearest_hint(unknown: str, known: Iterable[str]) -> str:
    """Say which known names are closest to an unknown one, and list them all if none is close."""
    names = sorted(known)
    close = get_close_matches(unknown, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "known: " + (", ".join(names) if names else "none")
