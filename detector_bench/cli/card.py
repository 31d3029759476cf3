"""`card`: a datasheet of an image set, or a model card of a detector, as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError


@command(reads_images=True)
def card(
    where: Annotated[
        Path, typer.Argument(metavar="SET|DIR", help="An image set, or a result folder, whose numbers are told.")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.md", help="The file that is written.")],
    detector: options.DetectorOption = None,
    image_set: options.ImageSetOption = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a datasheet of an image set; with --detector, a model card of what a study measured about it.

    Every number is counted from the set's tables or stands in the result folder. What nobody but people can know
    is marked "to fill in".

    Examples: `detector-bench card my_images --out DATASHEET.md`,
    `detector-bench card results/mine --detector faceres --out faceres.md`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.dataset import ImageSet
    from detector_bench.exports.card_text import TO_FILL_IN
    from detector_bench.exports.datasheet import datasheet
    from detector_bench.exports.model_card import model_card
    from detector_bench.exports.set_facts import ImageSetFacts
    from detector_bench.results.finished_study import ResultFolder
    from detector_bench.results.manifest import NAME

    if out.exists() and not overwrite:
        raise ConfigError(f"{str(out)!r} exists; name another file with --out, or replace it with --overwrite")
    if image_set is not None and not (where / NAME).is_file():
        raise ConfigError(f"--image-set goes with a result folder, and {str(where)!r} has no {NAME}")
    if detector is not None:
        written = model_card(ResultFolder.open(where, image_set=image_set), detector)
    elif (where / NAME).is_file():
        results = ResultFolder.open(where, image_set=image_set)
        written = datasheet(ImageSetFacts.of(results.image_set, results))
    else:
        written = datasheet(ImageSetFacts.of(ImageSet.load(where)))
    write_text(out, written)
    open_questions = written.count(TO_FILL_IN) - 1  # the sentence that explains the mark has it, too
    output.row(f"{out}: {open_questions} places to fill in", table="card", file=out, to_fill_in=open_questions)
