"""How far an annotator is: the state of each item in the annotator's own order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import median

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.history import Entry, History
from detector_bench.labelling.image_marks import ImageMarks
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.records import Item, Progress

OPEN, SKIPPED, DONE, CHANGED, AGAIN = range(5)
NOT_ASKED = -1
"""In place of a position: the item is not asked of the annotator, who may have judged it before."""

_PACE_ITEMS = 50
_PACE_ENTRIES = 200


def is_on_other_content(entry: Entry, item: DeskItem, marks: ImageMarks) -> bool:
    """Whether the item has other images, or images with other content, than when it was judged."""
    judged = entry.seen["sha256"]
    return judged.keys() != {image_id for _, image_id in item.images} or not all(
        marks.shows(image_id, sha256) for image_id, sha256 in judged.items()
    )


def done_items(
    items: Mapping[str, DeskItem], questions: Sequence[str], *, history: History, marks: ImageMarks
) -> dict[str, list[str]]:
    """By annotator, the items of which all questions are answered, on the images as they are now."""

    def is_done(entry: Entry) -> bool:
        item = items.get(entry.item_id or "")
        is_answered = set(questions) <= entry.content.get("answers", {}).keys()
        return item is not None and is_answered and not is_on_other_content(entry, item, marks)

    names = [name for name in history.annotators() if name != ADJUDICATOR]
    return {name: [entry.item_id or "" for entry in history.counting(name) if is_done(entry)] for name in names}


class Worklist:
    """One annotator's items in order, and which of them are done.

    Args:
        annotator: whose.
        order: the items, in the annotator's order.
        attributes: the questions that must be answered.
        history: everybody's entries; only this annotator's are looked at.
        marks: the image files.
    """

    def __init__(
        self,
        annotator: str,
        order: Sequence[DeskItem],
        *,
        attributes: Sequence[str],
        history: History,
        marks: ImageMarks,
    ) -> None:
        self.order = order
        self._annotator = annotator
        self._attributes = frozenset(attributes)
        self._history = history
        self._marks = marks
        self._position = {item.item_id: position for position, item in enumerate(order)}
        self._of_calibration = np.array([item.in_calibration for item in order], dtype=bool)
        self._state: NDArray[np.int8] = np.zeros(len(order), dtype=np.int8)
        for entry in history.counting(annotator):
            self.update(entry.item_id or "")

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._position

    def update(self, item_id: str) -> None:
        """Look again at what the history says of an item."""
        position = self._position.get(item_id)
        if position is not None:
            self._state[position] = self._state_of(self.order[position])

    def item(self, position: int) -> Item:
        """The item at a position, as its annotator may see it."""
        return self.look_at(self.order[position])

    def look_at(self, item: DeskItem) -> Item:
        """Any item, as its annotator may see it; its position is `NOT_ASKED` if it is not on the list."""
        position = self._position.get(item.item_id, NOT_ASKED)
        state = self._state_of(item) if position == NOT_ASKED else int(self._state[position])
        entry = self._history.newest(self._annotator, (item.item_id,))
        faults = (self._marks.fault(image_id) for _, image_id in item.images)
        return Item(
            item_id=item.item_id,
            position=position,
            images=item.images,
            answer=None if entry is None else entry.answer(),
            in_calibration=item.in_calibration,
            done=state == DONE,
            image_changed=state == CHANGED,
            locked=self._history.is_locked(self._annotator, item),
            problem=next((fault for fault in faults if fault), ""),
            asked_again=state == AGAIN,
        )

    def calibration_done(self) -> int:
        """How many items of the calibration round are done."""
        return int((self._state[self._of_calibration] == DONE).sum())

    def progress(self) -> Progress:
        """How far the annotator is."""
        counts = np.bincount(self._state, minlength=5)
        waiting = np.flatnonzero(np.isin(self._state, (OPEN, CHANGED, AGAIN)))
        if not waiting.size:
            waiting = np.flatnonzero(self._state == SKIPPED)
        return Progress(
            total=len(self.order),
            done=int(counts[DONE]),
            skipped=int(counts[SKIPPED]),
            calibration_total=int(self._of_calibration.sum()),
            calibration_done=self.calibration_done(),
            calibration_discussed=self._history.closed,
            seconds_per_image=self._pace(),
            next_position=int(waiting[0]) if waiting.size else None,
            changed=int(counts[CHANGED]),
            again=int(counts[AGAIN]),
        )

    def _state_of(self, item: DeskItem) -> int:
        entry = self._history.newest(self._annotator, (item.item_id,))
        if entry is None:
            return OPEN
        if self._history.is_asked_again(self._annotator, item.item_id):
            return AGAIN
        if entry.skipped:
            return SKIPPED
        if is_on_other_content(entry, item, self._marks):
            return CHANGED
        return DONE if self._attributes <= entry.content["answers"].keys() else OPEN

    def _pace(self) -> float | None:
        # An item's last key press has the whole time since it came up.
        seconds: dict[str | None, float] = {}
        for entry in islice(self._history.recent(self._annotator), _PACE_ENTRIES):
            if entry.milliseconds is not None and len(seconds) < _PACE_ITEMS:
                seconds.setdefault(entry.item_id, entry.milliseconds / 1000)
        return median(seconds.values()) if seconds else None
