"""`bigbench check` and `bigbench convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import errors, output

if TYPE_CHECKING:
    from detector_bench.others.bigbench.references import References

app = typer.Typer(
    help=(
        "BIGbench's reference files: check them, write them as tables."
        "\n\nExample: `detector-bench bigbench check references/`"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
ReferencesArgument = Annotated[
    Path,
    typer.Argument(metavar="REFERENCES", help="Folder with BIGbench's JSON files, one of them, or a table."),
]
Weights = Annotated[Path | None, typer.Option("--weights", metavar="FILE", help="Weights of prompts.")]
Categories = Annotated[Path | None, typer.Option("--categories", metavar="FILE", help="category.json")]
Pairs = Annotated[Path | None, typer.Option("--pairs", metavar="FILE", help="Pairs of prompts.")]


@app.command()
def check(
    references: ReferencesArgument, *, weights: Weights = None, categories: Categories = None, pairs: Pairs = None
) -> None:
    """Read reference shares, weights, categories and pairs; list every mistake and how it is mended.

    Exit status 1 if a mistake cannot be mended.

    Example: `detector-bench bigbench check BIGbench/gt`
    """
    _show(_read(references, weights, categories, pairs))


@app.command()
def convert(
    references: ReferencesArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Gets references.csv and so on.")],
    *,
    weights: Weights = None,
    categories: Categories = None,
    pairs: Pairs = None,
) -> None:
    """Write reference shares, weights with categories, and pairs as tables that you can edit.

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
        errors.print(note, highlight=False, markup=False, soft_wrap=True)
    output.print(
        f"{len(found.shares)} prompts with reference shares, {len(found.weights)} with a weight, "
        f"{len(found.categories)} with a category; {len(found.pairs)} pairs; {len(found.notes)} notes",
        highlight=False,
        soft_wrap=True,
    )
