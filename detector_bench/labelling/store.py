"""The labelling store: an append-only log of answers in one SQLite file, shared by threads and processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.assignment import Assignment
from detector_bench.labelling.history import Entry, Kind
from detector_bench.labelling.items import order_for
from detector_bench.labelling.label_table import (
    choices_of,
    decision_from,
)
from detector_bench.labelling.opening import Opened, open_file
from detector_bench.labelling.progress import Worklist, done_items
from detector_bench.labelling.questions import DeskSettings, Question
from detector_bench.labelling.records import (
    Answer,
    Calibration,
    Choice,
    Decision,
    Item,
    Progress,
    Recorded,
    RefusedAnswerError,
    SentBack,
    Undone,
)
from detector_bench.labelling.stored_labels import StoredLabels
from detector_bench.labelling.writing import Writer, annotator_name


class LabelStore(StoredLabels):
    """All answers to one image set. Make it with `LabelStore.open`; any thread may use it.

    Methods that take an `annotator` never give away another annotator's answers. `answers(None)`, `disagreements`,
    `given` and `labels` show everybody's: they are for the coordinator.

    Attributes:
        path: the SQLite file.
        settings: the settings that the store was made with.
        image_set: the image set.
        shares: which items each annotator is asked for. Answers to other items are kept and count all the same.
    """

    def __init__(self, path: Path, image_set: ImageSet, opened: Opened, asked: Assignment) -> None:
        super().__init__(path, image_set, opened, on_change=self._update_worklists)
        self._worklists: dict[str, Worklist] = {}
        self._worklists_of = self._marks.generation
        self._writer = Writer(self._ledger, self._present, self.questions, self._marks)
        self._ledger.follow()
        done = done_items(self._present, self.settings.attributes, history=self._ledger.history, marks=self._marks)
        self.shares = asked.deal(opened.present, done)

    @classmethod
    def open(
        cls,
        path: Path | str,
        image_set: ImageSet,
        *,
        settings: DeskSettings | None = None,
        read_only: bool = False,
        accept_changes: bool = False,
        progress: Callable[[int, int], None] | None = None,
        assignment: Assignment | None = None,
    ) -> LabelStore:
        """Open a store, or make it.

        Args:
            path: the SQLite file; made if it is missing, unless `read_only`.
            image_set: what is labelled; its labels are not looked at.
            settings: None: those that the store was made with, or the defaults for a new one.
            read_only: nothing is written, not even that images were added.
            accept_changes: open even if most images are gone or have other content.
            progress: called with (done, total) while images whose files were touched are read again.
            assignment: which items are asked for, and of whom; None: all of everybody. The calibration round of a
                new store is drawn among them, unless the assignment names it.

        Raises:
            StoreError: a read-only, damaged or foreign file, a newer version, another image set.
            ConfigError: other settings or calibration round than the store's; nothing to judge or asked for.
        """
        path = Path(path)
        opened = open_file(
            path,
            image_set,
            settings=settings,
            read_only=read_only,
            accept_changes=accept_changes,
            progress=progress,
            asked=None if assignment is None else assignment.item_ids,
            calibration=None if assignment is None else assignment.calibration,
        )
        try:
            return cls(path, image_set, opened, assignment or Assignment())
        except BaseException:
            opened.database.close()
            raise

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that are asked, in order."""
        return self.settings.questions

    def items(self, annotator: str, first: int, count: int) -> list[Item]:
        """Up to `count` items from position `first` on, in the annotator's own random order.

        Items of the calibration round come first: the same for all, each in their own order.

        Raises:
            ConfigError: a name that no annotator may bear.
        """
        with self._lock:
            worklist = self._worklist(annotator)
            positions = range(len(worklist.order))[max(first, 0) :][: max(count, 0)]
            return [worklist.item(position) for position in positions]

    def item(self, annotator: str, item_id: str) -> Item:
        """One item by its id, also one that the annotator is not asked for.

        Raises:
            RefusedAnswerError: there is no such item.
        """
        with self._lock:
            return self._worklist(annotator).look_at(self._writer.item(item_id))

    def item_at(self, annotator: str, position: int) -> Item:
        """One item by its position.

        Raises:
            RefusedAnswerError: there is no such position.
        """
        with self._lock:
            worklist = self._worklist(annotator)
            if not 0 <= position < len(worklist.order):
                raise RefusedAnswerError(
                    f"there is no position {position} (accepted: 0 to {len(worklist.order) - 1})"
                )
            return worklist.item(position)

    def record(self, annotator: str, answer: Answer) -> Recorded:
        """Keep an answer or a skip; it is on the disk when this returns. Sending it again changes nothing.

        Raises:
            RefusedAnswerError: an unknown item, question, label or reason, or an image that cannot be read.
            AnswerConflictError: `answer_id` was used for something else, or the calibration round is closed.
            StoreError: the disk is full or read-only, or the file is damaged.
        """
        name = annotator_name(annotator)
        with self._lock:
            self._ledger.follow()
            repeated = self._writer.answers([(name, answer)])[0]
            return Recorded(self.item(name, answer.item_id), repeated, self.progress(name))

    def record_all(self, answers: Sequence[tuple[str, Answer]]) -> int:
        """Keep many annotators' answers, all or none of them, and say how many were new; errors as in `record`."""
        named = [(annotator_name(annotator), answer) for annotator, answer in answers]
        with self._lock:
            self._ledger.follow()
            return self._writer.answers(named).count(False)

    def undo(self, annotator: str, undo_id: str, *, answer_id: str | None = None) -> Undone:
        """Take back the annotator's last answer or skip that is not undone yet; the one before it counts again.

        Of answers to items that the annotator is no longer asked for, and does not see, none is the last.

        Args:
            annotator: whose.
            undo_id: made by the client, unique: sending it again changes nothing.
            answer_id: take back this answer instead of the last one.

        Raises:
            RefusedAnswerError: the annotator has no such answer.
            AnswerConflictError, StoreError: as in `record`.
        """
        name = annotator_name(annotator)
        with self._lock:
            repeated, undone = self._writer.undo(name, undo_id, answer_id, among=self._worklist(name))
            item_id = None if undone is None else undone.item_id
            item = self.item(name, item_id) if item_id in self._present else None
            return Undone(item, repeated, self.progress(name))

    def progress(self, annotator: str) -> Progress:
        """How far an annotator is."""
        with self._lock:
            return self._worklist(annotator).progress()

    def adjudicate(
        self,
        item_id: str,
        question: str,
        choice: Choice | None,
        *,
        answer_id: str,
        milliseconds: int | None = None,
    ) -> Decision:
        """Decide a disagreement; stored as the annotator `adjudicator`, who overrules the others.

        Args:
            item_id: the item.
            question: the question's name.
            choice: what was decided together; None: left unresolved, so that consensus gives `low_quality` with
                the reason `disagreement`.
            answer_id: made by the client, unique: sending it again changes nothing.
            milliseconds: how long it took.

        Raises:
            RefusedAnswerError: an unknown item, question, label or reason, or fewer than two annotators.
            AnswerConflictError, StoreError: as in `record`.
        """
        with self._lock:
            self._ledger.follow()
            self._writer.decision(item_id, question, choice, answer_id=answer_id, milliseconds=milliseconds)
            history = self._ledger.history
            # A repeated decision may have been undone since: then it is the one that is told.
            entry = history.newest(ADJUDICATOR, (item_id, question)) or history.by_id[answer_id]
            choices = choices_of(self._present[item_id], question, history=history, marks=self._marks)
            return decision_from(entry, choices)

    def undo_adjudication(self, undo_id: str, *, answer_id: str | None = None) -> str | None:
        """Take back the last decision, or that one, and give the item's id; None: there was nothing to undo."""
        with self._lock:
            _, undone = self._writer.undo(ADJUDICATOR, undo_id, answer_id)
            return None if undone is None else undone.item_id

    def ask_again(self, item_ids: Sequence[str], annotators: Sequence[str] = ()) -> SentBack:
        """Send items back to those who have labelled them, in one transaction.

        A former label counts until its annotator has given another one, a former decision until anybody has.
        Agreement stays measured on what people said before.

        Args:
            item_ids: which; images, or of pairs the edited image's id.
            annotators: only to these; empty: to everybody who has labelled the item.

        Raises:
            RefusedAnswerError: there is no such item.
            StoreError: as in `record`.
        """
        with self._lock:
            self._ledger.follow()
            return self._writer.again(item_ids, [annotator_name(name) for name in annotators])

    def keep_wording(self, content: Mapping[str, Any]) -> str:
        """Keep in which words annotators are asked, and give the id that their answers refer to."""
        with self._lock:
            self._ledger.follow()
            return self._writer.wording(content)

    def calibration(self) -> Calibration:
        """The calibration round: who is how far, and whether it was discussed."""
        with self._lock:
            names = self.annotators()
            done = {name: self._worklist(name).calibration_done() for name in names}
            asked = self.shares.of_everybody
            total = sum(item.in_calibration and item.item_id in asked for item in self._opened.present)
            return Calibration(total, done, self._ledger.history.closed)

    def close_calibration(self, event_id: str) -> Calibration:
        """Mark the calibration round as discussed: given answers to its items are locked."""
        with self._lock:
            self._writer.calibration(event_id, closed=True)
            return self.calibration()

    def reopen_calibration(self, event_id: str) -> Calibration:
        """Unlock the calibration round, so that its answers can be revised after the discussion."""
        with self._lock:
            self._writer.calibration(event_id, closed=False)
            return self.calibration()

    def close(self) -> None:
        """Close the file in all threads."""
        self._opened.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _worklist(self, annotator: str) -> Worklist:
        """An annotator's worklist, up to date."""
        name = annotator_name(annotator)
        self._ledger.follow()
        if self._worklists_of != self._marks.generation:
            self._worklists_of = self._marks.generation
            self._worklists.clear()
        if name not in self._worklists:
            order = order_for(name, list(self._opened.items.values()), seed=self.settings.seed)
            asked = self.shares.asked(name)
            sent_back = self._ledger.history.sent_back_to(name) - asked
            present = [self._present[item.item_id] for item in order if item.item_id in self._present]
            self._worklists[name] = Worklist(
                name,
                # At the end, where they move nothing that a page has in its hands.
                [item for item in present if item.item_id in asked]
                + [item for item in present if item.item_id in sent_back],
                attributes=self.settings.attributes,
                history=self._ledger.history,
                marks=self._marks,
            )
        return self._worklists[name]

    def _update_worklists(self, entry: Entry) -> None:
        if entry.kind is Kind.AGAIN:
            self._worklists.clear()  # it may belong to people who are not asked for it otherwise
        worklist = self._worklists.get(entry.annotator)
        if worklist is not None and entry.item_id is not None:
            worklist.update(entry.item_id)
