"""Shows how a run gets on: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from detector_bench.runner.run import RunProgress
from detector_bench.vocabulary import Status

_SECONDS_BETWEEN_LINES = 10.0


class RunProgressDisplay:
    """A `ProgressListener` for the terminal. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("judging images"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[counts]}"),
            console=console,
        )
        self._task = self._bar.add_task("run", total=None, rate="", counts="", start=False)
        self._began = time.monotonic()
        self._last_line = self._began
        self._live = console.is_terminal

    def __enter__(self) -> RunProgressDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A bar that never started would still print an empty line.
        if self._bar.live.is_started:
            self._bar.stop()

    def update(self, progress: RunProgress) -> None:
        """Show where the run stands."""
        todo = progress.total - progress.reused
        if progress.done == 0:
            self._began = time.monotonic()
            if progress.reused:
                self._console.print(
                    f"{progress.reused:,} of {progress.total:,} images are judged already"
                    + ("; nothing to run" if todo == 0 else ""),
                    highlight=False,
                )
        if todo == 0:
            return
        elapsed = time.monotonic() - self._began
        rate = progress.done / elapsed if elapsed > 0 else 0.0
        speed = f"{rate:.1f} images/s{_cached(progress)}"
        counts = " ".join(f"{status.value} {progress.count(status):,}" for status in Status)
        if self._live:
            self._show_bar(progress, todo=todo, speed=speed, counts=counts)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES or progress.done == todo:
            self._last_line = time.monotonic()
            left = f", {(todo - progress.done) / rate:,.0f} s left" if rate and progress.done < todo else ""
            self._console.print(
                f"{progress.done:,} of {todo:,} images, {speed}{left}; {counts}",
                highlight=False,
                soft_wrap=True,
            )

    def _show_bar(self, progress: RunProgress, *, todo: int, speed: str, counts: str) -> None:
        if not self._bar.live.is_started:
            self._bar.start()
            self._bar.start_task(self._task)
        self._bar.update(
            self._task,
            total=todo,
            completed=progress.done,
            rate=speed,
            counts=counts,
        )


def _cached(progress: RunProgress) -> str:
    """What has to be known of a speed at which nothing was looked at."""
    if progress.from_cache == 0:
        return ""
    return " from cache" if progress.from_cache == progress.done else f" ({progress.from_cache:,} from cache)"
