"""Reads a CSV file into text cells and reports what makes it unreadable, row by row."""

from __future__ import annotations

import codecs
import csv
import io
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from detector_bench.dataset.text_table import (
    Findings,
    TextTable,
    compact,
    shorten,
    single_array,
    true_indices,
)
from detector_bench.errors import Problem

REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
UTF8 = "UTF-8 text"
QUOTE = '"'
_REPEATED = pa.dictionary(pa.int32(), pa.large_string())
_LONGEST_HEADER = 1 << 20
_BLOCK_SIZE = 1 << 20
# With more rows than this, the whole file is of another make, and listing them would take minutes.
_MOST_RAGGED_ROWS = 100_000
# The longer mark comes first: a UTF-32 mark begins with a UTF-16 one.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True)
class _RaggedRow:
    """A row with too few or too many cells."""

    row: int
    n_cells: int
    text: str


class _RaggedRowError(Exception):
    """There are more ragged rows than were expected."""


def read_csv_table(
    path: Path,
    findings: Findings,
    *,
    repeated: Collection[str] = (),
    separator: str = ",",
    content: bytes | None = None,
) -> TextTable | None:
    """Read a comma-separated UTF-8 file; a byte order mark is fine.

    Every cell stays text: nothing is taken for a number or a missing value. Rows without any text are left out,
    but counted in the row numbers. Rows with too few or too many cells, and bytes that are not UTF-8, are
    reported, and the rest of the file is still read so that its mistakes can be reported too.

    Args:
        path: the file.
        findings: every mistake is added here.
        repeated: columns in which values repeat, to be kept as `text_table.compact` makes them.
        separator: what stands between cells, one character.
        content: what the file says, as UTF-8, where it is stored in another encoding.

    Returns:
        The table, or None if nothing can be read; then `findings` says why.
    """
    if content is not None:
        head = content[:_LONGEST_HEADER]
    else:
        with path.open("rb") as file:
            head = file.read(_LONGEST_HEADER)
    if not head.strip(b"\r\n\t \xef\xbb\xbf"):
        findings.add(Problem(path.name, "the file is empty", accepted="a header row and records"))
        return None
    for mark, encoding in _WIDE_MARKS:
        if head.startswith(mark):
            findings.add(Problem(path.name, "wrong encoding", value=encoding, accepted=UTF8))
            return None
    names = _header(head, separator)
    if names is None:
        findings.add(Problem(path.name, "the header row cannot be read as CSV", row=1, accepted="column names"))
        return None
    try:
        is_header_only = len(head) < _LONGEST_HEADER and b"\n" not in head and b"\r" not in head
        kinds = {name: _REPEATED if name in repeated else pa.large_string() for name in names}
        source = path if content is None else content
        return _CsvReading(path, source, separator, findings).read(kinds, names, is_header_only=is_header_only)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        if _has_open_quote(path.read_bytes() if content is None else content):
            reason = "a quotation mark is opened and never closed"
        if "straddling" in reason:  # pyarrow cannot put it into one of its blocks
            reason = f"a row, with its cells, is longer than {_BLOCK_SIZE >> 20} MiB"
        accepted = "comma-separated cells" if separator == "," else f"cells with {separator!r} between them"
        findings.add(Problem(path.name, f"cannot be read as CSV ({reason})", accepted=accepted))
        return None


def _header(head: bytes, separator: str) -> list[str] | None:
    text = head.decode("utf-8-sig", errors="replace")
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except (csv.Error, StopIteration):
        return None


@dataclass(frozen=True)
class _CsvReading:
    """One file that is being read: the file, its content where that is not the file's own, and its separator."""

    path: Path
    source: Path | bytes
    separator: str
    findings: Findings

    def read(self, kinds: dict[str, Any], names: list[str], *, is_header_only: bool) -> TextTable | None:
        file, findings = self.path.name, self.findings
        # Looked for beforehand, because pyarrow cannot hand over a ragged row that is not UTF-8.
        bad_offset = _first_bad_byte(self.path) if isinstance(self.source, Path) else None
        source = self.source
        if bad_offset is not None or is_header_only:
            # To pyarrow, a header without a line end is no file at all.
            line_end = b"\n" if is_header_only else b""
            source = self.content().decode("utf-8", errors="replace").encode() + line_end
        data, ragged = self._parse(source, kinds)
        if data is None:
            _report_ragged(file, ragged, len(names), self.separator, findings)
            message = f"{_MOST_RAGGED_ROWS:,} such rows: the rest of the file was not checked"
            findings.add(Problem(file, message, accepted=f"{len(names)} cells in every row, as in the header"))
            return None
        data = _without_repeated_columns(file, data, findings)
        skipped = [item.row for item in ragged]
        table = _without_blank_rows(file, data, skipped, _ragged_cells(ragged, names, self.separator))
        if bad_offset is not None:
            _report_encoding(table, bad_offset, findings)
        _report_ragged(file, ragged, len(names), self.separator, findings)
        self._report_open_quote(table)
        return table

    def content(self) -> bytes:
        return self.source.read_bytes() if isinstance(self.source, Path) else self.source

    def _parse(self, source: Path | bytes, kinds: dict[str, Any]) -> tuple[Any | None, list[_RaggedRow]]:
        ragged: list[_RaggedRow] = []
        with suppress(_RaggedRowError):
            return self._parse_once(source, kinds, ragged, use_threads=True), ragged
        # Only a single thread knows the numbers of the rows that it has to skip.
        ragged.clear()
        with suppress(_RaggedRowError):
            return self._parse_once(source, kinds, ragged, use_threads=False), ragged
        return None, ragged

    def _parse_once(
        self, source: Path | bytes, kinds: dict[str, Any], ragged: list[_RaggedRow], *, use_threads: bool
    ) -> Any:
        most = 0 if use_threads else _MOST_RAGGED_ROWS

        def skip(row: Any) -> str:
            if len(ragged) >= most:
                ragged_too_often.set()
                return "error"
            ragged.append(_RaggedRow(row.number, row.actual_columns, row.text))
            return "skip"

        ragged_too_often = threading.Event()
        try:
            data = _read_csv(source, kinds, skip, separator=self.separator, use_threads=use_threads)
        except pa.ArrowInvalid as error:
            if ragged_too_often.is_set():
                raise _RaggedRowError from error
            raise
        # A file without a record may have columns of another type.
        fields = [pa.field(name, kinds.get(name, pa.large_string())) for name in data.column_names]
        return data.cast(pa.schema(fields))

    def _report_open_quote(self, table: TextTable) -> None:
        if len(table) == 0:
            return
        last, column = len(table) - 1, table.columns[-1]
        text = table.cell(column, last)
        if "\n" in text and _has_open_quote(self.content()):
            self.findings.add(_unclosed_quote(self.path.name, table.row(last), text, column))


