"""A detector's card: whether its verdicts hold however it is asked, what odd pictures do to it, how fast it is."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from detector_bench.conformance import DEFAULT_TOLERANCE, Conformance, check_detector
from detector_bench.conformance.comparison import Pixels, Session
from detector_bench.detector_kit.probes import CheckLine, CheckOutcome, Probes
from detector_bench.detectors.base import Detector
from detector_bench.perception.stage import with_inputs
from detector_bench.runner.readiness import require_ready
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

_MOST_DETAILS = 12
_ROUNDS = 3
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Speed:
    """How fast a detector was, in a process that did nothing else: with decoded pictures, and nothing kept.

    Attributes:
        milliseconds: for one picture, alone; the median over pictures and rounds.
        images_per_second: all pictures in one batch, the best of the rounds.
        loading: seconds until the first verdict, with loading, less a picture's own time.
        memory: megabytes that the process has taken at most; None: this system does not tell.
    """

    milliseconds: float
    images_per_second: float
    loading: float
    memory: float | None


@dataclass(frozen=True)
class CheckCard:
    """What was checked of a detector, and what came of it.

    Attributes:
        detector: its name.
        pictures: how many pictures it was asked about.
        verdicts: how many verdicts of each status it gave on them, one by one.
        lines: what was checked.
        speed: how fast it was; None where every picture would have been sent away for it.
    """

    detector: str
    pictures: int
    verdicts: Mapping[Status, int]
    lines: tuple[CheckLine, ...]
    speed: Speed | None

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not any(line.outcome is CheckOutcome.FAILED for line in self.lines)

    @property
    def summary(self) -> str:
        """One line: how many checks passed, told something, failed."""
        counts = Counter(line.outcome for line in self.lines)
        return ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in CheckOutcome)

    def facts(self) -> dict[str, str]:
        """Speed, memory and verdicts, in words."""
        counts = ", ".join(f"{self.verdicts.get(status, 0)} {status.value}" for status in Status)
        pictures = {"pictures": f"{self.pictures}; one by one: {counts}"}
        speed = self.speed
        if speed is None:
            return {**pictures, "speed": "not measured: every picture would be sent away"}
        memory = (
            "not told by this system" if speed.memory is None else f"{speed.memory:,.0f} MB at most, with Python"
        )
        return {
            **pictures,
            "speed": f"{speed.images_per_second:,.1f} images/s together, {speed.milliseconds:,.1f} ms one alone",
            "loading": f"{speed.loading:.2f} s",
            "memory": memory,
        }

    def as_markdown(self) -> str:
        """The card as a page of Markdown."""
        rows = [
            f"| {line.check} | {line.outcome.value} | {_cell(line.says)} |"
            + "".join(f"\n| | | {_cell(each)} |" for each in _shown(line.details))
            for line in self.lines
        ]
        facts = [f"- {name}: {text}" for name, text in self.facts().items()]
        head = ["", "| check | outcome | |", "| --- | --- | --- |"]
        return "\n".join([f"# {self.detector}", "", f"{self.summary}.", "", *facts, *head, *rows, ""])


def check_card(
    detector: Detector,
    images: Sequence[Pixels],
    *,
    weights: WeightsLocator | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> CheckCard:
    """Check a detector: the conformance suite, odd pictures, speed and memory.

    Of a detector that sends images somewhere only the suite runs, since every look may cost something.

    Args:
        detector: from `build_detector`.
        images: at least six, (height, width, 3), RGB; such as it is meant for, of which some are clear to it.
        weights: where weights are found; None looks where the command line does.
        tolerance: see `conformance.DEFAULT_TOLERANCE`.

    Raises:
        ConfigError: fewer than six images.
        MissingExtraError, WeightsError: the detector cannot run on this machine.
    """
    weights = WeightsLocator.from_environment() if weights is None else weights
    require_ready(with_inputs(detector.stages), weights=weights)
    images = list(images)
    sends = [stage.kind for stage in with_inputs(detector.stages) if stage.sends() is not None]
    speed: Speed | None = None
    probed: tuple[CheckLine, ...]
    if sends:
        says = f"left out: {', '.join(sends)} sends every picture away"
        probed = (CheckLine("odd pictures", CheckOutcome.TOLD, says),)
    else:
        with Session(detector, weights=weights) as session:
            speed = _speed(session, images)
            probed = tuple(Probes(session, detector, images, tolerance=tolerance).lines())
    found = check_detector(detector, images, weights=weights, tolerance=tolerance)
    lines = (*_ways(found), *probed)
    return CheckCard(detector.name, len(images), found.verdicts, lines, speed)


def _ways(found: Conformance) -> Iterator[CheckLine]:
    for way in found.ways:
        own = tuple(f"{each.place}: {each.message}" for each in found.findings if each.way is way)
        says = "the same verdicts and numbers" if not own else f"{len(own)} not as they must be"
        yield CheckLine(way.value, CheckOutcome.FAILED if own else CheckOutcome.PASSED, says, own)
    if not found.verdicts.get(Status.CLEAR, 0):
        says = "no picture was clear, so that nothing was checked behind the filter: name a folder with --images"
        yield CheckLine("pictures that are clear", CheckOutcome.TOLD, says)


def _speed(session: Session, images: Sequence[Pixels]) -> Speed:
    named = {str(number): pixels for number, pixels in enumerate(images)}
    first = next(iter(named))
    began = time.perf_counter()
    session.observe(named, [[first]])
    until_first = time.perf_counter() - began
    alone: list[float] = []
    together: list[float] = []
    for _ in range(_ROUNDS):
        for image_id in named:
            began = time.perf_counter()
            session.observe(named, [[image_id]])
            alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        session.observe(named, [list(named)])
        together.append(time.perf_counter() - began)
    one = median(alone)
    return Speed(1000 * one, len(named) / min(together), max(until_first - one, 0.0), _peak_memory())


def _peak_memory() -> float | None:
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit / _MEGABYTE


def _shown(details: tuple[str, ...]) -> list[str]:
    more = [f"and {len(details) - _MOST_DETAILS} more"] if len(details) > _MOST_DETAILS else []
    return [*details[:_MOST_DETAILS], *more]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
