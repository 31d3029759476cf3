"""Finds and reads one of an image set's tables, as CSV or Parquet, and checks its columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from detector_bench.dataset.csv_reading import read_csv_table
from detector_bench.dataset.image_ids import ImageIds
from detector_bench.dataset.text_table import Findings, TextTable, compact, shorten
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
    distinct: Collection[str] = (),
    ids: ImageIds | None = None,
) -> TextTable | None:
    """Read `<stem>.csv` or `<stem>.parquet` in a folder.

    `<stem>.parquet` may be a folder of Parquet files, as Spark, Dask and pandas write them: they are one table, in
    the order of their names.

    Args:
        folder: where the file lies.
        stem: its name without suffix, such as "images".
        required: columns that it must have; others are allowed.
        optional: columns that are used if they are there.
        numbers: columns that may hold floating-point numbers in a Parquet file.
        closed_prefix: columns whose names begin so are mistakes unless they are among the optional ones.
        findings: every mistake is added here.
        may_be_missing: whether a missing file is fine.
        distinct: columns whose values hardly ever repeat; all others are kept as `text_table.compact` makes them.
        ids: of the images, where the column `image_id` refers to them: it is kept as positions if all are known.

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
    path = present[0]
    wanted = (*required, *optional)
    repeated = [name for name in wanted if name not in distinct]

    def read(path: Path, shown_as: str) -> TextTable | None:
        table = read_any_table(
            path,
            findings,
            wanted=wanted,
            numbers=numbers,
            shown_as=shown_as,
            # Whoever made the file may keep much in it that nobody here asks for.
            only=_Columns(required, repeated) if closed_prefix is None else None,
        )
        if table is None or not check_columns(table, required, findings):
            return None
        if closed_prefix is not None:
            report_unknown_columns(table, closed_prefix, optional, findings)
        table = table.select(name for name in wanted if table.has(name)).compacted(repeated)
        if ids is None or not table.has("image_id"):
            return table
        codes = ids.as_codes(table.data.column("image_id"))
        return table if codes is None else table.with_column("image_id", codes)

    if not (path.is_dir() and path.suffix == ".parquet"):
        return read(path, path.name)
    tables = [read(part, f"{path.name}/{part.name}") for part in _parts(path, findings)]
    whole = [table for table in tables if table is not None]
    return _joined(path.name, whole, ids) if whole and len(whole) == len(tables) else None


def _parts(folder: Path, findings: Findings) -> list[Path]:
    """The files of a table that lies in several, by name; what Spark and others note beside them is none."""
    found = sorted(path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_")))
    if not found:
        accepted = "a file, or .parquet files in it"
        findings.add(Problem(folder.name, "the folder holds no .parquet file", accepted=accepted))
    return found


def _joined(name: str, tables: list[TextTable], ids: ImageIds | None) -> TextTable:
    """One table of several; a column that only some of them have is empty in the others."""
    starts = np.cumsum([0, *(len(table) for table in tables)]).tolist()
    data = {}
    for column in dict.fromkeys(column for table in tables for column in table.columns):
        chunks = [chunk for table in tables for chunk in _cells(table, column).chunks]
        if all(ids is not None and _refers_to(ids, chunk) for chunk in chunks):
            positions = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
            data[column] = pa.DictionaryArray.from_arrays(positions, chunks[0].dictionary)
        elif any(pa.types.is_dictionary(chunk.type) for chunk in chunks):
            kind = pa.dictionary(pa.int32(), pa.large_string())
            data[column] = compact(pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind))
        else:
            data[column] = pa.chunked_array(chunks, pa.large_string())
    parts = [(table.file, start) for table, start in zip(tables, starts, strict=False)]
    return TextTable(name, pa.table(data), parts=parts)


def _refers_to(ids: ImageIds, chunk: Any) -> bool:
    return pa.types.is_dictionary(chunk.type) and ids.is_dictionary_of(chunk)


def _cells(table: TextTable, column: str) -> Any:
    if table.has(column):
        return table.data.column(column)
    return pa.chunked_array([pa.repeat(pa.scalar("", pa.large_string()), len(table))])


