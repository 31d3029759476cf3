"""Turns any table of human labels into an image set's own, with the help of a column and a value mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.table_reading import read_any_table, separator_hint
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, attribute_named, reasons_of
from detector_bench.vocabulary.columns import LABEL_COLUMNS, VALUE_COLUMN

_COLUMNS = (*LABEL_COLUMNS, VALUE_COLUMN)


@dataclass(frozen=True)
class LabelImport:
    """How to read a foreign label table.

    Attributes:
        columns: our column to theirs. Columns that are not named keep their own name. `label` may name several,
            separated by commas: each is then one annotator, who bears the column's name. Their measured values
            are read only if `value` names as many columns, in the same order.
        translations: their label or reason to ours. Values that are ours already need no entry.
        attribute: what the labels are about, where no column says so.
        annotator: whose labels they are, where no column says so.
    """

    columns: Mapping[str, str]
    translations: Mapping[str, str]
    attribute: str
    annotator: str

    def check(self) -> None:
        """Check the settings themselves.

        Raises:
            ConfigError: an unknown column of ours, attribute, or label of ours.
        """
        for ours, theirs in self.columns.items():
            if ours not in _COLUMNS:
                raise ConfigError(f"mapping: unknown column {ours!r}: {nearest_hint(ours, _COLUMNS)}")
            if not theirs.strip():
                raise ConfigError(f"mapping: {ours} is mapped to nothing; accepted: a column of the label file")
        attribute_named(self.attribute)
        known = {label for attribute in ATTRIBUTES.values() for label in attribute.labels}
        known.update(reasons_of(ATTRIBUTES.values()))
        for theirs, ours in self.translations.items():
            if ours not in known:
                raise ConfigError(f"values: {theirs!r} is mapped to {ours!r}: {nearest_hint(ours, known)}")

    def theirs(self, ours: str) -> str:
        """Their name of one of our columns."""
        return self.columns.get(ours, ours)


def import_labels(
    path: Path, *, settings: LabelImport, image_keys: ImageKeys, findings: Findings, notes: list[str]
) -> TextTable | None:
    """Read a foreign label table as one of ours; an empty label cell is no label, and counted in `notes`.

    The records keep the file name, rows and column names of the file that they come from, so that later
    mistakes are reported there. Records with an unknown image or label are reported and left out.

    Returns:
        The table, or None if it cannot be read; then `findings` says why.
    """
    wanted = {settings.theirs(name) for name in LABEL_COLUMNS} | set(_split(settings.theirs("label")))
    measured = settings.theirs(VALUE_COLUMN)
    table = read_any_table(path, findings, wanted=tuple(sorted(wanted)), numbers=(measured, *_split(measured)))
    if table is None:
        return None
    label_columns = _columns_named(table, settings.theirs("label"))
    if len(label_columns) > 1 and "annotator" in settings.columns:
        raise ConfigError("mapping: several label columns name the annotators already; leave out annotator")
    value_columns = _value_columns(table, label_columns, settings)
    if not _has_columns(table, label_columns, value_columns, settings, findings):
        return None
    images = image_keys.resolve(table, settings.theirs("image_id"), findings)
    parts = []
    for column, values in zip(label_columns, value_columns, strict=True):
        part = _labels_in(table, column, values, settings, is_annotator=len(label_columns) > 1)
        _report_unknown_labels(table, column, part, settings, findings)
        _report_lone_values(table, column, values, findings)
        parts.append(part[part["is_known"]])
    notes += _notes(table, label_columns, [len(part) for part in parts])
    rows = pd.concat(parts).sort_values("record", kind="stable")
    rows.insert(0, "image_id", images[rows["record"].to_numpy()])
    rows = rows[rows["image_id"] != ""]
    headings = {ours: settings.theirs(ours) for ours in _COLUMNS if table.has(settings.theirs(ours))}
    numbers = np.array([table.row(record) for record in rows["record"].tolist()], dtype=np.int64)
    columns = _COLUMNS if (rows[VALUE_COLUMN] != "").any() else LABEL_COLUMNS
    return _text_table(table.file, {name: rows[name] for name in columns}, rows=numbers, headings=headings)


class ImageKeys:
    """Finds the image that a cell of a foreign label table means.

    Args:
        ids: the images' ids.
        paths: for each, its path below the tree, and the path in the image set where that differs.
    """

    def __init__(self, ids: list[str], paths: Sequence[tuple[str, ...]]) -> None:
        self._ids = set(ids)
        self._by_path = {path: name for name, names in zip(ids, paths, strict=True) for path in names}
        self._by_file_name: dict[str, dict[str, str]] = {}
        for name, names in zip(ids, paths, strict=True):
            self._by_file_name.setdefault(names[0].rpartition("/")[2], {})[names[0]] = name
        self._example = paths[0][0] if paths else "t2i_model/prompt/0001.png"

    def resolve(self, table: TextTable, column: str, findings: Findings) -> NDArray[np.object_]:
        """The image id of each record, or "" where the cell means no image or several; those are reported."""
        encoded = table.encoded(column)
        found = [self._image(value) for value in encoded.texts]
        unknown = np.array([item is None for item in found], dtype=bool)
        ambiguous = np.array([item == "" for item in found], dtype=bool)
        findings.add_rows(
            table,
            column,
            np.flatnonzero(unknown[encoded.codes]),
            message="label for an unknown image",
            accepted=f"an image id, a path such as {self._example!r}, or a file name",
        )
        findings.add_rows(
            table,
            column,
            np.flatnonzero(ambiguous[encoded.codes]),
            message="file name that several images have",
            accepted=lambda index: "one of " + ", ".join(sorted(self._namesakes(table.cell(column, index)))),
        )
        ids: NDArray[np.object_] = np.array([item or "" for item in found], dtype=object)[encoded.codes]
        return ids

    def _namesakes(self, value: str) -> dict[str, str]:
        return self._by_file_name.get(_as_path(value), {})

    def _image(self, value: str) -> str | None:
        if value.strip() in self._ids:
            return value.strip()
        if _as_path(value) in self._by_path:
            return self._by_path[_as_path(value)]
        namesakes = self._namesakes(value)
        if len(namesakes) == 1:
            return next(iter(namesakes.values()))
        return "" if namesakes else None


def _as_path(value: str) -> str:
    return value.strip().replace("\\", "/").removeprefix("./")


def _split(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",") if name.strip()]


def _columns_named(table: TextTable, theirs: str) -> list[str]:
    return [theirs] if table.has(theirs) else list(dict.fromkeys(_split(theirs)))


def _value_columns(table: TextTable, label_columns: list[str], settings: LabelImport) -> Sequence[str | None]:
    """For each label column the one with its measured values, or None."""
    if VALUE_COLUMN in settings.columns:
        columns = _columns_named(table, settings.columns[VALUE_COLUMN])
        if len(columns) != len(label_columns):
            raise ConfigError(
                f"mapping: value is {', '.join(columns)} and label is {', '.join(label_columns)}; "
                "accepted: as many columns of values as of labels, in the same order"
            )
        return columns
    is_ours = table.has(VALUE_COLUMN) and VALUE_COLUMN not in (*settings.columns.values(), *label_columns)
    return [VALUE_COLUMN if is_ours and len(label_columns) == 1 else None] * len(label_columns)


def _has_columns(
    table: TextTable,
    label_columns: list[str],
    value_columns: Sequence[str | None],
    settings: LabelImport,
    findings: Findings,
) -> bool:
    needed = dict.fromkeys(label_columns, "label")
    needed[settings.theirs("image_id")] = "image_id"
    split = ("label", VALUE_COLUMN)
    needed.update({theirs: ours for ours, theirs in settings.columns.items() if ours not in split})
    needed.update({column: VALUE_COLUMN for column in value_columns if column is not None})
    missing = [theirs for theirs in needed if not table.has(theirs)]
    for theirs in missing:
        hint = separator_hint(table) or "; name another in the mapping"
        message = f"no such column to read {needed[theirs]} from{hint}"
        header = ", ".join(table.columns)
        findings.add(Problem(table.file, message, row=1, column=theirs, value=theirs, accepted=header))
    return not missing


def _labels_in(
    table: TextTable, column: str, values: str | None, settings: LabelImport, *, is_annotator: bool
) -> pd.DataFrame:
    """One label column as records with `record` (index in `table`) and whether the label is known."""

    def own(ours: str, otherwise: str) -> pd.Series[str]:
        theirs = settings.theirs(ours)
        if table.has(theirs):
            return _cells(table, theirs)
        return pd.Series(otherwise, index=range(len(table)), dtype="str")

    cells = _cells(table, column)
    frame = pd.DataFrame(
        {
            "record": np.arange(len(table)),
            "annotator": column if is_annotator else own("annotator", settings.annotator),
            "attribute": own("attribute", settings.attribute),
            "label": cells.replace(dict(settings.translations)),
            "reason": own("reason", "").replace(dict(settings.translations)),
            VALUE_COLUMN: "" if values is None else _cells(table, values),
        }
    )
    frame = frame.loc[(cells != "").to_numpy()].assign(is_known=True)
    for name, attribute in ATTRIBUTES.items():
        frame.loc[(frame["attribute"] == name) & ~frame["label"].isin(attribute.labels), "is_known"] = False
    return frame


def _notes(table: TextTable, columns: Sequence[str], labels: Sequence[int]) -> list[str]:
    """What was made of a file's label columns: empty cells are no labels, and each of several is an annotator."""
    found = []
    cells = len(columns) * len(table)
    if (empty := cells - sum(labels)) > 0:
        found.append(f"{table.file}: {empty:,} of {cells:,} label cells are empty, and no labels")
    if len(columns) > 1:
        each = ", ".join(
            f"{column} ({number:,} label{'' if number == 1 else 's'})"
            for column, number in zip(columns, labels, strict=True)
        )
        found.append(
            f"{table.file}: {len(columns)} label columns are {len(columns)} annotators who labelled alone: {each};"
            f" what was decided after a discussion belongs to an annotator called {ADJUDICATOR!r}"
        )
    return found


