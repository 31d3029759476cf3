"""`export huggingface`, `fiftyone`, `coco` and `jsonl`: image sets and studies for other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.dataset import ImageSet
    from detector_bench.exports.boxes import BoxSource
    from detector_bench.exports.carried_images import Link
    from detector_bench.exports.export_folder import WrittenExport
    from detector_bench.study import Results

LinkOption = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="copy|hardlink|symlink",
        help="How image files come; by default they are copied, up to 1 GiB. Links stay on this machine.",
    ),
]
Fetch = Annotated[bool, typer.Option("--fetch", help="Bring images from their addresses, too.")]
Exported = Annotated[
    Path, typer.Argument(metavar="SET|DIR", help="An image set, or a result folder, whose verdicts come along.")
]


@command(reads_images=True)
def huggingface(
    image_set: options.ImageSetFolder,
    *,
    out: options.Out,
    form: Annotated[
        str,
        typer.Option("--form", metavar="imagefolder|parquet", help="Image files with a table, or Parquet files."),
    ] = "imagefolder",
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="csv|jsonl|parquet",
            help="The table of image files; by default CSV, unless readers of CSV would change a text.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="Of the dataset; by default the set's name.")
    ] = None,
    licence: Annotated[
        str, typer.Option("--licence", metavar="ID", help="Such as cc-by-4.0, or an address; else it is unknown.")
    ] = "",
    licence_file: Annotated[
        Path | None,
        typer.Option("--licence-file", metavar="FILE", help="Its text; by default the set's own file LICENSE."),
    ] = None,
    creator: Annotated[
        list[str] | None, typer.Option("--creator", metavar="NAME", help="Who made it; may be repeated.")
    ] = None,
    hide_annotators: Annotated[
        bool, typer.Option("--hide-annotators", help="Write annotator_1 and so on in the place of names.")
    ] = False,
    link: LinkOption = None,
    fetch: Fetch = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Write an image set as a Hugging Face dataset, with its card, Croissant metadata and all tables.

    Nothing is sent anywhere: `hf upload` or git pushes the folder. `detector-bench import` reads it back.

    Example: `detector-bench export huggingface my_images --out my_dataset --licence cc-by-4.0`
    """
    from detector_bench.cli.progress import counting
    from detector_bench.dataset import ImageSet
    from detector_bench.exports.croissant import PublishedAs
    from detector_bench.exports.hugging_face import (
        FORMS,
        METADATA_KINDS,
        HuggingFaceSettings,
        export_hugging_face,
    )

    _one_of(form, FORMS, option="--form")
    _one_of(metadata, METADATA_KINDS, option="--metadata")
    images = ImageSet.load(image_set)
    settings = HuggingFaceSettings(
        PublishedAs(title or images.name, licence, tuple(creator or ())),
        form=cast("Literal['imagefolder', 'parquet']", form),
        metadata=cast("Literal['csv', 'jsonl', 'parquet'] | None", metadata),
        link=_link(link),
        fetch=fetch,
        licence_file=licence_file,
        hide_annotators=hide_annotators,
    )
    with counting("images") as progress:
        written = export_hugging_face(images, out, settings, overwrite=overwrite, progress=progress)
    _tell(out, written)


@command(reads_images=True)
def fiftyone(
    where: Exported,
    *,
    out: options.Out,
    image_set: options.ImageSetOption = None,
    link: LinkOption = None,
    fetch: Fetch = False,
    overwrite: options.Overwrite = False,
    cache_dir: options.CacheDir = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Write a FiftyOne dataset: labels, every detector's verdict, and the boxes that it looked at.

    FiftyOne reads it by `fiftyone.Dataset.from_dir(FOLDER, dataset_type=fiftyone.types.FiftyOneDataset)`.

    Example: `detector-bench export fiftyone results/mine --out for_fiftyone --link hardlink`
    """
    from detector_bench.exports.fiftyone import export_fiftyone

    images, results = _opened(where, image_set)
    source = _source(results, cache_dir, weights_dir)
    _write(export_fiftyone, images, out, source, link=link, fetch=fetch, overwrite=overwrite)


@command(reads_images=True)
def coco(
    where: Exported,
    *,
    out: options.Out,
    image_set: options.ImageSetOption = None,
    link: LinkOption = None,
    fetch: Fetch = False,
    overwrite: options.Overwrite = False,
    cache_dir: options.CacheDir = None,
    weights_dir: options.WeightsDir = None,
) -> None:
    """Write COCO's annotations.json with the images: boxes that detectors looked at, labels as attributes.

    Example: `detector-bench export coco results/mine --out for_coco`
    """
    from detector_bench.exports.coco import export_coco

    images, results = _opened(where, image_set)
    source = _source(results, cache_dir, weights_dir)
    _write(export_coco, images, out, source, link=link, fetch=fetch, overwrite=overwrite)


@command(reads_images=True)
def jsonl(
    where: Exported,
    *,
    out: options.Out,
    image_set: options.ImageSetOption = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write one line per image: its prompt, all labels, the consensus, every detector's verdict as it was given.

    An --out that ends in .jsonl is taken for the file itself.

    Example: `detector-bench export jsonl results/mine --out verdicts.jsonl`
    """
    from detector_bench.cli.progress import counting
    from detector_bench.exports.json_lines import export_json_lines

    images, results = _opened(where, image_set)
    file = options.file_in(out, "images.jsonl")
    reader = None if results is None else results.reader
    with counting("images") as progress:
        written = export_json_lines(images, file, results=reader, overwrite=overwrite, progress=progress)
    _tell(file, written)


def _write(
    export: Callable[..., WrittenExport],
    images: ImageSet,
    out: Path,
    source: BoxSource | None,
    *,
    link: str | None,
    fetch: bool,
    overwrite: bool,
) -> None:
    from detector_bench.cli.progress import counting

    with counting("images") as progress:
        written = export(
            images, out, source=source, link=_link(link), fetch=fetch, overwrite=overwrite, progress=progress
        )
    _tell(out, written)


def _opened(where: Path, image_set: Path | None) -> tuple[ImageSet, Results | None]:
    """The image set that is meant, and the result folder if one is."""
    from detector_bench.dataset import ImageSet
    from detector_bench.results.manifest import NAME

    if (where / NAME).is_file():
        from detector_bench.study import Results

        results = Results.open(where, image_set=image_set)
        return results.reader.image_set, results
    if image_set is not None:
        raise ConfigError(f"--image-set goes with a result folder, and {str(where)!r} has no {NAME}")
    return ImageSet.load(where), None


def _source(results: Results | None, cache_dir: Path | None, weights_dir: Path | None) -> BoxSource | None:
    from detector_bench.exports.boxes import BoxSource
    from detector_bench.runner.stage_cache import default_cache_folder

    if results is None:
        return None
    return BoxSource(results.reader, results.study, cache_dir or default_cache_folder(), weights_dir)


def _link(text: str | None) -> Link | None:
    from detector_bench.exports.carried_images import LINKS

    _one_of(text, LINKS, option="--link")
    return cast("Link | None", text)


def _one_of(text: str | None, accepted: tuple[str, ...], *, option: str) -> None:
    if text is not None and text not in accepted:
        raise ConfigError(f"{option} {text!r} (accepted: {', '.join(accepted)})")


def _tell(out: Path, written: WrittenExport) -> None:
    output.warn(*written.notes)
    output.row(f"{out}: {written.images:,} images", table="export", out=out, images=written.images)
