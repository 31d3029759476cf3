"""`verify` and `pack`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, errors, output
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.plugins import load_plugins

if TYPE_CHECKING:
    from detector_bench.results.verification_record import Verification


@command(reads_images=True)
def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A result folder, or a file that `pack` made of one.")
    ],
    *,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images", metavar="DIR", help="The image set: its images are compared with what was judged."
        ),
    ] = None,
    weights_dir: options.WeightsDir = None,
    recompute: Annotated[
        int, typer.Option("--recompute", min=0, metavar="N", help="Judge N images again, drawn at random.")
    ] = 0,
    seed: options.Seed = 0,
    all_numbers: Annotated[
        bool,
        typer.Option(
            "--all-numbers",
            help="Of more than 20,000 images, too, compute every interval and table again: it takes minutes.",
        ),
    ] = False,
    cited: Annotated[
        str | None,
        typer.Option("--cited", metavar="SHA256", help="The seal of results.json that a paper names."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="A report outside the folder.")
    ] = None,
    plugin: options.Plugins = None,
) -> None:
    """Prove that a result folder is what it says: from page and figure back to numbers, predictions and images.

    Every file is compared with the sha256 that stands in results.json, every number is computed again from the
    stored predictions and the labels, and what is there of images and weights is compared with what judged. Says
    what was proved and what could not be, and writes verification.json with a statement that a paper can cite; the
    next report shows it. The exit status is 1 if anything is contradicted.

    Examples: `detector-bench verify results/mine`,
    `detector-bench verify results/mine --images my_images --weights-dir weights --recompute 50`,
    `detector-bench verify mine.zip --cited 3f1c...`
    """
    from detector_bench.results.verification_record import NAME
    from detector_bench.verification import VerificationOrder, unpacked, verify_folder

    load_plugins(plugin or [])
    order = VerificationOrder(images, weights_dir, recompute, seed, report, cited, all_numbers)
    with errors.status("verifying") as status:

        def step(what: str) -> None:
            status.update(f"verifying: {what}")

        if folder.is_file():
            with unpacked(folder) as (results, image_set):
                found = verify_folder(results, replace(order, image_set=images or image_set), step=step)
        else:
            found = verify_folder(folder, order, step=step)
    _print(found)
    if folder.is_dir():
        try:
            found.write(folder / NAME)
            output.say(f"Written to {folder / NAME}")
        except DetectorBenchError as error:  # a published folder may be read-only
            output.warn(f"the statement was not kept: {error}")
    if found.is_false:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    rows = [
        {"link": each.name, "outcome": each.outcome.value, "what was found": each.says} for each in found.links
    ]
    output.grid(pd.DataFrame(rows))
    output.rows("links", [each.model_dump(mode="json") for each in found.links])
    for each in found.links:
        for problem in each.problems:
            output.row(f"{each.name}: {problem}", table="problems", link=each.name, problem=problem)
    output.say("")
    output.row(found.statement, table="statement", statement=found.statement)


@command(reads_images=True)
def pack(
    folder: options.Folder,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Where it goes; by default DIR.zip beside DIR.")
    ] = None,
    image_set: options.ImageSetOption = None,
    images: Annotated[bool, typer.Option("--images", help="Take the images along.")] = False,
    without_image_set: Annotated[
        bool,
        typer.Option(
            "--without-image-set", help="Take no table of the image set along: numbers cannot be computed again."
        ),
    ] = False,
) -> None:
    """Pack a result folder into one file, with the labels behind it, so that others can verify it.

    The file holds the results, and the tables of the image set, by which `verify` computes every number again; the
    images only with --images. Locks and what only this machine needs stay out. Equal folders give equal bytes.

    Examples: `detector-bench pack results/mine`,
    `detector-bench pack results/mine --images --file mine.zip`
    """
    from detector_bench.results.finished_study import ResultFolder
    from detector_bench.verification import pack_folder

    results = ResultFolder.open(folder, image_set=image_set)
    target = file or folder.resolve().with_name(folder.resolve().name + ".zip")
    source = results.image_set_folder
    if without_image_set and images:
        raise ConfigError("--images needs the tables of the image set: leave out --without-image-set")
    if not without_image_set and not source.is_dir():
        raise DetectorBenchError(
            f"there is no image set {str(source)!r}: name it with --image-set, or say --without-image-set"
        )
    packed = pack_folder(folder, target, image_set=source, with_tables=not without_image_set, with_images=images)
    output.rows("packed", [{"file": target, **packed}])
    what = ", ".join(f"{number:,} {name}" for name, number in packed.items() if number)
    output.say(f"{target}: {what}, {target.stat().st_size / 1e6:,.1f} MB")
    if packed["images left out"]:
        output.warn(
            f"{packed['images left out']:,} images are not in it: they lie at addresses, are not there, or are "
            "behind links to folders that no --allow-root names."
        )
