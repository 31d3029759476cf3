"""Where annotators gave different labels, and what was decided about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.history import Entry, History
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.progress import is_on_other_content
from detector_bench.labelling.records import Choice, Decision, Disagreement


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
                entry = history.newest(ADJUDICATOR, (item.item_id, question))
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
