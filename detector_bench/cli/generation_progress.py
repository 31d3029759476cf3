"""Shows how far the images of a recipe have come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from detector_bench.cli.console import output
from detector_bench.cli.progress import SECONDS_BETWEEN_LINES, Display
from detector_bench.perception.answers.spending import money

if TYPE_CHECKING:
    from rich.console import Console

    from detector_bench.generation.generation_run import GenerationProgress


class GenerationDisplay(Display):
    """Shows in the terminal what becomes of requests: a bar, or a line now and then in a log."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            console,
            TextColumn("{task.fields[rate]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[counts]}"),
        )
        self._last_line = time.monotonic()
        self._t2i_model = ""

    def update(self, progress: GenerationProgress) -> None:
        """Show what has become of the requests of a T2I model."""
        counts = " ".join(f"{status.value} {number:,}" for status, number in progress.counts.items())
        if progress.spent:
            counts += f"; spent {money(progress.spent)}"
        if self._live:
            if progress.t2i_model != self._t2i_model:
                # Of the one before, the bar keeps its end and its pace.
                self._t2i_model = progress.t2i_model
                self._bar.reset(self._task, total=progress.total)
            self._move(progress.done, progress.total, rate=progress.t2i_model, counts=counts)
        now = time.monotonic()
        if progress.done == 0 or now - self._last_line >= SECONDS_BETWEEN_LINES or progress.done == progress.total:
            self._last_line = now
            rate = progress.done / progress.seconds if progress.done else 0.0
            seconds = (progress.total - progress.done) / rate if rate else 0.0
            left = f", {seconds:,.0f} s left" if seconds else ""
            told = f"; {counts}" if counts else ""
            line = f"{progress.t2i_model}: {progress.done:,} of {progress.total:,} requests{left}{told}"
            output.log(line)
            if not self._live:
                self._console.print(line, highlight=False, soft_wrap=True)
