"""Results of stages on disk, by stage and image content, so that nothing is computed twice.

`CACHE/stages[-SHARD].sqlite` has two tables: `results` (stage fingerprint, image sha256, arrays) and `contents`
(place of an image, mark, sha256): the content of files that have not changed since they were read. Arrays are
safetensors, which hold data and no code, behind a sha256 over themselves, their stage and their image. Each shard
writes a file of its own and reads all.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import load, save

from detector_bench_next.detector import Arrays
from detector_bench_next.errors import DetectorBenchError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    stage TEXT NOT NULL, image TEXT NOT NULL, arrays BLOB NOT NULL, PRIMARY KEY (stage, image)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (
    place TEXT PRIMARY KEY, mark TEXT NOT NULL, sha256 TEXT NOT NULL
) WITHOUT ROWID;
"""
_PER_QUERY = 500
_PATIENCE = 60.0  # seconds
_MOST_OPEN = 64
"""Files of other shards that are open at once: a process may open about a thousand."""


class StageCache:
    """Kept results and contents. Threads may share it.

    Args:
        folder: created if missing.
        writer: name of the shard whose file is written; "" for the one file of a run that is not cut.

    Raises:
        DetectorBenchError: the folder cannot be written, or a file is no cache.
    """

    def __init__(self, folder: Path, writer: str = "") -> None:
        self.folder, self.damaged = folder, 0
        self._file = folder / (f"stages-{writer}.sqlite" if writer else "stages.sqlite")
        self._lock = RLock()  # a connection serves one thread at a time
        self._open: dict[Path, sqlite3.Connection] = {}
        self._in_use: dict[tuple[Path, str], bool] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # SQLite waits for other processes everywhere but here: two that make the file at once would collide.
            with FileLock(folder / ".opening.lock", timeout=_PATIENCE):
                self._own = self._connected(self._file)
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from None
        # Also those of an equal number, which may be another image set's.
        self._others = [path for path in sorted(folder.glob("stages*.sqlite")) if path != self._file]

    @staticmethod
    def _connected(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
        try:
            # Write-ahead logging breaks on network file systems.
            connection.execute("PRAGMA journal_mode=TRUNCATE")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, stage: str, images: Sequence[str]) -> dict[str, Arrays]:
        """Kept results of a stage by image sha256; images without one, or with a damaged one, are left out."""
        found: dict[str, Arrays] = {}
        for path in (self._file, *self._others):
            wanted = [image for image in images if image not in found]
            if not wanted or not self._holds(path, stage):
                continue
            for image, kept in self._rows(
                path, "SELECT image, arrays FROM results WHERE stage = ? AND image", wanted, stage
            ):
                try:
                    found[image] = load(_checked(kept, stage, image))
                except (SafetensorError, TypeError, ValueError, KeyError):
                    self.damaged += 1
        return found

    def put(self, stage: str, results: Mapping[str, Arrays]) -> None:
        """Keep results of a stage by image sha256, all or none of them."""
        rows = [(stage, image, _saved(arrays, stage, image)) for image, arrays in results.items()]
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)
        self._in_use[self._file, stage] = True

    def known_sha256(self, places: Sequence[str], marks: Sequence[str | None]) -> dict[str, str]:
        """Content of each place whose mark is what it was when the place was read; a mark of None says nothing."""
        now = {place: mark for place, mark in zip(places, marks, strict=True) if mark}
        found: dict[str, str] = {}
        for path in (self._file, *self._others):
            wanted = [place for place in now if place not in found]
            for place, mark, kept in self._rows(
                path, "SELECT place, mark, sha256 FROM contents WHERE place", wanted
            ):
                sha256, _, check = str(kept).partition(" ")
                if now.get(place) == mark and check == _check(place, mark, sha256):  # else the file is read again
                    found[place] = sha256
        return found

    def remember(self, contents: Mapping[str, tuple[str, str]]) -> None:
        """Keep the content of places: (mark just before it was read, sha256)."""
        rows = [
            (place, mark, f"{sha} {_check(place, mark, sha)}") for place, (mark, sha) in contents.items() if mark
        ]
        self._write("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Close all files; what was kept stays."""
        with self._lock:
            for connection in (self._own, *self._open.values()):
                connection.close()
            self._open.clear()

    def _holds(self, path: Path, stage: str) -> bool:
        # Asked once: what another process adds meanwhile is computed twice and is equal.
        if (path, stage) not in self._in_use:
            found = list(self._rows(path, "SELECT stage FROM results WHERE stage", [stage], tail=" LIMIT 1"))
            self._in_use[path, stage] = bool(found)
        return self._in_use[path, stage]

    def _rows(self, path: Path, query: str, values: Sequence[str], *first: str, tail: str = "") -> Iterator[Any]:
        for at in range(0, len(values), _PER_QUERY):
            part = values[at : at + _PER_QUERY]
            asked = f"{query} IN ({','.join('?' * len(part))}){tail}"
            try:
                with self._lock:
                    found = self._connection(path).execute(asked, (*first, *part)).fetchall()
            except sqlite3.Error as error:
                if path == self._file:
                    raise self._unusable(error) from None
                return  # another shard's file, which is being made or is damaged, has nothing for us
            yield from found

    def _connection(self, path: Path) -> sqlite3.Connection:
        if path == self._file:
            return self._own
        if path not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            self._open[path] = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE, check_same_thread=False
            )
        return self._open[path]

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        try:
            with self._lock:
                self._own.execute("BEGIN IMMEDIATE")
                try:
                    self._own.executemany(query, rows)
                    self._own.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # a full disk has rolled back already
                        self._own.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> DetectorBenchError:
        return DetectorBenchError(
            f"the stage cache {str(self._file)!r} cannot be used: {error}; name another folder by --cache-dir, "
            "or use --no-cache; answers that were paid for stand in the folder `paid` of their results"
        )


_MARK = b"checked\n"


def _saved(arrays: Arrays, stage: str, image: str) -> bytes:
    # safetensors writes memory as it lies, which is another order for views and Fortran arrays.
    stored: bytes = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return _MARK + _digest(stage, image, stored) + stored


def _checked(kept: object, stage: str, image: str) -> bytes:
    if not isinstance(kept, bytes) or not kept.startswith(_MARK):
        raise TypeError("not what is kept there")
    digest, stored = kept[len(_MARK) : len(_MARK) + 32], kept[len(_MARK) + 32 :]
    if digest != _digest(stage, image, stored):
        raise ValueError("not as it was kept")
    return stored


def _digest(stage: str, image: str, stored: bytes) -> bytes:
    return hashlib.sha256(f"{stage} {image} ".encode() + stored).digest()


def _check(place: str, mark: str, sha256: str) -> str:
    return hashlib.sha256("\0".join((place, mark, sha256)).encode(errors="surrogatepass")).hexdigest()[:16]
