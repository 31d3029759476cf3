"""Opens a labelling store's file, or makes it; reads the log as it grows; adds to it, without loss or repeats."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, config_error_from
from detector_bench.labelling.connection import Database, bring_up_to_date, check_file, is_empty, make_tables
from detector_bench.labelling.history import COLUMNS, Entry, History, Kind, entry_from
from detector_bench.labelling.image_marks import ImageMarks, Mark
from detector_bench.labelling.items import DeskItem, images_text, item_from, items_in, new_items
from detector_bench.labelling.questions import DeskSettings, Task
from detector_bench.labelling.records import AnswerConflictError, StoreError
from detector_bench.vocabulary import ATTRIBUTES

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


_FILE_NAMES = {Task.IMAGES: "labelling.sqlite", Task.PAIRS: "labelling-pairs.sqlite"}


class Opened(NamedTuple):
    """A store's file, ready for use.

    Attributes:
        database: the file.
        settings: the settings that it was made with.
        items: everything that it knows, also what is no longer in the image set.
        present: those of them that are in the image set, in its order.
        unknown: ids of items that are in the image set but not in the store, which was opened only to be read.
        marks: the image files.
    """

    database: Database
    settings: DeskSettings
    items: dict[str, DeskItem]
    present: list[DeskItem]
    unknown: list[str]
    marks: ImageMarks


def default_path(image_set: Path, task: Task = Task.IMAGES) -> Path:
    """Where an image set's store lies unless another file is named; each task has its own."""
    return image_set / _FILE_NAMES[task]


def open_file(
    path: Path,
    image_set: ImageSet,
    *,
    settings: DeskSettings | None,
    read_only: bool,
    accept_changes: bool,
    progress: Callable[[int, int], None] | None,
    asked: Collection[str] | None = None,
    calibration: Collection[str] | None = None,
) -> Opened:
    """Open a store's file, or make it; arguments and errors as in `LabelStore.open`.

    The calibration round of a store that is made here is drawn among the items that are `asked` for (None: all),
    unless `calibration` names it.
    """
    if not path.exists():
        items_in(image_set, (settings or DeskSettings()).task)  # no file is made for what cannot be judged
    database = Database(path, read_only=read_only)
    try:
        if is_empty(database):
            _make(database, path, image_set, settings or DeskSettings(), read_only=read_only)
        check_file(database, path)
        if not read_only:
            bring_up_to_date(database)
        stored = _settings(database, path, settings)
        present = items_in(image_set, stored.task)
        marks = _marks(database, image_set)
        marks.survey()
        if not accept_changes:
            _check_image_set(database, path, image_set, marks)
        marks.adopt(progress=progress)
        items = _items(database)
        if not read_only and (marks.unsaved() or any(item.item_id not in items for item in present)):
            items = _register(database, present, stored, marks, asked=asked, calibration=calibration)
        if calibration is not None and not read_only:
            items = _with_calibration(database, path, items, calibration)
    except BaseException:
        database.close()
        raise
    return Opened(
        database,
        stored,
        items,
        # Which images make a pair is said by the image set as it is now.
        [_with_images(items[item.item_id], item) for item in present if item.item_id in items],
        [item.item_id for item in present if item.item_id not in items],
        marks,
    )


def _marks(database: Database, image_set: ImageSet) -> ImageMarks:
    paths = dict(zip(image_set.images["image_id"], image_set.images["path"], strict=True))
    rows = database.read("SELECT image_id, path, size, modified, sha256 FROM images")

    def ask(image_id: str) -> Mark | None:
        found = database.read("SELECT path, size, modified, sha256 FROM images WHERE image_id = ?", (image_id,))
        return Mark(*found[0]) if found else None

    return ImageMarks(image_set.root, paths, {name: Mark(*mark) for name, *mark in rows}, ask=ask)


def _with_images(known: DeskItem, present: DeskItem) -> DeskItem:
    return known if known.images == present.images else known._replace(images=present.images)


