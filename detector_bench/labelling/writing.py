"""Turns answers, undos, decisions and events into entries of the log, once they are found to be acceptable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.errors import nearest_hint
from detector_bench.labelling.answer_checks import check_id, checked_answer, checked_choice, checked_time
from detector_bench.labelling.disagreements import basis, choices_of
from detector_bench.labelling.history import Entry, Kind, answer_content, choice_content
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.ledger import Draft, Ledger
from detector_bench.labelling.questions import Question
from detector_bench.labelling.records import Answer, AnswerConflictError, Choice, RefusedAnswerError


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

    def undo(self, annotator: str, undo_id: str, answer_id: str | None) -> tuple[bool, Entry | None]:
        """Take an answer back: whether that was done before, and which answer it was."""
        check_id(undo_id)
        history = self._ledger.history

        def settle() -> Mapping[str, Any]:
            entry = history.last(annotator) if answer_id is None else history.by_id.get(answer_id)
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
