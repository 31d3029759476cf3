"""SQLite as the labelling store uses it: a connection per thread, whole transactions, errors in one clear line."""

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