def _make(database: Database, path: Path, image_set: ImageSet, settings: DeskSettings, *, read_only: bool) -> None:
    if read_only:
        raise StoreError(f"the labelling store {str(path)!r} is empty")
    with database.writing() as connection:
        # Another process may have been quicker.
        if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            make_tables(connection)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            row = (settings.task.value, settings.model_dump_json(), image_set.name, now)
            connection.execute("INSERT INTO desk VALUES (?, ?, ?, ?)", row)


def _settings(database: Database, path: Path, wanted: DeskSettings | None) -> DeskSettings:
    try:
        stored = DeskSettings.model_validate_json(database.read("SELECT settings FROM desk")[0][0])
    except ValidationError as error:
        raise config_error_from(error, place=str(path), model=DeskSettings) from error
    for name, classes in stored.own_classes.items():
        if (now := ATTRIBUTES[name].classes) != classes:
            raise ConfigError(
                f"the labelling store {str(path)!r} holds labels of {name!r} with the classes "
                f"{', '.join(classes)}, not {', '.join(now)}; set the attribute's file back, or name another file "
                "with --store"
            )
    if wanted is None or wanted == stored:
        return stored
    given, made = wanted.model_dump(mode="json"), stored.model_dump(mode="json")
    differences = "; ".join(
        f"{name} {made[name]!r}, not {given[name]!r}" for name in made if made[name] != given[name]
    )
    raise ConfigError(
        f"the labelling store {str(path)!r} was made with {differences}; "
        "use its settings, or name another file with --store"
    )


def _check_image_set(database: Database, path: Path, image_set: ImageSet, marks: ImageMarks) -> None:
    known, kept = marks.kept()
    if known and 2 * kept < known:
        name = database.read("SELECT image_set FROM desk")[0][0]
        raise StoreError(
            f"the labelling store {str(path)!r} seems to belong to another image set: it was made for {name!r}, "
            f"and of the {known:,} images that it knows, {kept:,} are in {image_set.name!r} with files of that "
            "size; name another file with --store, or accept the changes if this is what became of its image set"
        )


def _register(
    database: Database,
    present: list[DeskItem],
    settings: DeskSettings,
    marks: ImageMarks,
    *,
    asked: Collection[str] | None,
    calibration: Collection[str] | None,
) -> dict[str, DeskItem]:
    learned = marks.unsaved()
    with database.writing() as connection:
        rows = [
            (item.item_id, images_text(item), item.batch, item.in_calibration)
            # Read again: another process may have registered them meanwhile.
            for item in new_items(present, _items(database), settings, asked=asked, calibration=calibration)
        ]
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
        save_marks(connection, learned)
    marks.saved(learned)
    return _items(database)


def _with_calibration(
    database: Database, path: Path, items: dict[str, DeskItem], calibration: Collection[str]
) -> dict[str, DeskItem]:
    """Make these items the calibration round, which nobody may have begun as another one."""
    wanted = {name for name in calibration if name in items}
    known = {name for name, item in items.items() if item.in_calibration}
    if wanted == known:
        return items
    with database.writing() as connection:
        if connection.execute("SELECT 1 FROM log LIMIT 1").fetchone():
            raise ConfigError(
                f"people have begun to label in {str(path)!r} with another calibration round, of {len(known):,} "
                f"items where {len(wanted):,} are asked for now: put the former calibration.csv back (or remove "
                "it, if there was none), or name another file with --store"
            )
        connection.execute("UPDATE items SET in_calibration = 0")
        connection.executemany(
            "UPDATE items SET in_calibration = 1 WHERE item_id = ?", [(name,) for name in wanted]
        )
    return _items(database)


def _items(database: Database) -> dict[str, DeskItem]:
    rows = database.read("SELECT item_id, images, batch, in_calibration FROM items")
    return {row[0]: item_from(*row) for row in rows}
