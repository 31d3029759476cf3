"""`verification.json`: what was proved about a result folder, and what could not be."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from detector_bench.sealed import read_sealed, write_sealed

NAME = "verification.json"


class Outcome(StrEnum):
    """What came of looking at one link of the chain from image to page."""

    PROVED = "proved"
    """All of it is as it was written, or comes out again."""
    OPEN = "open"
    """Something that it takes is not there, so that nobody can tell."""
    FALSE = "false"
    """Something is not as it was written, or comes out otherwise."""


class Link(BaseModel):
    """One link of the chain: what was looked at, and what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    outcome: Outcome
    says: str
    """A sentence without its full stop, with the numbers."""
    problems: tuple[str, ...] = ()
    """What is not as it should be, a line each; the first ones where there are many."""


class Verification(BaseModel):
    """What `detector-bench verify` found out about a result folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    study: str
    results: str
    """The seal of `results.json`, which everything else hangs on."""
    date: str
    detector_bench: str
    links: tuple[Link, ...]
    statement: str

    def of(self, *outcomes: Outcome) -> list[Link]:
        """The links with these outcomes."""
        return [link for link in self.links if link.outcome in outcomes]

    @property
    def is_false(self) -> bool:
        """Whether any link is broken."""
        return bool(self.of(Outcome.FALSE))

    @classmethod
    def read(cls, folder: Path, *, results: str) -> Self | None:
        """The record in a result folder; None where there is none that is about these very results."""
        try:
            found = cls.model_validate(read_sealed(folder / NAME))
        except (OSError, ValueError):
            return None
        return found if found.results == results else None

    def write(self, path: Path) -> None:
        """Write it as a file.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        write_sealed(path, self.model_dump(mode="json"))
