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
from detector_bench.cli.studies import CacheDir, ImageSetOption, Plugins, WeightsDir
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.evaluation.more_labels import Tolerance
    from detector_bench.site import PictureMode
    from detector_bench.study import Study

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
    prompt_bias_error: Annotated[
        float | None,
        typer.Option(
            "--prompt-bias-error",
            help="Tolerance: how far off prompt bias scores may be, 0 to 2; by default as the study says, or 0.2.",
        ),
    ] = None,
    model_bias_score_error: Annotated[
        float | None,
        typer.Option(
            "--model-bias-score-error",
            help="Tolerance: how far off the model bias score may be; by default as the study says, or 0.1.",
        ),
    ] = None,
    note: Annotated[
        str,
        typer.Option("--note", help="Words below the title: where the labels come from, the images' licence."),
    ] = "",
    without_figures: Annotated[bool, typer.Option("--without-figures", help="Draw no figures.")] = False,
    image_set: ImageSetOption = None,
    cache_dir: CacheDir = None,
    weights_dir: WeightsDir = None,
    plugin: Plugins = None,
) -> None:
    """Write a report that opens from a disk: the verdict, tables, figures, and every error with its image.

    Examples: `detector-bench report results/mine`,
    `detector-bench report results/mine --out public --images blur --note "Labels by two students."`
    """
    from detector_bench.site import ReportSettings
    from detector_bench.study import Results

    load_plugins(plugin or [])
    results = Results.open(folder, image_set=image_set)
    settings = ReportSettings(
        pictures=cast("PictureMode", images),
        large_side=large,
        tolerance=_tolerance(results.study, prompt_bias_error, model_bias_score_error),
        note=note,
        figures=not without_figures,
        cache_folder=cache_dir,
        weights_dir=weights_dir,
        workers=min(os.cpu_count() or 1, _MOST_WORKERS),
    )
    with _Display(errors) as display:
        written = results.report(out, settings=settings, progress=display)
    for line in written.not_shown:
        errors.print(line, style="yellow", soft_wrap=True, markup=False, highlight=False)
    for line in written.headline:
        output.print(line, soft_wrap=True, markup=False, highlight=False)
    output.print(f"Open [bold]{escape(str(written.page))}[/bold]", soft_wrap=True, highlight=False)


def _tolerance(study: Study, prompt: float | None, model: float | None) -> Tolerance | None:
    """The study's tolerance with what was asked for in its place; None: nothing was."""
    from pydantic import ValidationError

    from detector_bench.errors import config_error_from
    from detector_bench.evaluation.more_labels import Tolerance

    asked = {"prompt_bias_error": prompt, "model_bias_score_error": model}
    asked = {name: value for name, value in asked.items() if value is not None}
    if not asked:
        return None
    try:
        return Tolerance.model_validate({**study.tolerance.model_dump(), **asked})
    except ValidationError as error:
        raise config_error_from(error, place="tolerance", model=Tolerance) from error


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
