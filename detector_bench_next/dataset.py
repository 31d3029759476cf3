"""An image set: images, prompts and labels as three tables of text, checked once, and the annotators' consensus.

A table is NAME.csv (UTF-8, commas) or NAME.parquet, a file or a folder of files, with the columns of `COLUMNS` and
perhaps of `OPTIONAL`; others are ignored. Own attributes lie in `attributes/NAME.yaml`. Rows count as in a
spreadsheet: the header is row 1. All mistakes are told at once, each with file, row, column, value and what is
accepted; but one in a table's structure (a ragged row, an encoding) ends the checks of that table and of what
refers to it. Image files are not opened here: `images.py` reads them, `convert/checking.py` tries all of them.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from detector_bench_next.attributes import (
    ADJUDICATOR,
    ALL,
    LOW_QUALITY,
    PARTLY,
    RESERVED_ANNOTATORS,
    Attribute,
    pair_attributes,
    read_attributes,
    reasons,
    write_attributes,
)
from detector_bench_next.errors import ConfigError, DataError, Problem, Problems, nearest_hint
from detector_bench_next.files import replacing
from detector_bench_next.images import SOUND_PATH, ImageStore, path_problem, shown

COLUMNS = {
    "images": ("image_id", "path", "t2i_model", "prompt_id"),
    "prompts": ("prompt_id", "category", "word", "prompt"),
    "labels": ("image_id", "annotator", "attribute", "label"),
}
OPTIONAL = {
    "images": ("seed_image_id", "region"),
    "prompts": ("base_prompt_id", "weight", "scene", "side", "language"),  # and, before them, stated_ATTRIBUTE
    "labels": ("reason", "value"),
}
BESIDE = ("generations.parquet", "sample.csv", "calibration.csv", "pair_sample.csv", "LICENSE*")
"""Files beside the tables that go where the image set goes."""

_STATED = "stated_"
_DISTINCT = {"image_id", "path", "seed_image_id", "value", "prompt"}  # every other column is a pandas category
_NUMBERS = {"value", "weight", "probability", "cell_probability"}  # Parquet may hold floating-point numbers there
_MAY_BE_EMPTY = {"path", "prompt", *(name for names in OPTIONAL.values() for name in names)}
_ANY_TEXT = {"prompt", "reason", "attribute", "label"}  # free, or one of a list that is checked as a whole
_RESERVED = {"t2i_model": (ALL,), "category": (ALL,), "prompt_id": (ALL,), "annotator": RESERVED_ANNOTATORS}
_LATER = ("region", "value", "weight", "scene", "side", "language")  # at the end of a fingerprint, where filled
_CODED, _TEXT = pa.dictionary(pa.int32(), pa.large_string()), pa.large_string()
_BLOCK = 1 << 20
_MOST_RAGGED = 100_000  # with more, the whole file is of another make
_OPEN_QUOTE = "a quotation mark is opened and never closed, so the rest of the file is one cell"
_WIDE = {  # the mark of UTF-32-LE begins with that of UTF-16-LE
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


# Cells


def as_texts(cells: Any) -> Any:
    """One Arrow array of texts; `pa.array(cells, TEXT)` would make a Python object of every cell."""
    found = pa.array(cells)
    return (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).cast(_TEXT)


def positions(ids: Any, wanted: Any) -> NDArray[np.int64]:
    """Index among `ids` of each wanted text [wanted], or -1."""
    found = pc.fill_null(pc.index_in(as_texts(wanted), value_set=as_texts(ids)), -1)
    at: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return at


def slug(text: str) -> str:
    """Short form of a name that is safe in ids and file names; letters of all scripts are kept."""
    return re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._-")


def _is_plain(texts: Any) -> bool:
    """All text is printable ASCII without blanks: a quick look that spares slow ones."""
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return content.size == 0 or bool(content.min() > ord(" ") and content.max() < 0x7F)


def _trimmed(texts: Any) -> Any:
    return texts if _is_plain(texts) else pc.utf8_trim_whitespace(texts)


def _is_blank(texts: Any) -> Any:
    return pc.equal(_trimmed(texts), "")


def _has_control(texts: Any) -> Any:
    return pc.equal(texts, "\0") if _is_plain(texts) else pc.match_substring_regex(texts, r"\p{Cc}")


def _bits(mask: Any) -> NDArray[np.bool_]:
    bits: NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return bits


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True, eq=False)
class Table:
    """Records of one file as text, with the row of each as a spreadsheet shows it.

    Columns in which cells hardly repeat are `str`, all others `category`, without categories that no record has.
    """

    file: str
    frame: pd.DataFrame
    row: Sequence[int] | NDArray[np.int64]  # [record]
    others: tuple[str, ...] = ()
    """Names in the header that nobody asked for."""
    parts: tuple[tuple[int, str], ...] = ()
    """Of a table in several files, the first record of each file and its name."""

    def problem(self, record: int, column: str, message: str, accepted: str) -> Problem:
        """A mistake in one cell; of an address neither login nor query is shown."""
        value = _cut(shown(str(self.frame[column].iloc[record])))
        return Problem(self._file(record), message, int(self.row[record]), column, value, accepted)

    def place(self, record: int, seen_from: int) -> str:
        """Place of a record to a reader of another one: "row 7", with its file if that is another one."""
        file = self._file(record)
        return f"row {self.row[record]}" + ("" if file == self._file(seen_from) else f" of {file}")

    def texts(self, column: str) -> Any:
        """Arrow array of the text of each record."""
        return as_texts(self.frame[column])

    def where(self, column: str, test: str | Collection[str] | Callable[[Any], Any]) -> NDArray[np.bool_]:
        """Records [record] whose text fits a pattern (RE2), is one of some, or passes a test on an Arrow array."""
        cells = self.frame[column]
        coded = isinstance(cells.dtype, pd.CategoricalDtype)
        texts = as_texts(cells.cat.categories if coded else cells)  # each text of a category is tested once
        if isinstance(test, str):
            found = pc.match_substring_regex(texts, test)
        else:
            found = test(texts) if callable(test) else pc.is_in(texts, pa.array(sorted(test), _TEXT))
        return _bits(found)[cells.cat.codes.to_numpy()] if coded else _bits(found)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Number of each record; NaN for an empty cell, and for one that is no number."""
        return _as_numbers(self.texts(column))

    def _file(self, record: int) -> str:
        at = bisect_right(self.parts, record, key=lambda part: part[0])
        return self.parts[at - 1][1] if at else self.file


def _as_numbers(texts: Any) -> NDArray[np.float64]:
    texts = _trimmed(texts)
    is_number = pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$")
    found = pc.if_else(is_number, texts, pa.scalar(None, _TEXT)).cast(pa.float64())
    numbers: NDArray[np.float64] = found.to_numpy(zero_copy_only=False)
    return numbers


