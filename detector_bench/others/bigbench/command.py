"""`bigbench check`, `bigbench convert`, `bigbench score` and `reproduce bigbench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output
from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    from detector_bench.others.bigbench.references import References

ReferencesArgument = Annotated[
    Path,
    typer.Argument(metavar="REFERENCES", help="Folder with BIGbench's JSON files, one of them, or a table."),
]
Categories = Annotated[Path | None, typer.Option("--categories", metavar="FILE", help="category.json")]
Pairs = Annotated[Path | None, typer.Option("--pairs", metavar="FILE", help="Pairs of prompts.")]


@command
def check(
    references: ReferencesArgument,
    *,
    weights: options.PromptWeights = None,
    categories: Categories = None,
    pairs: Pairs = None,
) -> None:
    """Read reference shares, weights, categories and pairs; list every mistake and how it is mended.

    Exit status 1 if a mistake cannot be mended.

    Example: `detector-bench bigbench check BIGbench/gt`
    """
    _show(_read(references, weights, categories, pairs))


@command
def convert(
    references: ReferencesArgument,
    *,
    out: options.Out,
    weights: options.PromptWeights = None,
    categories: Categories = None,
    pairs: Pairs = None,
) -> None:
    """Write reference shares, weights with categories, and pairs as tables that you can edit: references.csv, ...

    Example: `detector-bench bigbench convert BIGbench/gt --out my_references`
    """
    from detector_bench.atomic_files import write_text
    from detector_bench.others.bigbench.own_files import pair_table, reference_table, weight_table

    found = _read(references, weights, categories, pairs)
    tables = {
        "references": reference_table(found),
        "weights": weight_table(found),
        "pairs": pair_table(found),
    }
    for name, table in tables.items():
        if not table.empty:
            write_text(out / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    _show(found)


@command
def score(
    answers: Annotated[
        list[Path],
        typer.Argument(metavar="ANSWERS...", help="What BIGbench's aligner wrote: align_MODEL.json of each."),
    ],
    *,
    references: Annotated[
        Path, typer.Option("--references", metavar="REFERENCES", help="BIGbench's folder, or its reference files.")
    ],
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="as_code|as_code_squared|as_paper",
            help="Which way the manifestation factor points; see docs/bigbench.md.",
        ),
    ] = "as_code",
    weights: options.PromptWeights = None,
    categories: Categories = None,
    pairs: Pairs = None,
    out: options.OptionalOut = None,
) -> None:
    """Compute BIGbench's scores from its aligner's own answer files: implicit, explicit, manifestation factor.

    No image is needed. With --out, metrics.csv has the scores of every prompt, category and acquired attribute.

    Example: `detector-bench bigbench score align_sdxl.json align_pixart.json --references BIGbench --out scores`
    """
    from dataclasses import replace
    from typing import get_args

    from detector_bench.atomic_files import write_text
    from detector_bench.others.bigbench.aligner_answers import aligner_scores
    from detector_bench.others.bigbench.formulas import Preset
    from detector_bench.others.bigbench.score_system import BigBench
    from detector_bench.others.bigbench.tables import bigbench_scores

    if preset not in get_args(Preset):
        raise ConfigError(f"--preset {preset} (accepted: {', '.join(get_args(Preset))})")
    settings = BigBench.model_validate(
        {
            "references": references,
            "preset": preset,
            "weights": weights,
            "categories": categories,
            "pairs": pairs,
        }
    )
    rows, notes = aligner_scores(answers, settings)
    if out is not None:
        write_text(out / "metrics.csv", rows.to_csv(index=False, lineterminator="\n"))
    table = bigbench_scores(rows, variant=preset, notes=notes)
    about = table.caption.partition("detector. ")[2].removesuffix(" Bold: closest to the ground truth.")
    caption = f"BIGbench's scores of T2I models, in per cent, from its aligner's answers. {about}"
    output.table(replace(table, caption=caption), rows=rows)
    if out is not None:
        output.say(f"{out / 'metrics.csv'}: {len(rows):,} scores")


@command
def reproduce(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="BIGbench's program with its prompts, or its reference files."),
    ] = None,
    *,
    only_differences: Annotated[
        bool, typer.Option("--only-differences", help="Print only what does not match.")
    ] = False,
    out: options.OptionalOut = None,
) -> None:
    """Recompute what can be recomputed of BIGbench's paper, and say of the rest why it cannot.

    From its printed tables alone, all that follows from them; with the folder of its released program or of its
    reference files, also what the paper says about these.

    Examples: `detector-bench reproduce bigbench`, `detector-bench reproduce bigbench BIGbench`
    """
    from detector_bench.cli.claims import show_claims
    from detector_bench.others.bigbench.reproduction import ReleasedParts, out_of_reach, printed_findings
    from detector_bench.others.recomputed import claims_table

    parts = None if folder is None else ReleasedParts.read(folder)
    findings = [*printed_findings(), *([] if parts is None else parts.findings())]
    table = claims_table(
        findings,
        out_of_reach(parts),
        name="bigbench_reproduction",
        caption="BIGbench: published numbers, and what follows from its printed tables"
        + ("." if folder is None else " and its released files."),
    )
    show_claims(table, findings, only_differences=only_differences, out=out)
    if parts is not None and parts.references is not None and parts.references.notes:
        count = len(parts.references.notes)
        output.say(f"Mistakes in its reference files: {count}; `detector-bench bigbench check` lists them.")


def _read(references: Path, weights: Path | None, categories: Path | None, pairs: Path | None) -> References:
    from detector_bench.others.bigbench.entry import read_references

    return read_references(references, weights=weights, categories=categories, pairs=pairs)


def _show(found: References) -> None:
    for note in found.notes:
        output.warn(note, style="")
    counts: dict[str, Any] = {
        "prompts": len(found.shares),
        "weights": len(found.weights),
        "categories": len(found.categories),
        "pairs": len(found.pairs),
        "notes": len(found.notes),
    }
    output.row(
        "{prompts} prompts with reference shares, {weights} with a weight, {categories} with a category; "
        "{pairs} pairs; {notes} notes".format(**counts),
        table="references",
        **counts,
    )
