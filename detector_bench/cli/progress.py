"""Shows how things get on: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from detector_bench.cli.console import errors, output
from detector_bench.perception.answers.spending import money
from detector_bench.runner.time_spent import DECODING, PREPARING, READING
from detector_bench.vocabulary import Status

if TYPE_CHECKING:
    from detector_bench.runner.run_record import RunProgress

SECONDS_BETWEEN_LINES = 10.0
"""In a log."""

_SECONDS_BETWEEN_MOVES = 0.05


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is gone when all is counted; it is moved by a call with how many are done, of how many."""
    with Progress(console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        last = -_SECONDS_BETWEEN_MOVES

        def move(done: int, total: int) -> None:
            # A bar takes longer to move than a tiny image to read.
            nonlocal last
            now = time.monotonic()
            if now - last >= _SECONDS_BETWEEN_MOVES or done == total:
                last = now
                bar.update(task, completed=done, total=total)

        yield move


class Display:
    """A bar that appears when something moves it. Use it as a context manager."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self._console = console
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("", total=None, rate="", counts="", start=False)
        self._live = console.is_terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        # A bar that never started would still print an empty line.
        if self._bar.live.is_started:
            self._bar.stop()

    def _move(self, done: int, total: int, **fields: Any) -> None:
        if not self._bar.live.is_started:
            self._bar.start()
            self._bar.start_task(self._task)
        self._bar.update(self._task, completed=done, total=total, **fields)


class ReportDisplay(Display):
    """A bar for a report's pictures, and a line for each step."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    def step(self, what: str) -> None:
        """Name what begins; the pictures show themselves by their bar."""
        self._stop()
        output.log(what)
        self._console.print(what, style="dim", highlight=False, markup=False)

    def pictures(self, done: int, total: int) -> None:
        """Move the bar to the number of pictures that are done."""
        if self._live:
            self._move(done, total)


class RunProgressDisplay(Display):
    """Shows in the terminal how far a run has come, as a `ProgressListener`."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            console,
            TextColumn("judging images"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[counts]}"),
        )
        self._began = time.monotonic()
        self._last_line = self._began
        self._damage_told = self._cache_damage_told = False

    def update(self, progress: RunProgress) -> None:
        """Show how many images are judged, and what became of them."""
        todo = progress.total - progress.reused
        if progress.damaged and not self._damage_told:
            self._damage_told = True
            self._say("damaged prediction files: what stood in them is judged again", shown=True)
        if progress.damaged_results and not self._cache_damage_told:
            self._cache_damage_told = True
            self._say("damaged results in the stage cache: they were computed anew", shown=True)
        if progress.done == 0:
            self._began = time.monotonic()
            # Of many shards only the end tells how much was there.
            if progress.reused and (todo == 0 or progress.shards == 1):
                nothing = "; nothing to run" if todo == 0 else ""
                self._say(
                    f"{progress.reused:,} of {progress.total:,} images are judged already{nothing}", shown=True
                )
        if todo == 0:
            return
        elapsed = time.monotonic() - self._began
        rate = progress.done / elapsed if elapsed > 0 else 0.0
        speed = f"{rate:.1f} images/s{_cached(progress)}"
        counts = " ".join(f"{status.value} {progress.count(status):,}" for status in Status)
        if progress.spent:
            counts += f"; spent {money(progress.spent)}"
        if self._live:
            self._move(progress.done, todo, rate=speed, counts=counts)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES or progress.done == todo:
            self._last_line = time.monotonic()
            left = f", {(todo - progress.done) / rate:,.0f} s left" if rate and progress.done < todo else ""
            line = f"{progress.done:,} of {todo:,} images, {speed}{left}; {counts}"
            self._say(line, shown=not self._live)

    def _say(self, line: str, *, shown: bool) -> None:
        output.log(line)
        if shown:
            self._console.print(line, highlight=False, soft_wrap=True)


def what_it_waited_for(waited_for: Mapping[str, float], devices: Mapping[str, str]) -> str:
    """One sentence about where a run's time went, and what would make it shorter; empty for a run of no time.

    Args:
        waited_for: seconds by what they went into, of `RunRecord.waited_for`.
        devices: where each stage ran, of `RunRecord.device_per_stage`.
    """
    seconds = sum(waited_for.values())
    if seconds < _SHORTEST_TOLD:
        return ""
    ordered = sorted(waited_for.items(), key=lambda item: -item[1])
    shares = [(what, spent / seconds) for what, spent in ordered]
    names = Counter(_stage_name(what) for what in waited_for)
    told = [
        # Two networks of one kind are told apart by the labels that `run.json` has for them.
        f"{share:.0%} {_stage_name(what) if names[_stage_name(what)] == 1 else what}"
        for what, share in shares
        if share >= _SMALLEST_SHARE_TOLD
    ]
    advice = _advice(shares, devices)
    return f"Of {seconds:,.0f} s: {', '.join(told)}{advice and f'; {advice}'}."


_SHORTEST_TOLD = 5.0
_SMALLEST_SHARE_TOLD = 0.02
_LARGE_SHARE = 0.5


def _stage_name(label: str) -> str:
    """A stage's label without its fingerprint."""
    name, dash, end = label.rpartition("-")
    return name if dash and len(end) == _DIGITS_OF_LABEL else label


_DIGITS_OF_LABEL = 8


def _advice(shares: Sequence[tuple[str, float]], devices: Mapping[str, str]) -> str:
    by_kind: dict[str, float] = {}
    for what, share in shares:
        kind = _kind(what, devices)
        by_kind[kind] = by_kind.get(kind, 0.0) + share
    kind, share = max(by_kind.items(), key=lambda item: item[1])
    return _HELP.get(kind, "") if share >= _LARGE_SHARE else ""


def _kind(what: str, devices: Mapping[str, str]) -> str:
    if what == READING:
        return "reading"
    if what in (DECODING, PREPARING) or devices.get(what) == "cpu":
        return "cores"
    return "gpu" if devices.get(what, "").startswith(("cuda", "mps")) else "else"


_HELP = {
    "reading": "a faster disk or network would help",
    "cores": "more cores would help",
    "gpu": "a faster GPU, or several of them, would help",
}


def _cached(progress: RunProgress) -> str:
    """What has to be known of a speed at which nothing was looked at."""
    if progress.from_cache == 0:
        return ""
    return " from cache" if progress.from_cache == progress.done else f" ({progress.from_cache:,} from cache)"