def _cells(table: TextTable, column: str) -> pd.Series[str]:
    cells: pd.Series[str] = table.column(column).to_pandas().astype("str")
    return cells.str.strip()


def _report_unknown_labels(
    table: TextTable, column: str, labels: pd.DataFrame, settings: LabelImport, findings: Findings
) -> None:
    for name, attribute in ATTRIBUTES.items():
        unknown = labels["record"][(labels["attribute"] == name) & ~labels["is_known"]]
        mapped = [theirs for theirs, ours in settings.translations.items() if ours in attribute.labels]
        findings.add_rows(
            table,
            column,
            unknown.to_numpy(),
            message=f"unknown label for {name}",
            accepted=", ".join([*attribute.labels, *mapped]) + "; map others with values",
        )


def _report_lone_values(table: TextTable, column: str, values: str | None, findings: Findings) -> None:
    if values is None:
        return
    alone = ((_cells(table, column) == "") & (_cells(table, values) != "")).to_numpy(dtype=bool)
    findings.add_rows(
        table,
        values,
        np.flatnonzero(alone),
        message="value without a label",
        accepted=f"a label in {column}, or an empty cell",
    )


def _text_table(
    file: str,
    columns: Mapping[str, object],
    *,
    rows: NDArray[np.int64] | None,
    headings: Mapping[str, str],
) -> TextTable:
    data = pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})
    return TextTable(file, data, rows, headings=headings)
