"""SQLite as the labelling store uses it: its tables, a connection per thread, whole transactions, clear errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from detector_bench.labelling.records import StoreError

_PATIENCE = 30.0  # seconds that one process waits for another's transaction
_READ_ONLY = "it can only be read: make the file and its folder writable, or name another file with --store"
_CAUSES = (
    ("file is not a database", "it is no SQLite file, or it is damaged; restore a copy, or name another file"),
    ("malformed", "the file is damaged; restore a copy, or name another file"),
    ("readonly", _READ_ONLY),
    ("unable to open", "it cannot be opened or made: look at the folder, and at who may write there"),
    ("disk is full", "the disk is full; nothing of the last answer was kept"),
    ("locked", f"another program has kept it locked for {_PATIENCE:.0f} seconds"),
)


class _Connection(sqlite3.Connection):
    """SQLite's connection, which as a subclass can be held weakly: it closes when its thread ends."""


class Database:
    """An SQLite file that any thread of this process may use, beside other processes.

    Write-ahead logging, and `synchronous=FULL`: a transaction that has returned is on the disk.

    Args:
        path: the file; made if it is missing, unless `read_only`.
        read_only: open it without changing anything.

    Raises:
        StoreError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._of_thread = threading.local()
        self._opened: WeakSet[_Connection] = WeakSet()
        self._is_closed = False
        if read_only and not path.is_file():
            raise StoreError(f"the labelling store {str(path)!r} is missing")
        self._connection()
        self._inode = self._inode_now()

    def read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """All rows of a query."""
        with self._clear_errors():
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees everything written before it: all of the block is kept, or nothing of it.

        Raises:
            StoreError: it cannot be written, or the file was moved or deleted since it was opened.
        """
        if self._read_only:
            raise StoreError(f"the labelling store {str(self._path)!r} was opened only to be read")
        if self._inode_now() != self._inode:
            # SQLite would go on writing to a file that no longer has a name.
            raise StoreError(
                f"the labelling store {str(self._path)!r} was moved, deleted or replaced while it was open; "
                "bring it back and start again"
            )
        with self._clear_errors():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A full disk, for one, has rolled back already; a second time would hide what went wrong.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections of all threads."""
        self._is_closed = True
        for connection in list(self._opened):
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreError(f"the labelling store {str(self._path)!r} is closed")
        if not hasattr(self._of_thread, "connection"):
            with self._clear_errors():
                self._of_thread.connection = self._connect()
                self._opened.add(self._of_thread.connection)
        connection: sqlite3.Connection = self._of_thread.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._address() if self._read_only else self._path,
            uri=self._read_only,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,  # only so that `close` may close it
            factory=_Connection,
        )
        try:
            if not self._read_only:
                _use_write_ahead_log(connection)
                connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _address(self) -> str:
        log = self._path.with_name(self._path.name + "-wal")
        address = self._path.resolve().as_uri() + "?mode=ro"
        # Where no log is beside it and none can be made, SQLite opens it only if told that it is at rest.
        effective = os.access in os.supports_effective_ids
        if not log.exists() and not os.access(self._path.parent, os.W_OK, effective_ids=effective):
            address += "&immutable=1"
        return address

    def _inode_now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            cause = next((cause for mark, cause in _CAUSES if mark in text), text)
            raise StoreError(
                f"the labelling store {str(self._path)!r} cannot be used: {cause} ({text})"
            ) from error


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # Switching to it is the one thing at which SQLite does not wait for another process by itself.
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


APPLICATION_ID = 0x44424C44
"""Marks the file as a labelling store ("DBLD"), so that no other SQLite file is mistaken for one."""

SCHEMA_VERSION = 2
"""1 knew no `again` and no `wording`; such a file is read as it is, and brought up to date when it is written."""

_OLDEST_VERSION = 1

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
"""

_LOG = """
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    entry_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('answer', 'decision', 'undo', 'calibration', 'again', 'wording')),
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
    for statement in _statements(_TABLES + _LOG):
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
    if not _OLDEST_VERSION <= version <= SCHEMA_VERSION:
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


def bring_up_to_date(database: Database) -> None:
    """Let a file of an earlier version take all kinds of entries; nothing that is in its log changes."""
    if _number(database, "user_version") == SCHEMA_VERSION:
        return
    with database.writing() as connection:
        if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
            return  # another process was quicker
        # SQLite cannot change what a column accepts: the entries move into a table that accepts more.
        for trigger in ("log_keeps_entries", "log_loses_nothing"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        connection.execute("ALTER TABLE log RENAME TO former_log")
        for statement in _statements(_LOG):
            connection.execute(statement)
        connection.execute("INSERT INTO log SELECT * FROM former_log ORDER BY sequence")
        connection.execute("DROP TABLE former_log")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


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
