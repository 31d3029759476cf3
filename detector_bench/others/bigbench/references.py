"""Finds and reads what BIGbench compares with: its own JSON files, the user's tables, or equal shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from detector_bench.dataset.table_reading import SUFFIXES
from detector_bench.errors import ConfigError
from detector_bench.others.bigbench.benchmark import Benchmark, ReferenceNames
from detector_bench.others.bigbench.classes import PROTECTED
from detector_bench.others.bigbench.own_files import read_own_pairs, read_own_references, read_own_weights
from detector_bench.others.bigbench.released_files import (
    CATEGORIES_FILE,
    PAIRS_FILE,
    REFERENCE_FILES,
    WEIGHTS_FILE,
    read_released_categories,
    read_released_pairs,
    read_released_references,
    read_released_weights,
)

EQUAL = "equal"
"""Instead of reference files: every class of an attribute has the same share in every prompt."""

_JSON = ".json"


def read_benchmark(
    references: Path,
    *,
    weights: Path | None = None,
    categories: Path | None = None,
    pairs: Path | None = None,
) -> Benchmark:
    """Read references, and what goes with them.

    Args:
        references: a JSON file of BIGbench or a table; or a folder, either with BIGbench's files under their own
            names, or with the tables `references`, `weights` and `pairs` (.csv or .parquet). What a folder has
            need not be named.
        weights: `weight.json` or a table.
        categories: `category.json`; a table of weights can have a column for them.
        pairs: `eta.json` or a table.

    Raises:
        ConfigError: nothing there, or BIGbench's names (in JSON) for references that are a table.
        DataError: all mistakes of a file at once, except those that are clearly to be mended; they are in `notes`.
    """
    if references.is_dir():
        files, beside = _in_folder(references)
        weights, categories, pairs = weights or beside[0], categories or beside[1], pairs or beside[2]
    else:
        files = [references]
    released = files[0].suffix == _JSON
    benchmark = read_released_references(files) if released else read_own_references(files[0])
    return _completed(benchmark, released=released, weights=weights, categories=categories, pairs=pairs)


def equal_references(
    prompt_ids: Iterable[str], *, weights: Path | None = None, pairs: Path | None = None
) -> Benchmark:
    """Equal shares for every prompt; weights and pairs come from tables.

    Raises:
        ConfigError: BIGbench's JSON for weights or pairs, whose names only its references can tell.
        DataError: all mistakes of a file at once.
    """
    shares = {
        attribute: (1 / len(taxonomy.classes),) * len(taxonomy.classes)
        for attribute, taxonomy in PROTECTED.items()
    }
    same = {prompt_id: prompt_id for prompt_id in prompt_ids}
    benchmark = Benchmark(dict.fromkeys(same, shares), ReferenceNames(same, same))
    return _completed(benchmark, released=False, weights=weights, categories=None, pairs=pairs)


def _in_folder(folder: Path) -> tuple[list[Path], list[Path | None]]:
    released = [folder / name for name in REFERENCE_FILES if (folder / name).is_file()]
    own = [folder / f"references{suffix}" for suffix in SUFFIXES if (folder / f"references{suffix}").is_file()]
    if bool(released) == bool(own):
        found = "both" if own else "neither"
        raise ConfigError(
            f"{folder}: a folder of references has some of {', '.join(REFERENCE_FILES)}, or references.csv; "
            f"this one has {found}"
        )
    if released:
        return released, [_if_there(folder, name) for name in (WEIGHTS_FILE, CATEGORIES_FILE, PAIRS_FILE)]
    tables = [
        next((table for suffix in SUFFIXES if (table := _if_there(folder, stem + suffix)) is not None), None)
        for stem in ("weights", "pairs")
    ]
    return own[:1], [tables[0], None, tables[1]]


def _if_there(folder: Path, name: str) -> Path | None:
    return folder / name if (folder / name).is_file() else None


def _completed(
    benchmark: Benchmark, *, released: bool, weights: Path | None, categories: Path | None, pairs: Path | None
) -> Benchmark:
    for path in (weights, categories, pairs):
        if path is not None and path.suffix == _JSON and not released:
            raise ConfigError(
                f"{path}: the names in BIGbench's JSON files belong to its references in JSON; beside other "
                "references, give a table (detector-bench bigbench convert writes one)"
            )
    notes: list[str] = []
    if weights is not None and weights.suffix == _JSON:
        found, noted = read_released_weights(weights, benchmark.names)
        benchmark = replace(benchmark, weights=found)
        notes += noted
    elif weights is not None:
        own = read_own_weights(weights)
        benchmark = replace(benchmark, **own._asdict())
    if categories is not None:
        if categories.suffix != _JSON:
            raise ConfigError(f"{categories}: categories are category.json, or a column of the table of weights")
        listed, noted = read_released_categories(categories, benchmark.names)
        benchmark = replace(benchmark, categories=listed)
        notes += noted
    if pairs is not None and pairs.suffix == _JSON:
        read, noted = read_released_pairs(pairs, benchmark.names)
        benchmark = replace(benchmark, pairs=read)
        notes += noted
    elif pairs is not None:
        benchmark = replace(benchmark, pairs=read_own_pairs(pairs))
    return replace(benchmark, notes=(*benchmark.notes, *notes))
