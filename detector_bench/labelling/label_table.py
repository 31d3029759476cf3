"""What counts, out of the log: labels as tables, and where annotators disagree, with what was decided about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.history import Entry, History
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.progress import is_on_other_content
from detector_bench.labelling.records import Choice, Decision, Disagreement
from detector_bench.vocabulary import OTHERS
from detector_bench.vocabulary.columns import LABEL_COLUMNS, VALUE_COLUMN


class GivenLabel(NamedTuple):
    """One annotator's answer to one question about one item."""

    item: DeskItem
    annotator: str
    question: str
    choice: Choice
    entry: Entry


def given_labels(
    items: Sequence[DeskItem],
    questions: Sequence[str],
    *,
    history: History,
    marks: ImageMarks,
    include_changed: bool = False,
    independent: bool = False,
) -> Iterator[GivenLabel]:
    """All labels that count: annotator by annotator, then in the order of `items` and `questions`.

    A decision "unresolved" is no label: without one, the consensus rule itself gives `low_quality`.

    Args:
        items: what to look at.
        questions: what to look at.
        history: the entries.
        marks: the image files.
        include_changed: also answers on other content than an image has now.
        independent: without the adjudicator; of the calibration round the answers before its discussion, and of
            what was sent back those before that.
    """
    for annotator in history.annotators():
        if annotator == ADJUDICATOR and independent:
            continue
        for item in items:
            for question in questions:
                if annotator == ADJUDICATOR:
                    entry = history.decision(item.item_id, question)
                else:
                    newest = history.newest(annotator, (item.item_id,))
                    entry = history.on_ones_own(annotator, item) if independent else newest
                choice = None if entry is None else _choice(entry, question)
                if entry is None or choice is None:
                    continue
                if include_changed or not is_on_other_content(entry, item, marks):
                    yield GivenLabel(item, annotator, question, choice, entry)


def label_table(labels: Iterator[GivenLabel]) -> pd.DataFrame:
    """Labels in the columns of `labels.csv`; `value` is there if any label has one.

    The reason is that of `low_quality`, and the note of `others`.
    """
    rows = [
        (
            label.item.item_id,
            label.annotator,
            label.question,
            label.choice.label,
            label.choice.note if label.choice.label == OTHERS else label.choice.reason,
            "" if label.choice.value is None else f"{label.choice.value:g}",
        )
        for label in labels
    ]
    table = pd.DataFrame(rows, columns=[*LABEL_COLUMNS, VALUE_COLUMN], dtype="str")
    return table if (table[VALUE_COLUMN] != "").any() else table.drop(columns=VALUE_COLUMN)


def _choice(entry: Entry, question: str) -> Choice | None:
    if entry.annotator == ADJUDICATOR:
        return entry.decided
    return None if entry.skipped else entry.choices.get(question)


def disagreements(
    items: Sequence[DeskItem], questions: Sequence[str], *, history: History, marks: ImageMarks
) -> Iterator[Disagreement]:
    """Every question about an item to which annotators gave different labels; reasons and notes may differ.

    Answers on other content than an image has now are left out.
    """
    for item in items:
        for question in questions:
            choices = choices_of(item, question, history=history, marks=marks)
            if len({choice.label for choice in choices.values()}) > 1:
                entry = history.decision(item.item_id, question)
                if entry is not None and is_on_other_content(entry, item, marks):
                    entry = None
                decision = None if entry is None else decision_from(entry, choices)
                yield Disagreement(item.item_id, item.images, question, choices, decision)


def choices_of(item: DeskItem, question: str, *, history: History, marks: ImageMarks) -> dict[str, Choice]:
    """Every annotator's own answer to a question, in alphabetical order, on the images as they are now."""
    found = {}
    for annotator in history.annotators():
        entry = history.newest(annotator, (item.item_id,))
        if entry is None or entry.skipped or question not in entry.content["answers"]:
            continue
        if not is_on_other_content(entry, item, marks):
            found[annotator] = Choice(**entry.content["answers"][question])
    return found


def decision_from(entry: Entry, choices: Mapping[str, Choice]) -> Decision:
    """A stored decision, beside what annotators say now."""
    return Decision(entry.decided, entry.seen["basis"] != basis(choices), entry.sequence, entry.recorded_at)


def basis(choices: Mapping[str, Choice]) -> dict[str, str]:
    """The labels that a decision rests on, by annotator."""
    return {annotator: choice.label for annotator, choice in choices.items()}
