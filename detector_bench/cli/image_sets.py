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
            help="Folder of images; or .tar or .parquet files, or an address such as s3://...",
        ),
    ],
    image_set: options.ImageSetFolder,
    *,
    seeds: Annotated[
        Path | None,
        typer.Option("--seeds", metavar="FOLDER", help="Photos that the images were edited from."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="CSV, TSV, JSON, JSON lines, Excel or Parquet."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="OURS=THEIRS", help="A column of a table; may be repeated."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value", metavar="THEIRS=OURS", help="A label of that file; THEIRS= leaves it out; may be repeated."
        ),
    ] = None,
    attribute: options.Attribute = "gender",
    annotator: Annotated[str, typer.Option("--annotator", help="Whose labels they are.")] = "imported",
    annotators: Annotated[
        str | None,
        typer.Option("--annotators", metavar="NAMES", help="Whose labels count, such as rater1,rater2."),
    ] = None,
    adjudicator: Annotated[
        str,
        typer.Option(
            "--adjudicator", metavar="NAME", help="The one that holds what was decided after a discussion."
        ),
    ] = "",
    attribute_file: options.AttributeFiles = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="A table: prompt_id, word, ...")
    ] = None,
    category: Annotated[str, typer.Option("--category", help="Category of prompts that have none.")] = "unknown",
    t2i_model: Annotated[
        str, typer.Option("--t2i-model", metavar="NAME", help="T2I model of images whose source names none.")
    ] = "",
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            metavar="PATTERN",
            help="What file names say, such as `{t2i_model}__{word}__{number}.png`.",
        ),
    ] = "",
    metadata: Annotated[
        Path | None,
        typer.Option("--metadata", metavar="FILE", help="A table with a row for each image file."),
    ] = None,
    separator: Annotated[
        str,
        typer.Option("--separator", metavar="SIGN", help="Between the cells of tables; by default recognised."),
    ] = "",
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="Of tables, such as cp1252; by default recognised.")
    ] = "",
    decimal: Annotated[
        str, typer.Option("--decimal", metavar=".|,", help="Of numbers in tables; by default recognised.")
    ] = "",
    excel_sheet: Annotated[
        str, typer.Option("--excel-sheet", metavar="NAME", help="Of tables in Excel; by default the first.")
    ] = "",
    allow_unknown_images: Annotated[
        bool,
        typer.Option("--allow-unknown-images", help="Leave out labels of images that are not there; count them."),
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what was recognised and would be written; write nothing.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add images and labels to an image set; nothing in it changes.")
    ] = False,
    hardlink: Annotated[bool, typer.Option("--hardlink", help="Link images instead of copying them.")] = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Link to the files in place of copying them."),
    ] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Make an image set of images and labels as you have them, or add to one; `--preview` shows what comes.

    SOURCE is a tree t2i_model/prompt/image; a folder with a table of metadata, such as Hugging Face's ImageFolder;
    images that ComfyUI or Automatic1111 wrote texts into; any folder with --pattern; or an image set. A prompt may
    be named by its text. Words of known prompt lists keep their category and prompt.

    Columns of tables are recognised by usual names; --column says what others mean. Of labels ours are image_id,
    annotator, attribute, label, reason and value (a measured number, such as an age in years); a column named
    after an attribute holds its labels, such as gender, or gender_rater1; --attribute is what labels are about
    where no column says it. Several columns for `label` make several annotators. If SOURCE is IMAGE_SET, the
    images stay where they are. With --seeds, an image belongs to the photo whose name its own begins with:
    tom_0.png to tom.jpg.

    Images at an address (s3://, gs://, hf://; https:// for a single file) stay there, and those in .tar and
    .parquet files stay in them. --column path=, t2i_model=, prompt=, prompt_id=, word= and category= then name
    columns of the Parquet files, or fields of the .json files in WebDataset's archives.

    Example: `detector-bench import renders my_images --labels ratings.csv --column image_id=file
    --column label=rater1,rater2 --value m=male --value f=female --value x=low_quality`
    """
    from detector_bench.cli.import_console import (
        asked,
        names_in,
        refusal,
        said_of_additions,
        show_plan,
        with_options,
    )
    from detector_bench.dataset import SEED_COLUMN
    from detector_bench.dataset.foreign.table_form import TableOptions
    from detector_bench.dataset.import_decisions import UndecidedImportError
    from detector_bench.dataset.import_settings import ImportSettings
    from detector_bench.dataset.importing import ImportRefusedError, plan_import
    from detector_bench.prompt_lists.known_words import known_prompts

    if hardlink and link:
        raise ConfigError("--hardlink and --link are two ways; accepted: one of them")
    settings = ImportSettings(
        seeds=seeds,
        labels=labels,
        mapping=options.pairs(column, option="--column"),
        translations=options.pairs(value, option="--value", may_be_empty=True),
        attribute=attribute,
        annotator=annotator,
        annotators=names_in(annotators),
        adjudicator=adjudicator,
        attribute_files=tuple(attribute_file or ()),
        prompts=prompts,
        category=category,
        t2i_model=t2i_model,
        pattern=pattern,
        metadata=metadata,
        table=TableOptions(separator, encoding, decimal, excel_sheet),
        known_prompts=known_prompts(edits_photos=seeds is not None),
        allow_unknown_images=allow_unknown_images,
        link="hardlink" if hardlink else "symlink" if link else "copy",
        overwrite=overwrite,
        add=add,
    )
    while True:
        try:
            plan = plan_import(source, image_set, settings)
            break
        except UndecidedImportError as error:
            settings = with_options(settings, asked(error))
        except ImportRefusedError as error:
            raise refusal(error, settings, partial(plan_import, source, image_set)) from error
    if preview:
        show_plan(plan)
        return
    made = plan.write()
    output.warn(*plan.news.notes)
    if plan.additions is not None:
        output.say(said_of_additions(plan))
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
