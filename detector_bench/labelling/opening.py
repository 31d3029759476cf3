"""Opens a labelling store's file, or makes it, and tells it which images there are now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError
from detector_bench.labelling.connection import Database
from detector_bench.labelling.image_marks import ImageMarks, Mark
from detector_bench.labelling.items import DeskItem, images_text, item_from, items_in, new_items
from detector_bench.labelling.ledger import save_marks
from detector_bench.labelling.questions import Task
from detector_bench.labelling.records import StoreError
from detector_bench.labelling.schema import check_file, is_empty, make_tables
from detector_bench.labelling.settings import DeskSettings

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
) -> Opened:
    """Open a store's file, or make it; arguments and errors as in `LabelStore.open`."""
    if not path.exists():
        items_in(image_set, (settings or DeskSettings()).task)  # no file is made for what cannot be judged
    database = Database(path, read_only=read_only)
    try:
        if is_empty(database):
            _make(database, path, image_set, settings or DeskSettings(), read_only=read_only)
        check_file(database, path)
        stored = _settings(database, path, settings)
        present = items_in(image_set, stored.task)
        marks = _marks(database, image_set)
        marks.survey()
        if not accept_changes:
            _check_image_set(database, path, image_set, marks)
        marks.adopt(progress=progress)
        items = _items(database)
        if not read_only and (marks.unsaved() or any(item.item_id not in items for item in present)):
            items = _register(database, present, stored, marks)
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
    stored = DeskSettings.model_validate_json(database.read("SELECT settings FROM desk")[0][0])
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
    database: Database, present: list[DeskItem], settings: DeskSettings, marks: ImageMarks
) -> dict[str, DeskItem]:
    learned = marks.unsaved()
    with database.writing() as connection:
        rows = [
            (item.item_id, images_text(item), item.batch, item.in_calibration)
            # Read again: another process may have registered them meanwhile.
            for item in new_items(present, _items(database), settings)
        ]
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
        save_marks(connection, learned)
    marks.saved(learned)
    return _items(database)


def _items(database: Database) -> dict[str, DeskItem]:
    rows = database.read("SELECT item_id, images, batch, in_calibration FROM items")
    return {row[0]: item_from(*row) for row in rows}