# Reading a table


def read_table(
    path: Path, required: Sequence[str], optional: Sequence[str], problems: Problems, *, shown_as: str = ""
) -> Table | None:
    """A CSV or Parquet file; a folder NAME.parquet is one table, its files in the order of their names.

    Nothing is taken for a number or a missing value. A record without any text is left out and counted as a row.

    Args:
        path: the file.
        required: columns that it must have.
        optional: columns that are read where it has them; all others are ignored.
        problems: takes what is wrong.
        shown_as: what messages call the file; by default its name.

    Returns:
        Columns in the order of `required`, `optional`. None: its structure is wrong, then `problems` says why.
    """
    name = shown_as or path.name
    try:
        if path.is_dir() and path.suffix.lower() == ".parquet":
            return _read_folder(path, required, optional, problems)
        return _read_file(path, name, required, optional)
    except DataError as error:
        problems.extend(error.problems)
    except OSError as error:
        reason = error.strerror or str(error).split("\n")[0]
        problems.append(Problem(name, f"the file cannot be read ({reason})", accepted="a readable file"))
    return None


def _broken(file: str, message: str, accepted: str, row: int | None = None, value: str | None = None) -> DataError:
    return DataError([Problem(file, message, row, None, value, accepted)])


def _read_folder(path: Path, required: Sequence[str], optional: Sequence[str], problems: Problems) -> Table | None:
    files = sorted(file for file in path.glob("*.parquet") if not file.name.startswith((".", "_")))
    if not files:
        raise _broken(path.name, "the folder holds no .parquet file", "a file, or .parquet files in it")
    read = [read_table(file, required, optional, problems, shown_as=f"{path.name}/{file.name}") for file in files]
    tables = [table for table in read if table is not None]
    if len(tables) < len(files):
        return None
    columns = [pa.table({str(n): table.texts(str(n)) for n in table.frame}) for table in tables]
    # `read_table` of pyarrow takes the first file's columns; here, what a file lacks is empty.
    whole = pa.concat_tables(columns, promote_options="default")
    frame = _frame({n: whole.column(n) for n in (*required, *optional) if n in whole.column_names})
    starts = np.cumsum([0, *(len(table.frame) for table in tables)]).tolist()
    return Table(
        path.name,
        frame,
        np.concatenate([np.asarray(table.row, np.int64) for table in tables]),
        tuple(dict.fromkeys(name for table in tables for name in table.others)),
        tuple((start, table.file) for start, table in zip(starts, tables, strict=False)),
    )


def _read_file(path: Path, file: str, required: Sequence[str], optional: Sequence[str]) -> Table:
    if not path.is_file():
        message = "it is not a file" if path.exists() else "the file is missing"
        raise _broken(file, message, "a CSV or Parquet file")
    with path.open("rb") as opened:
        head = opened.read(64)
    if head.startswith(b"version https://git-lfs"):
        message = "a Git LFS pointer, not the table: the repository was cloned without its large files"
        raise _broken(file, message, "the table; `git lfs pull` in the repository fetches it")
    if path.suffix.lower() != ".parquet":
        return _read_csv(path.read_bytes(), file, required, optional)
    try:
        with pq.ParquetFile(path) as opened:
            names = opened.schema_arrow.names
            columns = {name: opened.read([name]).column(0) for name in _wanted(file, names, required, optional)}
            for cells in columns.values():
                cells.validate(full=True)  # damage would crash later
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0]
        raise _broken(file, f"cannot be read as Parquet ({reason})", "a whole Parquet file") from None
    return _typed(file, columns, tuple(name for name in names if name not in columns))


