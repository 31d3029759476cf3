"""An image set: images, prompts and labels as three tables, checked once, and the consensus of its annotators.

`images` image_id, path (empty: not at hand), t2i_model, prompt_id; `prompts` prompt_id, category, word, prompt; `labels`
image_id, annotator, attribute, label [, reason]. Every cell is text. Own attributes lie in `attributes/NAME.yaml`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from detector_bench_next.attributes import (
    ADJUDICATOR,
    ALL,
    LOW_QUALITY,
    REASONS,
    RESERVED_ANNOTATORS,
    Attribute,
    read_attributes,
)
from detector_bench_next.errors import Problem, Problems, nearest_hint
from detector_bench_next.images import ImageStore

COLUMNS = {
    "images": ("image_id", "path", "t2i_model", "prompt_id"),
    "prompts": ("prompt_id", "category", "word", "prompt"),
    "labels": ("image_id", "annotator", "attribute", "label"),
}
OPTIONAL = {
    "images": ("seed_image_id", "region"),
    "prompts": ("base_prompt_id", "weight"),
    "labels": ("reason", "value"),
}
_DISTINCT = {"image_id", "path", "seed_image_id", "value", "prompt"}  # every other column is a pandas category
_MAY_BE_EMPTY = {"path", "prompt", "reason", "value", "seed_image_id", "region", "base_prompt_id", "weight"}
_RESERVED = {"t2i_model": (ALL,), "category": (ALL,), "prompt_id": (ALL,), "annotator": RESERVED_ANNOTATORS}
_CODED, _TEXT = pa.dictionary(pa.int32(), pa.large_string()), pa.large_string()


def as_texts(cells: Any) -> Any:
    """One Arrow array of text; `pa.array(cells, TEXT)` would make a Python object of every cell."""
    found = pa.array(cells)
    return (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).cast(_TEXT)


@dataclass
class Table:
    """A table with the row numbers that a spreadsheet shows: the header is row 1."""

    file: str
    frame: pd.DataFrame
    row: NDArray[np.int64]

    def where(self, column: str, test: str | set[str]) -> NDArray[np.bool_]:
        """Records [record] whose text fits a pattern (RE2) or is one of a set; of a category each text is tested once."""
        cells = self.frame[column]
        coded = isinstance(cells.dtype, pd.CategoricalDtype)
        texts = as_texts(cells.cat.categories if coded else cells)
        if isinstance(test, str):
            found = pc.match_substring_regex(texts, test)
        else:
            found = pc.is_in(texts, pa.array(sorted(test), _TEXT))
        bits: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return bits[cells.cat.codes.to_numpy()] if coded else bits


def read_table(path: Path, required: tuple[str, ...], problems: Problems) -> Table | None:
    """Every cell of a CSV file as text; None: it cannot be read, then `problems` says why."""
    if not path.exists():
        problems.append(Problem(path.name, "the file is missing", accepted=f"{path.name} in {path.parent}"))
        return None
    data = path.read_bytes()
    names = next(csv.reader(io.StringIO(data[: 1 << 20].decode("utf-8-sig", "replace"), newline="")), [])
    if missing := [name for name in required if name not in names]:
        comma = (
            " (its names are not separated by commas)"
            if len(names) == 1 and re.search(r"[;\t|]", names[0])
            else ""
        )
        for name in missing:
            near = nearest_hint(name, [n for n in names if n not in required] or required)
            problems.append(Problem(path.name, f"the column is missing{comma}", 1, name, None, near))
        return None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        problems.append(
            Problem(
                path.name,
                f"wrong encoding: text is not UTF-8 (first at byte {error.start:,})",
                accepted="UTF-8 text",
            )
        )
        return None
    kinds = {name: _TEXT if name in _DISTINCT else _CODED for name in names}
    odd: list[Any] = []
    for threads in (True, False):  # one thread alone knows the rows' numbers
        odd.clear()
        table = pa.csv.read_csv(
            pa.BufferReader(data if b"\n" in data else data + b"\n"),
            read_options=pa.csv.ReadOptions(use_threads=threads),
            parse_options=pa.csv.ParseOptions(
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=lambda row: odd.append(row) or "skip",
            ),
            convert_options=pa.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )
        if not odd:
            break
    for row in odd[:20]:
        message = f"row has {row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
        problems.append(Problem(path.name, message, row.number, None, row.text, f"{len(names)} cells"))
    if odd:
        return None
    frame = table.cast(pa.schema(list(kinds.items()))).unify_dictionaries().to_pandas()
    blank = np.logical_and.reduce([(frame[name] == "").to_numpy() for name in names])
    return Table(path.name, frame[~blank].reset_index(drop=True), np.flatnonzero(~blank) + 2)


def positions(ids: Any, wanted: Any) -> NDArray[np.int64]:
    """Index among `ids` of each wanted text [wanted], or -1."""
    found = pc.index_in(as_texts(wanted), value_set=as_texts(ids))
    at: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return at


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A checked image set; see the module for its tables."""

    root: Path
    images: pd.DataFrame
    prompts: pd.DataFrame
    labels: pd.DataFrame
    attributes: dict[str, Attribute] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | str, *, require_labels: bool = False) -> ImageSet:
        """Read and check a folder.

        Raises:
            DataError: every mistake with file, row, column and value.
        """
        root, problems = Path(folder), Problems()
        attributes = read_attributes(root)
        images, prompts = (
            read_table(root / f"{name}.csv", COLUMNS[name], problems) for name in ("images", "prompts")
        )
        path = root / "labels.csv"
        labels = read_table(path, COLUMNS["labels"], problems) if path.exists() else None
        for table in (images, prompts, labels):
            if table is not None:
                _check_cells(table, problems)
        if images is not None and prompts is not None:
            _check_keys(images, prompts, labels, problems)
        if labels is not None:
            _check_labels(labels, attributes, problems)
        problems.raise_if_any()
        assert images is not None and prompts is not None  # noqa: S101 - else a problem was raised
        frame = pd.DataFrame(columns=[*COLUMNS["labels"]], dtype="str") if labels is None else labels.frame
        if "reason" not in frame:
            frame = frame.assign(reason="")
        return cls(root, images.frame, prompts.frame, frame, attributes)

    @property
    def store(self) -> ImageStore:
        """Where the images' files are read."""
        return ImageStore(self.root)

    def truth(self, attribute: str) -> pd.DataFrame:
        """Consensus label and reason of each image, in the order of `images`; empty where nobody labelled it."""
        names = [*self.attributes[attribute].labels, ""]
        codes, reasons = self._truth(self.attributes[attribute])
        label = np.array(names, object)[np.minimum(codes, len(names) - 1)]
        return pd.DataFrame({"image_id": self.images["image_id"], "label": label, "reason": reasons})

    def truth_codes(self, attribute: Attribute) -> NDArray[np.int8]:
        """Code of each image's consensus [image], as `attributes` lists them; K+2: nobody labelled it."""
        return self._truth(attribute)[0]

    def _truth(self, attribute: Attribute) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
        """Consensus by the rule of Lyu 2025, section 3.3; the order of the rows has no influence."""
        names, n = attribute.labels, len(self.images)
        labels = self.labels[(self.labels["attribute"] == attribute.name).to_numpy()]
        image = positions(self.images["image_id"], labels["image_id"])
        label = pd.Categorical(labels["label"].astype("str"), categories=names).codes.astype(np.int16)
        agreed = np.full(n, -1, np.int16)
        agreed[image] = label  # of several assignments the last stays: any one label,
        agreed[image[label != agreed[image]]] = -2  # and -2 where another row differs from it
        final = (labels["annotator"] == ADJUDICATOR).to_numpy()
        agreed[image[final]] = label[final]
        said = np.flatnonzero((labels["reason"] != "").to_numpy() & (label == agreed[image]))
        who = labels["annotator"].iloc[said].astype("str").to_numpy()
        said = said[np.lexsort((who, ~final[said]))][::-1]  # the adjudicator's, else the first name's, stays
        reason = np.full(n, "", object)
        reason[image[said]] = labels["reason"].iloc[said].astype("str").to_numpy()
        reason[agreed == -2] = "disagreement"
        codes = np.select([agreed == -2, agreed == -1], [names.index(LOW_QUALITY), len(names)], agreed)
        return codes.astype(np.int8), reason

    def fingerprint(self) -> str:
        """The sha256 of the three tables' content."""
        digest = hashlib.sha256()
        optional = [c for c in self.prompts if c not in COLUMNS["prompts"] and (self.prompts[c] != "").any()]
        for name, frame, columns in (
            ("images", self.images, [c for c in (*COLUMNS["images"], "seed_image_id") if c in self.images]),
            ("prompts", self.prompts, [*COLUMNS["prompts"], *optional]),
            ("labels", self.labels, [*COLUMNS["labels"], "reason"]),
        ):
            digest.update(f"{name} {len(frame)}\n".encode())
            for column in columns:
                digest.update(f"{column}\n".encode())
                cells = as_texts(frame[column].astype("str"))
                digest.update(pc.binary_length(cells).to_numpy().astype("<i8").tobytes())
                digest.update("".join(cells.to_pylist()).encode())
        return digest.hexdigest()


