"""Tables of text cells that know where each record stood in its file, and all the mistakes found in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.errors import DataError, Problem

FIRST_RECORD_ROW = 2
"""Rows are counted as a spreadsheet does: the header is row 1."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A column as small integers: `texts[codes[i]]` is the text of record i."""

    texts: list[str]
    codes: NDArray[np.integer[Any]]

    def is_text(self, text: str) -> NDArray[np.bool_]:
        """Which records have just this text."""
        if text not in self.texts:
            return np.zeros(len(self.codes), dtype=np.bool_)
        found: NDArray[np.bool_] = np.equal(self.codes, self.texts.index(text))
        return found


@dataclass(frozen=True, eq=False)
class TextTable:
    """The records of one file, every cell as text, with the row that each came from.

    Attributes:
        file: name to show in messages, such as `images.csv`.
        data: pyarrow table without nulls; columns of type large_string, or `compact` ones.
        rows: row number of each record, or None where they are 2, 3, 4, ... without a gap.
        unreadable: per column, what the rows that had too few or too many cells seem to hold there. Records of
            other files that refer to them are not wrong.
        headings: what the file itself calls a column, where that is not the column's name here.
        parts: of a table that lies in several files, the name of each and the index of its first record.
    """

    file: str
    data: Any
    rows: NDArray[np.int64] | None = None
    unreadable: Mapping[str, frozenset[str]] = field(default_factory=dict)
    headings: Mapping[str, str] = field(default_factory=dict)
    parts: Sequence[tuple[str, int]] = ()
    _encoded: dict[str, Encoded] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in file order."""
        return list(self.data.column_names)

    def has(self, *columns: str) -> bool:
        """Whether the file has all these columns."""
        return set(columns) <= set(self.data.column_names)

    def column(self, name: str) -> Any:
        """One column as a chunked pyarrow array of large_string."""
        column = self.data.column(name)
        return column.cast(pa.large_string()) if pa.types.is_dictionary(column.type) else column

    def texts(self, name: str) -> Any:
        """What stands in a column, as a chunked pyarrow array: of a `compact` one each text once."""
        column = self.data.column(name)
        if not pa.types.is_dictionary(column.type):
            return column
        return pa.chunked_array([chunk.dictionary for chunk in column.chunks[:1]], type=pa.large_string())

    def encoded(self, name: str) -> Encoded:
        """One column as integers, computed once. Meant for columns in which values repeat."""
        if name not in self._encoded:
            column = self.data.column(name)
            if pa.types.is_dictionary(column.type):
                texts = self.texts(name).to_pylist()
                codes = single_array(column).indices.to_numpy()
                self._encoded[name] = Encoded(texts, codes)
            else:
                texts, codes = distinct_texts(column)
                self._encoded[name] = Encoded(texts.to_pylist(), codes)
        return self._encoded[name]

    def cell(self, column: str, index: int) -> str:
        """The text of one cell; record 0 is the first."""
        return str(self.data.column(column)[index].as_py())

    def row(self, index: int) -> int:
        """The row at which a record stands in its file."""
        if self.rows is not None:
            return int(self.rows[index])
        return index - self._part_of(index)[1] + FIRST_RECORD_ROW

    def file_of(self, index: int) -> str:
        """The file in which a record stands."""
        return self._part_of(index)[0]

    def place(self, index: int, *, seen_from: int) -> str:
        """Where a record stands, to a reader of another one: "row 7", with its file if that is another one."""
        file = self.file_of(index)
        return f"row {self.row(index)}" + ("" if file == self.file_of(seen_from) else f" of {file}")

    def _part_of(self, index: int) -> tuple[str, int]:
        at = bisect_right(self.parts, index, key=lambda part: part[1])
        return self.parts[at - 1] if at else (self.file, 0)

    def heading(self, column: str) -> str:
        """What the file calls a column."""
        return self.headings.get(column, column)

    def records_with(self, column: str, is_bad: Callable[[str], bool]) -> NDArray[np.intp]:
        """Indices of the records whose cell is bad; each distinct value is judged only once."""
        encoded = self.encoded(column)
        bad = np.fromiter((is_bad(value) for value in encoded.texts), dtype=bool, count=len(encoded.texts))
        if not bad.any():
            return np.empty(0, dtype=np.intp)
        return np.flatnonzero(bad[encoded.codes])

    def matching(self, column: str, matches: Callable[[Any], Any]) -> NDArray[np.intp]:
        """Indices of the records whose cell matches; each text of a `compact` column is judged only once.

        Args:
            column: its name.
            matches: of a chunked pyarrow array of texts, an array of booleans.
        """
        cells = self.data.column(column)
        found = matches(self.texts(column))
        if pa.types.is_dictionary(cells.type):
            if not pc.any(found).as_py():
                return np.empty(0, dtype=np.intp)
            found = pc.take(single_array(found), single_array(cells).indices)
        return true_indices(found)

    def with_column(self, name: str, cells: Any) -> TextTable:
        """The same records with other cells in a column."""
        return replace(self, data=self.data.set_column(self.columns.index(name), name, cells), _encoded={})

    def select(self, columns: Iterable[str]) -> TextTable:
        """The same records with only these columns."""
        return replace(self, data=self.data.select(list(columns)), _encoded={})

    def without(self, column: str) -> TextTable:
        """The same records without a column."""
        return self.select(name for name in self.columns if name != column)

    def compacted(self, columns: Iterable[str]) -> TextTable:
        """The same table with these columns, in which values repeat, as `compact` makes them."""
        table = self
        for name in filter(self.has, columns):
            table = table.with_column(name, compact(self.data.column(name)))
        return table


def text_columns(columns: Mapping[str, list[str]]) -> pa.Table:
    """Cells by column as the `data` of a table."""
    return pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})


def compact(column: Any) -> pa.DictionaryArray:
    """A chunked column of texts as one dictionary-encoded array, with a byte or a few per cell.

    Args:
        column: texts, dictionary-encoded or not; an empty cell is the text "".

    Returns:
        Each text once in the dictionary, in the order of first appearance, and none that does not appear.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = single_array(column.unify_dictionaries()) if column.num_chunks else pa.array([], column.type)
    texts = pa.concat_arrays([encoded.dictionary.cast(pa.large_string()), pa.array([""], pa.large_string())])
    indices = encoded.indices.fill_null(len(texts) - 1)
    # A dictionary from a file may hold what no cell says, and the same text, or an empty cell, twice.
    same_text = texts.fill_null("").dictionary_encode()
    text_of_index = same_text.indices.to_numpy()
    used = dict.fromkeys(text_of_index[pc.unique(indices).to_numpy()].tolist())
    position = np.zeros(len(same_text.dictionary), dtype=np.min_scalar_type(-max(len(used), 1)))
    position[list(used)] = np.arange(len(used))
    codes = position[text_of_index][indices.to_numpy()]
    return pa.DictionaryArray.from_arrays(codes, same_text.dictionary.take(pa.array(list(used), pa.int64())))


