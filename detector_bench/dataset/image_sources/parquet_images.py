"""Images whose bytes stand in a Parquet file, as those of Hugging Face's data sets do.

A column of images is one of bytes, or of structs with a field `bytes`. Rows are read in small pieces, one after
another: whoever asks for them in the file's order reads each piece once, and holds little of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import accumulate
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import sentence, shown
from detector_bench.dataset.image_sources.places import ContentMark, FilePlace, require_size
from detector_bench.dataset.image_sources.seekable_files import seekable

# Whoever wrote the file decides how little can be read at once: a page, often a row group of 100 images.
_FILES_OPEN = 2
_BYTES_PER_PIECE = 8_000_000
_PIECES_HELD = 3


class ParquetImages:
    """The Parquet files of an image set. Any thread may read; those of one file wait for each other.

    Args:
        place: finds the place of a file.
    """

    def __init__(self, place: Callable[[str], FilePlace]) -> None:
        self._place = place
        self._lock = Lock()
        self._open: OrderedDict[tuple[str, str | None, str], _ImageColumn] = OrderedDict()

    def read(self, file: str, part: str, *, max_bytes: int, mark: ContentMark | None = None) -> bytes:
        """The bytes in a row.

        Args:
            file: path or address of the Parquet file.
            part: `ROW`, or `COLUMN/ROW` where the file has several columns of images; rows count from 0.
            max_bytes: larger images are refused.
            mark: what the file was like when it was listed; None looks now.

        Raises:
            ImageError: see there for the reasons.
        """
        name, _, row = part.rpartition("/")
        shown_name = f"{shown(file)}#{part}"
        if not row.isdecimal():
            raise ImageError("missing_file", f"{shown_name}: no number of a row")
        place = self._place(file)
        mark = place.mark(file) if mark is None else mark
        column = self._column(place, file, mark, name)
        data = column.row(int(row), shown_name)
        if data is None:
            raise ImageError("missing_file", f"{shown_name}: the row holds no bytes of an image")
        require_size(shown_name, len(data), max_bytes)
        return data

    def _column(self, place: FilePlace, file: str, mark: ContentMark, name: str) -> _ImageColumn:
        key = (file, mark.text, name)
        with self._lock:
            if key not in self._open:
                self._open[key] = _ImageColumn(place, file, mark, name)
            self._open.move_to_end(key)
            while len(self._open) > _FILES_OPEN:
                self._open.popitem(last=False)
            return self._open[key]


def image_columns(schema: pa.Schema) -> list[str]:
    """The names of the columns that may hold images."""
    return [field.name for field in schema if _is_bytes(_content_type(field.type))]


class _ImageColumn:
    """One column of one file, read forwards."""

    def __init__(self, place: FilePlace, file: str, mark: ContentMark, name: str) -> None:
        self._place = place
        self._file = file
        self._mark = mark
        self._name = name
        self._lock = Lock()
        self._table: pq.ParquetFile | None = None
        self._first_rows: list[int] = []
        self._group = -1
        self._pieces: Iterator[Any] = iter(())
        self._next_row = 0
        self._held: list[tuple[int, Any]] = []

    def row(self, row: int, shown_name: str) -> bytes | None:
        """The bytes in a row, None if it is empty."""
        with self._lock:
            try:
                return self._row(row, shown_name)
            except (pa.ArrowException, OSError, ValueError) as error:
                self._table, self._held, self._group = None, [], -1
                raise ImageError("corrupt", f"{shown_name}: {sentence(error)}") from error
            except ImageError:
                self._table, self._held, self._group = None, [], -1
                raise

    def _row(self, row: int, shown_name: str) -> bytes | None:
        table = self._opened()
        if row >= table.metadata.num_rows:
            raise ImageError("missing_file", f"{shown_name}: the file has {table.metadata.num_rows:,} rows")
        while (found := self._in_memory(row)) is None:
            self._read_on(table, row)
        first, piece = found
        # A struct is null as a whole, or its bytes are.
        cell = piece[row - first].as_py()
        content = cell.get("bytes") if isinstance(cell, dict) else cell
        return None if content is None else bytes(content)

    def _opened(self) -> pq.ParquetFile:
        if self._table is None:
            source = pa.PythonFile(seekable(self._place, self._file, self._mark), mode="r")
            table = pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
            self._name = _chosen(table.schema_arrow, self._name, self._file)
            sizes = [table.metadata.row_group(group).num_rows for group in range(table.metadata.num_row_groups)]
            self._first_rows = [0, *accumulate(sizes)][:-1]
            self._table = table
        return self._table

    def _in_memory(self, row: int) -> tuple[int, Any] | None:
        return next(((first, piece) for first, piece in self._held if 0 <= row - first < len(piece)), None)

    def _read_on(self, table: pq.ParquetFile, row: int) -> None:
        """Read the next piece; from the beginning of the row group if the row lies behind or in another one."""
        group = bisect_right(self._first_rows, row) - 1
        if group != self._group or row < self._next_row:
            self._group, self._next_row = group, self._first_rows[group]
            rows = _rows_per_piece(table, group)
            self._pieces = table.iter_batches(rows, row_groups=[group], columns=[self._name], use_threads=False)
        piece = next(self._pieces).column(0)
        self._held = [*self._held[-_PIECES_HELD + 1 :], (self._next_row, piece)]
        self._next_row += len(piece)


def _chosen(schema: pa.Schema, name: str, file: str) -> str:
    known = image_columns(schema)
    if name in known:
        return name
    listed = ", ".join(known) or "none"
    if name:
        raise ImageError("missing_file", f"{shown(file)}: no column of images {name!r} (there are: {listed})")
    if len(known) != 1:
        raise ImageError(
            "missing_file", f"{shown(file)}: which column? Name one as #COLUMN/ROW (there are: {listed})"
        )
    return known[0]


def _rows_per_piece(table: pq.ParquetFile, group: int) -> int:
    metadata = table.metadata.row_group(group)
    average = metadata.total_byte_size / max(1, metadata.num_rows)
    return max(1, min(1024, int(_BYTES_PER_PIECE / max(1.0, average))))


def _content_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        return kind.field("bytes").type
    return kind


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
