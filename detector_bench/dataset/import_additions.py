"""What an image set becomes when images, prompts and labels are added: nothing that is there changes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set_tables import Tables
from detector_bench.dataset.table_reading import SUFFIXES, read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, VALUE_COLUMN, WEIGHT_COLUMN

_ANSWER = ("label", VALUE_COLUMN)
"""What two rows of labels about the same must agree on."""


@dataclass(frozen=True)
class Additions:
    """What comes to an image set.

    Attributes:
        whole: its tables with what comes, to be checked together.
        tables: those that grow, in the order in which they are to be written; their rows of before come first and
            are as they were, with columns that nobody here knows.
        images: new images.
        prompts: new prompts.
        labels: new labels.
        known_images: images that are there already.
        known_labels: labels that are there already.
    """

    whole: Tables
    tables: tuple[tuple[str, TextTable], ...]
    images: int
    prompts: int
    labels: int
    known_images: int
    known_labels: int


def grown_tables(new: Tables, destination: Path, findings: Findings) -> Additions:
    """The tables of an image set and what is added; contradictions are reported.

    An image that is there already must be the same image, a prompt the same prompt, and a label of the same
    annotator about the same attribute of an image the same label.

    Args:
        new: what comes.
        destination: the image set's folder, whose tables are sound.
        findings: takes mistakes, at the rows of what comes.
    """
    assert new.images is not None  # noqa: S101 - an import always has these
    assert new.prompts is not None  # noqa: S101
    own = {stem: _own_table(destination, stem, findings) for stem in ("prompts", "images", "labels")}
    prompts = _new_rows(own["prompts"], new.prompts, ["prompt_id"], ("category", "word", "prompt"), findings)
    answers = tuple(name for name in (*IMAGE_COLUMNS[1:], SEED_COLUMN) if new.images.has(name))
    images = _new_rows(own["images"], new.images, ["image_id"], answers, findings)
    labels = np.empty(0, dtype=np.intp)
    if new.labels is not None:
        labels = _new_rows(own["labels"], new.labels, ["image_id", "annotator", "attribute"], _ANSWER, findings)
    grown = {
        "prompts": _joined("prompts.csv", own["prompts"], new.prompts, prompts),
        "images": _joined("images.csv", own["images"], new.images, images),
        "labels": _joined("labels.csv", own["labels"], new.labels, labels),
    }
    counts = {"prompts": len(prompts), "images": len(images), "labels": len(labels)}
    whole = Tables(
        images=_known(grown["images"], IMAGE_COLUMNS, (SEED_COLUMN,)),
        prompts=grown["prompts"],
        labels=None if grown["labels"] is None else _known(grown["labels"], LABEL_COLUMNS, (VALUE_COLUMN,)),
        attributes=new.attributes,
    )
    return Additions(
        whole,
        tuple((stem, table) for stem, table in grown.items() if table is not None and counts[stem]),
        images=len(images),
        prompts=len(prompts),
        labels=len(labels),
        known_images=len(new.images) - len(images),
        known_labels=0 if new.labels is None else len(new.labels) - len(labels),
    )


def _own_table(destination: Path, stem: str, findings: Findings) -> TextTable | None:
    """A table as it is stored, with all its columns; None: there is none."""
    for path in (destination / f"{stem}{suffix}" for suffix in SUFFIXES):
        if path.is_dir():
            message = "the table lies in several files, to which nothing can be added"
            findings.add(
                Problem(path.name, message, accepted=f"one file, or another destination; {_as_one(path)}")
            )
            return None
        if path.exists():
            columns = (*IMAGE_COLUMNS, *LABEL_COLUMNS)
            return read_any_table(path, findings, wanted=columns, numbers=(VALUE_COLUMN, WEIGHT_COLUMN))
    return None


def _as_one(folder: Path) -> str:
    """How somebody makes one file of several; a column that only some have is kept."""
    whole = folder.with_name(f"{folder.stem}_whole.parquet")
    program = (
        "import sys; from pathlib import Path; import pandas as pd; "
        "pd.concat(map(pd.read_parquet, sorted(Path(sys.argv[1]).glob('[!._]*.parquet'))))"
        ".to_parquet(sys.argv[2], index=False)"
    )
    files = f"{shlex.quote(str(folder))} {shlex.quote(str(whole))}"
    return f'`python -c "{program}" {files}` makes one file, to put in the folder\'s place'


def _known(table: TextTable | None, needed: Sequence[str], optional: Sequence[str]) -> TextTable | None:
    if table is None:
        return None
    return table.select(name for name in (*needed, *optional) if table.has(name))


def _new_rows(
    own: TextTable | None, new: TextTable, keys: list[str], answers: Sequence[str], findings: Findings
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The rows of what comes that are not there yet; those that contradict what is there are reported."""
    if own is None or not len(own):
        return np.arange(len(new), dtype=np.intp)
    before = pd.MultiIndex.from_frame(_frame(own, keys))
    at = before[~before.duplicated()].get_indexer(pd.MultiIndex.from_frame(_frame(new, keys)))
    first = np.flatnonzero(~before.duplicated())
    known = np.flatnonzero(at >= 0)
    for column in answers:
        if not new.has(column) or not own.has(column):
            continue
        old = np.array(own.column(column).take(pa.array(first[at[known]])).to_pylist(), dtype=object)
        says = np.array(new.column(column).take(pa.array(known)).to_pylist(), dtype=object)
        # Who says nothing contradicts nobody.
        differs = known[(old != says) & (says != "") & ~_is_default(column, says)]
        place = dict(zip(known.tolist(), first[at[known]].tolist(), strict=True))

        def accepted(index: int, column: str = column, place: dict[int, int] = place) -> str:
            cell, row = own.cell(column, place[index]), own.row(place[index])
            return f"{cell!r}, as row {row} of {own.file} says; or an image set of its own"

        what = f"of {new.cell(keys[0], int(differs[0]))!r}" if len(differs) else ""
        findings.add_rows(
            new, column, differs, message=f"{column} {what} contradicts the one that is there", accepted=accepted
        )
    return np.flatnonzero(at < 0)


def _is_default(column: str, cells: np.ndarray[tuple[int], np.dtype[np.object_]]) -> np.ndarray:
    """What an import says of a prompt when it knows nothing."""
    if column == "word":  # made from the folder's name
        return np.ones(len(cells), dtype=bool)
    return np.asarray(cells == "unknown") if column == "category" else np.zeros(len(cells), dtype=bool)


def _frame(table: TextTable, columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: table.column(name).to_pylist() for name in columns})


def _joined(
    file: str, own: TextTable | None, new: TextTable | None, rows: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> TextTable | None:
    """The rows of before, then the new ones; a column that only some have is empty in the others."""
    if own is None or new is None:
        return own if new is None else new
    parts = [(own, np.arange(len(own))), (new, rows)]
    columns = {}
    for name in dict.fromkeys([*own.columns, *new.columns]):
        cells = [
            table.column(name).take(pa.array(at)).to_pylist() if table.has(name) else [""] * len(at)
            for table, at in parts
        ]
        columns[name] = pa.array([*cells[0], *cells[1]], pa.large_string())
    starts = [(own.file, 0), (new.file, len(own))] if new.rows is None and len(rows) == len(new) else ()
    numbers = np.concatenate([[table.row(int(index)) for index in at] for table, at in parts]).astype(np.int64)
    return TextTable(file, pa.table(columns), numbers if not starts else None, parts=starts)