def distinct_texts(column: Any) -> tuple[Any, NDArray[np.int32]]:
    """The distinct texts of a chunked column as a pyarrow array, in order of first appearance, and their codes.

    The code of a record is the position of its text, so codes count up from 0 as new texts appear.
    """
    chunks = column.dictionary_encode().chunks
    if not chunks:
        return pa.array([], pa.large_string()), np.empty(0, dtype=np.int32)
    # Encoded together, all chunks share one dictionary.
    return chunks[-1].dictionary, np.concatenate([chunk.indices.to_numpy() for chunk in chunks])


def single_array(column: Any) -> Any:
    """A chunked pyarrow column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def true_indices(mask: Any) -> NDArray[np.intp]:
    """Positions at which a pyarrow array of booleans is true."""
    return np.flatnonzero(single_array(mask).to_numpy(zero_copy_only=False))


def is_plain(column: Any) -> bool:
    """Whether all text is printable ASCII without blanks: a quick look that spares the slow ones."""
    for chunk in column.chunks:
        buffer = chunk.buffers()[2]
        if buffer is None or buffer.size == 0:
            continue
        text = np.frombuffer(buffer, dtype=np.uint8)
        if text.min() <= ord(" ") or text.max() >= 0x7F:
            return False
    return True


def trimmed(column: Any) -> Any:
    """A chunked pyarrow column of text without the blanks around its cells."""
    return column if is_plain(column) else pc.utf8_trim_whitespace(column)


LISTED_PER_KIND = 20
"""How many mistakes of one kind are listed one by one; the rest are only counted."""

LONGEST_VALUE = 80
"""Longest bad value that is shown whole, in characters."""


def shorten(value: str) -> str:
    """Cut a value to a length that fits in a message; an ellipsis marks the cut."""
    return value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 1] + "…"


class Findings:
    """The mistakes found so far.

    A mistake that occurs in a million rows is listed `LISTED_PER_KIND` times, then counted in one last entry,
    so the report stays readable and cheap.
    """

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All mistakes, in the order in which they were found."""
        return tuple(self._problems)

    def add(self, problem: Problem) -> None:
        """Keep one mistake; it is listed in full."""
        self._problems.append(problem)

    def add_kind(self, problems: Sequence[Problem]) -> None:
        """Keep mistakes of one kind: the first ones in full, the rest as a count."""
        self._problems.extend(problems[:LISTED_PER_KIND])
        if problems:
            self._count_rest(problems[0], len(problems))

    def add_rows(
        self,
        table: TextTable,
        column: str,
        indices: NDArray[np.integer],
        *,
        message: str,
        accepted: str | Callable[[int], str],
    ) -> None:
        """Keep one mistake for each record of `table` in `indices` (0 is the first record).

        `accepted` is a text, or a function from a record's index to its text where that differs.
        """
        listed = [
            Problem(
                file=table.file_of(index),
                message=message,
                row=table.row(index),
                column=table.heading(column),
                value=shorten(table.cell(column, index)),
                accepted=accepted if isinstance(accepted, str) else accepted(index),
            )
            for index in indices[:LISTED_PER_KIND].tolist()
        ]
        self._problems.extend(listed)
        if listed:
            self._count_rest(replace(listed[0], file=table.file), len(indices))

    def raise_if_any(self) -> None:
        """Raise them all as one error.

        Raises:
            DataError: at least one mistake was found.
        """
        if self._problems:
            raise DataError(self._problems)

    def _count_rest(self, example: Problem, total: int) -> None:
        rest = total - LISTED_PER_KIND
        if rest > 0:
            message = f"... and {rest:,} more of this kind ({example.message})"
            self._problems.append(Problem(file=example.file, message=message, column=example.column))


def in_circle(parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records come back to themselves when one goes from record to parent, again and again.

    Args:
        parents: for each record the number of its parent, or -1.
    """
    ancestors = parents
    # Each turn doubles the number of steps, so that these turns go further than any chain without a circle.
    for _ in range(len(parents).bit_length()):
        if (ancestors < 0).all():
            break
        ancestors = np.where(ancestors < 0, -1, ancestors[ancestors])
    is_in_circle = np.zeros(len(parents), dtype=bool)
    is_in_circle[ancestors[ancestors >= 0]] = True
    return is_in_circle
