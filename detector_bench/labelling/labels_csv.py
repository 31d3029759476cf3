"""Labels as `labels.csv` of an image set, in and out, and answers to the questions about pairs as a long CSV."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.dataset.image_set_tables import Tables
from detector_bench.dataset.table_reading import read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.dataset.validation import validate
from detector_bench.errors import ConfigError, Problem, nearest_hint
from detector_bench.labelling.incoming import Imported, IncomingLabel, bring_in
from detector_bench.labelling.questions import PAIR_QUESTIONS, Task
from detector_bench.labelling.records import Choice
from detector_bench.labelling.store import LabelStore
from detector_bench.vocabulary import LOW_QUALITY
from detector_bench.vocabulary.columns import LABEL_COLUMNS, VALUE_COLUMN

PAIR_COLUMNS = ("seed_image_id", "image_id", "annotator", "question", "answer", "label", "reason")
"""One row per pair, annotator and question. `question` is gender, age or skin_tone; `answer` is the letter of
`PAIR_LETTERS`, or empty where the pair could not be judged: then `label` and `reason` say why."""

_LETTERS = "ABCD"
PAIR_LETTERS: dict[str, dict[str, str]] = {
    name: dict(zip(question.classes, _LETTERS, strict=False)) for name, question in PAIR_QUESTIONS.items()
}
"""By question and label, the letter on BiasPainter's sheet; `gender_change` is `gender` there, and so on."""


def labels_csv(store: LabelStore, *, include_changed: bool = False) -> str:
    """The labels that count as the text of a `labels.csv`, or of a pair task as a CSV with `PAIR_COLUMNS`.

    Args:
        store: whose labels.
        include_changed: also labels on other content than an image has now.
    """
    if store.settings.task is Task.IMAGES:
        table = store.labels(include_changed=include_changed)
    else:
        rows = []
        for given in store.given(include_changed=include_changed):
            images, choice = dict(given.item.images), given.choice
            letter = PAIR_LETTERS[given.question].get(choice.label, "")
            question = given.question.removesuffix("_change")
            reason = choice.reason or choice.note
            place = (images["seed"], images["edited"], given.annotator, question)
            rows.append((*place, letter, choice.label, reason))
        table = pd.DataFrame(rows, columns=list(PAIR_COLUMNS), dtype="str")
    return table.to_csv(index=False, lineterminator="\n")


def import_labels_csv(store: LabelStore, path: Path, *, overwrite: bool = False) -> Imported:
    """Put the labels of a `labels.csv` or `labels.parquet` into a store of the image task.

    Labels of attributes that the store does not ask for are left out, and counted.

    Args:
        store: where to.
        path: the file; its columns as in `labels.csv`, with an optional `value`.
        overwrite: whether a different label of the same annotator is replaced.

    Raises:
        DataError: with all mistakes of the file at once, or labels that contradict the store.
        ConfigError: the store is one of pairs, or the file has none of the attributes.
    """
    if store.settings.task is not Task.IMAGES:
        raise ConfigError("labels.csv holds labels of single images; this store is one of pairs")
    findings = Findings()
    table = _read(path, store.image_set, findings)
    labels, left_out = _labels_in(table, store, findings)
    if left_out and not labels and not findings:
        asked = ", ".join(store.settings.attributes)
        raise ConfigError(f"{path.name} has no label of what this store asks for ({asked})")
    imported = bring_in(store, labels, findings, overwrite=overwrite)
    return Imported(imported.stored, imported.known, left_out)


def _read(path: Path, image_set: ImageSet, findings: Findings) -> TextTable:
    table = read_any_table(path, findings, wanted=(*LABEL_COLUMNS, VALUE_COLUMN))
    findings.raise_if_any()
    assert table is not None  # noqa: S101 - a table that cannot be read is a mistake
    for name in LABEL_COLUMNS[:-1]:
        if not table.has(name):
            hint = nearest_hint(name, table.columns)
            findings.add(
                Problem(table.file, f"the column is missing; {hint}", 1, name, None, ",".join(LABEL_COLUMNS))
            )
    findings.raise_if_any()
    known = table.select(name for name in LABEL_COLUMNS if table.has(name))
    validate(Tables(_as_table(image_set.images, "images.csv"), None, known), findings, require_labels=False)
    findings.raise_if_any()
    return table


def _as_table(frame: pd.DataFrame, file: str) -> TextTable:
    columns = {name: pa.array(frame[name].tolist(), pa.large_string()) for name in ("image_id",)}
    return TextTable(file, pa.table(columns))


def _labels_in(table: TextTable, store: LabelStore, findings: Findings) -> tuple[list[IncomingLabel], int]:
    labels, left_out = [], 0
    columns = {name: table.column(name).to_pylist() for name in (*LABEL_COLUMNS, VALUE_COLUMN) if table.has(name)}
    for record in range(len(table)):
        cells = {name: str(column[record]) for name, column in columns.items()}
        if cells["attribute"] not in store.settings.attributes:
            left_out += 1
            continue
        place = Problem(table.file, "", table.row(record), "label", cells["label"])
        reason, value = cells.get("reason", ""), cells.get(VALUE_COLUMN, "").strip()
        try:
            number = float(value) if value else None
        except ValueError:
            message = "no number"
            findings.add(
                Problem(table.file, message, table.row(record), VALUE_COLUMN, value, "a number, or nothing")
            )
            continue
        is_low_quality = cells["label"] == LOW_QUALITY
        choice = Choice(
            cells["label"],
            reason=reason if is_low_quality else "",
            note="" if is_low_quality else reason,
            value=number,
        )
        labels.append(IncomingLabel(cells["annotator"], cells["image_id"], cells["attribute"], choice, place))
    return labels, left_out
