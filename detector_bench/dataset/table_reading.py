"""Finds and reads one of an image set's tables, as CSV or Parquet, and checks its columns."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from detector_bench.dataset.csv_reading import read_csv_table
from detector_bench.dataset.text_table import Findings, TextTable, shorten
from detector_bench.errors import Problem, nearest_hint

SUFFIXES = (".csv", ".parquet")

_ZIP_START, _OLD_OFFICE_START = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
"""How .xlsx and .ods begin, and how .xls does."""


def read_table(
    folder: Path,
    stem: str,
    *,
    required: tuple[str, ...],
    optional: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
    closed_prefix: str | None = None,
    findings: Findings,
    may_be_missing: bool = False,
) -> TextTable | None:
    """Read `<stem>.csv` or `<stem>.parquet` in a folder.

    Args:
        folder: where the file lies.
        stem: its name without suffix, such as "images".
        required: columns that it must have; others are allowed.
        optional: columns that are used if they are there.
        numbers: columns that may hold floating-point numbers in a Parquet file.
        closed_prefix: columns whose names begin so are mistakes unless they are among the optional ones.
        findings: every mistake is added here.
        may_be_missing: whether a missing file is fine.

    Returns:
        The table, possibly without some required columns (then reported), or None if there is nothing to check.
    """
    present = [folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).exists()]
    both = " or ".join(stem + suffix for suffix in SUFFIXES)
    if not present:
        if not may_be_missing:
            findings.add(Problem(stem + SUFFIXES[0], "the file is missing", accepted=f"{both} in {folder}"))
        return None
    if len(present) > 1:
        message = f"{present[1].name} lies beside it, so it is unclear which of the two counts"
        findings.add(Problem(present[0].name, message, accepted=f"either {both}"))
    table = read_any_table(present[0], findings, wanted=(*required, *optional), numbers=numbers)
    if table is None or not check_columns(table, required, findings):
        return None
    if closed_prefix is not None:
        report_unknown_columns(table, closed_prefix, optional, findings)
    return table.select(name for name in (*required, *optional) if table.has(name))


def read_any_table(
    path: Path, findings: Findings, *, wanted: tuple[str, ...], numbers: tuple[str, ...] = ()
) -> TextTable | None:
    """Read a CSV or Parquet file with whatever columns it has.

    In a Parquet file the `wanted` columns must hold text or whole numbers, the `numbers` may also hold others;
    other columns of other types are left out. In a CSV file every column is text.

    Returns:
        The table, or None if nothing can be read; then `findings` says why.
    """
    try:
        if not path.is_file():
            problem = "it is not a file" if path.exists() else "the file is missing"
            findings.add(Problem(path.name, problem, accepted="a CSV or Parquet file"))
            return None
        if path.suffix.lower() == ".parquet":
            return _read_parquet_table(path, findings, wanted, numbers)
        with path.open("rb") as file:
            if file.read(len(_ZIP_START)) in (_ZIP_START, _OLD_OFFICE_START):
                message = "this is a spreadsheet or an archive, not text"
                findings.add(Problem(path.name, message, accepted="CSV: open the file and save it as CSV"))
                return None
        return read_csv_table(path, findings)
    except OSError as error:
        reason = error.strerror or str(error)
        findings.add(Problem(path.name, f"the file cannot be read ({reason})", accepted="a readable file"))
        return None


def report_unknown_columns(table: TextTable, prefix: str, known: Collection[str], findings: Findings) -> None:
    """Report columns whose names begin with a prefix and are not known: ignored, they would change results."""
    accepted = ", ".join(name for name in known if name.startswith(prefix))
    for name in table.columns:
        if name.startswith(prefix) and name not in known:
            findings.add(Problem(table.file, "unknown column", 1, name, name, accepted))


def separator_hint(table: TextTable) -> str:
    """For messages about missing columns: that the names are separated by something else, or nothing."""
    is_other = len(table.columns) == 1 and any(separator in table.columns[0] for separator in ";\t|")
    return " (its names are not separated by commas)" if is_other else ""


def check_columns(table: TextTable, required: tuple[str, ...], findings: Findings) -> bool:
    """Report the required columns that a table lacks; gives whether it has any of them."""
    missing = [name for name in required if not table.has(name)]
    extra = [name for name in table.columns if name not in required]
    accepted = ",".join(required)
    if len(missing) == len(required):
        header = ",".join(table.columns)
        message = f"the header has none of the columns that this file needs{separator_hint(table)}"
        findings.add(Problem(table.file, message, row=1, value=shorten(header), accepted=accepted))
        return False
    for name in missing:
        near = {
            column: hint
            for column in extra
            if (hint := nearest_hint(column.strip().lower(), [name])).startswith("did you mean")
        }
        if near:
            column, hint = next(iter(near.items()))
            message = f"the column is missing; {hint} The header says"
            findings.add(Problem(table.file, message, 1, name, column, accepted))
        else:
            findings.add(Problem(table.file, "the column is missing", row=1, column=name, accepted=accepted))
    return True


def _read_parquet_table(
    path: Path, findings: Findings, wanted: tuple[str, ...], numbers: tuple[str, ...]
) -> TextTable | None:
    try:
        data = pq.ParquetFile(path).read()
        data.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        findings.add(Problem(path.name, f"cannot be read as Parquet ({reason})", accepted="a whole Parquet file"))
        return None
    columns: dict[str, Any] = {}
    is_readable = True
    for field, column in zip(data.schema, data.columns, strict=True):
        name, kind = field.name, str(field.type)
        if name in columns:
            findings.add(Problem(path.name, "column name used twice", 1, name, name, accepted="each name once"))
        elif _is_text_like(field.type):
            columns[name] = pc.fill_null(column.cast(pa.large_string()), "")
        elif name in numbers and pa.types.is_floating(field.type):
            texts = column.cast(pa.float64()).cast(pa.large_string())
            columns[name] = pc.if_else(pc.fill_null(pc.is_nan(column), fill_value=True), "", texts)
        elif name in wanted:
            findings.add(Problem(path.name, "wrong column type", None, name, kind, "text or whole numbers"))
            is_readable = False
    return TextTable(path.name, pa.table(columns)) if is_readable else None


def _is_text_like(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_null(kind)
    )
