"""Reads a table of any make into text cells: separated text, JSON, JSON lines, Excel, Parquet."""

from __future__ import annotations

import datetime
import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.dataset.csv_reading import read_csv_table
from detector_bench.dataset.foreign.table_form import (
    READABLE,
    TableForm,
    TableOptions,
    UnknownEncodingError,
    encoding_of,
    format_of,
    separator_line,
    separator_of,
)
from detector_bench.dataset.text_table import FIRST_RECORD_ROW, Findings, TextTable
from detector_bench.errors import Problem
from detector_bench.installation import require
from detector_bench.json_text import JsonMistake, parse_json, read_json

_ZIP_START, _OLD_OFFICE_START = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_LARGEST_SHEET = 1 << 31
"""Bytes that a spreadsheet may unpack to."""

KEY_COLUMN = "image_id"
"""Of a JSON object whose keys are images, the column of the keys."""


def read_foreign_table(
    path: Path, findings: Findings, options: TableOptions | None = None
) -> tuple[TextTable | None, TableForm | None]:
    """Read a table that somebody's program wrote, every cell as text.

    Args:
        path: `READABLE`, by its suffix; a file with another suffix is text with separators.
        findings: every mistake is added here.
        options: what is said about it; the rest is recognised.

    Returns:
        The table, and how it is written; None for what cannot be read (then `findings` says why).

    Raises:
        MissingExtraError: a spreadsheet, and no package to read it.
    """
    options = options or TableOptions()
    try:
        if not path.is_file():
            problem = "it is not a file" if path.exists() else "the file is missing"
            findings.add(Problem(path.name, problem, accepted=READABLE))
            return None, None
        with path.open("rb") as file:
            start = file.read(4)
        kind = format_of(path)
        if start == _OLD_OFFICE_START or (start == _ZIP_START and kind != "excel"):
            message = "this is an old or locked spreadsheet, or an archive, and no table that can be read"
            findings.add(Problem(path.name, message, accepted="save it as .xlsx without a password, or as CSV"))
            return None, None
        reader = {"csv": _read_text, "json": _read_json, "json lines": _read_json_lines}.get(kind)
        if reader is not None:
            return reader(path, findings, options)
        return (_read_sheet if kind == "excel" else _read_parquet)(path, findings, options)
    except OSError as error:
        reason = error.strerror or str(error)
        findings.add(Problem(path.name, f"the file cannot be read ({reason})", accepted="a readable file"))
        return None, None


def _read_text(path: Path, findings: Findings, options: TableOptions) -> tuple[TextTable | None, TableForm | None]:
    content = path.read_bytes()
    try:
        encoding = options.encoding or encoding_of(content)
        text = content.decode(encoding)
    except (UnknownEncodingError, UnicodeDecodeError) as error:
        at = f" (byte {error.start:,})" if isinstance(error, UnicodeDecodeError) else ""
        accepted = "the encoding that it was saved in, such as --encoding cp1252"
        findings.add(Problem(path.name, f"wrong encoding{at}", value=options.encoding or None, accepted=accepted))
        return None, None
    text = text.removeprefix("\ufeff")
    skipped = 0
    named = separator_line(text)
    if named:
        text, skipped = text.partition("\n")[2], 1
    separator = options.separator_sign or named or separator_of(text)
    form = TableForm("csv", separator, encoding, skipped=skipped)
    is_plain = encoding in ("utf-8", "utf-8-sig") and not skipped
    table = read_csv_table(path, findings, separator=separator, content=None if is_plain else text.encode())
    if table is None:
        return None, form
    if skipped:
        rows = np.array([table.row(index) + skipped for index in range(len(table))], dtype=np.int64)
        table = replace(table, rows=rows)
    return _with_clean_heading(table), form


def _with_clean_heading(table: TextTable) -> TextTable:
    """Blanks around column names belong to nobody."""
    clean = [name.strip() for name in table.columns]
    if clean == table.columns or len(set(clean)) < len(clean):
        return table
    return replace(table, data=table.data.rename_columns(clean))


def _read_json_lines(
    path: Path, findings: Findings, options: TableOptions
) -> tuple[TextTable | None, TableForm | None]:
    records, rows, mistakes = [], [], []
    encoding = options.encoding or "utf-8-sig"
    try:
        lines = path.read_text(encoding=encoding).splitlines()
    except UnicodeDecodeError as error:
        findings.add(Problem(path.name, f"wrong encoding at byte {error.start:,}", accepted="UTF-8"))
        return None, None
    for row, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except JsonMistake as error:
            mistakes.append(Problem(path.name, f"no JSON ({error})", row, accepted="an object in each line"))
            continue
        if not isinstance(record, dict):
            mistakes.append(Problem(path.name, "no JSON object", row, accepted="an object in each line"))
            continue
        records.append(record)
        rows.append(row)
    findings.add_kind(mistakes)
    return _of_records(path.name, records, rows, findings), TableForm("json lines", encoding="utf-8")


def _read_json(
    path: Path, findings: Findings, _options: TableOptions
) -> tuple[TextTable | None, TableForm | None]:
    try:
        content = read_json(path)
    except JsonMistake as error:
        findings.add(Problem(path.name, f"no JSON ({error}{error.place})", accepted="a list of objects"))
        return None, None
    records = _records_in(content)
    if records is None:
        accepted = "a list of objects, an object of columns, or an object with an object for each image"
        findings.add(Problem(path.name, "JSON without a table", accepted=accepted))
        return None, None
    return _of_records(path.name, records, range(1, len(records) + 1), findings), TableForm("json")


