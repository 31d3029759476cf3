"""`figures`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.markup import escape

from detector_bench.cli.console import errors, output
from detector_bench.cli.studies import Plugins
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.figures import Format, Width


_MOST_WORKERS = 4
"""More processes spend their time on starting."""


def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Result folder of `run` or `evaluate`.")],
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this figure; may be repeated.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="FORMATS", help="pdf, png, svg; several with commas.")
    ] = "pdf,png",
    width: Annotated[
        str | None,
        typer.Option("--width", metavar="single|double", help="3.3 or 7 inches; by default both."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option("--attribute", help="gender, age, race or skin_tone [the study's first]."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write; by default DIR/figures.")
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Draw the paper's figures from a finished study, each with its caption as a text file.

    Examples: `detector-bench figures results/mine`,
    `detector-bench figures results/mine --only filter_plane --format pdf --width single`
    """
    from detector_bench.figures import WIDTHS
    from detector_bench.study import Results

    load_plugins(plugin or [])
    folder_out = folder / "figures" if out is None else out
    written = Results.open(folder).figures(
        folder_out,
        attribute=attribute,
        only=only,
        widths=WIDTHS if width is None else (cast("Width", width),),
        formats=tuple(cast("Format", kind.strip()) for kind in formats.split(",")),
        workers=min(os.cpu_count() or 1, _MOST_WORKERS),
    )
    for name, reason in written.not_drawn.items():
        errors.print(f"{name}: not drawn: {reason}", style="yellow", soft_wrap=True, markup=False, highlight=False)
    output.print(
        f"{len(written.files)} files are in [bold]{escape(str(folder_out))}[/bold]",
        highlight=False,
        soft_wrap=True,
    )
