"""An image set: images, prompts and labels as three tables of text, checked once, and the annotators' consensus.

A table is NAME.csv (UTF-8, commas) or NAME.parquet, a file or a folder of files, with the columns of `COLUMNS` and
perhaps of `OPTIONAL`. Own attributes lie in `attributes/NAME.yaml`. Rows count as in a spreadsheet: the header is
row 1. All mistakes are told at once, each with file, row, column, value and what is accepted; but one in a table's
structure (a ragged row, an encoding) ends the checks of that table and of what refers to it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from detector_bench_next import attributes as words
from detector_bench_next.attributes import Attribute, pair_attributes, read_attributes, write_attributes
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
# Files beside the tables that go where the image set goes.
BESIDE = ("generations.parquet", "sample.csv", "calibration.csv", "pair_sample.csv", "LICENSE*")

_STATED = "stated_"
_DISTINCT = {"image_id", "path", "seed_image_id", "value", "prompt"}  # every other column is a pandas category
_NUMBERS = {"value", "weight", "probability", "cell_probability"}  # Parquet may hold floating-point numbers there
_MAY_BE_EMPTY = {"path", "prompt", *(name for names in OPTIONAL.values() for name in names)}
_ANY_TEXT = {"prompt", "reason", "attribute", "label"}  # free, or one of a list that is checked as a whole
_ALL = (words.ALL,)
_RESERVED = {"t2i_model": _ALL, "category": _ALL, "prompt_id": _ALL, "annotator": words.RESERVED_ANNOTATORS}
_LATER = ["region", "value", "weight", "scene", "side", "language"]  # at the end of a fingerprint, where filled
_CODED, _TEXT = pa.dictionary(pa.int32(), pa.large_string()), pa.large_string()
_BLOCK = 1 << 20
_MOST_RAGGED = 100_000  # with more, the whole file is of another make
_OPEN_QUOTE = "a quotation mark is opened and never closed, so the rest of the file is one cell"
_SOUND = rf"^$|{SOUND_PATH}|^[^/\\:#][^\\:#]*\.parquet#[0-9]+$"
_QUOTES, _UTF8 = "quotation marks in pairs", "UTF-8 text"
_Mask = NDArray[np.bool_]
_Accepted = str | Callable[[int], str]
_Attributes = Mapping[str, Attribute]
_Tables = dict[str, "Table | None"]


def as_texts(cells: Any) -> Any:
    """One Arrow array of texts; `pa.array(cells, TEXT)` would make a Python object of every cell."""
    found = pa.array(cells)
    return (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).cast(_TEXT)


def positions(ids: Any, wanted: Any) -> NDArray[np.int64]:
    """Index among `ids` of each wanted text [wanted], or -1."""
    found = pc.fill_null(pc.index_in(as_texts(wanted), value_set=as_texts(ids)), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


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


def _bits(mask: Any) -> _Mask:
    return np.asarray(mask.to_numpy(zero_copy_only=False), np.bool_)


def _as_numbers(texts: Any) -> NDArray[np.float64]:
    """Numbers; NaN for an empty cell, and for one that is no number."""
    texts = _trimmed(texts)
    is_number = pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$")
    found = pc.if_else(is_number, texts, pa.scalar(None, _TEXT)).cast(pa.float64())
    return np.array(found.to_numpy(zero_copy_only=False), np.float64)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True, eq=False)
class Table:
    """Records of a file, or of several that are one table; every cell is text. No category is without a record."""

    file: str
    frame: pd.DataFrame
    row: NDArray[np.int32]  # [record] as a spreadsheet shows it: the first is 2
    part: NDArray[np.int32]  # [record] place in `parts` of its file
    parts: tuple[str, ...]
    others: tuple[str, ...]  # names in the header that nobody asked for
    problems: Problems

    def tell(self, column: str, wrong: _Mask, message: str, accepted: _Accepted, known: Any = ()) -> None:
        """Report cells in the records of a mask [record]; of `known` names, the nearest one is accepted."""

        def nearest(record: int) -> str:
            near = nearest_hint(str(self.frame[column].iloc[record]).strip(), known)
            return near if near.startswith("did you mean") else str(accepted)

        self.problems.rows(self, column, wrong, message, nearest if len(known) else accepted)

    def problem(self, record: int, column: str, message: str, accepted: str) -> Problem:
        """A mistake in one cell; of an address neither login nor query is shown."""
        value = _cut(shown(str(self.frame[column].iloc[record])))
        return Problem(self.parts[self.part[record]], message, int(self.row[record]), column, value, accepted)

    def place(self, record: int) -> str:
        """File and row of a record, for messages about another one."""
        return f"{self.parts[self.part[record]]}, row {self.row[record]}"

    def texts(self, column: str) -> Any:
        """Arrow array of the text of each record."""
        return as_texts(self.frame[column])

    def where(self, column: str, test: str | Collection[str] | Callable[[Any], Any]) -> _Mask:
        """Records [record] whose text fits a pattern (RE2), is one of some, or passes a test on an Arrow array."""
        if column not in self.frame:
            return np.zeros(len(self.frame), np.bool_)
        cells = self.frame[column]
        coded = isinstance(cells.dtype, pd.CategoricalDtype)
        texts = as_texts(cells.cat.categories if coded else cells)  # each text of a category is tested once
        if isinstance(test, str):
            found = pc.match_substring_regex(texts, test)
        else:
            found = test(texts) if callable(test) else pc.is_in(texts, pa.array(sorted(test), _TEXT))
        return _bits(found)[cells.cat.codes.to_numpy()] if coded else _bits(found)


def read_table(path: Path, required: Sequence[str], optional: Sequence[str], problems: Problems) -> Table | None:
    """A CSV or Parquet file; a folder NAME.parquet is one table, its files in the order of their names.

    Nothing is taken for a number or a missing value. A record without any text is left out and counted as a row.
    Columns come in the order of `required`, `optional`, all others are ignored. None: the structure is wrong, then
    `problems` says why.
    """
    files = {path.name: path}
    if path.is_dir() and path.suffix.lower() == ".parquet":
        found = sorted(file for file in path.glob("*.parquet") if not file.name.startswith((".", "_")))
        files = {f"{path.name}/{file.name}": file for file in found}
    tables = {}
    for name, file in files.items():
        try:
            tables[name] = _read_file(file, name, required, optional)
        except DataError as error:
            problems.extend(error.problems)
        except OSError as error:
            reason = error.strerror or str(error).split("\n")[0]
            problems.append(Problem(name, f"the file cannot be read ({reason})", accepted="a readable file"))
    if not files:
        problems.append(Problem(path.name, "the folder holds no .parquet file", accepted="a file, or such files"))
    return _table(path.name, tables, (*required, *optional), problems) if len(tables) == len(files) > 0 else None


def _broken(file: str, message: str, accepted: str, row: int | None = None, value: str | None = None) -> DataError:
    return DataError([Problem(file, message, row, None, value, accepted)])


def _read_file(path: Path, file: str, required: Sequence[str], optional: Sequence[str]) -> tuple[Any, list[str]]:
    """Columns of texts as an Arrow table, of CSV all of them; and all names of the header."""
    if not path.is_file():
        raise _broken(file, "it is no file" if path.exists() else "the file is missing", "a CSV or Parquet file")
    with path.open("rb") as opened:
        if opened.read(64).startswith(b"version https://git-lfs"):
            raise _broken(file, "a Git LFS pointer stands here", "the table: `git lfs pull` fetches it")
    if path.suffix.lower() != ".parquet":
        table = _read_csv(path.read_bytes(), file, required, optional)
        return table, table.column_names
    try:
        with pq.ParquetFile(path) as opened:
            names = opened.schema_arrow.names
            columns = {name: opened.read([name]).column(0) for name in _wanted(file, names, required, optional)}
            for cells in columns.values():
                cells.validate(full=True)  # damage would crash later
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0]
        raise _broken(file, f"cannot be read as Parquet ({reason})", "a whole Parquet file") from None
    return _typed(file, columns), names


def _wanted(file: str, names: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
    """The columns to be read; those that stand twice or are missing raise `DataError`."""
    accepted, asked = ",".join(required), (*required, *optional)
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    problems = [Problem(file, "column name used twice", 1, name, name, "each name once") for name in twice]
    if not {*names} & {*required}:
        other = len(names) == 1 and re.search(r"[;\t|]", names[0])
        message = "the header has none of the columns that this file needs"
        message += " (its names are not separated by commas)" if other else ""
        raise _broken(file, message, accepted, 1, _cut(",".join(names)))
    for missing in (name for name in required if name not in names):
        free = {name: nearest_hint(name.strip().lower(), [missing]) for name in names if name not in asked}
        meant = next((name for name, hint in free.items() if hint.startswith("did you mean")), None)
        message = "the column is missing" + ("; the header has" if meant is not None else "")
        problems.append(Problem(file, message, 1, missing, meant, accepted))
    if problems:
        raise DataError(problems)
    return [name for name in dict.fromkeys(asked) if name in names]


def _typed(file: str, columns: Mapping[str, Any]) -> Any:
    """Chunked Arrow columns of any type as texts: text and whole numbers, in `_NUMBERS` other numbers, too."""
    found = {}
    for name, cells in columns.items():
        kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
        if pa.types.is_floating(kind) and name in _NUMBERS:
            numbers = cells.cast(pa.float64())
            found[name] = pc.if_else(pc.is_nan(numbers), pa.scalar("", _TEXT), numbers.cast(_TEXT))
        elif pa.types.is_integer(kind) or str(kind) in ("string", "large_string", "string_view", "null"):
            found[name] = cells.cast(_TEXT)
        else:
            told = Problem(file, "wrong column type", None, name, str(cells.type), "text or whole numbers")
            raise DataError([told])
    return pa.table(found)


def _table(file: str, tables: Mapping[str, Any], asked: Sequence[str], problems: Problems) -> Table:
    """One table of all files; a column that a file lacks is empty there, records without any text are left out."""
    sizes = [len(table) for table, _ in tables.values()]
    row = np.concatenate([np.arange(2, size + 2, dtype=np.int32) for size in sizes])
    part = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    others = tuple(dict.fromkeys(n for _, names in tables.values() for n in names if n not in asked))
    whole = pa.concat_tables([table for table, _ in tables.values()], promote_options="default")
    blank = np.ones(len(whole), np.bool_)
    for cells in whole.columns:
        blank &= _bits(pc.fill_null(pc.equal(cells.cast(_TEXT), ""), fill_value=True).combine_chunks())
        if not blank.any():
            break
    found = {name: whole.column(name) for name in whole.column_names}
    found |= {n: pa.chunked_array([pa.repeat("", len(whole))]) for n in OPTIONAL["labels"] if n not in found}
    frame = _frame({name: found[name] for name in asked if name in found})
    if blank.any():
        frame, row, part = _only_used(frame[~blank]), row[~blank], part[~blank]
    return Table(file, frame, row, part, tuple(tables), others, problems)


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


def _read_csv(data: bytes, file: str, required: Sequence[str], optional: Sequence[str]) -> Any:
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):  # .xlsx and .ods, .xls
        raise _broken(file, "this is a spreadsheet or an archive, not text", "CSV: open it and save it as CSV")
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        wide = "UTF-32" if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")) else "UTF-16"
        raise _broken(file, "wrong encoding", _UTF8, value=wide)
    if not data[:_BLOCK].strip(b"\r\n\t \xef\xbb\xbf"):
        raise _broken(file, "the file is empty", "a header row and records")
    bad_byte = None
    try:
        _ = data.isascii() or data.decode()
    except UnicodeDecodeError as error:
        bad_byte, data = error.start, data.decode(errors="replace").encode()  # Arrow would end at the first one
    try:
        names = next(csv.reader(io.StringIO(data[:_BLOCK].decode("utf-8-sig", "ignore"), newline="")), [])
    except csv.Error:
        raise _broken(file, "the header row cannot be read as CSV", "column names", 1) from None
    wanted = _wanted(file, names, required, optional)
    ragged, table = list[Any](), pa.table({})
    try:
        table = _parsed(data, {n: _CODED if n in wanted and n not in _DISTINCT else _TEXT for n in names}, ragged)
    except pa.ArrowInvalid as error:
        if not ragged:
            raise _unreadable(file, data, str(error)) from None
    problems = _bad_texts(file, table, bad_byte) if bad_byte is not None else Problems()
    accepted = f"{len(names)} cells; one with a comma or a line break stands in quotation marks"
    is_open = [row.text.count('"') % 2 == 1 for row in ragged]
    for row, opened in sorted(zip(ragged, is_open, strict=True), key=lambda own: not own[1])[:20]:
        n, text = row.actual_columns, _cut(row.text.rstrip() if opened else row.text)
        message = _OPEN_QUOTE if opened else f"row has {n} cell{'s' * (n != 1)}"
        problems.append(Problem(file, message, row.number, None, text, _QUOTES if opened else accepted))
    if len(ragged) > 20:
        rest = " at least; the file was not checked further" * (len(ragged) >= _MOST_RAGGED)
        problems.append(Problem(file, f"... and {len(ragged) - 20:,} more such rows{rest}"))
    last = table.column(len(names) - 1)[-1].as_py() if len(table) and not ragged else ""
    if "\n" in last and data.count(b'"') % 2:
        problems.append(Problem(file, _OPEN_QUOTE, len(table) + 1, names[-1], _cut(last.rstrip()), _QUOTES))
    problems.raise_if_any()
    return table


def _parsed(data: bytes, kinds: Mapping[str, Any], ragged: list[Any]) -> Any:
    """Records of a CSV file as an Arrow table; rows with too few or too many cells go to `ragged`."""
    if b"\n" not in data[:_BLOCK] and b"\r" not in data[:_BLOCK]:
        data += b"\n"  # to Arrow, a header without a line end is no file at all

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip" if len(ragged) < _MOST_RAGGED else "error"

    convert = pa.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
    options = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    try:
        table = pa.csv.read_csv(pa.BufferReader(data), None, options, convert)
    except pa.ArrowInvalid:
        options.invalid_row_handler = skip
        alone = pa.csv.ReadOptions(use_threads=False)  # one thread alone knows the rows' numbers
        table = pa.csv.read_csv(pa.BufferReader(data), alone, options, convert)
    if table.column_names != list(kinds):
        raise pa.ArrowInvalid("quotation marks inside of names in the header row")
    return table.cast(pa.schema(list(kinds.items())))  # without a record, columns are null


def _unreadable(file: str, data: bytes, error: str) -> DataError:
    if data.count(b'"') % 2 == 0:
        reason = f"a row is longer than {_BLOCK >> 20} MiB" if "straddling" in error else error.partition("\n")[0]
        return _broken(file, f"cannot be read as CSV ({reason})", "comma-separated cells")
    row = 1
    with suppress(csv.Error):  # the last cell is too long for Python's reader, too
        for _ in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")):
            row += 1
    return _broken(file, _OPEN_QUOTE, _QUOTES, row)


def _bad_texts(file: str, table: Any, bad_byte: int) -> Problems:
    message, names = f"text is not UTF-8 (first at byte {bad_byte:,} of the file)", table.column_names
    problems = Problems(Problem(file, message, 1, n, n, _UTF8) for n in names if "\ufffd" in n)
    shown_in = _table(file, {file: (table, names)}, names, problems)
    for name in names:
        shown_in.tell(name, shown_in.where(name, "\ufffd"), message, _UTF8)
    return problems or Problems([Problem(file, message, accepted=_UTF8)])


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """A checked image set. `image_id, path, seed_image_id, prompt, value` are `str` columns, others `category`; of
    the optional ones of images and prompts there are those that the files have. An empty cell is "".
    """

    root: Path
    images: pd.DataFrame  # in file order; a photo that was only edited has no t2i_model and no prompt_id
    prompts: pd.DataFrame
    labels: pd.DataFrame  # always with `reason` and `value`
    attributes: dict[str, Attribute]  # built-in ones, the set's own, and `pair_attributes` that have labels
    labelled: tuple[str, ...]  # those that have a label
    store: ImageStore
    prompt_weights: dict[str, float] | None  # by prompt_id, its own or its base prompt's; None: no prompt has one
    image_of_label: NDArray[np.int64]  # [label] index of its image

    @classmethod
    def load(cls, folder: Path | str, *, require_labels: bool = False) -> ImageSet:
        """Read and check a folder; all mistakes are one `DataError`. Labels may be missing, if not required.
        The last one is kept while its files do not change: a run needs it at three places.
        """
        if not Path(folder).is_dir():
            told = "a folder; name one by --image-set DIR, in Python image_set="
            raise DataError([Problem(str(folder), "there is no image set", accepted=told)])
        return _loaded(Path(folder), _stamps(Path(folder)), require_labels)

    @classmethod
    def from_frames(
        cls,
        root: Path,
        images: pd.DataFrame,
        prompts: pd.DataFrame,
        labels: pd.DataFrame | None = None,
        attributes: _Attributes | None = None,
    ) -> ImageSet:
        """Make an image set of its three tables, checked as by `load`; rows of mistakes count as in a file.
        Without `attributes` there are the built-in ones and those in `root`.
        """
        problems, frames = Problems(), (images, prompts, labels)
        known = read_attributes(root) if attributes is None else attributes
        tables = {n: _of_frame(n, frame, known, problems) for n, frame in zip(COLUMNS, frames, strict=True)}
        image_set = _checked(root.resolve(), tables, known, problems)
        if image_set is None:
            raise DataError(problems)
        return image_set

    def __repr__(self) -> str:
        return f"<image set {self.root.name}: {len(self.images):,} images, {len(self.labels):,} labels>"

    def truth(self, attribute: str) -> pd.DataFrame:
        """Consensus on each image (see `consensus`): image_id, label ("" where nobody labelled it), reason."""
        known = self._attribute(attribute)
        codes, why = self._consensus(known)
        label = pd.Categorical.from_codes(codes, pd.Index([*known.labels, ""], dtype="str")).astype("str")
        return pd.DataFrame({"image_id": self.images["image_id"], "label": label, "reason": pd.array(why, "str")})

    def truth_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """Code of the consensus on each image [image], as `attributes.py` lists them."""
        return self._consensus(attribute)[0]

    def measured(self, attribute: str) -> NDArray[np.float64]:
        """Number that the annotators gave each image [image], in the attribute's unit; NaN: none.
        The adjudicator's, else the mean over those who gave the consensus as label and a number.
        """
        known, n = self._attribute(attribute), len(self.images)
        rows = np.flatnonzero((self.labels["attribute"] == attribute) & (self.labels["value"] != ""))
        labels, image = self.labels.iloc[rows], self.image_of_label[rows]
        agreed = _label_codes(labels, known) == self.truth_codes(known)[image]
        final = agreed & (labels["annotator"] == words.ADJUDICATOR).to_numpy()
        used = np.flatnonzero(final | (agreed & (np.bincount(image[final], minlength=n) == 0)[image]))
        values = _as_numbers(as_texts(labels["value"]))
        used = used[np.argsort(values[used], kind="stable")]  # row order must not change the last digit
        count, total = np.bincount(image[used], minlength=n), np.bincount(image[used], values[used], n)
        return np.asarray(np.divide(total, count, out=np.full(n, np.nan), where=count > 0))

    def stated(self, attribute: str) -> pd.Series[Any] | None:
        """Word of `Attribute.statements` that each prompt states, by prompt_id in their order ("": left open).
        None: the prompts have no such column, so nothing is known.
        """
        column = _STATED + self._attribute(attribute).name
        stated = self.prompts.set_axis(self.prompts["prompt_id"].astype("str")).get(column)
        return None if stated is None else stated.astype("str")

    def fingerprint(self) -> str:
        """The sha256 of the content of the three tables, in hexadecimal; how they are stored has no influence.
        Values and weights count as numbers, and optional columns of prompts without any text not at all.
        """
        digest = hashlib.sha256()
        for name, frame in (("images", self.images), ("prompts", self.prompts), ("labels", self.labels)):
            digest.update(f"{name} {len(frame)}\n".encode())
            for column in frame.columns.drop(_LATER, errors="ignore"):
                if name != "prompts" or column in COLUMNS[name] or (frame[column] != "").any():
                    _add_cells(digest, frame, column)
        for frame in (self.labels, self.prompts, self.images):
            for column in frame.columns.intersection(_LATER):
                if (frame[column] != "").any():
                    _add_cells(digest, frame, column)
        return digest.hexdigest()

    def select(self, mask: NDArray[np.bool_]) -> ImageSet:
        """The images of a mask [image] with their labels; all prompts stay."""
        kept = mask[self.image_of_label]
        images, labels = _only_used(self.images[mask]), _only_used(self.labels[kept])
        labelled, at = _labelled(labels, self.attributes), (np.cumsum(mask) - 1)[self.image_of_label[kept]]
        return replace(self, images=images, labels=labels, labelled=labelled, image_of_label=at)

    def save(self, folder: Path) -> None:
        """Write the tables as CSV and the set's own attributes, no image files; `images.csv` is written last."""
        write_attributes([a for a in self.attributes.values() if a.name not in pair_attributes()], folder)
        labels = self.labels if (self.labels["value"] != "").any() else self.labels.drop(columns="value")
        for name, frame in (("prompts", self.prompts), ("labels", labels), ("images", self.images)):
            if name != "labels" or len(frame):
                # A lone carriage return ends a row unless it stands in quotation marks.
                odd = any(_bits(pc.match_substring(as_texts(frame[column]), "\r")).any() for column in frame)
                with replacing(folder / f"{name}.csv") as path:
                    frame.to_csv(path, index=False, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else 0)

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
    elif len(texts):
        _, offsets, content = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        digest.update(np.diff(ends).astype("<i8").tobytes())
        digest.update(memoryview(content or b"")[ends[0] : ends[-1]])


