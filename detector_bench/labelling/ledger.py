"""Reads the log of a labelling store as it grows, and adds to it so that nothing is lost or doubled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from detector_bench.labelling.connection import Database
from detector_bench.labelling.history import COLUMNS, Entry, History, Kind, entry_from
from detector_bench.labelling.image_marks import ImageMarks, Mark
from detector_bench.labelling.records import AnswerConflictError

_NEWER = f"SELECT {COLUMNS} FROM log WHERE sequence > ? ORDER BY sequence"  # noqa: S608 - our own column names
_INSERT = (
    "INSERT INTO log (entry_id, kind, annotator, item_id, content, seen, milliseconds, recorded_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry that is to be added.

    Attributes:
        entry_id, kind, annotator, item_id, content, milliseconds: as in `Entry`.
        settle: called when nothing can be written in between any more; checks what hangs on the log so far, and
            gives the entry's `seen`.
    """

    entry_id: str
    kind: Kind
    annotator: str
    item_id: str | None
    content: Mapping[str, Any]
    settle: Callable[[], Mapping[str, Any]]
    milliseconds: int | None = None

    def is_same_as(self, entry: Entry) -> bool:
        """Whether the entry is what this draft would become."""
        mine = (self.kind, self.annotator, self.item_id, self.milliseconds, self.content)
        return mine == (entry.kind, entry.annotator, entry.item_id, entry.milliseconds, entry.content)


class Ledger:
    """The log of a store, beside what it says so far. Callers take care that one thread at a time uses it.

    Args:
        database: the store's file.
        marks: image files; what was learned about them is stored with the next entry.
        on_change: told of every answer or decision that now counts, or no longer does.
    """

    def __init__(self, database: Database, marks: ImageMarks, *, on_change: Callable[[Entry], None]) -> None:
        self.history = History()
        self._database = database
        self._marks = marks
        self._on_change = on_change

    def follow(self) -> None:
        """Take in what was added since, by whichever process."""
        self._apply(self._database.read(_NEWER, (self.history.sequence,)))

    def add(self, drafts: Sequence[Draft]) -> list[bool]:
        """Add entries, all or none of them; they are on the disk when this returns.

        Returns:
            For each draft, whether it had been stored before; then it changed nothing.

        Raises:
            AnswerConflictError: an id was used before for something else.
            RefusedAnswerError: raised by a draft's `settle`.
        """
        repeated = []
        with self._database.writing() as connection:
            # From here on no other process writes, so what is checked now stays true until the end.
            self._apply(connection.execute(_NEWER, (self.history.sequence,)).fetchall())
            for draft in drafts:
                known = self.history.by_id.get(draft.entry_id)
                if known is not None and not draft.is_same_as(known):
                    raise AnswerConflictError(f"the id {draft.entry_id!r} belongs to another answer")
                repeated.append(known is not None)
            self._insert(connection, [draft for draft, known in zip(drafts, repeated, strict=True) if not known])
            learned = self._marks.unsaved()
            save_marks(connection, learned)
        self._marks.saved(learned)
        self.follow()
        return repeated

    def _insert(self, connection: sqlite3.Connection, drafts: Sequence[Draft]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for draft in drafts:
            fields = (draft.entry_id, draft.kind.value, draft.annotator, draft.item_id)
            texts = (_json(draft.content), _json(draft.settle()))
            connection.execute(_INSERT, (*fields, *texts, draft.milliseconds, now))

    def _apply(self, rows: Sequence[tuple[Any, ...]]) -> None:
        for row in rows:
            self._on_change(self.history.apply(entry_from(row)))


def save_marks(connection: sqlite3.Connection, marks: Mapping[str, Mark]) -> None:
    """Store what is known of image files, inside the caller's transaction."""
    rows = [(name, mark.path, mark.size, mark.modified, mark.sha256) for name, mark in marks.items()]
    connection.executemany("INSERT OR REPLACE INTO images VALUES (?, ?, ?, ?, ?)", rows)


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
