"""What a run tells about itself while it goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from detector_bench.vocabulary import Status


@dataclass
class RunProgress:
    """Where a run stands.

    Attributes:
        total: images of the image set.
        reused: images whose predictions were all there already.
        done: images judged in this run.
        from_cache: those of them that no stage had to look at, since their results were kept by an earlier run.
        counts: verdicts of this run, by detector and status.
    """

    total: int
    reused: int = 0
    done: int = 0
    from_cache: int = 0
    counts: dict[str, Counter[Status]] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Verdicts with this status, over all detectors."""
        return sum(counter[status] for counter in self.counts.values())


class ProgressListener(Protocol):
    """Is told after every batch."""

    def update(self, progress: RunProgress) -> None:
        """Show where the run stands."""


class SilentProgress:
    """Shows nothing."""

    def update(self, progress: RunProgress) -> None:
        """Show nothing."""