def _records_in(content: Any) -> list[dict[str, Any]] | None:
    if isinstance(content, Mapping):
        values = list(content.values())
        if values and all(isinstance(each, list) for each in values) and len({*map(len, values)}) == 1:
            if len(values) > 1:  # an object of columns
                return [dict(zip(content, cells, strict=True)) for cells in zip(*values, strict=True)]
            content = values[0]  # such as {"data": [...]}
        elif values and all(isinstance(each, Mapping) for each in values):
            return [{KEY_COLUMN: key, **each} for key, each in content.items()]
        elif values and not any(isinstance(each, list | Mapping) for each in values):
            return [{KEY_COLUMN: key, "label": each} for key, each in content.items()]
    if isinstance(content, list) and all(isinstance(each, Mapping) for each in content):
        return [dict(each) for each in content]
    return None


def _of_records(
    name: str, records: Sequence[Mapping[str, Any]], rows: Iterable[int], findings: Findings
) -> TextTable | None:
    if not records:
        if not findings:
            findings.add(Problem(name, "the file has no records", accepted="at least one"))
        return None
    columns = dict.fromkeys(str(key).strip() for record in records for key in record)
    cells: dict[str, list[str]] = {column: [] for column in columns}
    for record in records:
        own = {str(key).strip(): value for key, value in record.items()}
        for column, each in cells.items():
            each.append(as_cell(own.get(column)))
    data = pa.table({column: pa.array(each, pa.large_string()) for column, each in cells.items()})
    return TextTable(name, data, np.array(list(rows), dtype=np.int64))


def as_cell(value: object) -> str:
    """A value as text: nothing and NaN are empty, a whole number has no point, what is nested is JSON."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, list | Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _read_sheet(
    path: Path, findings: Findings, options: TableOptions
) -> tuple[TextTable | None, TableForm | None]:
    openpyxl = require("openpyxl", extra="excel")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > _LARGEST_SHEET:
                raise zipfile.BadZipFile("it unpacks to more than 2 GiB")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        findings.add(Problem(path.name, f"cannot be read as Excel ({error})", accepted="a whole .xlsx file"))
        return None, None
    try:
        sheets = [name for name in book.sheetnames if hasattr(book[name], "iter_rows")]
        sheet = options.sheet or sheets[0]
        if sheet not in sheets:
            findings.add(Problem(path.name, "no such sheet", value=sheet, accepted=", ".join(sheets)))
            return None, None
        others = () if options.sheet else tuple(name for name in sheets[1:] if _has_content(book[name]))
        form = TableForm("excel", sheet=sheet, other_sheets=others)
        rows = [
            (number, [as_cell(cell).strip() for cell in row])
            for number, row in enumerate(book[sheet].iter_rows(values_only=True), start=1)
        ]
    finally:
        book.close()
    rows = [(number, cells) for number, cells in rows if any(cells)]
    if len(rows) < 2:
        message = f"sheet {sheet!r} has no records"
        others = tuple(name for name in sheets if name != sheet)
        accepted = f"--excel-sheet with one of: {', '.join(others)}" if others else "a header row and records"
        findings.add(Problem(path.name, message, accepted=accepted))
        return None, form
    return _of_rows(path.name, rows, findings), form


def _has_content(sheet: Any) -> bool:
    return any(as_cell(cell).strip() for row in sheet.iter_rows(values_only=True) for cell in row)


def _of_rows(name: str, rows: list[tuple[int, list[str]]], findings: Findings) -> TextTable | None:
    """A table of a sheet's rows, the first of which names the columns; what stands beside them is reported."""
    (header_row, header), *records = rows
    named = {column: at for at, column in reversed(list(enumerate(header))) if column}
    if len(named) < sum(map(bool, header)):
        twice = next(column for column in header if column and header.count(column) > 1)
        findings.add(Problem(name, "column name used twice", header_row, twice, twice, "each name once"))
    beside = [
        Problem(name, "cell beside the named columns", row, accepted="a name for its column in the header")
        for row, cells in records
        if any(cell for at, cell in enumerate(cells) if at >= len(header) or not header[at])
    ]
    findings.add_kind(beside)
    columns = {
        column: pa.array([cells[at] if at < len(cells) else "" for _, cells in records], pa.large_string())
        for column, at in sorted(named.items(), key=lambda item: item[1])
    }
    if header_row + 1 == FIRST_RECORD_ROW and [row for row, _ in records] == [*range(2, len(records) + 2)]:
        return TextTable(name, pa.table(columns))
    return TextTable(name, pa.table(columns), np.array([row for row, _ in records], dtype=np.int64))


def _read_parquet(
    path: Path, findings: Findings, _options: TableOptions
) -> tuple[TextTable | None, TableForm | None]:
    columns: dict[str, Any] = {}
    try:
        with pq.ParquetFile(path) as file:
            for field in file.schema_arrow:
                if holds_text(field.type) and field.name not in columns:
                    columns[field.name] = _texts(file.read(columns=[field.name]).column(0))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        findings.add(Problem(path.name, f"cannot be read as Parquet ({reason})", accepted="a whole Parquet file"))
        return None, None
    if not columns:
        findings.add(Problem(path.name, "no column of text or numbers", accepted="a table"))
        return None, None
    return TextTable(path.name, pa.table(columns)), TableForm("parquet")


def holds_text(kind: Any) -> bool:
    """Whether a column of a Parquet file can be read as text cells: text, numbers, yes and no."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer),
        *(pa.types.is_floating, pa.types.is_boolean, pa.types.is_null),
    )
    return any(test(kind) for test in tests)


def _texts(cells: Any) -> Any:
    cells.validate(full=True)
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return pa.chunked_array([pa.array([as_cell(value) for value in cells.to_pylist()], pa.large_string())])
    return cells.cast(pa.large_string()).fill_null("")
