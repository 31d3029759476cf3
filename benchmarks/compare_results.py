"""What differs between two result folders: numbers in tables, texts, drawings.

python benchmarks/compare_results.py results/before results/after
python benchmarks/compare_results.py results/before results/after --tolerance 1e-9

Every CSV file is compared cell by cell, any other text, drawing or picture byte by byte. Left out are stored
predictions, the pages of a report, and what tells when and by which version something was made (`run.json`,
`results.json`). Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

_LEFT_OUT_FOLDERS = ("predictions", "report", "image_set")
_LEFT_OUT_FILES = ("run.json", "results.json", "study.yaml", "local_paths.json")
_LEFT_OUT_ENDINGS = (".parquet", ".pdf")
"""The same rows stand in the CSV file; a PDF holds its date."""


def files_of(folder: Path) -> set[Path]:
    """The files that are compared, relative to the folder."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {
        path
        for path in found
        if path.parts[0] not in _LEFT_OUT_FOLDERS
        and path.name not in _LEFT_OUT_FILES
        and path.suffix not in _LEFT_OUT_ENDINGS
    }


def differences_of_tables(old: Path, new: Path, *, tolerance: float) -> Iterator[str]:
    """How two CSV files differ, a line for each way."""
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (old, new))
    if list(before.columns) != list(after.columns):
        yield f"columns {sorted(set(before.columns) ^ set(after.columns)) or 'in another order'}"
        return
    if len(before) != len(after):
        words = [name for name in before.columns if not _is_number(before[name]) or not _is_number(after[name])]
        joined = before[words].merge(after[words], how="outer", indicator=True)
        for side, what in (("left_only", "gone"), ("right_only", "new")):
            rows = joined[joined["_merge"] == side]
            if len(rows):
                yield f"{len(rows):,} rows {what}, such as {', '.join(map(str, rows.iloc[0, :-1]))}"
        yield f"{len(before):,} rows before, {len(after):,} after"
        return
    for name in before.columns:
        different = before[name] != after[name]
        if tolerance and _is_number(before[name]) and _is_number(after[name]):
            first, second = (pd.to_numeric(table[name]) for table in (before, after))
            close = np.isclose(first, second, rtol=0, atol=tolerance, equal_nan=True)
            different &= ~close
        if different.any():
            row = int(np.flatnonzero(different)[0])
            yield (
                f"{name}: {int(different.sum()):,} of {len(before):,} rows, the first in row {row + 2}: "
                f"{before[name].iloc[row]!r} became {after[name].iloc[row]!r}"
            )


def _is_number(column: pd.Series) -> bool:
    """Whether every filled cell is a number."""
    filled = column[column != ""]
    return bool(len(filled)) and bool(pd.to_numeric(filled, errors="coerce").notna().all())


def compare(old: Path, new: Path, *, tolerance: float) -> Iterator[str]:
    """Every difference between two result folders, a line each."""
    before, after = files_of(old), files_of(new)
    for path in sorted(before - after):
        yield f"{path}: gone"
    for path in sorted(after - before):
        yield f"{path}: new"
    for path in sorted(before & after):
        if path.suffix == ".csv":
            for line in differences_of_tables(old / path, new / path, tolerance=tolerance):
                yield f"{path}: {line}"
        elif (old / path).read_bytes() != (new / path).read_bytes():
            yield f"{path}: other bytes"


def main() -> int:
    """Compare two folders and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.0, help="numbers as near as this are equal")
    arguments = parser.parse_args()
    lines = list(compare(arguments.old, arguments.new, tolerance=arguments.tolerance))
    for line in lines:
        print(line)
    number = len(files_of(arguments.old) | files_of(arguments.new))
    print(f"{number:,} files compared, {len(lines):,} differences")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
