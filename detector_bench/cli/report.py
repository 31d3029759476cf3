"""`report`."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from detector_bench.cli.console import errors, output
from detector_bench.cli.studies import CacheDir, ImageSetOption, WeightsDir

if TYPE_CHECKING:
    from detector_bench.web_report import PictureMode

_MOST_WORKERS = 4
"""More processes spend their time on starting."""


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of `run` or `evaluate`.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where to write; by default DIR/report.")
    ] = None,
    images: Annotated[
        str,
        typer.Option(
            "--images",
            metavar="copy|blur|link|none",
            help="Copy pictures (smaller, without metadata), blur them, link to the image set, or leave them out.",
        ),
    ] = "copy",
    large: Annotated[
        int,
        typer.Option("--large", metavar="PIXELS", help="Side of the copied large pictures; 0: only small ones."),
    ] = 1024,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="How far off a model bias score may be; 0.1 is 10 %.")
    ] = 0.1,
    prompt_tolerance: Annotated[
        float, typer.Option("--prompt-tolerance", help="How far off prompt bias scores may be on average.")
    ] = 0.1,
    note: Annotated[
        str,
        typer.Option("--note", help="Words below the title: where the labels come from, the images' licence."),
    ] = "",
    without_figures: Annotated[bool, typer.Option("--without-figures", help="Draw no figures.")] = False,
    image_set: ImageSetOption = None,
    cache_dir: CacheDir = None,
    weights_dir: WeightsDir = None,
) -> None:
    """Write a report that opens from a disk: the verdict, tables, figures, and every error with its image.

    Examples: `detector-bench report results/mine`,
    `detector-bench report results/mine --out public --images blur --note "Labels by two students."`
    """
    from detector_bench.web_report import ReportSettings, Tolerance, write_report

    settings = ReportSettings(
        pictures=cast("PictureMode", images),
        large_side=large,
        tolerance=Tolerance(tolerance, prompt_tolerance),
        note=note,
        figures=not without_figures,
        cache_folder=cache_dir,
        weights_dir=weights_dir,
        workers=min(os.cpu_count() or 1, _MOST_WORKERS),
    )
    with _Display(errors) as display:
        written = write_report(folder, out, image_set=image_set, settings=settings, progress=display)
    for line in written.not_shown:
        errors.print(line, style="yellow", soft_wrap=True, markup=False, highlight=False)
    for line in written.headline:
        output.print(line, soft_wrap=True, markup=False, highlight=False)
    output.print(f"Open [bold]{escape(str(written.page))}[/bold]", soft_wrap=True, highlight=False)


class _Display:
    """A bar for the pictures, and a line for each step. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
        )
        self._task = self._bar.add_task("pictures", total=None)

    def __enter__(self) -> _Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def step(self, what: str) -> None:
        """Name what begins; the pictures show themselves by their bar."""
        self._stop()
        self._console.print(what, style="dim", highlight=False, markup=False)

    def pictures(self, done: int, total: int) -> None:
        """Move the bar."""
        if not self._console.is_terminal:
            return
        if not self._bar.live.is_started:
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)

    def _stop(self) -> None:
        if self._bar.live.is_started:
            self._bar.stop()
