"""`bigbench check` and `bigbench convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detector_bench.cli import options
from detector_bench.cli.console import command, output

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
