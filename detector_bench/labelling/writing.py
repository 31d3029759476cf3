"""Turns answers, undos, decisions and events into entries of the log, once names and answers keep their rules."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from detector_bench.dataset.consensus import ADJUDICATOR, RESERVED_ANNOTATORS
from detector_bench.dataset.text_table import shorten
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.labelling.history import Entry, Kind, answer_content, choice_content
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.label_table import basis, choices_of
from detector_bench.labelling.opening import Draft, Ledger
from detector_bench.labelling.questions import Question
from detector_bench.labelling.records import Answer, AnswerConflictError, Choice, RefusedAnswerError, SentBack
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY

RESERVED_NAMES = (ADJUDICATOR, *RESERVED_ANNOTATORS, GROUND_TRUTH, ALL)
LONGEST_NAME = 100
LONGEST_NOTE = 2000
_LONGEST_ID = 100
_LONGEST_MILLISECONDS = 2**42


def annotator_name(name: str) -> str:
    """The name as it is stored: the same letters are the same name, however they were typed.

    Raises:
        ConfigError: an empty, too long or reserved name, or one with control characters or blanks around it.
    """
    normal = unicodedata.normalize("NFC", name)
    fault = ""
    if not normal.strip():
        fault = "it is empty"
    elif normal != normal.strip():
        fault = "there are blanks around it"
    elif not _is_storable(normal) or any(unicodedata.category(letter) == "Cc" for letter in normal):
        fault = "it has a character that cannot be stored"
    elif len(normal) > LONGEST_NAME:
        fault = f"it is longer than {LONGEST_NAME} characters"
    elif normal.casefold() in RESERVED_NAMES:
        fault = "the name is reserved"
    if fault:
        raise ConfigError(f"annotator {shorten(name)!r}: {fault} (accepted: a name such as 'ann')")
    return normal


def check_id(given: str) -> None:
    """Check an id that a client made.

    Raises:
        RefusedAnswerError: it is no short, printable text.
    """
    if not 0 < len(given) <= _LONGEST_ID or not given.isprintable() or not _is_storable(given):
        raise RefusedAnswerError(f"the id {shorten(given)!r} is not accepted (accepted: a UUID)")


def checked_answer(answer: Answer, questions: Mapping[str, Question]) -> Answer:
    """An answer as it is stored, its notes without blanks around them.

    Raises:
        RefusedAnswerError: an unknown question or label, a reason or value that does not belong there, an empty
            answer, or a skip that says something.
    """
    check_id(answer.answer_id)
    checked_time(answer.milliseconds)
    if answer.skipped and answer.answers:
        raise RefusedAnswerError(
            f"item {answer.item_id!r} is skipped and answered at once (accepted: one of both)"
        )
    if not answer.skipped and not answer.answers:
        accepted = ", ".join(questions)
        raise RefusedAnswerError(f"item {answer.item_id!r}: the answer is empty (accepted: {accepted}, or a skip)")
    choices = {}
    for name in answer.answers:
        if name not in questions:
            raise RefusedAnswerError(f"unknown question {shorten(name)!r}: {nearest_hint(name, questions)}")
    # In the order of the questions, so that an equal answer is the same text in the log.
    for name, question in questions.items():
        if name in answer.answers:
            choices[name] = checked_choice(answer.answers[name], question)
    _check_asking(answer, questions)
    return replace(answer, answers=choices)


def _check_asking(answer: Answer, questions: Mapping[str, Question]) -> None:
    asking = answer.asking
    for text in (asking.language, asking.wording, asking.proposed_by):
        if len(text) > LONGEST_NAME or not _is_storable(text) or (text and not text.isprintable()):
            raise RefusedAnswerError(f"item {answer.item_id!r}: {shorten(text)!r} does not say how it was asked")
    if asking.proposed and not any(asking.proposed in question.labels for question in questions.values()):
        accepted = ", ".join(label for question in questions.values() for label in question.labels)
        raise RefusedAnswerError(
            f"item {answer.item_id!r}: unknown proposed label {shorten(asking.proposed)!r} (accepted: {accepted})"
        )


def checked_time(milliseconds: int | None) -> int | None:
    """How long an answer took, as it is stored.

    Raises:
        RefusedAnswerError: less than nothing, or longer than anybody lives.
    """
    if milliseconds is not None and not 0 <= milliseconds < _LONGEST_MILLISECONDS:
        raise RefusedAnswerError(f"milliseconds is {milliseconds} (accepted: 0 or more)")
    return milliseconds


def checked_choice(choice: Choice, question: Question) -> Choice:
    """A choice as it is stored.

    Raises:
        RefusedAnswerError: an unknown label or reason, a value out of range, or a note that cannot be stored.
    """
    if choice.label not in question.labels:
        accepted = ", ".join(question.labels)
        raise RefusedAnswerError(
            f"{question.name}: unknown label {shorten(choice.label)!r} (accepted: {accepted})"
        )
    reasons = question.reasons if choice.label == LOW_QUALITY else ()
    if choice.reason and choice.reason not in reasons:
        accepted = ", ".join(reasons) + ", or nothing" if reasons else f"none; reasons belong to {LOW_QUALITY}"
        raise RefusedAnswerError(
            f"{question.name}: unknown reason {shorten(choice.reason)!r} (accepted: {accepted})"
        )
    note = choice.note.strip()
    if len(note) > LONGEST_NOTE or "\0" in note or not _is_storable(note):
        raise RefusedAnswerError(
            f"{question.name}: the note is too long or holds a character that cannot be stored"
        )
    return Choice(choice.label, choice.reason, note, _checked_value(choice, question))


def _checked_value(choice: Choice, question: Question) -> float | None:
    if choice.value is None:
        return None
    if question.value_range is None or choice.label not in question.classes:
        raise RefusedAnswerError(f"{question.name}: {choice.label!r} takes no number; got {choice.value}")
    lowest, highest = question.value_range
    if not math.isfinite(choice.value) or not lowest <= choice.value <= highest:
        raise RefusedAnswerError(
            f"{question.name}: the number is {choice.value} (accepted: {lowest:g} to {highest:g})"
        )
    return float(choice.value)


def _is_storable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can smuggle in
        return False
    return True


class Writer:
    """Adds to the log of a store. Callers take care that one thread at a time uses it.

    Args:
        ledger: the log.
        items: what is in the image set, by id.
        questions: what is asked.
        marks: the image files.
    """

    def __init__(
        self,
        ledger: Ledger,
        items: Mapping[str, DeskItem],
        questions: Sequence[Question],
        marks: ImageMarks,
    ) -> None:
        self._ledger = ledger
        self._items = items
        self._questions = {question.name: question for question in questions}
        self._marks = marks

    def answers(self, given: Sequence[tuple[str, Answer]]) -> list[bool]:
        """Add annotators' answers, all or none; for each, whether it was there before."""
        return self._ledger.add([self._answer(annotator, answer) for annotator, answer in given])

    def undo(
        self,
        annotator: str,
        undo_id: str,
        answer_id: str | None,
        *,
        among: Container[str] | None = None,
    ) -> tuple[bool, Entry | None]:
        """Take an answer back: whether that was done before, and which answer it was.

        Without an `answer_id` the last one; with `among` the last one about any of these items.
        """
        check_id(undo_id)
        history = self._ledger.history

        def settle() -> Mapping[str, Any]:
            entry = history.last(annotator, among) if answer_id is None else history.by_id.get(answer_id)
            if answer_id is not None and not (entry and entry.annotator == annotator and history.is_live(entry)):
                raise RefusedAnswerError(f"{annotator} has no answer {answer_id!r} that could be undone")
            if entry is not None and (item := self._items.get(entry.item_id or "")) is not None:
                self._check_unlocked(annotator, item)
            return {"undoes": None if entry is None else entry.entry_id}

        draft = Draft(undo_id, Kind.UNDO, annotator, None, {"answer_id": answer_id}, settle)
        repeated = self._ledger.add([draft])[0]
        return repeated, history.undone_by(history.by_id[undo_id])

    def decision(
        self, item_id: str, question: str, choice: Choice | None, *, answer_id: str, milliseconds: int | None
    ) -> None:
        """Add the adjudicator's decision about a question."""
        check_id(answer_id)
        item, kind = self.item(item_id), self.question(question)
        content = {
            "question": question,
            "choice": None if choice is None else choice_content(checked_choice(choice, kind)),
        }
        judged = self._judged(item, answer_id)

        def settle() -> Mapping[str, Any]:
            choices = choices_of(item, question, history=self._ledger.history, marks=self._marks)
            if len(choices) < 2:
                raise RefusedAnswerError(f"item {item_id!r}: fewer than two annotators have answered {question}")
            return {"sha256": judged, "basis": basis(choices)}

        time = checked_time(milliseconds)
        self._ledger.add([Draft(answer_id, Kind.DECISION, ADJUDICATOR, item_id, content, settle, time)])

    def calibration(self, event_id: str, *, closed: bool) -> None:
        """Close or reopen the calibration round."""
        check_id(event_id)
        self._ledger.add([Draft(event_id, Kind.CALIBRATION, ADJUDICATOR, None, {"closed": closed}, dict)])

    def again(self, item_ids: Sequence[str], annotators: Sequence[str]) -> SentBack:
        """Send items back to those who have judged them; `annotators`: only to these, or (empty) to everybody."""
        history = self._ledger.history
        names = annotators or [name for name in history.annotators() if name != ADJUDICATOR]
        drafts, waiting, unlabelled = [], 0, 0
        for item_id in dict.fromkeys(item_ids):
            self.item(item_id)
            judged = [name for name in names if history.newest(name, (item_id,)) is not None]
            if not judged:
                unlabelled += 1
            elif all(history.is_asked_again(name, item_id) for name in judged):
                waiting += 1
            else:
                content = {"annotators": list(annotators)} if annotators else {}
                drafts.append(Draft(str(uuid4()), Kind.AGAIN, ADJUDICATOR, item_id, content, dict))
        self._ledger.add(drafts)
        return SentBack(len(drafts), waiting, unlabelled)

    def wording(self, content: Mapping[str, Any]) -> str:
        """Keep what annotators are asked; equal words have one id."""
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        name = f"wording-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if name not in self._ledger.history.wordings:
            self._ledger.add([Draft(name, Kind.WORDING, ADJUDICATOR, None, dict(content), dict)])
        return name

    def item(self, item_id: str) -> DeskItem:
        """An item of the image set.

        Raises:
            RefusedAnswerError: there is no such item.
        """
        if item_id not in self._items:
            raise RefusedAnswerError(f"there is no item {item_id!r} in this image set")
        return self._items[item_id]

    def question(self, name: str) -> Question:
        """A question that this store asks.

        Raises:
            RefusedAnswerError: it does not ask that.
        """
        if name not in self._questions:
            raise RefusedAnswerError(f"this store does not ask {name!r}: {nearest_hint(name, self._questions)}")
        return self._questions[name]

    def _answer(self, annotator: str, answer: Answer) -> Draft:
        item, answer = self.item(answer.item_id), checked_answer(answer, self._questions)
        if answer.asking.wording not in self._ledger.history.wordings:
            # Of another store, or made up: no reason to lose an answer.
            answer = replace(answer, asking=replace(answer.asking, wording=""))
        judged = {} if answer.skipped else self._judged(item, answer.answer_id)

        def settle() -> Mapping[str, Any]:
            self._check_unlocked(annotator, item)
            return {"sha256": judged}

        content = answer_content(answer)
        time = answer.milliseconds
        return Draft(answer.answer_id, Kind.ANSWER, annotator, item.item_id, content, settle, time)

    def _judged(self, item: DeskItem, entry_id: str) -> dict[str, str]:
        """The content of an item's images at this moment; nothing for what is stored already."""
        if entry_id in self._ledger.history.by_id:
            return {}
        return {image_id: self._marks.sha256(image_id) for _, image_id in item.images}

    def _check_unlocked(self, annotator: str, item: DeskItem) -> None:
        if self._ledger.history.is_locked(annotator, item):
            raise AnswerConflictError(
                f"item {item.item_id!r} belongs to the calibration round, which was discussed and closed; "
                "it can be reopened"
            )
