"""The tables of the labelling store's file, and what makes a file such a store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from detector_bench.labelling.connection import Database
from detector_bench.labelling.records import StoreError

APPLICATION_ID = 0x44424C44
"""Marks the file as a labelling store ("DBLD"), so that no other SQLite file is mistaken for one."""

SCHEMA_VERSION = 1

_TABLES = """
CREATE TABLE desk (
    task TEXT NOT NULL,
    settings TEXT NOT NULL,     -- JSON
    image_set TEXT NOT NULL,    -- the folder's name, for messages
    made_at TEXT NOT NULL
);
CREATE TABLE images (
    image_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    size INTEGER,               -- bytes; NULL: the file could not be read
    modified INTEGER,           -- nanoseconds; NULL: too fresh to be relied on
    sha256 TEXT                 -- NULL: nobody has judged it yet
) WITHOUT ROWID;
CREATE TABLE items (
    item_id TEXT PRIMARY KEY,
    images TEXT NOT NULL,       -- JSON: [[role, image_id], ...]
    batch INTEGER NOT NULL,     -- 0: there when the store was made; later ones come after earlier ones
    in_calibration INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    entry_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('answer', 'decision', 'undo', 'calibration')),
    annotator TEXT NOT NULL,
    item_id TEXT,
    content TEXT NOT NULL,      -- JSON, as the client sent it
    seen TEXT NOT NULL,         -- JSON, what the store added: what was looked at
    milliseconds INTEGER,
    recorded_at TEXT NOT NULL
);
CREATE TRIGGER log_keeps_entries BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_loses_nothing BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
"""


def is_empty(database: Database) -> bool:
    """Whether nothing was ever put into the file."""
    return not database.read("SELECT 1 FROM sqlite_master LIMIT 1") and _number(database, "application_id") == 0


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, inside the caller's transaction: a file has all of them or none."""
    for statement in _statements(_TABLES):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def check_file(database: Database, path: Path) -> None:
    """Check that the file is a whole labelling store of this version.

    Raises:
        StoreError: another kind of file, another version, or damaged.
    """
    if _number(database, "application_id") != APPLICATION_ID:
        raise StoreError(f"{str(path)!r} is a database, but no labelling store; name another file")
    version = _number(database, "user_version")
    if version != SCHEMA_VERSION:
        age, remedy = ("an older", "export the labels with that one, and import them here")
        if version > SCHEMA_VERSION:
            age, remedy = ("a newer", "update detector_bench")
        raise StoreError(
            f"the labelling store {str(path)!r} has the format {version} of {age} detector_bench; "
            f"this one reads format {SCHEMA_VERSION}: {remedy}"
        )
    findings = [str(row[0]) for row in database.read("PRAGMA quick_check(3)")]
    if findings != ["ok"]:
        raise StoreError(
            f"the labelling store {str(path)!r} is damaged ({findings[0].splitlines()[0]}); "
            "restore a copy, or name another file"
        )


def _number(database: Database, pragma: str) -> int:
    return int(database.read(f"PRAGMA {pragma}")[0][0])


def _statements(script: str) -> list[str]:
    # `executescript` would commit the transaction that this is a part of.
    found, current = [], ""
    for line in script.strip().splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found
