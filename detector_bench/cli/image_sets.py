"""`check` and `import`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError


@command(reads_images=True)
def check(image_set: options.ImageSetFolder) -> None:
    """Check an image set: its three tables, and every image file. Exit status 1 if something is wrong.

    Example: `detector-bench check my_images`
    """
    from dataclasses import asdict

    from detector_bench.cli.progress import counting
    from detector_bench.dataset import check as check_image_set

    with counting("reading images") as progress:
        report = check_image_set(image_set, in_processes=True, progress=progress)
    output.text(report.summary())
    output.rows("problems", map(asdict, report.problems))
    if report.problems:
        raise typer.Exit(1)


@command(reads_images=True)
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Folder tree t2i_model/prompt/image.png; or .tar or .parquet files, or an address such as s3://...",
        ),
    ],
    image_set: options.ImageSetFolder,
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
    attribute: options.Attribute = "gender",
    annotator: Annotated[str, typer.Option("--annotator", help="Whose labels they are.")] = "imported",
    attribute_file: options.AttributeFiles = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="CSV: prompt_id, word, ...")
    ] = None,
    category: Annotated[str, typer.Option("--category", help="Category of prompts that have none.")] = "unknown",
    t2i_model: Annotated[
        str, typer.Option("--t2i-model", metavar="NAME", help="T2I model of images whose source names none.")
    ] = "",
    hardlink: Annotated[bool, typer.Option("--hardlink", help="Link images instead of copying them.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Make an image set of a folder tree and any label file.

    Our columns are image_id, annotator, attribute, label, reason and value (a measured number, such as an age in
    years); --attribute is what the labels are about where no column says it. Several columns for `label` make
    several annotators. If SOURCE is IMAGE_SET, the images stay where they are. With --seeds, an image belongs to
    the photo whose name its own begins with: tom_0.png to tom.jpg.

    Images at an address (s3://, gs://, hf://; https:// for a single file) stay there, and those in .tar and
    .parquet files stay in them. --column path=, t2i_model=, prompt= and prompt_id= then name columns of the
    Parquet files, or fields of the .json files in WebDataset's archives.

    Example: `detector-bench import renders my_images --labels ratings.csv --column image_id=file
    --column label=rater1,rater2 --value m=male --value f=female --value x=low_quality`
    """
    from detector_bench.dataset import SEED_COLUMN, import_folder
    from detector_bench.dataset.image_listing import is_listed_place
    from detector_bench.dataset.import_listing import import_listed

    is_listed = is_listed_place(source)
    if is_listed and seeds is not None:
        raise ConfigError("--seeds goes with a folder tree on this machine")
    if t2i_model and not is_listed:
        raise ConfigError(
            "--t2i-model goes with .tar and .parquet files; of a folder tree, folders name the T2I models"
        )
    notes: list[str] = []
    read = partial(import_listed, t2i_model=t2i_model) if is_listed else partial(import_folder, seeds=seeds)
    made = read(
        source,
        image_set,
        labels=labels,
        mapping=options.pairs(column, option="--column"),
        values=options.pairs(value, option="--value"),
        attribute=attribute,
        annotator=annotator,
        attribute_files=attribute_file or (),
        prompts=prompts,
        category=category,
        link="hardlink" if hardlink else "copy",
        overwrite=overwrite,
        notes=notes,
    )
    output.warn(*notes)
    edited = int((made.images[SEED_COLUMN] != "").sum()) if SEED_COLUMN in made.images else 0
    output.row(
        f"{made.root}: {len(made.images):,} images, {f'{edited:,} of them edited, ' if edited else ''}"
        f"{len(made.prompts):,} prompts, {len(made.labels):,} labels",
        table="image_set",
        image_set=made.root,
        images=len(made.images),
        edited=edited,
        prompts=len(made.prompts),
        labels=len(made.labels),
    )
