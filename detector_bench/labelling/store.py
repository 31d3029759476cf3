"""The labelling store: an append-only log of answers in one SQLite file, shared by threads and processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

import pandas as pd

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.assignment import Assignment
from detector_bench.labelling.history import Entry
from detector_bench.labelling.image_marks import changes
from detector_bench.labelling.items import DeskItem, order_for
from detector_bench.labelling.label_table import (
    GivenLabel,
    choices_of,
    decision_from,
    disagreements,
    given_labels,
    label_table,
)
from detector_bench.labelling.opening import Ledger, Opened, open_file
from detector_bench.labelling.progress import Worklist, done_items, is_on_other_content
from detector_bench.labelling.questions import DeskSettings, Question
from detector_bench.labelling.records import (
    Answer,
    Calibration,
    Change,
    Choice,
    Decision,
    Disagreement,
    Item,
    Progress,
    Recorded,
    RefusedAnswerError,
    StoredAnswer,
    Undone,
)
from detector_bench.labelling.writing import Writer, annotator_name


class LabelStore:
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
        self.path = path
        self.image_set = image_set
        self.settings = opened.settings
        self._opened = opened
        self._marks = opened.marks
        self._present = {item.item_id: item for item in opened.present}
        self._lock = RLock()
        self._worklists: dict[str, Worklist] = {}
        self._worklists_of = self._marks.generation
        self._ledger = Ledger(opened.database, self._marks, on_change=self._update_worklist)
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
                new store is drawn among them.

        Raises:
            StoreError: a read-only, damaged or foreign file, a newer version, another image set.
            ConfigError: other settings than those that the store was made with, no pairs to judge, or none of what
                is asked for.
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

    def annotators(self) -> list[str]:
        """Everybody who answered or skipped anything, in alphabetical order, without the adjudicator."""
        with self._lock:
            self._ledger.follow()
            return [name for name in self._ledger.history.annotators() if name != ADJUDICATOR]

    def answers(self, annotator: str | None) -> list[StoredAnswer]:
        """The answers and skips that count, of one annotator or (None) of all, in the order of the log."""
        names = self.annotators() if annotator is None else [annotator_name(annotator)]
        with self._lock:
            self._ledger.follow()
            entries = [entry for name in names for entry in self._ledger.history.counting(name)]
            return [self._stored(entry) for entry in sorted(entries, key=lambda entry: entry.sequence)]

    def disagreements(self) -> list[Disagreement]:
        """Every question about an item to which annotators gave different labels, decided or not."""
        with self._lock:
            self._ledger.follow()
            found = disagreements(
                self._opened.present, self.settings.attributes, history=self._ledger.history, marks=self._marks
            )
            return list(found)

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

    def labels(
        self,
        *,
        include_changed: bool = False,
        independent: bool = False,
    ) -> pd.DataFrame:
        """The labels that count, as in `labels.csv`: `image_id, annotator, attribute, label, reason`.

        A column `value` is added if anybody gave a number. For pairs, `image_id` is the edited image.

        Args:
            include_changed: also labels that were given on other content than the image has now.
            independent: as people gave them on their own: of the calibration round, the answers before its first
                discussion, and nothing of the adjudicator. This is what agreement is measured on.
        """
        with self._lock:
            return label_table(iter(self.given(include_changed=include_changed, independent=independent)))

    def given(self, *, include_changed: bool = False, independent: bool = False) -> list[GivenLabel]:
        """The labels of `labels`, with notes, times and images; for exports."""
        with self._lock:
            self._ledger.follow()
            found = given_labels(
                self._opened.present,
                self.settings.attributes,
                history=self._ledger.history,
                marks=self._marks,
                include_changed=include_changed,
                independent=independent,
            )
            return list(found)

    def present_items(self) -> list[DeskItem]:
        """Everything to judge, in the order of the image set."""
        return list(self._opened.present)

    def changes(self) -> list[Change]:
        """How the image set differs from what the store knows: added, removed, missing and changed images."""
        with self._lock:
            self._ledger.follow()
            self._marks.survey()
            self._marks.adopt()
            found = changes(
                self._opened.items,
                self._opened.present,
                self._opened.unknown,
                history=self._ledger.history,
                marks=self._marks,
            )
            return list(found)

    def image_content(self, image_id: str) -> bytes:
        """The content of an image's file.

        Raises:
            RefusedAnswerError: no such image, a missing file, or one outside the folder.
            ImageError: it is there, and cannot be read.
        """
        return self._marks.content(image_id)

    def image_sha256(self, image_id: str) -> str:
        """The content hash of an image's file, computed once for as long as the file stays the same."""
        return self._marks.sha256(image_id)

    def version(self) -> int:
        """Grows with everything that is stored, by whichever process; what was read at an equal one is current."""
        with self._lock:
            self._ledger.follow()
            return self._ledger.history.sequence

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
            self._worklists[name] = Worklist(
                name,
                [self._present[item.item_id] for item in order if item.item_id in asked],
                attributes=self.settings.attributes,
                history=self._ledger.history,
                marks=self._marks,
            )
        return self._worklists[name]

    def _update_worklist(self, entry: Entry) -> None:
        worklist = self._worklists.get(entry.annotator)
        if worklist is not None and entry.item_id is not None:
            worklist.update(entry.item_id)

    def _stored(self, entry: Entry) -> StoredAnswer:
        item = self._present.get(entry.item_id or "")
        changed = not entry.skipped and (item is None or is_on_other_content(entry, item, self._marks))
        return StoredAnswer(entry.answer(), entry.annotator, entry.sequence, entry.recorded_at, changed)
