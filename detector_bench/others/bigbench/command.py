"""`bigbench check` and `bigbench convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from detector_bench.cli.console import errors, output

if TYPE_CHECKING:
    from detector_bench.others.bigbench.benchmark import Benchmark

app = typer.Typer(
    help=(
        "BIGbench's reference files: check them, write them as tables."
        "\n\nExample: `detector-bench bigbench check references/`"
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
References = Annotated[
    Path,
    typer.Argument(metavar="REFERENCES", help="Folder with BIGbench's JSON files, one of them, or a table."),
]
Weights = Annotated[Path | None, typer.Option("--weights", metavar="FILE", help="Weights of prompts.")]
Categories = Annotated[Path | None, typer.Option("--categories", metavar="FILE", help="category.json")]
Pairs = Annotated[Path | None, typer.Option("--pairs", metavar="FILE", help="Pairs of prompts.")]


@app.command()
def check(
    references: References, *, weights: Weights = None, categories: Categories = None, pairs: Pairs = None
) -> None:
    """Read reference shares, weights, categories and pairs; list every mistake and how it is mended.

    Exit status 1 if a mistake cannot be mended.

    Example: `detector-bench bigbench check BIGbench/gt`
    """
    _show(_read(references, weights, categories, pairs))


@app.command()
def convert(
    references: References,
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

    benchmark = _read(references, weights, categories, pairs)
    tables = {
        "references": reference_table(benchmark),
        "weights": weight_table(benchmark),
        "pairs": pair_table(benchmark),
    }
    for name, table in tables.items():
        if not table.empty:
            write_text(out / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    _show(benchmark)


def _read(references: Path, weights: Path | None, categories: Path | None, pairs: Path | None) -> Benchmark:
    from detector_bench.others.bigbench.references import read_benchmark

    return read_benchmark(references, weights=weights, categories=categories, pairs=pairs)


def _show(benchmark: Benchmark) -> None:
    for note in benchmark.notes:
        errors.print(note, highlight=False, markup=False, soft_wrap=True)
    output.print(
        f"{len(benchmark.shares)} prompts with reference shares, {len(benchmark.weights)} with a weight, "
        f"{len(benchmark.categories)} with a category; {len(benchmark.pairs)} pairs; {len(benchmark.notes)} notes",
        highlight=False,
        soft_wrap=True,
    )
