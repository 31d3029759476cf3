"""Turns any table of human labels into an image set's own: columns and labels recognised, or as somebody says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.foreign.column_meanings import columns_for, plain_name
from detector_bench.dataset.foreign.table_files import read_foreign_table
from detector_bench.dataset.foreign.table_form import TableOptions, as_plain_number, decimal_of
from detector_bench.dataset.image_keys import ImageKeys
from detector_bench.dataset.import_decisions import ImportChoice, ImportNews, UndecidedImportError
from detector_bench.dataset.label_columns import (
    LabelColumn,
    LabelColumnSettings,
    find_label_columns,
    guessed_label,
)
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, Attribute, attribute_named, reasons_of
from detector_bench.vocabulary.columns import LABEL_COLUMNS, VALUE_COLUMN

_COLUMNS = (*LABEL_COLUMNS, VALUE_COLUMN)


@dataclass(frozen=True)
class LabelImport:
    """How to read a foreign label table.

    Attributes:
        columns: our column, or an attribute, to theirs. Columns that are not named are recognised by their own
            names. `label`, or an attribute, may name several, separated by commas: each is then one annotator, who
            bears the column's name. Their measured values are read only if `value` names as many columns, in the
            same order.
        translations: their label or reason to ours; "" leaves such labels out. Values that are ours already, in
            whatever case, need no entry.
        attribute: what the labels are about, where no column says so.
        annotator: whose labels they are, where no column says so.
        annotators: whose labels count, of columns or of the column of annotators; empty: everybody's.
        adjudicator: which of them is what was decided after a discussion; "" for none.
        options: how the file is written.
        allow_unknown_images: whether labels of images that are not there are left out, and counted.
    """

    columns: Mapping[str, str]
    translations: Mapping[str, str]
    attribute: str
    annotator: str
    annotators: tuple[str, ...] = ()
    adjudicator: str = ""
    options: TableOptions = field(default_factory=TableOptions)
    allow_unknown_images: bool = False

    def check(self) -> None:
        """Check the settings themselves.

        Raises:
            ConfigError: an unknown column of ours, attribute, or label of ours.
        """
        accepted = (*_COLUMNS, *ATTRIBUTES)
        for ours, theirs in self.columns.items():
            if ours not in accepted:
                raise ConfigError(f"mapping: unknown column {ours!r}: {nearest_hint(ours, accepted)}")
            if not theirs.strip():
                raise ConfigError(f"mapping: {ours} is mapped to nothing; accepted: a column of the label file")
        attribute_named(self.attribute)
        self.options.check()
        known = {label for attribute in ATTRIBUTES.values() for label in attribute.labels}
        known.update(reasons_of(ATTRIBUTES.values()))
        for theirs, ours in self.translations.items():
            if ours and ours not in known:
                raise ConfigError(f"values: {theirs!r} is mapped to {ours!r}: {nearest_hint(ours, known)}")


def import_labels(
    path: Path, *, settings: LabelImport, image_keys: ImageKeys, findings: Findings, news: ImportNews
) -> TextTable | None:
    """Read a foreign label table as one of ours; an empty label cell is no label, and counted in the notes.

    The records keep the file name, rows and column names of the file that they come from, so that later
    mistakes are reported there. Records with an unknown image or label are reported and left out.

    Returns:
        The table, or None if it cannot be read; then `findings` says why.

    Raises:
        UndecidedImportError: somebody must say who is an annotator, or what a number means.
    """
    table, form = read_foreign_table(path, findings, settings.options)
    if table is None:
        return None
    news.recognised.append((f"labels {path.name}", f"{form}; {len(table):,} rows"))
    unread = "" if form is None else form.left_out
    if unread:
        news.notes.append(f"{path.name}: {unread}")
    return _LabelReading(table, settings, findings, news, unread).read(image_keys)


@dataclass(frozen=True)
class _LabelReading:
    """A table of labels that is being read."""

    table: TextTable
    settings: LabelImport
    findings: Findings
    news: ImportNews
    unread: str = ""
    """What of the file is in no table."""

    def read(self, image_keys: ImageKeys) -> TextTable | None:
        table, settings = self.table, self.settings
        own = LabelColumnSettings(settings.columns, settings.attribute, settings.annotators, settings.adjudicator)
        columns, left_out = find_label_columns(table, own)
        image_column = image_keys.column_of(table, settings.columns)
        if not self._has_columns(columns, image_column):
            return None
        assert image_column is not None  # noqa: S101 - a missing column is a mistake
        images = image_keys.resolve(
            table, image_column, self.findings, self.news, allow_unknown=settings.allow_unknown_images
        )
        parts = [self._labels_in(column) for column in columns]
        self._report_unknown_labels(columns, parts)
        self._say_what_was_read(columns, left_out, image_column, parts)
        parts = [part[part["is_known"]] for part in parts]
        rows = pd.concat(parts).sort_values("record", kind="stable")
        rows.insert(0, "image_id", images[rows["record"].to_numpy()])
        rows = rows[rows["image_id"] != ""]
        headings = {name: theirs for name in _COLUMNS if (theirs := self._theirs(name)) is not None}
        headings["image_id"] = image_column
        if len(columns) == 1:
            headings["label"] = columns[0].column
        numbers = np.array([table.row(record) for record in rows["record"].tolist()], dtype=np.int64)
        names = _COLUMNS if (rows[VALUE_COLUMN] != "").any() else LABEL_COLUMNS
        return _text_table(table.file, {name: rows[name] for name in names}, rows=numbers, headings=headings)

    def _theirs(self, ours: str) -> str | None:
        """The column of the file that is one of ours; None: there is none."""
        found = columns_for(ours, self.table.columns, self.settings.columns)
        return found[0] if found and self.table.has(found[0]) else None

    def _has_columns(self, columns: Sequence[LabelColumn], image_column: str | None) -> bool:
        table, said = self.table, self.settings.columns
        needed = {each.column: each.attribute or "label" for each in columns}
        if not columns:
            needed["label"] = "label"
        needed.setdefault(image_column or "image_id", "image_id")
        split = ("label", VALUE_COLUMN, *ATTRIBUTES)
        needed.update({theirs: ours for ours, theirs in said.items() if ours not in split})
        needed.update({each.numbers: VALUE_COLUMN for each in columns if each.numbers is not None})
        missing = [theirs for theirs in needed if not table.has(theirs)]
        for theirs in missing:
            ours = needed[theirs]
            message = f"no such column to read {ours} from; --column {ours}=THEIRS names another"
            header = ", ".join(table.columns) + (f"; {self.unread}" if self.unread else "")
            self.findings.add(Problem(table.file, message, row=1, column=theirs, value=theirs, accepted=header))
        return not missing

    def _labels_in(self, column: LabelColumn) -> pd.DataFrame:
        """One label column as records with `record` (index in `table`) and whether the label is known."""
        table, settings = self.table, self.settings
        cells = _cells(table, column.column)

        def own(ours: str, said: str, otherwise: str) -> object:
            theirs = self._theirs(ours)
            if said or theirs is None or theirs == column.column:
                return said or otherwise
            texts = _cells(table, theirs)
            return texts.mask(texts == "", otherwise) if otherwise and ours not in settings.columns else texts

        reasons = (
            "" if column.reasons is None else _cells(table, column.reasons).replace(dict(settings.translations))
        )
        frame = pd.DataFrame(
            {
                "record": np.arange(len(table)),
                "annotator": own("annotator", column.annotator, settings.annotator),
                "attribute": own("attribute", column.attribute, settings.attribute),
                "label": cells.replace(dict(settings.translations)),
                "reason": reasons,
                VALUE_COLUMN: "" if column.numbers is None else self._numbers(column.numbers),
            }
        )
        self._report_lone_values(column)
        if column.numbers == column.column:
            frame = self._labels_by_value(frame, column)
        is_label = (frame["label"] != "").to_numpy()
        frame = self._of_annotators(frame[is_label].assign(is_known=True))
        for name, attribute in ATTRIBUTES.items():
            of_attribute = frame["attribute"] == name
            if not of_attribute.any():
                continue
            ours = {plain_name(label): label for label in attribute.labels}
            written = frame.loc[of_attribute, "label"]
            frame.loc[of_attribute, "label"] = written.map(
                {text: ours.get(plain_name(text), text) for text in written.unique()}
            )
            frame.loc[of_attribute & ~frame["label"].isin(attribute.labels), "is_known"] = False
        return frame

    def _labels_by_value(self, frame: pd.DataFrame, column: LabelColumn) -> pd.DataFrame:
        """Labels of a column that is its own column of values: classes in whose ranges the numbers lie."""
        for name, attribute in ATTRIBUTES.items():
            if attribute.unit is None or not attribute.starts:
                continue
            numbers = pd.to_numeric(frame[VALUE_COLUMN].where(frame["attribute"] == name), errors="coerce")
            inside = numbers.between(attribute.unit.lowest, attribute.unit.highest)
            classes = np.searchsorted(np.array(attribute.starts), numbers[inside], side="right") - 1
            frame.loc[inside, "label"] = np.array(attribute.classes)[classes]
            if inside.any():
                starts = zip(attribute.classes, attribute.starts, strict=True)
                ranges = ", ".join(f"{label} from {start:g}" for label, start in starts)
                self.news.notes.append(
                    f"{self.table.file}, column {column.column}: {inside.sum():,} labels of {name} follow from "
                    f"the {attribute.unit.name}: {ranges}"
                )
        return frame

    def _of_annotators(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of those whose labels count, where a column says whose they are."""
        settings = self.settings
        if self._theirs("annotator") is None or not (settings.annotators or settings.adjudicator):
            return frame
        wanted = frame["annotator"].isin((*settings.annotators, settings.adjudicator, ADJUDICATOR))
        if settings.annotators and not wanted.all():
            others = ", ".join(sorted(set(frame["annotator"][~wanted])))
            self.news.notes.append(
                f"{self.table.file}: {(~wanted).sum():,} labels of others are left out: {others}"
            )
            frame = frame[wanted]
        is_decided = frame["annotator"] == settings.adjudicator
        return frame.assign(annotator=frame["annotator"].mask(is_decided, ADJUDICATOR))

    def _numbers(self, column: str) -> pd.Series[str]:
        cells = _cells(self.table, column)
        decimal = self.settings.options.decimal or decimal_of(cells.unique().tolist())
        if not decimal:
            example = next(cell for cell in cells if "," in cell)
            raise UndecidedImportError(
                f"{self.table.file}, column {column}: is the comma in {example!r} the decimal sign?",
                [
                    ImportChoice("yes", ("--decimal", ",")),
                    ImportChoice("no, it groups digits", ("--decimal", ".")),
                ],
            )
        if decimal == ",":
            self.news.recognised.append((f"column {column}", "numbers with a decimal comma"))
        return cells.map({cell: as_plain_number(cell, decimal) for cell in cells.unique()})

    def _say_what_was_read(
        self,
        columns: Sequence[LabelColumn],
        left_out: Sequence[str],
        image_column: str,
        parts: Sequence[pd.DataFrame],
    ) -> None:
        """Say what was made of the columns: empty cells are no labels, each of several is an annotator."""
        table, notes, recognised = self.table, self.news.notes, self.news.recognised
        recognised.append((f"column {image_column}", "image_id"))
        for name in ("annotator", "attribute"):
            if (theirs := self._theirs(name)) is not None:
                recognised.append((f"column {theirs}", name))
        beside = ("label", "reason", VALUE_COLUMN)  # those that are read stand with their column of labels
        used = {image_column, *(self._theirs(name) for name in _COLUMNS if name not in beside)}
        for column in columns:
            whose = f" by {column.annotator}" if column.annotator else ""
            recognised.append(
                (f"column {column.column}", f"labels of {column.attribute or 'an attribute'}{whose}")
            )
            used |= {column.column, column.numbers, column.reasons}
        if unused := [name for name in table.columns if name not in used]:
            recognised.append(("columns not used", ", ".join(unused)))
        cells = len(columns) * len(table)
        empty = sum(int((_cells(table, column.column) == "").sum()) for column in columns)
        if empty > 0:
            notes.append(f"{table.file}: {empty:,} of {cells:,} label cells are empty, and no labels")
        unwanted = [theirs for theirs, ours in self.settings.translations.items() if not ours]
        if unwanted:
            number = sum(int(_cells(table, column.column).isin(unwanted).sum()) for column in columns)
            notes.append(f"{table.file}: {number:,} labels are left out: {', '.join(map(repr, unwanted))}")
        if left_out:
            notes.append(f"{table.file}: columns of labels that are left out: {', '.join(left_out)}")
        self._say_who(columns, parts)

    def _say_who(self, columns: Sequence[LabelColumn], parts: Sequence[pd.DataFrame]) -> None:
        people = [column.annotator for column in columns]
        if len(columns) < 2 or not all(people) or len(set(people)) < len(people):
            return
        each = ", ".join(
            f"{name} ({len(part):,} label{'' if len(part) == 1 else 's'})"
            for name, part in zip(people, parts, strict=True)
        )
        alone = [name for name in people if name != ADJUDICATOR]
        self.news.notes.append(
            f"{self.table.file}: {len(alone)} label columns are {len(alone)} annotators who labelled alone: "
            f"{each}; what was decided after a discussion belongs to an annotator called {ADJUDICATOR!r}"
        )

    def _report_unknown_labels(self, columns: Sequence[LabelColumn], parts: Sequence[pd.DataFrame]) -> None:
        for column, part in zip(columns, parts, strict=True):
            for name, attribute in ATTRIBUTES.items():
                of_attribute = part[(part["attribute"] == name) & ~part["is_known"]]
                translations = self.settings.translations
                mapped = [theirs for theirs, ours in translations.items() if ours in attribute.labels]
                self.findings.add_rows(
                    self.table,
                    column.column,
                    of_attribute["record"].to_numpy(),
                    message=f"unknown label for {name}",
                    accepted=", ".join([*attribute.labels, *mapped])
                    + "; --value THEIRS=OURS maps others"
                    + _hint_for_numbers(attribute, column, of_attribute["label"]),
                )
                guesses = {text: guessed_label(text, attribute.labels) for text in of_attribute["label"].unique()}
                # A command that leaves every label out would be no help.
                is_any_known = ((part["attribute"] == name) & part["is_known"]).any()
                if is_any_known or any(guesses.values()):
                    for text, guess in guesses.items():
                        self.news.remedy("--value", f"{text}={guess}")

    def _report_lone_values(self, column: LabelColumn) -> None:
        if column.numbers is None:
            return
        table = self.table
        alone = ((_cells(table, column.column) == "") & (_cells(table, column.numbers) != "")).to_numpy(dtype=bool)
        self.findings.add_rows(
            table,
            column.numbers,
            np.flatnonzero(alone),
            message="value without a label",
            accepted=f"a label in {column.column}, or an empty cell",
        )


def _hint_for_numbers(attribute: Attribute, column: LabelColumn, labels: pd.Series[str]) -> str:
    if attribute.unit is None or column.numbers is not None or not labels.str.fullmatch(r"\d+([.,]\d+)?").all():
        return ""
    said = f"--column {attribute.name}={column.column} --column {VALUE_COLUMN}={column.column}"
    return f"; if these are {attribute.unit.name}, {said} makes labels of them"


def _cells(table: TextTable, column: str) -> pd.Series[str]:
    cells: pd.Series[str] = table.column(column).to_pandas().astype("str")
    return cells.str.strip()


def _text_table(
    file: str,
    columns: Mapping[str, object],
    *,
    rows: NDArray[np.int64] | None,
    headings: Mapping[str, str],
) -> TextTable:
    data = pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns.items()})
    return TextTable(file, data, rows, headings=headings)