def _wanted(file: str, names: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
    """The columns to be read; those that stand twice or are missing raise `DataError`."""
    accepted, asked = ",".join(required), (*required, *optional)
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(Problem(file, "column name used twice", 1, name, name, "each name once") for name in twice)
    if not {*names} & {*required}:
        comma = len(names) != 1 or not re.search(r"[;\t|]", names[0])
        hint = "" if comma else " (its names are not separated by commas)"
        message = f"the header has none of the columns that this file needs{hint}"
        raise _broken(file, message, accepted, 1, _cut(",".join(names)))
    problems = []
    for name in required:
        if name not in names:
            free = [other for other in names if other not in asked]
            close = (n for n in free if nearest_hint(n.strip().lower(), [name]).startswith("did you mean"))
            meant = next(close, None)
            hint = "" if meant is None else f"; did you mean {name!r}? The header says"
            problems.append(Problem(file, f"the column is missing{hint}", 1, name, meant, accepted))
    if problems:
        raise DataError(problems)
    return [name for name in asked if name in names]


def _typed(file: str, columns: dict[str, Any], others: tuple[str, ...]) -> Table:
    """Table of chunked Arrow columns of any type: text and whole numbers, in `_NUMBERS` other numbers, too."""
    problems = []
    for name, cells in columns.items():
        kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        if pa.types.is_floating(kind) and name in _NUMBERS:
            numbers = cells.cast(pa.float64())
            columns[name] = pc.if_else(pc.is_nan(numbers), pa.scalar("", _TEXT), numbers.cast(_TEXT))
        elif is_text or pa.types.is_integer(kind) or pa.types.is_null(kind):
            columns[name] = cells.cast(_TEXT)
        else:
            accepted = "text or whole numbers"
            problems.append(Problem(file, "wrong column type", None, name, str(cells.type), accepted))
    if problems:
        raise DataError(problems)
    return _table(file, columns, list(columns), others)


def _table(file: str, columns: Mapping[str, Any], wanted: Sequence[str], others: tuple[str, ...]) -> Table:
    """Table of the wanted columns; records without any text in all columns are left out."""
    blank = np.zeros(0, np.bool_)
    for number, cells in enumerate(columns.values()):
        empty = _bits(pc.fill_null(pc.equal(cells.cast(_TEXT), ""), fill_value=True).combine_chunks())
        blank = blank & empty if number else empty
        if not blank.any():
            break
    frame = _frame({name: columns[name] for name in wanted})
    if not blank.any():
        return Table(file, frame, range(2, len(frame) + 2), others)
    return Table(file, _only_used(frame[~blank]), np.flatnonzero(~blank) + 2, others)


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Chunked Arrow columns of texts, or dictionaries of them, as `str` and `category` columns; null is empty."""
    made: dict[str, Any] = {}
    for name, column in columns.items():
        cells = pc.fill_null(column, "") if column.null_count else column
        if name in _DISTINCT:
            made[name] = pa.table([cells.cast(_TEXT).combine_chunks()], [name]).to_pandas()[name]
            continue
        coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        coded = coded.cast(_CODED).unify_dictionaries().combine_chunks()
        texts = pd.Index(coded.dictionary.to_pylist(), dtype="str")
        made[name] = pd.Categorical.from_codes(coded.indices.to_numpy(), texts)
    return pd.DataFrame(made, copy=False)


def _only_used(frame: pd.DataFrame) -> pd.DataFrame:
    """Records under new numbers, without categories that none of them has."""
    frame = frame.reset_index(drop=True)
    coded = [str(n) for n in frame if isinstance(frame[n].dtype, pd.CategoricalDtype)]
    return frame.assign(**{name: frame[name].cat.remove_unused_categories() for name in coded})


def _read_csv(data: bytes, file: str, required: Sequence[str], optional: Sequence[str]) -> Table:
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):  # .xlsx and .ods, .xls
        raise _broken(file, "this is a spreadsheet or an archive, not text", "CSV: open it and save it as CSV")
    if wide := next((name for mark, name in _WIDE.items() if data.startswith(mark)), None):
        raise _broken(file, "wrong encoding", "UTF-8 text", value=wide)
    if not data[:_BLOCK].strip(b"\r\n\t \xef\xbb\xbf"):
        raise _broken(file, "the file is empty", "a header row and records")
    bad_byte = None
    try:
        _ = data.isascii() or data.decode()
    except UnicodeDecodeError as error:
        # To Arrow, one bad byte is the end; so are all rows with bytes that it cannot hand over.
        bad_byte, data = error.start, data.decode(errors="replace").encode()
    try:
        names = next(csv.reader(io.StringIO(data[:_BLOCK].decode("utf-8-sig", "ignore"), newline="")), [])
    except csv.Error:
        raise _broken(file, "the header row cannot be read as CSV", "column names", 1) from None
    wanted = _wanted(file, names, required, optional)
    ragged: list[Any] = []
    parsed = None
    try:
        parsed = _parsed(data, {n: _CODED if n in wanted and n not in _DISTINCT else _TEXT for n in names}, ragged)
    except pa.ArrowInvalid as error:
        if not ragged:
            raise _unreadable(file, data, str(error)) from None
    columns = {} if parsed is None else dict(zip(names, parsed.columns, strict=True))
    problems = [] if bad_byte is None else _bad_texts(file, columns, bad_byte)
    problems += _ragged_rows(file, ragged, len(names))
    last = columns[names[-1]][-1].as_py() if columns and len(columns[names[-1]]) and not ragged else ""
    if "\n" in last and data.count(b'"') % 2:
        row = len(columns[names[-1]]) + 1
        problems.append(
            Problem(file, _OPEN_QUOTE, row, names[-1], _cut(last.rstrip()), "quotation marks in pairs")
        )
    if problems:
        raise DataError(problems)
    return _table(file, columns, wanted, tuple(name for name in names if name not in wanted))


def _parsed(data: bytes, kinds: Mapping[str, Any], ragged: list[Any]) -> Any:
    """Records of a CSV file as an Arrow table; rows with too few or too many cells go to `ragged`."""
    if b"\n" not in data[:_BLOCK] and b"\r" not in data[:_BLOCK]:
        data += b"\n"  # to Arrow, a header without a line end is no file at all

    def parsed(*, threads: bool, most: int) -> Any:
        def skip(row: Any) -> str:
            ragged.append(row)
            return "skip" if len(ragged) < most else "error"

        return pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(use_threads=threads, block_size=_BLOCK),
            pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip),
            pa.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )

    try:
        table = parsed(threads=True, most=1)
    except pa.ArrowInvalid:
        if not ragged:
            raise
        ragged.clear()
        table = parsed(threads=False, most=_MOST_RAGGED)  # one thread alone knows the rows' numbers
    if table.column_names != list(kinds):
        raise pa.ArrowInvalid("quotation marks inside of names in the header row")
    return table.cast(pa.schema(list(kinds.items())))  # without a record, columns are null


def _unreadable(file: str, data: bytes, error: str) -> DataError:
    if data.count(b'"') % 2 == 0:
        reason = (
            f"a row is longer than {_BLOCK >> 20} MiB"
            if "straddling" in error
            else error.split("\n", maxsplit=1)[0]
        )
        return _broken(file, f"cannot be read as CSV ({reason})", "comma-separated cells")
    row = 1
    with suppress(csv.Error):  # a cell that is too long for Python's reader, too
        for _ in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")):
            row += 1
    return _broken(file, _OPEN_QUOTE, "quotation marks in pairs", row)


def _ragged_rows(file: str, ragged: Sequence[Any], expected: int) -> list[Problem]:
    problems = []
    cells = f"{expected} cells; a cell with a comma or a line break stands in quotation marks"
    for is_open in (True, False):
        rows = [row for row in ragged if row.text.count('"') % 2 == is_open]
        for row in rows[:20]:
            message = (
                _OPEN_QUOTE if is_open else f"row has {row.actual_columns} cell{'s'[row.actual_columns == 1 :]}"
            )
            accepted = "quotation marks in pairs" if is_open else cells
            text = _cut(row.text.rstrip() if is_open else row.text)
            problems.append(Problem(file, message, row.number, None, text, accepted))
        if len(rows) > 20:
            problems.append(Problem(file, f"... and {len(rows) - 20:,} more rows with another number of cells"))
    if len(ragged) >= _MOST_RAGGED:
        message = f"{_MOST_RAGGED:,} such rows: the rest of the file was not checked"
        problems.append(Problem(file, message, accepted=f"{expected} cells in every row, as in the header"))
    return problems


def _bad_texts(file: str, columns: Mapping[str, Any], bad_byte: int) -> list[Problem]:
    message = f"wrong encoding: text is not UTF-8 (first at byte {bad_byte:,} of the file)"
    problems = Problems(Problem(file, message, 1, n, n, "UTF-8 text") for n in columns if "\ufffd" in n)
    table = _table(file, columns, list(columns), ())
    for name in columns:
        problems.rows(table, name, table.where(name, "\ufffd"), message, "UTF-8 text")
    return problems or [Problem(file, message, accepted="UTF-8 text")]


# The image set


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """A checked image set. Every cell is text; "" is an empty one."""

    root: Path
    images: pd.DataFrame
    """In file order. `image_id`, `path`, `seed_image_id` are `str` columns, all others `category`; of the optional
    columns those that the file has. A photo that was only edited has no `t2i_model` and no `prompt_id`."""
    prompts: pd.DataFrame
    """`prompt` is a `str` column, all others are `category`."""
    labels: pd.DataFrame
    """`image_id` and `value` are `str` columns, all others `category`; `reason` and `value` are always there."""
    attributes: dict[str, Attribute]
    """Built-in ones and the set's own; of `pair_attributes` those that have labels."""
    labelled: tuple[str, ...]
    """Those that have a label."""
    store: ImageStore
    prompt_weights: dict[str, float] | None
    """By prompt_id, from its base prompt where a prompt has none; None: no prompt has one."""
    image_of_label: NDArray[np.int64]
    """Index of each label's image [label]."""

    @classmethod
    def load(cls, folder: Path | str, *, require_labels: bool = False) -> ImageSet:
        """Read and check a folder. `require_labels`: every image needs one; else the file may be missing.

        Raises:
            DataError: all mistakes at once.
        """
        problems = Problems()
        image_set, _ = read_image_set(Path(folder), problems, require_labels=require_labels)
        if image_set is None:
            raise DataError(problems)
        return image_set

    @classmethod
    def from_frames(
        cls,
        root: Path,
        images: pd.DataFrame,
        prompts: pd.DataFrame,
        labels: pd.DataFrame | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> ImageSet:
        """Make an image set of the three tables, checked as by `load`; rows of mistakes count as in a file.

        Args:
            root: folder that image paths are relative to.
            images: as in images.csv.
            prompts: as in prompts.csv.
            labels: as in labels.csv; None: nobody labelled anything.
            attributes: by name; None: the built-in ones and those in `root`.

        Raises:
            DataError: all mistakes at once.
        """
        problems, tables = Problems(), dict.fromkeys(COLUMNS)
        known = dict(read_attributes(root) if attributes is None else attributes)
        for name, frame in zip(COLUMNS, (images, prompts, labels), strict=True):
            if frame is not None:
                try:
                    tables[name] = _of_frame(name, frame, known)
                except DataError as error:
                    problems.extend(error.problems)
        image_set = _checked(root.resolve(), tables, known, problems)
        if image_set is None:
            raise DataError(problems)
        return image_set

    def __repr__(self) -> str:
        sizes = f"{len(self.images):,} images, {len(self.prompts):,} prompts, {len(self.labels):,} labels"
        return f"<image set {self.root.name}: {sizes} of {', '.join(self.labelled) or 'nothing'}>"

    def truth(self, attribute: str) -> pd.DataFrame:
        """Consensus of the annotators on an attribute (see `consensus`), a row for each image in their order.

        Returns:
            Columns image_id, label ("" where nobody labelled it), reason ("": none).
        """
        known = self._attribute(attribute)
        codes, reasons = self._consensus(known)
        label = pd.Categorical.from_codes(codes, pd.Index([*known.labels, ""], dtype="str")).astype("str")
        reason = pd.array(reasons, "str")
        return pd.DataFrame({"image_id": self.images["image_id"], "label": label, "reason": reason})

    def truth_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """Code of the consensus on each image [image], as `attributes.py` lists them."""
        return self._consensus(attribute)[0]

    def measured(self, attribute: str) -> NDArray[np.float64]:
        """Number that the annotators gave each image [image], in the attribute's unit; NaN: none.

        The adjudicator's, else the mean over those who gave the consensus as label and a number.
        """
        known = self._attribute(attribute)
        rows = np.flatnonzero((self.labels["attribute"] == attribute) & (self.labels["value"] != ""))
        labels, image, n = self.labels.iloc[rows], self.image_of_label[rows], len(self.images)
        agreed = _label_codes(labels, known) == self.truth_codes(known)[image]
        final = agreed & (labels["annotator"] == ADJUDICATOR).to_numpy()
        has_final = np.bincount(image[final], minlength=n) > 0
        values = _as_numbers(as_texts(labels["value"]))
        used = np.flatnonzero(agreed & (final | ~has_final[image]))
        used = used[np.argsort(values[used], kind="stable")]  # row order must not change the last digit
        count = np.bincount(image[used], minlength=n)
        total = np.bincount(image[used], values[used], n)
        mean: NDArray[np.float64] = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
        return mean

    def stated(self, attribute: str) -> pd.Series[Any] | None:
        """Word of `Attribute.statements` that each prompt states, by prompt_id in their order; "": left open.

        None: the prompts have no such column, so nothing is known.
        """
        column = _STATED + self._attribute(attribute).name
        if column not in self.prompts:
            return None
        return self.prompts[column].astype("str").set_axis(self.prompts["prompt_id"].astype("str"))

    def fingerprint(self) -> str:
        """The sha256 of the content of the three tables, in hexadecimal; how they are stored has no influence.

        Values and weights count as numbers, and optional columns of prompts without any text not at all.
        """
        digest = hashlib.sha256()
        for name, frame in (("images", self.images), ("prompts", self.prompts), ("labels", self.labels)):
            digest.update(f"{name} {len(frame)}\n".encode())
            for column in frame.columns.drop([*_LATER], errors="ignore"):
                if name != "prompts" or column in COLUMNS[name] or (frame[column] != "").any():
                    _add_cells(digest, frame, column)
        for frame in (self.labels, self.prompts, self.images):
            for column in frame.columns.intersection([*_LATER]):
                if (frame[column] != "").any():
                    _add_cells(digest, frame, column)
        return digest.hexdigest()

    def select(self, mask: NDArray[np.bool_]) -> ImageSet:
        """The images of a mask [image] with their labels; all prompts stay."""
        kept = mask[self.image_of_label]
        labels, image_of_label = _only_used(self.labels[kept]), (np.cumsum(mask) - 1)[self.image_of_label[kept]]
        labelled = _labelled(labels, self.attributes)
        images = _only_used(self.images[mask])
        return replace(self, images=images, labels=labels, labelled=labelled, image_of_label=image_of_label)

    def save(self, folder: Path) -> None:
        """Write the tables as CSV and the set's own attributes; `images.csv` last: no half set looks whole.

        Image files are not copied.
        """
        own = [a for a in self.attributes.values() if a.name not in pair_attributes()]
        write_attributes(own, folder)
        labels = self.labels if (self.labels["value"] != "").any() else self.labels.drop(columns="value")
        for name, frame in (("prompts", self.prompts), ("labels", labels), ("images", self.images)):
            if name != "labels" or len(frame):
                with replacing(folder / f"{name}.csv") as path:
                    frame.to_csv(path, index=False, lineterminator="\n", encoding="utf-8")

    def _attribute(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise ConfigError(f"unknown attribute {name!r}: {nearest_hint(name, self.attributes)}")
        return self.attributes[name]

    def _consensus(self, attribute: Attribute) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
        own = (self.labels["attribute"] == attribute.name).to_numpy()
        rows = slice(None) if own.all() else own
        return consensus(self.labels[rows], self.image_of_label[rows], len(self.images), attribute)


def _add_cells(digest: Any, frame: pd.DataFrame, column: str) -> None:
    """Lengths, then text without separators: no cell can be mistaken for two."""
    digest.update(f"{column}\n".encode())
    texts = as_texts(frame[column])
    if column in _NUMBERS:
        digest.update(_as_numbers(texts).astype("<f8").tobytes())
        return
    digest.update(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    _, offsets, content = texts.buffers()
    if len(texts) and content is not None:
        ends = np.frombuffer(offsets, np.int64)[texts.offset :]
        digest.update(memoryview(content)[ends[0] : ends[len(texts)]])


def _label_codes(labels: pd.DataFrame, attribute: Attribute) -> NDArray[np.int16]:
    return pd.Categorical(labels["label"], categories=list(attribute.labels)).codes.astype(np.int16)


def _labelled(labels: pd.DataFrame, attributes: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in attributes if name in labels["attribute"].cat.categories)


def consensus(
    labels: pd.DataFrame, image: NDArray[np.int64], images: int, attribute: Attribute
) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Consensus of the annotators by the rule of Lyu 2025, section 3.3, step 3.

    The adjudicator's row decides. Else a label on which all agree is taken (one annotator alone agrees, two of
    three do not). Else it is `low_quality`, reason `disagreement`. `others` is a label like any other. The reason
    is the adjudicator's own, else that of the first annotator by name with the agreed label and a reason.

    Args:
        labels: rows of ONE attribute, at most one of an image and annotator; their order has no influence.
        image: index of each row's image [row].
        images: how many there are.
        attribute: what the labels are about.

    Returns:
        Codes [image] as `attributes.py` lists them, and reasons [image], "" where there is none.
    """
    label = _label_codes(labels, attribute)
    agreed = np.full(images, -1, np.int16)
    agreed[image] = label  # of several assignments the last stays: any one label,
    agreed[image[label != agreed[image]]] = -2  # and -2 where another row differs from it
    final = (labels["annotator"] == ADJUDICATOR).to_numpy()
    agreed[image[final]] = label[final]
    said = np.flatnonzero((labels["reason"] != "").to_numpy() & (label == agreed[image]))
    who = labels["annotator"].iloc[said].astype("str").to_numpy()
    said = said[np.lexsort((who, ~final[said]))][::-1]  # so that the adjudicator's, else the first name's, stays
    reason = np.full(images, "", object)
    reason[image[said]] = labels["reason"].iloc[said].astype("str").to_numpy()
    reason[agreed == -2] = "disagreement"
    codes = np.select([agreed == -2, agreed == -1], [attribute.low_quality, attribute.unlabelled], agreed)
    return codes.astype(np.int8), reason


def read_image_set(
    folder: Path, problems: Problems, *, require_labels: bool = False
) -> tuple[ImageSet | None, dict[str, Table | None]]:
    """An image set, None if `problems` took a mistake; and its tables, None where one has no sound structure."""
    root, tables = folder.resolve(), dict[str, Table | None]()
    if not root.is_dir():
        message = "it is not a folder" if root.exists() else "no such folder"
        problems.append(Problem(str(folder), message, accepted="a folder with images.csv and prompts.csv"))
        return None, tables
    try:
        attributes = read_attributes(root)
    except ConfigError as error:
        lines = [line.removeprefix(f"{root}/").partition(": ") for line in str(error).splitlines()]
        problems.extend(Problem(file, message) for file, _, message in lines)
        return None, tables
    for name, required in COLUMNS.items():
        present = [path for suffix in (".csv", ".parquet") if (path := root / (name + suffix)).exists()]
        both = f"{name}.csv or {name}.parquet"
        if len(present) > 1:
            message = f"{present[1].name} lies beside it, so it is unclear which of the two counts"
            problems.append(Problem(present[0].name, message, accepted=f"either {both}"))
        elif not present and (name != "labels" or require_labels):
            problems.append(Problem(f"{name}.csv", "the file is missing", accepted=f"{both} in {folder}"))
        optional = _optional(name, attributes)
        tables[name] = read_table(present[0], required, optional, problems) if present else None
    return _checked(root, tables, attributes, problems, require_labels=require_labels), tables


def _optional(name: str, attributes: Iterable[str]) -> tuple[str, ...]:
    return (*(_STATED + attribute for attribute in attributes if name == "prompts"), *OPTIONAL[name])


def _of_frame(name: str, frame: pd.DataFrame, attributes: Iterable[str]) -> Table:
    names = [str(column) for column in frame]
    columns = {}
    for column in _wanted(name, names, COLUMNS[name], _optional(name, attributes)):
        try:
            cells = pa.array(frame[column], from_pandas=True)
        except (pa.ArrowException, TypeError) as error:
            problem = Problem(name, f"cells that are no text ({error})", None, column, None, "text")
            raise DataError([problem]) from None
        columns[column] = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
    return _typed(name, columns, tuple(column for column in names if column not in columns))


def _checked(
    root: Path,
    tables: Mapping[str, Table | None],
    attributes: dict[str, Attribute],
    problems: Problems,
    *,
    require_labels: bool = False,
) -> ImageSet | None:
    """Check the tables and how they refer to each other; None: `problems` has a mistake."""
    images, prompts, labels = (tables[name] for name in COLUMNS)
    if labels is not None:
        named = labels.frame["attribute"].cat.categories
        attributes = attributes | {name: a for name, a in pair_attributes().items() if name in named}
    for table in (images, prompts, labels):
        if table is not None:
            _check_cells(table, attributes, problems, may_have_no_record=table is labels and not require_labels)
    at = np.zeros(0, np.int64)
    if prompts is not None:
        _check_prompts(prompts, attributes, problems)
    if images is not None:
        _check_images(images, prompts, problems)
    if labels is not None:
        _check_labels(labels, attributes, problems)
        _check_values(labels, attributes, problems)
        if images is not None:
            at = _check_images_of_labels(images, labels, problems, require_labels=require_labels)
    if problems or images is None or prompts is None:
        return None
    frame = (
        _frame({n: pa.chunked_array([[]], _TEXT) for n in COLUMNS["labels"]}) if labels is None else labels.frame
    )
    empty = pa.chunked_array([pa.repeat(pa.scalar("", _TEXT), len(frame))])
    frame = frame.assign(**_frame({n: empty for n in OPTIONAL["labels"] if n not in frame}))
    return ImageSet(
        root,
        images.frame,
        prompts.frame,
        frame[[*COLUMNS["labels"], *OPTIONAL["labels"]]],
        attributes,
        _labelled(frame, attributes),
        ImageStore(root),
        _weights(prompts),
        at,
    )


# Checks


def _check_cells(
    table: Table, attributes: Mapping[str, Attribute], problems: Problems, *, may_have_no_record: bool = False
) -> None:
    """Empty cells, reserved names, control characters, blanks around a text, and cells of one form."""
    if len(table.frame) == 0 and not may_have_no_record:
        problems.append(Problem(table.file, "the file has no records", accepted="a row below the header"))
    may_be_empty = _MAY_BE_EMPTY | ({"t2i_model", "prompt_id"} if "seed_image_id" in table.frame else set())
    for column in map(str, table.frame):
        is_stated = column.startswith(_STATED)
        blank = table.where(column, _is_blank)
        if column not in may_be_empty and not is_stated:
            problems.rows(table, column, blank, "empty cell", _accepted_in(table, column, attributes))
        if column in _RESERVED:
            accepted = "any name but " + ", ".join(map(repr, _RESERVED[column]))
            problems.rows(table, column, table.where(column, _RESERVED[column]), "reserved name", accepted)
        if column not in _ANY_TEXT and not is_stated:
            control = table.where(column, _has_control)
            problems.rows(table, column, control, "control character", "text without line breaks, tabs or NUL")
            around = table.where(column, lambda texts: pc.not_equal(_trimmed(texts), texts)) & ~control
            around &= ~blank if column not in may_be_empty else True
            problems.rows(table, column, around, "blanks around the text", "the text alone")
        if column in _FORMS:
            is_right, accepted = _FORMS[column]
            texts = table.frame[column].cat.categories
            right = table.where(column, {text for text in texts if is_right(text.strip())})
            problems.rows(table, column, ~right & ~blank, f"no {column}", f"{accepted}, or an empty cell")


def _accepted_in(table: Table, column: str, attributes: Mapping[str, Attribute]) -> str | Callable[[int], str]:
    def labels_of_row(record: int) -> str:
        attribute = attributes.get(str(table.frame["attribute"].iloc[record]))
        known = [attribute] if attribute else attributes.values()
        return ", ".join(dict.fromkeys(label for own in known for label in own.labels))

    return labels_of_row if column == "label" else ", ".join(attributes) if column == "attribute" else "some text"


def _is_region(text: str) -> bool:
    numbers = text.split(",")
    if len(numbers) != 4 or not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", number) for number in numbers):
        return text in ("left", "right")
    x0, y0, x1, y1 = map(float, numbers)
    return x0 < x1 <= 1 and y0 < y1 <= 1


_FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "region": (_is_region, "left, right, or x0,y0,x1,y1 in parts of 1 with x0 < x1 and y0 < y1"),
    "side": (lambda text: text in ("left", "right"), "left, right"),
    "language": (
        lambda text: bool(re.fullmatch("[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", text)),
        "a BCP 47 tag such as de or zh-Hans",
    ),
}


def _check_repeats(table: Table, column: str, ids: Any, problems: Problems) -> None:
    """Report ids [record] that an earlier record has."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    codes = ids.dictionary_encode().indices.to_numpy()
    again = pd.Series(codes).duplicated().to_numpy() & ~_bits(pc.equal(ids, ""))

    def first_use(record: int) -> str:
        first = int(np.flatnonzero(codes == codes[record])[0])
        return f"one that no other row has; {table.place(first, seen_from=record)} has it"

    problems.rows(table, column, again, f"duplicate {column}", first_use)


def _check_references(  # noqa: PLR0917 - private
    table: Table,
    column: str,
    wrong: NDArray[np.bool_],
    message: str,
    known: Iterable[str],
    listed: str,
    problems: Problems,
) -> None:
    """Report cells that name no known id, with the nearest one."""

    def hint(record: int) -> str:
        near = nearest_hint(str(table.frame[column].iloc[record]).strip(), known)
        return f"{listed}; {near}" if near.startswith("did you mean") else listed

    problems.rows(table, column, wrong, message, hint)


def _parents(table: Table, column: str, ids: Any) -> NDArray[np.int64]:
    """Index of the record that a cell names [record]; -1: it is empty or unknown."""
    wanted = _trimmed(table.texts(column))
    found: NDArray[np.int64] = np.where(_bits(pc.equal(wanted, "")), -1, positions(ids, wanted))
    return found


def _check_circles(table: Table, column: str, parents: NDArray[np.int64], thing: str, problems: Problems) -> bool:
    """Report records that come back to themselves on the way from record to parent; True: there are none."""
    own = parents == np.arange(len(parents))
    problems.rows(table, column, own, f"{thing} that is its own", f"another {thing}, or an empty cell")
    ancestors = np.where(own, -1, parents)
    for _ in range(len(parents).bit_length()):  # each turn doubles the number of steps
        ancestors = np.where(ancestors < 0, -1, ancestors[ancestors])
    circle = np.zeros(len(parents), np.bool_)
    circle[ancestors[ancestors >= 0]] = True
    accepted = f"a {thing} that is not made from this one, or an empty cell"
    problems.rows(table, column, circle, f"{thing} that is made from itself, by way of others", accepted)
    return not (own | circle).any()


def _check_images(images: Table, prompts: Table | None, problems: Problems) -> None:
    ids = _trimmed(images.texts("image_id"))
    _check_repeats(images, "image_id", ids, problems)
    paths = images.texts("path")
    climbs = pc.match_substring_regex(paths, r"(^|/)\.\.(/|$)")
    sound = pc.or_(pc.equal(paths, ""), pc.and_not(pc.match_substring_regex(paths, SOUND_PATH), climbs))
    doubtful = np.flatnonzero(~_bits(sound))
    faults = np.array([path_problem(path.strip()) or "" for path in paths.take(doubtful).to_pylist()], object)
    for fault in filter(None, dict.fromkeys(faults)):
        message, _, accepted = fault.partition("; accepted: ")
        wrong = np.zeros(len(paths), np.bool_)
        wrong[doubtful[faults == fault]] = True
        problems.rows(images, "path", wrong, f"path that {message}", accepted)
    if prompts is not None:
        known = {text.strip() for text in prompts.frame["prompt_id"].cat.categories}
        unknown = ~images.where(
            "prompt_id", lambda texts: pc.is_in(_trimmed(texts), pa.array([*known, ""], _TEXT))
        )
        message = f"prompt_id that {prompts.file} does not list"
        listed = ", ".join(sorted(known)) if len(known) <= 12 else f"one of the {len(known):,} listed there"
        _check_references(images, "prompt_id", unknown, message, known, listed, problems)
    if "seed_image_id" in images.frame:
        _check_seeds(images, ids, problems)


def _check_seeds(images: Table, ids: Any, problems: Problems) -> None:
    """Report seeds that are no images of the set or have no pair, and empty cells that only a seed may have."""
    seed = _parents(images, "seed_image_id", ids)
    has_seed = ~images.where("seed_image_id", _is_blank)
    no_model, no_prompt = (images.where(column, _is_blank) for column in ("t2i_model", "prompt_id"))
    photos = images.frame["image_id"][no_model] if no_model.any() else images.frame["image_id"]
    message, listed = "seed that is not an image of the set", f"an image_id that {images.file} lists"
    _check_references(images, "seed_image_id", has_seed & (seed < 0), message, photos, listed, problems)
    _check_circles(images, "seed_image_id", seed, "seed", problems)
    is_seed = np.bincount(seed[seed >= 0], minlength=len(seed)) > 0
    only = "only the seed of an edited image may have none"
    wrong = no_model & (has_seed | (~no_prompt & ~is_seed))
    problems.rows(images, "t2i_model", wrong, "empty cell", f"the T2I model that made the image; {only}")
    wrong = no_prompt & (has_seed | ~no_model)
    problems.rows(images, "prompt_id", wrong, "empty cell", f"the prompt that the image was made with; {only}")
    wrong = no_model & ~no_prompt & ~has_seed & is_seed
    accepted = "an empty cell, or the T2I model too"
    problems.rows(images, "prompt_id", wrong, "prompt of a seed that no T2I model made", accepted)
    wrong = no_model & no_prompt & ~has_seed & ~is_seed & ~_bits(pc.equal(ids, ""))
    accepted = "an image whose seed_image_id names it; or the T2I model and the prompt that it was made with"
    problems.rows(images, "image_id", wrong, "seed without its pair", accepted)


def _check_prompts(prompts: Table, attributes: Mapping[str, Attribute], problems: Problems) -> None:
    """Report repeated ids, and what a prompt cannot state, be made from, count for or show at a side."""
    frame, ids = prompts.frame, _trimmed(prompts.texts("prompt_id"))
    _check_repeats(prompts, "prompt_id", ids, problems)
    accepted = ", ".join(_STATED + name for name in attributes)
    for name in prompts.others:
        if name.startswith(_STATED):  # ignored, it would change results
            problems.append(Problem(prompts.file, "unknown column", 1, name, name, accepted))
    for attribute in attributes.values():
        if _STATED + attribute.name in frame:
            _check_stated(prompts, attribute, problems)
    scene, side = (
        prompts.where(n, r"\S") if n in frame else np.zeros(len(frame), bool) for n in ("scene", "side")
    )
    accepted = "a scene and a side for each of the two people, or neither"
    if "scene" in frame:
        problems.rows(prompts, "scene", scene & ~side, "scene without a side", accepted)
    if "side" in frame:
        problems.rows(prompts, "side", side & ~scene, "side without a scene", accepted)
    base, are_bases = np.full(len(frame), -1, np.int64), True
    if "base_prompt_id" in frame:
        base = _parents(prompts, "base_prompt_id", ids)
        unknown = (base < 0) & ~prompts.where("base_prompt_id", _is_blank)
        message, listed = "base prompt that the file does not list", "a prompt_id of this file, or an empty cell"
        known = frame["prompt_id"].cat.categories
        _check_references(prompts, "base_prompt_id", unknown, message, known, listed, problems)
        are_bases = _check_circles(prompts, "base_prompt_id", base, "base prompt", problems)
    if "weight" not in frame:
        return
    weights = prompts.numbers("weight")
    wrong = ~prompts.where("weight", _is_blank) & ~(np.isfinite(weights) & (weights > 0))
    problems.rows(prompts, "weight", wrong, "weight that is not a number above 0", "such as 1 or 0.5")
    without = np.flatnonzero(np.isnan(_inherited(weights, base)))
    if are_bases and not wrong.any() and 0 < len(without) < len(weights):
        message = f"{len(without):,} of {len(weights):,} prompts have no weight, nor a base with one; the first"
        row, name = int(prompts.row[without[0]]), str(frame["prompt_id"].iloc[without[0]])
        problems.append(
            Problem(prompts.file, message, row, "weight", name, "a weight for all prompts, or for none")
        )


def _check_stated(prompts: Table, attribute: Attribute, problems: Problems) -> None:
    column, name, known = _STATED + attribute.name, attribute.name, attribute.statements

    def states_two(texts: Any) -> Any:
        parts = [[part.strip() for part in re.split(r"[;,|/+&]|\band\b|\bor\b", t)] for t in texts.to_pylist()]
        return pa.array([len(own) > 1 and {*own} <= {*known} for own in parts], pa.bool_())

    two = prompts.where(column, states_two)
    accepted = f"one of them; {PARTLY!r} where one person may be of either; a row each for two people"
    problems.rows(prompts, column, two, f"a prompt that states two classes of {name}", accepted)
    wrong = ~prompts.where(column, {"", *known}) & ~two
    accepted = f"{', '.join(known)}, or an empty cell where the prompt leaves {name} open"
    problems.rows(prompts, column, wrong, f"unknown {name} class", accepted)


def _inherited(weights: NDArray[np.float64], base: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights, those of the base prompts (and theirs) where there are none of their own."""
    found = weights.copy()
    for _ in range(len(weights)):
        missing = np.flatnonzero(np.isnan(found) & (base >= 0))
        found[missing] = found[base[missing]]
        if np.isnan(found[missing]).all():
            break
    return found


def _weights(prompts: Table) -> dict[str, float] | None:
    if "weight" not in prompts.frame or not prompts.where("weight", r"\S").any():
        return None
    ids, base = prompts.texts("prompt_id"), np.full(len(prompts.frame), -1, np.int64)
    if "base_prompt_id" in prompts.frame:
        base = _parents(prompts, "base_prompt_id", ids)
    return dict(zip(ids.to_pylist(), _inherited(prompts.numbers("weight"), base).tolist(), strict=True))


def _check_labels(labels: Table, attributes: Mapping[str, Attribute], problems: Problems) -> None:
    frame, blank = labels.frame, labels.where("label", _is_blank)
    unknown = ~labels.where("attribute", attributes) & ~labels.where("attribute", _is_blank)
    problems.rows(labels, "attribute", unknown, "unknown attribute", ", ".join(attributes))
    for name in _labelled(frame, attributes):
        own, known = (frame["attribute"] == name).to_numpy(), attributes[name].labels
        wrong = own & ~labels.where("label", known) & ~blank
        problems.rows(labels, "label", wrong, f"unknown label for {name}", ", ".join(known))
    if "reason" in frame:
        known = reasons(attributes.values())
        wrong = (frame["label"] == LOW_QUALITY).to_numpy() & ~labels.where("reason", {"", *known})
        accepted = ", ".join(known) + ", or nothing"
        problems.rows(labels, "reason", wrong, f"unknown reason for {LOW_QUALITY}", accepted)


def _check_values(labels: Table, attributes: Mapping[str, Attribute], problems: Problems) -> None:
    """Report numbers that are none, out of range, beside no class, or beside the wrong one: the first of these."""
    if "value" not in labels.frame or labels.where("value", _is_blank).all():
        return
    given = np.flatnonzero(~labels.where("value", _is_blank))
    frame = labels.frame.iloc[given]
    numbers = _as_numbers(as_texts(frame["value"]))

    def report(wrong: NDArray[np.bool_], message: str, accepted: str) -> None:
        mask = np.zeros(len(labels.frame), np.bool_)
        mask[given[wrong]] = True
        problems.rows(labels, "value", mask, message, accepted)

    for name in _labelled(labels.frame, attributes):
        attribute, own = attributes[name], (frame["attribute"] == name).to_numpy()
        if attribute.unit is None:
            measured = ", ".join(a.name for a in attributes.values() if a.unit is not None)
            report(own, f"{name} has no measured value", f"an empty cell; numbers may stand beside {measured}")
            continue
        low, high, unit = attribute.unit.lowest, attribute.unit.highest, attribute.unit.name
        accepted = f"a number from {low:g} to {high:g} ({unit}), or an empty cell"
        inside = (low <= numbers) & (numbers <= high)
        report(own & np.isnan(numbers), f"{name} that is not a number", accepted)
        report(own & ~np.isnan(numbers) & ~inside, f"{name} out of range", accepted)
        label, starts = _label_codes(frame, attribute), attribute.starts
        fitting = np.searchsorted(starts, numbers, side="right") - 1
        for code, text in enumerate(attribute.labels):
            here = own & inside & (label == code)
            if code >= attribute.low_quality:
                accepted = f"an empty cell, or a label among {', '.join(attribute.class_names)}"
                report(here, f"value beside the label {text!r}", accepted)
            elif starts:
                end = f"{high:g}" if code + 1 == len(starts) else f"below {starts[code + 1]:g}"
                accepted = f"{starts[code]:g} to {end} ({unit}), or the label of that value"
                report(here & (fitting != code), f"value that contradicts the label {text!r}", accepted)


def _check_images_of_labels(
    images: Table, labels: Table, problems: Problems, *, require_labels: bool
) -> NDArray[np.int64]:
    """Report labels of unknown images, repeated ones, and images without any; gives each label's image [label]."""
    frame, ids, wanted = labels.frame, *(_trimmed(table.texts("image_id")) for table in (images, labels))
    at = positions(ids, wanted)
    unknown = (at < 0) & ~_bits(pc.equal(wanted, ""))
    accepted = f"an image_id that {images.file} lists"
    problems.rows(labels, "image_id", unknown, "label for an unknown image", accepted)
    if require_labels and len(frame):
        first = positions(ids, ids)  # of a repeated id, the first
        bare = (np.bincount(at[at >= 0], minlength=len(ids)) == 0) & ~_bits(pc.equal(ids, ""))
        bare = bare[first] & (first == np.arange(len(ids)))
        accepted = f"at least one row for it in {labels.file}"
        problems.rows(images, "image_id", bare, "image without any label", accepted)
    if pairs := _labelled(frame, pair_attributes()):
        has_seed = "seed_image_id" in images.frame
        edited = images.where("seed_image_id", r"\S") if has_seed else np.zeros(len(ids), np.bool_)
        wrong = frame["attribute"].isin(pairs).to_numpy() & (at >= 0) & ~edited[at]
        accepted = "an image with a seed_image_id, from which it was made"
        problems.rows(labels, "image_id", wrong, "label of a change for an image that was not edited", accepted)
    key = at
    for name in ("annotator", "attribute"):
        key = key * max(len(frame[name].cat.categories), 1) + frame[name].cat.codes.to_numpy()
    again = pd.Series(key).duplicated().to_numpy() & (at >= 0)
    if again.any():
        _report_repeated_labels(labels, key, again, problems)
    return at


def _report_repeated_labels(
    labels: Table, key: NDArray[np.int64], again: NDArray[np.bool_], problems: Problems
) -> None:
    firsts, first_of = np.flatnonzero(~again), np.arange(len(key))
    first_of[again] = firsts[pd.Index(key[firsts]).get_indexer(pd.Index(key[again]))]
    label = labels.frame["label"].cat.codes.to_numpy()
    differs = label[first_of] != label

    def earlier(record: int) -> str:
        place, said = labels.place(int(first_of[record]), record), labels.frame["label"].iloc[first_of[record]]
        return f"one label per image, annotator and attribute; {place} says {said!r}"

    problems.rows(labels, "label", again & ~differs, "duplicate label", earlier)
    message = "label that contradicts an earlier one of the same annotator"
    problems.rows(labels, "label", again & differs, message, earlier)


# Tables beside an image set


def read_prompts(path: Path) -> pd.DataFrame:
    """Prompts of a table, or of a `.txt` with a sentence in each line.

    Returns:
        prompt_id, and those of the other columns of prompts that the file has; of a `.txt`, `prompt` alone.

    Raises:
        DataError: all mistakes at once.
    """
    problems = Problems()
    if path.suffix.lower() == ".txt":
        frame = _read_sentences(path, problems)
    else:
        attributes = read_attributes(path.parent)
        required, *others = COLUMNS["prompts"]
        table = read_table(path, [required], [*others, *_optional("prompts", attributes)], problems)
        frame = pd.DataFrame() if table is None else table.frame
        if table is not None:
            _check_cells(table, attributes, problems)
            _check_prompts(table, attributes, problems)
    problems.raise_if_any()
    return frame


def _read_sentences(path: Path, problems: Problems) -> pd.DataFrame:
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise _broken(path.name, f"the file cannot be read ({error.strerror})", "a readable file") from None
    texts = [line.decode(errors="replace").strip() for line in lines]
    for row, text in enumerate(texts, 1):
        if "\ufffd" in text:
            problems.append(Problem(path.name, "text is not UTF-8", row, None, _cut(text), "UTF-8 text"))
    if not any(texts):
        problems.append(Problem(path.name, "no sentences", accepted="a sentence in each line"))
    return _frame({"prompt": pa.chunked_array([list(filter(None, texts))], _TEXT)})


def read_sample(folder: Path) -> pd.DataFrame | None:
    """Sample of images that were drawn to be labelled, `sample.csv` of an image set; None: there is none.

    Returns:
        image_id, probability and cell_probability (above 0, at most 1), draw (1, 2, ...), drawn_from (sha256 of
        the images that it was drawn from).

    Raises:
        DataError: all mistakes at once.
    """
    path = folder / "sample.csv"
    if not path.exists():
        return None
    problems = Problems()
    names = ("image_id", "probability", "cell_probability", "draw", "drawn_from")
    table = read_table(path, names, (), problems)
    if table is None:
        raise DataError(problems)
    _check_cells(table, {}, problems)
    _check_repeats(table, "image_id", _trimmed(table.texts("image_id")), problems)
    numbers = {name: table.numbers(name) for name in names[1:4]}
    for name, own in numbers.items():
        right = (own > 0) & ((own == np.floor(own)) if name == "draw" else (own <= 1))
        accepted = "a whole number from 1 on" if name == "draw" else "a number above 0, at most 1"
        problems.rows(table, name, ~right & ~table.where(name, _is_blank), f"no {name}", accepted)
    problems.raise_if_any()
    return table.frame.assign(**numbers).astype({"draw": np.int64})
