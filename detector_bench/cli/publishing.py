"""`figures` and `report`: what a finished study shows to others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.evaluation.more_labels import Tolerance
    from detector_bench.figures import Format, Width
    from detector_bench.site import PictureMode
    from detector_bench.study import Study

MOST_WORKERS = 4
"""More processes spend their time on starting."""


@command
def figures(
    folder: options.Folder,
    *,
    only: options.OnlyFigures = None,
    plugin: options.Plugins = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMATS", help="pdf, png, svg; several with commas.")
    ] = "pdf,png",
    width: Annotated[
        str | None,
        typer.Option("--width", metavar="single|double", help="3.3 or 7 inches; by default both."),
    ] = None,
    attribute: options.AttributeOption = None,
    out: options.OptionalOut = None,
) -> None:
    """Draw the paper's figures from a finished study, each with its caption as a text file.

    They are written to DIR/figures, or where --out says.

    Examples: `detector-bench figures results/mine`,
    `detector-bench figures results/mine --only filter_plane --format pdf --width single`
    """
    from detector_bench.figures import WIDTHS
    from detector_bench.study import Results

    load_plugins(plugin or [])
    folder_out = folder / "figures" if out is None else out
    results = Results.open(folder)
    output.warn(*results.reader.manifest.plugins_left_out())
    written = results.figures(
        folder_out,
        attribute=attribute,
        only=only,
        widths=WIDTHS if width is None else (cast("Width", width),),
        formats=tuple(cast("Format", kind.strip()) for kind in formats.split(",")),
        workers=min(os.cpu_count() or 1, MOST_WORKERS),
    )
    by_reason: dict[str, list[str]] = {}
    for name, reason in written.not_drawn.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        output.warn(f"{', '.join(names)}: not drawn: {reason}")
    output.rows("figures", [{"file": file} for file in written.files])
    output.say(f"{len(written.files)} files are in {folder_out}")


@command(reads_images=True)
def report(
    folder: options.Folder,
    *,
    out: options.OptionalOut = None,
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
    most_images: Annotated[
        int,
        typer.Option(
            "--most-images", min=1, metavar="N", help="Images in the image browser; of more, a random sample."
        ),
    ] = 20_000,
    beside: Annotated[
        Path | None,
        typer.Option(
            "--beside",
            metavar="DIR2",
            help="An earlier version or another study, as a result folder: a page says what changed since.",
        ),
    ] = None,
    image_set: options.ImageSetOption = None,
    cache_dir: options.CacheDir = None,
    weights_dir: options.WeightsDir = None,
    plugin: options.Plugins = None,
) -> None:
    """Write a report that opens from a disk: the verdict, tables, figures, and every error with its image.

    It is written to DIR/report, or where --out says.

    Examples: `detector-bench report results/mine`,
    `detector-bench report results/mine --out public --images blur --note "Labels by two students."`
    """
    from detector_bench.cli.progress import ReportDisplay
    from detector_bench.site import ReportSettings
    from detector_bench.study import Results

    load_plugins(plugin or [])
    results = Results.open(folder, image_set=image_set)
    output.warn(*results.reader.manifest.plugins_left_out(), *results.reader.manifest.plugins_changed())
    settings = ReportSettings(
        pictures=cast("PictureMode", images),
        large_side=large,
        tolerance=_tolerance(results.study, prompt_bias_error, model_bias_score_error),
        note=note,
        figures=not without_figures,
        most_images=most_images,
        cache_folder=cache_dir,
        weights_dir=weights_dir,
        workers=min(os.cpu_count() or 1, MOST_WORKERS),
        beside=None if beside is None else Results.open(beside).reader,
    )
    with ReportDisplay(errors) as display:
        written = results.report(out, settings=settings, progress=display)
    for line in written.not_shown:
        output.warn(line)
    for line in written.headline:
        output.row(line, table="headline", says=line)
    output.rows("report", [{"file": written.page}])
    output.say(f"Open {written.page}")


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