def _label_codes(labels: pd.DataFrame, attribute: Attribute) -> NDArray[np.int16]:
    own = labels["label"].astype("category").cat.set_categories(list(attribute.labels))
    return np.asarray(own.cat.codes, np.int16)


def _labelled(labels: pd.DataFrame, attributes: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in attributes if name in labels["attribute"].cat.categories)


def consensus(
    labels: pd.DataFrame, image: NDArray[np.int64], images: int, attribute: Attribute
) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Consensus of the annotators by the rule of Lyu 2025, section 3.3, step 3.

    The adjudicator's row decides. Else a label on which all agree is taken (one annotator alone agrees, two of
    three do not). Else it is `low_quality`, reason `disagreement`. The reason is the adjudicator's own, else that
    of the first annotator by name with the agreed label and a reason. `labels` are rows of ONE attribute in any
    order, `image` [row] the indices of their images. Gives codes [image] as in `attributes.py`, reasons [image].
    """
    label = _label_codes(labels, attribute)
    agreed = np.full(images, -1, np.int16)
    agreed[image] = label  # of several assignments the last stays: any one label,
    agreed[image[label != agreed[image]]] = -2  # and -2 where another row differs from it
    final = (labels["annotator"] == words.ADJUDICATOR).to_numpy()
    agreed[image[final]] = label[final]
    said = np.flatnonzero((labels["reason"] != "").to_numpy() & (label == agreed[image]))
    who = labels["annotator"].iloc[said].astype("str").to_numpy()
    said = said[np.lexsort((who, ~final[said]))][::-1]  # so that the adjudicator's, else the first name's, stays
    reason = np.full(images, "", object)
    reason[image[said]] = labels["reason"].iloc[said].astype("str").to_numpy()
    reason[agreed == -2] = "disagreement"
    codes = np.select([agreed == -2, agreed == -1], [attribute.low_quality, attribute.unlabelled], agreed)
    return codes.astype(np.int8), reason


@lru_cache(maxsize=1)
def _loaded(folder: Path, _: tuple[object, ...], require_labels: bool) -> ImageSet:  # noqa: FBT001 - a key
    problems = Problems()
    image_set, _tables = read_image_set(folder, problems, require_labels=require_labels)
    if image_set is None:
        raise DataError(problems)
    return image_set


def _stamps(folder: Path) -> tuple[object, ...]:
    """What changes with the tables and attributes of a folder; what changed just now never looks the same."""
    tables = [path for name in COLUMNS for path in folder.glob(f"{name}.*")]
    files = [*tables, *(own for path in tables for own in path.rglob("*")), *folder.glob("attributes/*.yaml")]
    found = [
        (str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        for path in files
        for s in [path.stat() if path.exists() else path.lstat()]
    ]
    is_settled = all(time.time_ns() - changed > 2_000_000_000 for *_, changed in found)
    return (
        folder.resolve(),
        os.environ.get("DETECTOR_BENCH_IMAGE_ROOTS"),
        *sorted(found),
        0 if is_settled else time.time_ns(),
    )


def read_image_set(
    folder: Path, problems: Problems, *, require_labels: bool = False
) -> tuple[ImageSet | None, _Tables]:
    """An image set, None if `problems` took a mistake; and its tables, None where one has no sound structure."""
    root, tables = folder.resolve(), _Tables()
    if not root.is_dir():
        problems += [Problem(str(folder), "no such folder", accepted="a folder with images.csv, prompts.csv")]
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
            problems.append(Problem(present[0].name, f"{present[1].name} lies beside it", accepted=f"one: {both}"))
        if present:
            tables[name] = read_table(present[0], required, _optional(name, attributes), problems)
        elif name != "labels" or require_labels:
            problems.append(Problem(f"{name}.csv", "the file is missing", accepted=f"{both} in {folder}"))
        else:
            tables[name] = _of_frame(name, None, attributes, problems)
    return _checked(root, tables, attributes, problems, require_labels=require_labels), tables


def _optional(name: str, attributes: Iterable[str]) -> tuple[str, ...]:
    return (*(_STATED + attribute for attribute in attributes if name == "prompts"), *OPTIONAL[name])


def _of_frame(name: str, frame: pd.DataFrame | None, known: Iterable[str], problems: Problems) -> Table | None:
    frame = pd.DataFrame(columns=[*COLUMNS[name]], dtype="str") if frame is None else frame
    names, asked, columns = [str(column) for column in frame], (*COLUMNS[name], *_optional(name, known)), {}
    try:
        for column in _wanted(name, names, COLUMNS[name], asked):
            columns[column] = pa.table({column: frame[column]}).column(0)
        return _table(name, {name: (_typed(name, columns), names)}, asked, problems)
    except DataError as error:
        problems.extend(error.problems)
    except (pa.ArrowException, TypeError) as error:
        problems.append(Problem(name, f"cells that are no text ({error})", None, column))
    return None


def _checked(
    root: Path, tables: _Tables, attributes: _Attributes, problems: Problems, *, require_labels: bool = False
) -> ImageSet | None:
    """Check the tables and how they refer to each other; None: `problems` has a mistake."""
    images, prompts, labels = (tables.get(name) for name in COLUMNS)
    if labels is not None:
        pairs = pair_attributes()
        attributes = {**attributes, **{name: pairs[name] for name in _labelled(labels.frame, pairs)}}
    for table in (images, prompts, labels):
        if table is not None:
            _check_cells(table, attributes, may_have_no_record=table is labels and not require_labels)
    if prompts is not None:
        weights = _check_prompts(prompts, attributes)
    if images is not None:
        _check_images(images, prompts)
    if labels is not None:
        _check_labels(labels, attributes)
        if images is not None:
            at = _check_images_of_labels(images, labels, require_labels=require_labels)
    if problems or images is None or prompts is None or labels is None:
        return None
    frames, labelled = (images.frame, prompts.frame, labels.frame), _labelled(labels.frame, attributes)
    return ImageSet(root, *frames, dict(attributes), labelled, ImageStore(root), weights, at)


# Checks
def _check_cells(table: Table, attributes: _Attributes, *, may_have_no_record: bool = False) -> None:
    """Empty cells, reserved names, control characters, blanks around a text, and cells of one form."""
    if len(table.frame) == 0 and not may_have_no_record:
        table.problems.append(Problem(table.file, "the file has no records", accepted="a row below the header"))
    may_be_empty = _MAY_BE_EMPTY | ({"t2i_model", "prompt_id"} if "seed_image_id" in table.frame else set())

    def labels(record: int) -> str:
        attribute = attributes.get(str(table.frame["attribute"].iloc[record]))
        return ", ".join(attribute.labels) if attribute else "a label of its attribute"

    accepted: dict[str, _Accepted] = {"attribute": ", ".join(attributes), "label": labels}
    for column in map(str, table.frame):
        is_stated, blank = column.startswith(_STATED), table.where(column, _is_blank)
        if column not in may_be_empty and not is_stated:
            table.tell(column, blank, "empty cell", accepted.get(column, "some text"))
        if column in _RESERVED:
            others = "any name but " + ", ".join(map(repr, _RESERVED[column]))
            table.tell(column, table.where(column, _RESERVED[column]), "reserved name", others)
        if column not in _ANY_TEXT and not is_stated:
            control = table.where(column, _has_control)
            table.tell(column, control, "control character", "text without line breaks, tabs or NUL")
            around = table.where(column, lambda texts: pc.not_equal(_trimmed(texts), texts)) & ~control
            around &= ~blank if column not in may_be_empty else True
            table.tell(column, around, "blanks around the text", "the text alone")
        if column in _FORMS:
            is_right, form = _FORMS[column]
            right = {text for text in table.frame[column].cat.categories if is_right(text.strip())}
            table.tell(column, ~table.where(column, right) & ~blank, f"no {column}", f"{form}, or an empty cell")


def _is_region(text: str) -> bool:
    numbers = text.split(",")
    if len(numbers) != 4 or not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", number) for number in numbers):
        return text in ("left", "right")
    x0, y0, x1, y1 = map(float, numbers)
    return x0 < x1 <= 1 and y0 < y1 <= 1


_FORMS: dict[str, tuple[Callable[[str], Any], str]] = {
    "region": (_is_region, "left, right, or x0,y0,x1,y1 in parts of 1 with x0 < x1 and y0 < y1"),
    "side": (re.compile("left|right").fullmatch, "left, right"),
    "language": (re.compile("[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*").fullmatch, "a BCP 47 tag such as de or zh-Hans"),
}


def _check_repeats(table: Table, column: str) -> Any:
    """Report ids that an earlier record has; gives all ids without blanks around them."""
    ids = _trimmed(table.texts(column))
    if pc.count_distinct(ids).as_py() == len(ids):
        return ids
    codes = ids.dictionary_encode().indices.to_numpy()  # in the order of first use
    first = pd.Series(codes).drop_duplicates().index.to_numpy()
    wrong = (first[codes] != np.arange(len(codes))) & ~_bits(pc.equal(ids, ""))
    table.tell(column, wrong, f"duplicate {column}", lambda i: f"another; {table.place(first[codes[i]])} has it")
    return ids


def _check_parents(table: Table, column: str, ids: Any, known: Collection[str], thing: str) -> NDArray[np.int64]:
    """Report cells that name no record or lead back to their own; gives the named record [record], -1: none."""
    wanted = _trimmed(table.texts(column))
    empty = _bits(pc.equal(wanted, ""))
    parent: NDArray[np.int64] = np.where(empty, -1, positions(ids, wanted))
    table.tell(column, ~empty & (parent < 0), f"{thing} that has no row", "an id of this file, or nothing", known)
    own = parent == np.arange(len(parent))
    table.tell(column, own, f"{thing} of itself", f"another {thing}, or an empty cell")
    ancestors = np.where(own, -1, parent)
    for _ in range(len(parent).bit_length()):  # each turn doubles the number of steps
        ancestors = np.where(ancestors < 0, -1, ancestors[ancestors])
    circle = np.bincount(ancestors[ancestors >= 0], minlength=len(parent)) > 0
    table.tell(column, circle, f"{thing} of itself, by way of others", f"a {thing} that is not made from this row")
    return parent


def _check_images(images: Table, prompts: Table | None) -> None:
    ids, paths = _check_repeats(images, "image_id"), images.texts("path")
    sound, climbs = (pc.match_substring_regex(paths, own) for own in (_SOUND, r"(^|/)\.\.(/|$)"))
    doubtful = np.flatnonzero(~_bits(pc.and_not(sound, climbs)))
    faults = np.array([path_problem(path.strip()) or "" for path in paths.take(doubtful).to_pylist()], object)
    for fault in filter(None, dict.fromkeys(faults)):
        message, _, accepted = fault.partition("; accepted: ")
        wrong = np.zeros(len(paths), np.bool_)
        wrong[doubtful[faults == fault]] = True
        images.tell("path", wrong, f"path that {message}", accepted)
    if prompts is not None:
        known = {text.strip() for text in prompts.frame["prompt_id"].cat.categories}
        listed = ", ".join(sorted(known)[:12]) or "none, it has no records"
        listed += f" and {len(known) - 12:,} more" if len(known) > 12 else ""
        named = images.where("prompt_id", lambda texts: pc.is_in(_trimmed(texts), pa.array([*known, ""], _TEXT)))
        images.tell("prompt_id", ~named, f"prompt_id that {prompts.file} does not list", listed, known)
    if "seed_image_id" in images.frame:
        _check_seeds(images, ids)


def _check_seeds(images: Table, ids: Any) -> None:
    """Report seeds that are no images of the set or have no pair, and empty cells that only a seed may have."""
    tell, has_seed = images.tell, ~images.where("seed_image_id", _is_blank)
    no_model, no_prompt = (images.where(column, _is_blank) for column in ("t2i_model", "prompt_id"))
    photos = images.frame["image_id"][no_model] if no_model.any() else images.frame["image_id"]
    seed = _check_parents(images, "seed_image_id", ids, photos, "seed")
    is_seed = np.bincount(seed[seed >= 0], minlength=len(seed)) > 0
    only = "with it; only the seed of an edited image may have none"
    tell("t2i_model", no_model & (has_seed | (~no_prompt & ~is_seed)), "empty cell", f"what made the image {only}")
    tell("prompt_id", no_prompt & (has_seed | ~no_model), "empty cell", f"the prompt of the image {only}")
    wrong = no_model & ~no_prompt & ~has_seed & is_seed
    tell("prompt_id", wrong, "prompt of a seed that no T2I model made", "an empty cell, or the T2I model too")
    alone = no_model & no_prompt & ~has_seed & ~is_seed & ~_bits(pc.equal(ids, ""))
    accepted = "an image whose seed_image_id names it; or the T2I model and the prompt that it was made with"
    tell("image_id", alone, "seed without its pair", accepted)


def _check_prompts(prompts: Table, attributes: _Attributes) -> dict[str, float] | None:
    """Report repeated ids, and what a prompt cannot state, be made from or show at a side; gives the weights."""
    frame, tell, ids = prompts.frame, prompts.tell, _check_repeats(prompts, "prompt_id")
    accepted = ", ".join(_STATED + name for name in attributes)
    for name in prompts.others:
        if name.startswith(_STATED):  # ignored, it would change results
            prompts.problems.append(Problem(prompts.file, "unknown column", 1, name, name, accepted))
    for attribute in attributes.values():
        column, known = _STATED + attribute.name, attribute.statements
        texts: list[str] = list(frame[column].cat.categories) if column in frame else []
        parts = {t: {part.strip() for part in re.split(r"[;,|/+&]|\band\b|\bor\b", t)} for t in texts}
        two = {text for text, own in parts.items() if text not in known and own <= {*known}}
        accepted = f"one of them; {words.PARTLY!r} where one person may be of either; a row each for two people"
        tell(column, prompts.where(column, two), f"a prompt that states two classes of {attribute.name}", accepted)
        accepted = f"{', '.join(known)}, or an empty cell where the prompt leaves {attribute.name} open"
        wrong = prompts.where(column, {*parts} - {"", *known, *two})
        tell(column, wrong, f"unknown {attribute.name} class", accepted)
    accepted = "a scene and a side for each of its two people, or neither"
    for name, other in (("scene", "side"), ("side", "scene")):
        tell(name, prompts.where(name, r"\S") & ~prompts.where(other, r"\S"), f"{name} alone", accepted)
    before, base = len(prompts.problems), np.full(len(frame), -1, np.int64)
    if "base_prompt_id" in frame:
        base = _check_parents(prompts, "base_prompt_id", ids, frame["prompt_id"].cat.categories, "base prompt")
    given = prompts.where("weight", r"\S")
    if not given.any():
        return None
    weights = _as_numbers(prompts.texts("weight"))
    wrong = given & ~(np.isfinite(weights) & (weights > 0))
    tell("weight", wrong, "weight that is not a number above 0", "such as 1 or 0.5")
    for _ in weights:  # a prompt without a weight has its base prompt's
        missing = np.flatnonzero(np.isnan(weights) & (base >= 0))
        weights[missing] = weights[base[missing]]
        if np.isnan(weights[missing]).all():
            break
    without = np.flatnonzero(np.isnan(weights))
    if len(without) and len(prompts.problems) == before:
        message = f"{len(without):,} of {len(weights):,} prompts have no weight, nor a base with one; the first"
        row, first = int(prompts.row[without[0]]), str(frame["prompt_id"].iloc[without[0]])
        accepted = "a weight for all prompts, or for none"
        prompts.problems.append(Problem(prompts.file, message, row, "weight", first, accepted))
    return dict(zip(ids.to_pylist(), weights.tolist(), strict=True))


def _check_labels(labels: Table, attributes: _Attributes) -> None:
    frame, tell, blank = labels.frame, labels.tell, labels.where("label", _is_blank)
    unknown = ~labels.where("attribute", attributes) & ~labels.where("attribute", _is_blank)
    tell("attribute", unknown, "unknown attribute", ", ".join(attributes))
    known = words.reasons(attributes.values())
    wrong = (frame["label"] == words.LOW_QUALITY).to_numpy() & ~labels.where("reason", {"", *known})
    tell("reason", wrong, f"unknown reason for {words.LOW_QUALITY}", ", ".join(known) + ", or nothing")
    given = labels.where("value", r"\S")
    numbers = _as_numbers(labels.texts("value")) if given.any() else np.full(len(frame), np.nan)
    measured = ", ".join(a.name for a in attributes.values() if a.unit is not None)
    for name in _labelled(frame, attributes):
        attribute, own = attributes[name], (frame["attribute"] == name).to_numpy()
        wrong = own & ~labels.where("label", attribute.labels) & ~blank
        tell("label", wrong, f"unknown label for {name}", ", ".join(attribute.labels))
        if attribute.unit is not None:
            _check_values(labels, attribute, own & given, numbers)
        else:
            accepted = f"an empty cell; numbers may stand beside {measured}"
            tell("value", own & given, f"{name} has no measured value", accepted)


def _check_values(labels: Table, attribute: Attribute, given: _Mask, numbers: NDArray[np.float64]) -> None:
    """Report numbers that are none, out of range, beside no class, or beside the wrong one: the first of these."""
    name, unit, names = attribute.name, attribute.unit, attribute.labels
    if unit is None or not given.any():
        return
    low, high, starts, label = unit.lowest, unit.highest, attribute.starts, _label_codes(labels.frame, attribute)
    accepted = f"a number from {low:g} to {high:g} ({unit.name}), or an empty cell"
    labels.tell("value", given & np.isnan(numbers), f"{name} that is not a number", accepted)
    labels.tell("value", given & ((numbers < low) | (numbers > high)), f"{name} out of range", accepted)
    inside = given & (low <= numbers) & (numbers <= high)
    accepted = f"an empty cell, or a label among {', '.join(attribute.class_names)}"
    for code in (attribute.low_quality, attribute.others):
        labels.tell("value", inside & (label == code), f"value beside the label {names[code]!r}", accepted)
    fitting = np.searchsorted(starts, numbers, side="right") - 1
    for code, (start, end) in enumerate(zip(starts, [*starts[1:], high], strict=False)):
        accepted = f"{start:g} to {'' if end == high else 'below '}{end:g} ({unit.name}), or another label"
        wrong = inside & (label == code) & (fitting != code)
        labels.tell("value", wrong, f"value that contradicts the label {names[code]!r}", accepted)


def _check_images_of_labels(images: Table, labels: Table, *, require_labels: bool) -> NDArray[np.int64]:
    """Report labels of unknown images, repeated ones, and images without any; gives each label's image [label]."""
    frame, ids, wanted = labels.frame, *(_trimmed(table.texts("image_id")) for table in (images, labels))
    at = positions(ids, wanted)
    unknown = (at < 0) & ~_bits(pc.equal(wanted, ""))
    labels.tell("image_id", unknown, "label for an unknown image", f"an image_id that {images.file} lists")
    if require_labels and len(frame):
        bare = np.bincount(at[at >= 0], minlength=len(ids)) == 0
        bare &= ~_bits(pc.equal(ids, "")) & (positions(ids, ids) == np.arange(len(ids)))  # a repeated id is told
        images.tell("image_id", bare, "image without any label", f"at least one row for it in {labels.file}")
    if pairs := _labelled(frame, pair_attributes()):
        wrong = labels.where("attribute", pairs) & (at >= 0) & ~images.where("seed_image_id", r"\S")[at]
        accepted = "an image with a seed_image_id, from which it was made"
        labels.tell("image_id", wrong, "label of a change for an image that was not edited", accepted)
    key = at
    for name in ("annotator", "attribute"):
        key = key * max(len(frame[name].cat.categories), 1) + frame[name].cat.codes.to_numpy()
    again = pd.Series(key).duplicated().to_numpy() & (at >= 0)
    if not again.any():
        return at
    firsts, first_of, label = np.flatnonzero(~again), np.arange(len(key)), frame["label"].cat.codes.to_numpy()
    first_of[again] = firsts[pd.Index(key[firsts]).get_indexer(pd.Index(key[again]))]

    def earlier(record: int) -> str:
        said = frame["label"].iloc[first_of[record]]
        return f"one label per image, annotator and attribute; {labels.place(first_of[record])} says {said!r}"

    differs = label[first_of] != label
    labels.tell("label", again & ~differs, "duplicate label", earlier)
    labels.tell("label", again & differs, "label that contradicts an earlier one of the same annotator", earlier)
    return at