class _Columns(NamedTuple):
    """What is read of a Parquet file, where its columns are as they should be."""

    required: Sequence[str]
    repeated: Sequence[str]
    """Those in which values repeat."""

    def are_found_in(self, names: Sequence[str]) -> bool:
        """Whether all that are required are there, and no name twice."""
        return set(self.required) <= set(names) and len(set(names)) == len(names)


def read_any_table(
    path: Path,
    findings: Findings,
    *,
    wanted: tuple[str, ...],
    numbers: tuple[str, ...] = (),
    shown_as: str | None = None,
    only: _Columns | None = None,
) -> TextTable | None:
    """Read a CSV or Parquet file with whatever columns it has.

    In a Parquet file the `wanted` columns must hold text or whole numbers, the `numbers` may also hold others;
    other columns of other types are left out. In a CSV file every column is text.

    Args:
        path: the file.
        findings: every mistake is added here.
        wanted: columns that are asked for.
        numbers: columns that may hold floating-point numbers.
        shown_as: what messages call the file; None: by its name.
        only: of a Parquet file with all its required columns, leave out what is not wanted.

    Returns:
        The table, or None if nothing can be read; then `findings` says why.
    """
    name = shown_as or path.name
    try:
        if not path.is_file():
            problem = "it is not a file" if path.exists() else "the file is missing"
            findings.add(Problem(name, problem, accepted="a CSV or Parquet file"))
            return None
        if path.suffix.lower() == ".parquet":
            return _read_parquet_table(path, name, findings, wanted=wanted, numbers=numbers, only=only)
        with path.open("rb") as file:
            if file.read(len(_ZIP_START)) in (_ZIP_START, _OLD_OFFICE_START):
                message = "this is a spreadsheet or an archive, not text"
                findings.add(Problem(name, message, accepted="CSV: open the file and save it as CSV"))
                return None
        return read_csv_table(path, findings, repeated=() if only is None else only.repeated)
    except OSError as error:
        reason = error.strerror or str(error)
        findings.add(Problem(name, f"the file cannot be read ({reason})", accepted="a readable file"))
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
    path: Path,
    name: str,
    findings: Findings,
    *,
    wanted: tuple[str, ...],
    numbers: tuple[str, ...],
    only: _Columns | None,
) -> TextTable | None:
    columns: dict[str, Any] = {}
    is_readable = True
    try:
        schema = pq.read_schema(path)
        encoded = [] if only is None else [each for each in only.repeated if each in schema.names]
        with pq.ParquetFile(path, read_dictionary=encoded) as file:
            whole = None if only is not None and only.are_found_in(schema.names) else _checked(file.read())
            for position, field in enumerate(schema):
                column, kind = field.name, field.type
                if whole is None and column not in wanted:
                    continue
                # One by one, so that no more than one is there in two forms.
                cells = (
                    _checked(file.read(columns=[column])).column(0) if whole is None else whole.column(position)
                )
                if column in columns:
                    message = "column name used twice"
                    findings.add(Problem(name, message, 1, column, column, accepted="each name once"))
                elif _is_text_like(kind):
                    columns[column] = _texts(cells, may_be_encoded=whole is None)
                elif column in numbers and pa.types.is_floating(kind):
                    columns[column] = _numbers_as_texts(cells)
                elif column in wanted:
                    accepted = "text or whole numbers"
                    findings.add(Problem(name, "wrong column type", None, column, str(kind), accepted))
                    is_readable = False
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        findings.add(Problem(name, f"cannot be read as Parquet ({reason})", accepted="a whole Parquet file"))
        return None
    return TextTable(name, pa.table(columns)) if is_readable else None


def _checked(data: pa.Table) -> pa.Table:
    data.validate(full=True)
    return data


def _texts(cells: Any, *, may_be_encoded: bool) -> Any:
    encoded = pa.types.is_dictionary(cells.type) and not pa.types.is_integer(cells.type.value_type)
    if encoded and may_be_encoded:
        return cells
    cells = cells.cast(pa.large_string())
    return pc.fill_null(cells, "") if cells.null_count else cells


def _numbers_as_texts(cells: Any) -> Any:
    texts = cells.cast(pa.float64()).cast(pa.large_string())
    return pc.if_else(pc.fill_null(pc.is_nan(cells), fill_value=True), "", texts)


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
