"""Puts labels that come from a file into a store, unless they contradict what is there."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem
from detector_bench.labelling.questions import Question
from detector_bench.labelling.records import Answer, Choice, RefusedAnswerError
from detector_bench.labelling.store import LabelStore
from detector_bench.labelling.writing import annotator_name, checked_choice


@dataclass(frozen=True, slots=True)
class IncomingLabel:
    """One label of a file.

    Attributes:
        annotator: whose it is; the adjudicator's are decisions.
        item_id: an item of the store.
        question: a question of the store.
        choice: the label, with its reason, note and value.
        place: where it stands, as far as it is known: file, row, column.
        milliseconds: how long it took; None if not said.
    """

    annotator: str
    item_id: str
    question: str
    choice: Choice
    place: Problem
    milliseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a file's labels.

    Attributes:
        stored: new or replaced labels.
        known: labels that were in the store already.
        left_out: labels of attributes that the store does not ask for.
        skipped: images that an annotator of the file had put off.
    """

    stored: int
    known: int
    left_out: int = 0
    skipped: int = 0


def bring_in(
    store: LabelStore, labels: Sequence[IncomingLabel], findings: Findings, *, overwrite: bool
) -> Imported:
    """Store labels: all, or none if there is any mistake. The adjudicator's come last, one by one.

    Args:
        store: where to.
        labels: what; of several for one annotator, item and question the last one counts.
        findings: mistakes that were found before; labels that the store refuses are added.
        overwrite: whether a different label of the same annotator is replaced; else it is a mistake.

    Raises:
        DataError: with all mistakes at once.
        AnswerConflictError: the calibration round is closed.
    """
    there = _stored(store)
    questions = {question.name: question for question in store.questions}
    wanted: dict[tuple[str, str], dict[str, IncomingLabel]] = {}
    known, conflicts = 0, []
    for incoming in labels:
        try:
            label = _checked(incoming, questions)
        except (RefusedAnswerError, ConfigError) as error:
            findings.add(replace(incoming.place, message=str(error)))
            continue
        former = there.get((label.annotator, label.item_id), {}).get(label.question)
        if former == label.choice:
            known += 1
            continue
        if former is not None and not overwrite:
            message = f"{label.annotator} has called this image {former.label} ({label.question}) in the store"
            conflicts.append(replace(label.place, message=message, accepted="the same label, or overwrite"))
        wanted.setdefault((label.annotator, label.item_id), {})[label.question] = label
    findings.add_kind(conflicts)
    findings.raise_if_any()
    _store(store, wanted, there)
    return Imported(sum(len(of_item) for of_item in wanted.values()), known)


def _checked(label: IncomingLabel, questions: Mapping[str, Question]) -> IncomingLabel:
    name = label.annotator if label.annotator == ADJUDICATOR else annotator_name(label.annotator)
    return replace(label, annotator=name, choice=checked_choice(label.choice, questions[label.question]))


def _stored(store: LabelStore) -> dict[tuple[str, str], dict[str, Choice]]:
    """What the store holds by annotator and item; answers on other content are as good as none."""
    found: dict[tuple[str, str], dict[str, Choice]] = {}
    for given in store.given():
        found.setdefault((given.annotator, given.item.item_id), {})[given.question] = given.choice
    return found


def _store(
    store: LabelStore,
    wanted: Mapping[tuple[str, str], Mapping[str, IncomingLabel]],
    there: Mapping[tuple[str, str], Mapping[str, Choice]],
) -> None:
    answers = []
    for (annotator, item_id), labels in wanted.items():
        if annotator != ADJUDICATOR:
            choices = {name: label.choice for name, label in labels.items()}
            times = [label.milliseconds for label in labels.values() if label.milliseconds is not None]
            # An answer replaces the former one, so what the file does not speak of is said again.
            whole = {**there.get((annotator, item_id), {}), **choices}
            time = max(times, default=None)
            answers.append((annotator, Answer(str(uuid.uuid4()), item_id, whole, milliseconds=time)))
    store.record_all(answers)
    for (annotator, item_id), labels in wanted.items():
        for name, label in labels.items() if annotator == ADJUDICATOR else ():
            store.adjudicate(item_id, name, label.choice, answer_id=str(uuid.uuid4()))