def read_prompts(path: Path) -> pd.DataFrame:
    """Prompts of a table: prompt_id, and those of the other columns of prompts that it has.

    Of a `.txt` with a sentence in each line the column `prompt` alone. Mistakes raise `DataError`, all at once.
    """
    problems, frame = Problems(), pd.DataFrame()
    if path.suffix.lower() == ".txt" and path.is_file():
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
        texts = [line.decode(errors="replace").strip() for line in lines]
        bad = [(row, text) for row, text in enumerate(texts, 1) if "\ufffd" in text]
        problems += [Problem(path.name, "text is not UTF-8", row, None, _cut(text), _UTF8) for row, text in bad]
        frame = _frame({"prompt": pa.chunked_array([list(filter(None, texts))], _TEXT)})
    elif path.suffix.lower() != ".txt":
        attributes, (required, *others) = read_attributes(path.parent), COLUMNS["prompts"]
        table = read_table(path, [required], [*others, *_optional("prompts", attributes)], problems)
        if table is not None:
            frame = table.frame
            _check_cells(table, attributes)
            _check_prompts(table, attributes)
    if not problems and frame.empty:
        problems.append(Problem(path.name, "no file, or no sentences", accepted="a sentence in each line"))
    problems.raise_if_any()
    return frame


def read_sample(folder: Path) -> pd.DataFrame | None:
    """Sample of images that were drawn to be labelled, `sample.csv` of an image set; None: there is none.

    Columns image_id, probability and cell_probability (above 0, at most 1), draw (1, 2, ...), drawn_from (sha256
    of the images that it was drawn from). Mistakes raise `DataError`, all at once.
    """
    path, problems = folder / "sample.csv", Problems()
    if not path.exists():
        return None
    names = ("image_id", "probability", "cell_probability", "draw", "drawn_from")
    table = read_table(path, names, (), problems)
    if table is None:
        raise DataError(problems)
    _check_cells(table, {})
    _check_repeats(table, "image_id")
    numbers = {name: _as_numbers(table.texts(name)) for name in names[1:4]}
    for name, own in numbers.items():
        right = (own > 0) & (own == np.floor(own) if name == "draw" else own <= 1) | table.where(name, _is_blank)
        accepted = "a whole number from 1 on" if name == "draw" else "a number above 0, at most 1"
        table.tell(name, ~right, f"no {name}", accepted)
    problems.raise_if_any()
    return table.frame.assign(**numbers).astype({"draw": np.int64})
