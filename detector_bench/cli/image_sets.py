"""`check` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli.console import errors, output


def check(
    image_set: Annotated[
        Path, typer.Argument(metavar="IMAGE_SET", help="Folder with images.csv, prompts.csv, ...")
    ],
) -> None:
    """Check an image set: its three tables, and every image file. Exit status 1 if something is wrong.

    Example: `detector-bench check my_images`
    """
    from rich.progress import Progress

    from detector_bench.dataset import check as check_image_set

    with Progress(console=errors, transient=True) as bar:
        task = bar.add_task("reading images", total=None)
        report = check_image_set(
            image_set, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    output.print(report.summary(), markup=False, highlight=False, soft_wrap=True)
    if report.problems:
        raise typer.Exit(1)


def import_() -> None:
    """Placeholder."""
