"""Keeps stage results on disk, by image content and stage fingerprint, so that nothing is computed twice."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.numpy import load, save

from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import Arrays

CACHE_VARIABLE = "DETECTOR_BENCH_CACHE"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    stage TEXT NOT NULL, image TEXT NOT NULL, arrays BLOB NOT NULL, PRIMARY KEY (stage, image)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, modified INTEGER, changed INTEGER, inode INTEGER, sha256 TEXT NOT NULL
) WITHOUT ROWID;
"""
# A file changed within the clock's resolution of being hashed could change again and look the same.
_SETTLING_NANOSECONDS = 2_000_000_000
_SHA256 = re.compile("[0-9a-f]{64}")
_PER_QUERY = 500
_PATIENCE = 60.0  # seconds


def default_cache_folder() -> Path:
    """`DETECTOR_BENCH_CACHE`, or the user's cache folder."""
    variable = os.environ.get(CACHE_VARIABLE)
    return Path(variable) if variable else user_cache_path("detector_bench") / "stages"


class StageCache:
    """A SQLite file of stage results, and of the content hashes of files that have not changed since.

    Several processes may share it. Arrays are stored as safetensors, which holds data and no code.

    Args:
        folder: created if missing; None keeps nothing.

    Raises:
        DetectorBenchError: the folder cannot be written, or the file is damaged.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lock = RLock()  # one connection serves the loading thread and the main thread
        self._file = None if folder is None else folder / "stages.sqlite"
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            # SQLite waits for another process everywhere but here: two that make the file at once would collide.
            alone = nullcontext() if folder is None else FileLock(folder / ".opening.lock", timeout=_PATIENCE)
            with alone:
                self._connection = self._open()
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:" if self._file is None else self._file,
            timeout=_PATIENCE,
            check_same_thread=False,
            isolation_level=None,
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, stage: str, images: Sequence[str]) -> dict[str, Arrays]:
        """Stored results of a stage, by image content; images without one are left out."""
        found: dict[str, Arrays] = {}
        if self._file is None:  # nothing is ever kept
            return found
        for start in range(0, len(images), _PER_QUERY):
            part = images[start : start + _PER_QUERY]
            marks = ",".join("?" * len(part))
            query = f"SELECT image, arrays FROM results WHERE stage = ? AND image IN ({marks})"  # noqa: S608
            for image, arrays in self._execute(query, (stage, *part)):
                try:
                    found[image] = load(arrays)
                except (SafetensorError, TypeError, ValueError, KeyError) as error:
                    raise self._unusable(error) from error
        return found

    def put(self, stage: str, results: Mapping[str, Arrays]) -> None:
        """Store results of a stage, all or none of them."""
        if self._file is None:
            return
        rows = [(stage, image, _saved(arrays)) for image, arrays in results.items()]
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)

    def known_sha256(self, paths: Sequence[Path]) -> list[str | None]:
        """The content hash of each file that is the same as when it was hashed; None for others.

        Same means: size, inode, and the times of the last change of content and of status, in nanoseconds.
        """
        marks: dict[str, tuple[int, int, int, int]] = {}
        for path in paths:
            try:
                status = path.stat()
            except (OSError, ValueError):
                continue
            marks[str(path)] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        stored: dict[str, str] = {}
        names = list(marks)
        for start in range(0, len(names), _PER_QUERY):
            part = names[start : start + _PER_QUERY]
            query = f"SELECT * FROM files WHERE path IN ({','.join('?' * len(part))})"  # noqa: S608
            stored.update(
                {
                    name: sha256
                    for name, *mark, sha256 in self._execute(query, part)
                    # A damaged row is no knowledge: the file is read again.
                    if marks.get(name) == tuple(mark) and isinstance(sha256, str) and _SHA256.fullmatch(sha256)
                }
            )
        return [stored.get(str(path)) for path in paths]

    def remember_sha256(self, hashed: Iterable[tuple[Path, os.stat_result, str]]) -> None:
        """Store content hashes with the status that the files had just before they were read."""
        now = time.time_ns()
        self._write(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
            [
                (str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, sha256)
                for path, status, sha256 in hashed
                if now - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLING_NANOSECONDS
            ],
        )

    def close(self) -> None:
        """Close the cache file; what was stored stays."""
        self._connection.close()

    def _execute(self, query: str, values: Sequence[str]) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows or self._file is None:
            return
        try:
            with self._lock:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    self._connection.executemany(query, rows)
                    self._connection.execute("COMMIT")
                except BaseException:
                    # A full disk, for one, has rolled back already; a second time would hide what went wrong.
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> DetectorBenchError:
        return DetectorBenchError(
            f"the stage cache {str(self._file)!r} cannot be used: {error}; delete that file, name another folder "
            f"with --cache-dir or {CACHE_VARIABLE}, or run with --no-cache"
        )


def _saved(arrays: Arrays) -> bytes:
    # safetensors writes the memory as it lies there, which is another order for views and Fortran arrays.
    stored: bytes = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return stored
