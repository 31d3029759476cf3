"""What a run tells: while it goes on, and when it is done."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol, Self

from detector_bench.vocabulary import Status


@dataclass
class RunProgress:
    """Where a run stands.

    Attributes:
        total: images of the image set, or of the shard that alone is asked for.
        reused: images whose predictions were all there already, as far as this is known.
        done: images judged in this run.
        from_cache: those of them that no stage had to look at, since their results were kept by an earlier run.
        counts: verdicts of this run, by detector and status.
        shards_done: how many shards are finished.
        shards: how many there are to do.
        damaged: files of predictions that were damaged; what stood in them is judged again.
        spent: what answers of paid services cost in this run, by currency.
        damaged_results: results in the stage cache that were damaged; they are computed anew.
    """

    total: int
    reused: int = 0
    done: int = 0
    from_cache: int = 0
    counts: dict[str, Counter[Status]] = field(default_factory=dict)
    shards_done: int = 0
    shards: int = 1
    damaged: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    damaged_results: int = 0

    def count(self, status: Status) -> int:
        """Verdicts with this status, over all detectors."""
        return sum(counter[status] for counter in self.counts.values())

    def as_data(self) -> dict[str, Any]:
        """Plain data, to be sent to another process."""
        counts = {
            name: {str(status): images for status, images in each.items()} for name, each in self.counts.items()
        }
        return {**vars(self), "counts": counts}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Self:
        """What `as_data` gave."""
        counts = {
            name: Counter({Status(status): images for status, images in each.items()})
            for name, each in data["counts"].items()
        }
        return cls(**{**data, "counts": counts})


class ProgressListener(Protocol):
    """Is told after every batch."""

    def update(self, progress: RunProgress) -> None:
        """Show where the run stands."""


class SilentListener:
    """A listener that shows nothing, where nobody watches the run."""

    def update(self, progress: RunProgress) -> None:
        """Show nothing of what the run tells."""


@dataclass
class RunRecord:
    """What a run did, for `run.json`."""

    images: int = 0
    images_judged: int = 0
    seconds: float = 0.0
    seconds_per_stage: dict[str, float] = field(default_factory=dict)
    images_per_stage: dict[str, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    stage_fingerprints: dict[str, str] = field(default_factory=dict)
    precision_per_stage: dict[str, str] = field(default_factory=dict)
    """The number format that each stage takes on this machine."""
    device_per_stage: dict[str, str] = field(default_factory=dict)
    """Where each stage ran; stages whose results were all there already have no entry."""
    layout_per_stage: dict[str, dict[str, int | bool | None]] = field(default_factory=dict)
    """How the work of each network that ran was laid on the cores; see `lanes.StageLayout`."""
    waited_for: dict[str, float] = field(default_factory=dict)
    """What the run waited for, in seconds that add up to `seconds`; see `time_spent.waited_for`."""
    identities: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: licence, source and sha256; of several files, one sha256 for all, and each one's in `files`."""
    spending: dict[str, dict[str, float | str]] = field(default_factory=dict)
    """By stage, what its answers cost: this session's, and all of the result folder; see `spending_record`."""

    def session(self) -> dict[str, Any]:
        """What this process did, as one of the `sessions` of `run.json`."""
        found = asdict(self)
        return {name: found[name] for name in OF_A_SESSION} | {"peak_memory_mib": round(peak_memory_mib(), 1)}

    def lasting(self) -> dict[str, Any]:
        """What holds for the predictions, whoever made them, as plain data."""
        return {name: value for name, value in asdict(self).items() if name not in OF_A_SESSION}

    @classmethod
    def of_lasting(cls, data: Mapping[str, Any]) -> Self:
        """What `lasting` gave; what an older version does not know is left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})

    def add(self, other: RunRecord) -> None:
        """Take in what was done on another shard."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if each.name == "spending":
                for stage, spent in theirs.items():
                    mine[stage] = _spent(mine.get(stage, {}), spent)
            elif each.name in ("seconds_per_stage", "images_per_stage", "waited_for"):
                for stage, number in theirs.items():
                    mine[stage] = mine.get(stage, 0) + number
            elif isinstance(mine, dict):
                mine.update(theirs)
            else:
                setattr(self, each.name, mine + theirs)

    @classmethod
    def of_all(cls, records: Iterable[RunRecord]) -> Self:
        """The records of several shards as one."""
        whole = cls()
        for record in records:
            whole.add(record)
        return whole


OF_A_SESSION = (
    "images_judged",
    "seconds",
    "seconds_per_stage",
    "images_per_stage",
    "device_per_stage",
    "layout_per_stage",
    "waited_for",
)
"""Fields of a `RunRecord` that say what one process did."""


def _spent(mine: Mapping[str, float | str], theirs: Mapping[str, float | str]) -> dict[str, float | str]:
    """Numbers add up; words, such as a currency, are listed once each."""
    found = dict(mine)
    for name, spent in theirs.items():
        before = found.get(name)
        if before is None or (before == spent and isinstance(spent, str)):
            found[name] = spent
        elif isinstance(before, str) or isinstance(spent, str):
            found[name] = ", ".join(dict.fromkeys([*str(before).split(", "), str(spent)]))
        else:
            found[name] = before + spent
    return found


def peak_memory_mib() -> float:
    """Largest memory that this process has held so far, in MiB."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