def _check_cells(table: Table, problems: Problems) -> None:
    for column in table.frame.columns:
        if column not in _MAY_BE_EMPTY and not column.startswith("stated_"):
            problems.rows(table, column, table.where(column, r"^[\s\p{Z}]*$"), "empty cell", "some text")
        if column in _RESERVED:
            other = "any name but " + ", ".join(map(repr, _RESERVED[column]))
            problems.rows(table, column, table.where(column, set(_RESERVED[column])), "reserved name", other)
        if column not in ("prompt", "reason"):
            text = "text without line breaks, tabs or NUL"
            problems.rows(table, column, table.where(column, r"\p{Cc}"), "control character", text)
            blank = table.where(column, r"^[\s\p{Z}]+\S|\S[\s\p{Z}]+$")
            problems.rows(table, column, blank, "blanks around the text", "the text alone")


def _check_keys(images: Table, prompts: Table, labels: Table | None, problems: Problems) -> None:
    known = set(prompts.frame["prompt_id"].astype("str"))
    unknown = ~images.where("prompt_id", known)
    cells = images.frame["prompt_id"].astype("str")
    problems.rows(
        images,
        "prompt_id",
        unknown,
        "prompt_id that prompts.csv does not list",
        lambda i: nearest_hint(cells[i], known),
    )
    for table, column in ((images, "image_id"), (prompts, "prompt_id")):
        again = table.frame[column].duplicated().to_numpy()
        problems.rows(table, column, again, f"duplicate {column}", "one that no other row has")
    outside = images.where("path", r"^/|^[A-Za-z]:|\\|(?:^|/)\.\.(?:/|$)")
    problems.rows(images, "path", outside, "path that leaves the folder", "a path below the image set's folder")
    if labels is not None:
        strange = positions(images.frame["image_id"], labels.frame["image_id"]) < 0
        problems.rows(
            labels, "image_id", strange, "label for an unknown image", "an image_id that images.csv lists"
        )


