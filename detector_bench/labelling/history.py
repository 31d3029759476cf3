"""What the log of a labelling store says: which answers count, found by reading one entry after the other."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.records import NOT_KNOWN, Answer, Asking, Choice

Slot = tuple[str, ...]
"""What an entry is about: (item,) for an answer, (item, question) for a decision."""


class Kind(StrEnum):
    """What an entry of the log is."""

    ANSWER = "answer"
    DECISION = "decision"
    UNDO = "undo"
    CALIBRATION = "calibration"
    AGAIN = "again"
    """An item is sent back: those who have judged it are asked anew."""
    WORDING = "wording"
    """What annotators are asked, in which words: answers refer to it."""


class Entry(NamedTuple):
    """A row of the log. A tuple, because there may be a hundred thousand.

    Attributes:
        sequence: its place.
        entry_id: made by the client, unique.
        kind: what it is.
        annotator: who made it.
        item_id: what it is about; None for undo, calibration and wording.
        content_text: as the client sent it, as JSON.
        seen_text: what the store added, as JSON.
        milliseconds: how long it took; None if not measured.
        recorded_at: UTC.
    """

    sequence: int
    entry_id: str
    kind: Kind
    annotator: str
    item_id: str | None
    content_text: str
    seen_text: str
    milliseconds: int | None
    recorded_at: str

    @property
    def content(self) -> Mapping[str, Any]:
        """As the client sent it."""
        return _parsed(self.content_text)

    @property
    def seen(self) -> Mapping[str, Any]:
        """What the store added: `sha256` by image, a decision's `basis` (label by annotator), what was undone."""
        added: Mapping[str, Any] = json.loads(self.seen_text)
        return added

    @property
    def slot(self) -> Slot:
        """What the entry is about: an item, or one question about an item where it is a decision."""
        item = self.item_id or ""
        return (item, str(self.content["question"])) if self.kind is Kind.DECISION else (item,)

    @property
    def skipped(self) -> bool:
        """Whether it puts the item off."""
        return bool(self.content.get("skipped"))

    @property
    def choices(self) -> dict[str, Choice]:
        """What was answered, by the question's name."""
        return {name: Choice(**choice) for name, choice in self.content.get("answers", {}).items()}

    @property
    def decided(self) -> Choice | None:
        """What a decision says; None: unresolved."""
        choice = self.content["choice"]
        return None if choice is None else Choice(**choice)

    @property
    def asking(self) -> Asking:
        """How an answer was asked for."""
        found = self.content.get("asking")
        return Asking(**found) if found else NOT_KNOWN

    def answer(self) -> Answer:
        """The answer as it was sent."""
        return Answer(
            self.entry_id, self.item_id or "", self.choices, self.skipped, self.milliseconds, self.asking
        )


_KINDS = {kind.value: kind for kind in Kind}
COLUMNS = "sequence, entry_id, kind, annotator, item_id, content, seen, milliseconds, recorded_at"


def entry_from(row: tuple[Any, ...]) -> Entry:
    """Read a row of the log, in the order of `COLUMNS`."""
    sequence, entry_id, kind, *rest = row
    return Entry(sequence, entry_id, _KINDS[kind], *rest)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Mapping[str, Any]:
    # Most answers are one of a few texts, so that a long log is read without making dictionaries for each.
    content: Mapping[str, Any] = json.loads(text)
    return content


def answer_content(answer: Answer) -> dict[str, Any]:
    """What the log keeps of an answer; fields that say nothing are left out."""
    asking = {name: value for name, value in asdict(answer.asking).items() if value}
    said: dict[str, Any] = {"skipped": True}
    if not answer.skipped:
        said = {"answers": {name: choice_content(choice) for name, choice in answer.answers.items()}}
    return said | ({"asking": asking} if asking else {})


def choice_content(choice: Choice) -> dict[str, Any]:
    """A choice as it stands in the log."""
    fields = {"reason": choice.reason, "note": choice.note, "value": choice.value}
    return {"label": choice.label, **{name: value for name, value in fields.items() if value not in ("", None)}}


