"""What the conformance suite tries, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from detector_bench.vocabulary import Status


class Way(StrEnum):
    """A way to go about the same images. Whichever is taken, the verdicts must be the same."""

    ONE_BY_ONE = "one by one"
    THREE_BATCHES = "in three batches of 1, 2 and more images"
    OTHER_ORDER = "in another order, after them"
    RESUMED = "interrupted and resumed"
    FROM_KEPT_RESULTS = "from kept stage results"
    OTHER_PROCESS = "in another process"


class Finding(NamedTuple):
    """One thing that is not as it must be: on which way, where (an image; a stage or an attribute), and what."""

    way: Way
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.way}: {self.place}: {self.message}"


@dataclass(frozen=True)
class Conformance:
    """What the suite found.

    Attributes:
        ways: the ways that were taken.
        findings: what is not as it must be; empty if all is well.
        verdicts: how many verdicts of each status there were, one by one. Without a clear one, the check says
            nothing about what comes behind the filter.
    """

    ways: tuple[Way, ...]
    findings: tuple[Finding, ...]
    verdicts: Mapping[Status, int]

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