def _check_labels(labels: Table, attributes: dict[str, Attribute], problems: Problems) -> None:
    frame = labels.frame
    problems.rows(
        labels,
        "attribute",
        ~labels.where("attribute", set(attributes)),
        "unknown attribute",
        ", ".join(attributes),
    )
    for name, a in attributes.items():
        own = (frame["attribute"] == name).to_numpy()
        problems.rows(
            labels,
            "label",
            own & ~labels.where("label", set(a.labels)),
            f"unknown label for {name}",
            ", ".join(a.labels),
        )
    if "reason" in frame:
        bad = (frame["label"] == LOW_QUALITY).to_numpy() & ~labels.where("reason", {"", *REASONS})
        problems.rows(
            labels, "reason", bad, f"unknown reason for {LOW_QUALITY}", ", ".join(REASONS) + ", or nothing"
        )
    key = frame[["image_id", "annotator", "attribute"]]
    again = key.duplicated().to_numpy()
    if again.any():
        first = frame.groupby(list(key), observed=True, sort=False)["label"].transform("first")
        differs = (frame["label"].astype("str") != first.astype("str")).to_numpy()
        say = "one label per image, annotator and attribute"
        problems.rows(labels, "label", again & ~differs, "duplicate label", say)
        problems.rows(
            labels, "label", again & differs, "label that contradicts an earlier one of the same annotator", say
        )