class History:
    """The entries that count, kept up to date by `apply`."""

    def __init__(self) -> None:
        self.by_id: dict[str, Entry] = {}
        self.sequence = 0
        self.closed = False
        """Whether the calibration round is closed."""
        self.first_closed: int | None = None
        """The place in the log at which the calibration round was first closed."""
        self.wordings: dict[str, Entry] = {}
        """What annotators were asked, by the entry's id."""
        self._closed_last = 0
        self._sent_back: dict[str, list[Entry]] = {}
        # Per annotator and slot, all entries that are not undone, oldest first: the last one counts.
        self._live: dict[str, dict[Slot, list[Entry]]] = {}
        self._timeline: dict[str, list[Entry]] = {}

    def apply(self, entry: Entry) -> Entry:
        """Take in the next entry of the log, and give the one that it concerns: itself, or what it undid."""
        self.by_id[entry.entry_id] = entry
        self.sequence = entry.sequence
        if entry.kind is Kind.CALIBRATION:
            self.closed = bool(entry.content["closed"])
            self._closed_last = entry.sequence
            if self.closed and self.first_closed is None:
                self.first_closed = entry.sequence
            return entry
        if entry.kind is Kind.AGAIN:
            self._sent_back.setdefault(entry.item_id or "", []).append(entry)
            return entry
        if entry.kind is Kind.WORDING:
            self.wordings[entry.entry_id] = entry
            return entry
        if entry.kind is Kind.UNDO:
            undone = self.undone_by(entry)
            if undone is None:
                return entry
            _drop(self._live[undone.annotator][undone.slot], undone)
            _drop(self._timeline[undone.annotator], undone)
            return undone
        self._live.setdefault(entry.annotator, {}).setdefault(entry.slot, []).append(entry)
        self._timeline.setdefault(entry.annotator, []).append(entry)
        return entry

    def undone_by(self, undo: Entry) -> Entry | None:
        """What an undo took back; None: there was nothing to take back."""
        entry_id = undo.seen["undoes"]
        return None if entry_id is None else self.by_id[entry_id]

    def annotators(self) -> list[str]:
        """Everybody with an entry that counts, adjudicator included, in alphabetical order."""
        return sorted(name for name, entries in self._timeline.items() if entries)

    def newest(self, annotator: str, slot: Slot) -> Entry | None:
        """The entry that counts of an annotator's about one thing; None where there is none."""
        entries = self._live.get(annotator, {}).get(slot)
        return entries[-1] if entries else None

    def newest_before(self, annotator: str, slot: Slot, sequence: int) -> Entry | None:
        """The entry that would count if the log had ended before that place."""
        entries = self._live.get(annotator, {}).get(slot, [])
        return next((entry for entry in reversed(entries) if entry.sequence < sequence), None)

    def counting(self, annotator: str) -> Iterator[Entry]:
        """All entries of an annotator that count, one for each slot."""
        for entries in self._live.get(annotator, {}).values():
            if entries:
                yield entries[-1]

    def last(self, annotator: str, among: Container[str] | None = None) -> Entry | None:
        """The annotator's last entry that is not undone; with `among`, that is about one of these items."""
        entries = self.recent(annotator)
        return next((entry for entry in entries if among is None or (entry.item_id or "") in among), None)

    def is_live(self, entry: Entry) -> bool:
        """Whether an answer or decision was not undone."""
        return entry in self._live.get(entry.annotator, {}).get(entry.slot, ())

    def is_locked(self, annotator: str, item: DeskItem) -> bool:
        """Whether an answer cannot change any more, because it belongs to a closed calibration round."""
        if not self.closed or not item.in_calibration or annotator == ADJUDICATOR:
            return False
        entry = self.newest(annotator, (item.item_id,))
        if entry is None or entry.skipped:
            return False
        return self._sent_back_last(annotator, item.item_id) < self._closed_last

    def is_asked_again(self, annotator: str, item_id: str) -> bool:
        """Whether an item was sent back after the annotator's newest answer or skip."""
        if item_id not in self._sent_back:
            return False
        entry = self.newest(annotator, (item_id,))
        return entry is not None and entry.sequence < self._sent_back_last(annotator, item_id)

    def sent_back_to(self, annotator: str) -> set[str]:
        """The items that an annotator has answered, and that were sent back to them at any time."""
        return {
            item_id
            for item_id in self._sent_back
            if self._sent_back_last(annotator, item_id) and self.newest(annotator, (item_id,)) is not None
        }

    def on_ones_own(self, annotator: str, item: DeskItem) -> Entry | None:
        """The annotator's answer as it was before anybody talked about the item, or sent it back.

        Of the calibration round, the newest before its first discussion; of what was sent back, the newest before
        that, if there is one.
        """
        slot = (item.item_id,)
        if item.in_calibration and self.first_closed is not None:
            return self.newest_before(annotator, slot, self.first_closed)
        for entry in self._sent_back.get(item.item_id, [])[:1]:
            if (found := self.newest_before(annotator, slot, entry.sequence)) is not None:
                return found
        return self.newest(annotator, slot)

    def was_sent_back_before(self, entry: Entry) -> bool:
        """Whether an entry is from after its item was sent back."""
        return any(each.sequence < entry.sequence for each in self._sent_back.get(entry.item_id or "", []))

    def decision(self, item_id: str, question: str) -> Entry | None:
        """The decision that counts; one from before an item was sent back does until somebody answers anew."""
        entry = self.newest(ADJUDICATOR, (item_id, question))
        later = [each for each in self._sent_back.get(item_id, []) if entry and each.sequence > entry.sequence]
        for name in self._live if later else ():
            answer = self.newest(name, (item_id,))
            if answer is not None and not answer.skipped and answer.sequence > later[0].sequence:
                return None
        return entry

    def _sent_back_last(self, annotator: str, item_id: str) -> int:
        """The place in the log at which an item was last sent back to an annotator; 0: never."""
        for entry in reversed(self._sent_back.get(item_id, [])):
            if annotator in entry.content.get("annotators", [annotator]):
                return entry.sequence
        return 0

    def recent(self, annotator: str) -> Iterator[Entry]:
        """The annotator's entries that are not undone, the last one first."""
        return reversed(self._timeline.get(annotator, []))


def _drop(entries: list[Entry], entry: Entry) -> None:
    # Nearly always the last one; a search from the front would make long logs slow to read.
    for index in range(len(entries) - 1, -1, -1):
        if entries[index] is entry:
            del entries[index]
            return