def _read_csv(
    source: Path | bytes, kinds: dict[str, Any], skip: Callable[[Any], str], *, separator: str, use_threads: bool
) -> Any:
    opened = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(str(source))
    with opened:
        return pyarrow.csv.read_csv(
            opened,
            read_options=pyarrow.csv.ReadOptions(use_threads=use_threads, block_size=_BLOCK_SIZE),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
            # Reading a million rows into fresh memory takes half as long with the system's allocator.
            memory_pool=pa.system_memory_pool(),
        )


def _without_repeated_columns(file: str, data: Any, findings: Findings) -> Any:
    first_positions: dict[str, int] = {}
    for position, name in enumerate(data.column_names):
        if name in first_positions:
            findings.add(
                Problem(file, "column name used twice", row=1, column=name, value=name, accepted="each name once")
            )
        first_positions.setdefault(name, position)
    return data.select(list(first_positions.values()))


def _without_blank_rows(
    file: str, data: Any, skipped_rows: list[int], unreadable: dict[str, frozenset[str]]
) -> TextTable:
    kept = None
    if data.num_rows and data.num_columns:
        blank = pc.equal(data.column(0).cast(pa.large_string()), "")
        for column in data.columns[1:]:
            if not pc.any(blank).as_py():
                break
            blank = pc.and_(blank, pc.equal(column.cast(pa.large_string()), ""))
        if pc.any(blank).as_py():
            kept = single_array(pc.invert(blank))
    rows: NDArray[np.int64] | None = None
    if skipped_rows or kept is not None:
        all_rows = np.arange(2, data.num_rows + len(skipped_rows) + 2, dtype=np.int64)
        rows = np.setdiff1d(all_rows, np.asarray(skipped_rows, dtype=np.int64), assume_unique=True)
        if kept is not None:
            rows = rows[kept.to_numpy(zero_copy_only=False)]
            data = data.filter(kept)
    columns = {
        name: compact(column) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(data.column_names, data.columns, strict=True)
    }
    return TextTable(file, pa.table(columns), rows, unreadable)


def _ragged_cells(ragged: list[_RaggedRow], names: list[str], separator: str) -> dict[str, frozenset[str]]:
    cells: dict[str, set[str]] = {name: set() for name in names}
    for item in ragged:
        try:
            row = next(csv.reader([item.text], delimiter=separator), [])
        except csv.Error:
            continue
        for name, cell in zip(names, row, strict=False):
            cells[name].add(cell)
    return {name: frozenset(values) for name, values in cells.items() if values}


def _report_ragged(file: str, ragged: list[_RaggedRow], expected: int, separator: str, findings: Findings) -> None:
    mark = {",": "a comma", "\t": "a tab"}.get(separator, repr(separator))
    unclosed = [item for item in ragged if _has_open_quote(item.text.encode())]
    findings.add_kind([_unclosed_quote(file, item.row, item.text) for item in unclosed])
    findings.add_kind(
        [
            Problem(
                file,
                f"row has {item.n_cells} {'cell' if item.n_cells == 1 else 'cells'}",
                row=item.row,
                value=shorten(item.text),
                accepted=f"{expected} cells; a cell with {mark} or a line break stands in quotation marks",
            )
            for item in ragged
            if not _has_open_quote(item.text.encode())
        ]
    )


def _unclosed_quote(file: str, row: int, text: str, column: str | None = None) -> Problem:
    message = "a quotation mark is opened and never closed, so the rest of the file is one cell"
    return Problem(file, message, row, column, shorten(text.rstrip()), "quotation marks in pairs")


def _first_bad_byte(path: Path) -> int | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK_SIZE)
            n_pending = len(decoder.getstate()[0])
            try:
                # Most blocks are ASCII, which is told much faster than decoded.
                if n_pending or not block or not block.isascii():
                    decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return position - n_pending + error.start
            if not block:
                return None
            position += len(block)


def _report_encoding(table: TextTable, bad_offset: int, findings: Findings) -> None:
    message = f"wrong encoding: text is not UTF-8 (first at byte {bad_offset:,} of the file)"
    found = False
    for name in table.columns:
        if REPLACEMENT_CHARACTER in name:
            findings.add(Problem(table.file, message, row=1, column=name, value=name, accepted=UTF8))
            found = True
        bad = true_indices(pc.match_substring(table.column(name), REPLACEMENT_CHARACTER))
        findings.add_rows(table, name, bad, message=message, accepted=UTF8)
        found = found or len(bad) > 0
    if not found:
        findings.add(Problem(table.file, message, accepted=UTF8))


def _has_open_quote(content: bytes) -> bool:
    return content.count(QUOTE.encode()) % 2 == 1
