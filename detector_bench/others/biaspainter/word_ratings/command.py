"""`biaspainter rating-sheet` and `biaspainter neutrality`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.others.biaspainter.command import show_tables

Prompts = Annotated[
    Path, typer.Argument(metavar="PROMPTS", help="A prompt table: prompts.csv with prompt_id, word and prompt.")
]


@command
def rating_sheet(
    prompts: Prompts,
    *,
    sheet: Annotated[Path, typer.Option("--sheet", metavar="FILE.csv", help="Named after the annotator.")],
    seed: options.Seed,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a sheet on which one person rates how neutral prompts are, in random order.

    Make one for each annotator, with a seed of their own. `biaspainter neutrality` reads them back.

    Example: `detector-bench biaspainter rating-sheet prompts.csv --sheet anna.csv --seed 1`
    """
    from detector_bench.others.biaspainter.word_ratings.neutrality import read_prompts, write_rating_sheet

    table = read_prompts(prompts)
    write_rating_sheet(table, sheet, seed=seed, overwrite=overwrite)
    output.row(
        f"{sheet}: {len(table)} prompts to rate from 1 to 5", table="sheet", sheet=sheet, prompts=len(table)
    )


@command
def neutrality(
    prompts: Prompts,
    filled: Annotated[list[Path], typer.Argument(metavar="SHEETS...", help="Filled sheets, one per annotator.")],
    *,
    most: Annotated[
        float, typer.Option("--most-relevant", help="Words with a higher mean rating are dropped.")
    ] = 3.0,
    level: options.Level = 0.95,
    out: options.OptionalOut = None,
) -> None:
    """Which words are neutral: the mean of what annotators say, their agreement, and what is dropped.

    With --out the prompt table without the dropped words is written, too.

    Example: `detector-bench biaspainter neutrality prompts.csv anna.csv ben.csv cleo.csv --out neutral`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.others.biaspainter.word_ratings.neutrality import (
        agreement_of,
        kept_prompts,
        neutrality_table,
        rated_prompts,
        read_prompts,
        read_ratings,
    )

    table = read_prompts(prompts)
    ratings = read_ratings(filled, table)
    rated = rated_prompts(table, ratings, most=most, level=level)
    words = neutrality_table(rated, alpha=agreement_of(ratings), annotators=len(ratings))
    show_tables({words.name: words}, out)
    verdicts = [each.verdict for each in rated]
    left = kept_prompts(table, rated)
    output.say(
        f"{verdicts.count('neutral')} words are neutral, {verdicts.count('dropped')} dropped, "
        f"{verdicts.count('not rated')} not rated; {sum(each.is_open for each in rated)} are open."
    )
    if out is not None:
        write_text(out / "prompts.csv", left.to_csv(index=False, lineterminator="\n"))
