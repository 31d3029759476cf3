"""What a labelling store holds of everybody, read out of its log: for the coordinator, and for exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any

import pandas as pd

from detector_bench.dataset import ImageSet
from detector_bench.dataset.consensus import ADJUDICATOR
from detector_bench.labelling.history import Entry
from detector_bench.labelling.image_marks import changes
from detector_bench.labelling.items import DeskItem
from detector_bench.labelling.label_table import GivenLabel, disagreements, given_labels, label_table
from detector_bench.labelling.opening import Ledger, Opened
from detector_bench.labelling.progress import is_on_other_content
from detector_bench.labelling.records import Change, Disagreement, StoredAnswer
from detector_bench.labelling.writing import annotator_name


class StoredLabels:
    """Everybody's answers, decisions and images of a store; any thread may read them.

    Attributes:
        path: the SQLite file.
        settings: the settings that the store was made with.
        image_set: the image set.
    """

    def __init__(
        self, path: Path, image_set: ImageSet, opened: Opened, *, on_change: Callable[[Entry], None]
    ) -> None:
        self.path = path
        self.image_set = image_set
        self.settings = opened.settings
        self._opened = opened
        self._marks = opened.marks
        self._present = {item.item_id: item for item in opened.present}
        self._lock = RLock()
        self._ledger = Ledger(opened.database, self._marks, on_change=on_change)

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

    def wordings(self) -> dict[str, Mapping[str, Any]]:
        """In which words annotators were asked, by the id that answers refer to, see `keep_wording`."""
        with self._lock:
            self._ledger.follow()
            return {name: entry.content for name, entry in self._ledger.history.wordings.items()}

    def was_sent_back_before(self, entry: Entry) -> bool:
        """Whether an answer or decision was given after its item had been sent back."""
        with self._lock:
            return self._ledger.history.was_sent_back_before(entry)

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

    def _stored(self, entry: Entry) -> StoredAnswer:
        item = self._present.get(entry.item_id or "")
        changed = not entry.skipped and (item is None or is_on_other_content(entry, item, self._marks))
        return StoredAnswer(entry.answer(), entry.annotator, entry.sequence, entry.recorded_at, changed)
