"""`check` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli.console import errors, output
from detector_bench.errors import ConfigError

AttributeFiles = Annotated[
    list[Path] | None,
    typer.Option("--attribute-file", metavar="FILE.yaml", help="An attribute of your own; may be repeated."),
]


def check(
    image_set: Annotated[Path, typer.Argument(metavar="IMAGE_SET", help="Folder with images.csv, ...")],
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


def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder tree t2i_model/prompt/image.png.")],
    destination: Annotated[Path, typer.Argument(metavar="IMAGE_SET", help="Where the image set is written.")],
    *,
    seeds: Annotated[
        Path | None,
        typer.Option("--seeds", metavar="FOLDER", help="Photos that the images were edited from."),
    ] = None,
    labels: Annotated[Path | None, typer.Option("--labels", metavar="FILE", help="CSV or Parquet.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="OURS=THEIRS", help="A column of that file; may be repeated."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="THEIRS=OURS", help="A label of that file; may be repeated."),
    ] = None,
    attribute: Annotated[str, typer.Option("--attribute", help="What the labels are about.")] = "gender",
    annotator: Annotated[str, typer.Option("--annotator", help="Whose labels they are.")] = "imported",
    attribute_file: AttributeFiles = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="CSV: prompt_id, word, ...")
    ] = None,
    category: Annotated[str, typer.Option("--category", help="Category of prompts that have none.")] = "unknown",
    hardlink: Annotated[bool, typer.Option("--hardlink", help="Link images instead of copying them.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace tables that exist.")] = False,
) -> None:
    """Make an image set of a folder tree and any label file.

    Our columns are image_id, annotator, attribute, label, reason and value (a measured number, such as an age in
    years). Several columns for `label` make several annotators. If SOURCE is IMAGE_SET, the images stay where they
    are. With --seeds, an image belongs to the photo whose name its own begins with: tom_0.png to tom.jpg.

    Example: `detector-bench import renders my_images --labels ratings.csv --column image_id=file
    --column label=rater1,rater2 --value m=male --value f=female --value x=low_quality`
    """
    from detector_bench.dataset import SEED_COLUMN, import_folder

    made = import_folder(
        source,
        destination,
        seeds=seeds,
        labels=labels,
        mapping=_pairs(column, option="--column"),
        values=_pairs(value, option="--value"),
        attribute=attribute,
        annotator=annotator,
        attribute_files=attribute_file or (),
        prompts=prompts,
        category=category,
        link="hardlink" if hardlink else "copy",
        overwrite=overwrite,
    )
    edited = int((made.images[SEED_COLUMN] != "").sum()) if SEED_COLUMN in made.images else 0
    output.print(
        f"{made.root}: {len(made.images):,} images, {f'{edited:,} of them edited, ' if edited else ''}"
        f"{len(made.prompts):,} prompts, {len(made.labels):,} labels",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _pairs(texts: list[str] | None, *, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, meaning = text.partition("=")
        if not (name and equals and meaning):
            raise ConfigError(f"{option} has the form NAME=MEANING; got {text!r}")
        if name in pairs:
            raise ConfigError(f"{option} names {name!r} twice")
        pairs[name] = meaning
    return pairs
