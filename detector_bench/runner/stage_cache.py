"""Keeps stage results on disk, by image content and stage fingerprint, so that nothing is computed twice."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.numpy import load, save

from detector_bench.dataset.image_sources import ContentMark, ImagePlace, key_of, marks_of
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import Arrays
from detector_bench.runner.shards import Shard

CACHE_VARIABLE = "DETECTOR_BENCH_CACHE"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    stage TEXT NOT NULL, image TEXT NOT NULL, arrays BLOB NOT NULL, PRIMARY KEY (stage, image)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (
    place TEXT PRIMARY KEY, mark TEXT NOT NULL, sha256 TEXT NOT NULL
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
    """What earlier runs found out: stage results by content, and content hashes of files that have not changed.

    Each shard writes a file of its own, so that processes on many machines do not write into one. What runs that
    were cut otherwise have kept is found, too. Arrays are stored as safetensors, which holds data and no code,
    behind a sha256 over themselves, their stage and their image: what does not fit it is computed anew.

    Args:
        folder: created if missing; None keeps nothing.
        shard: whose file is written.

    Raises:
        DetectorBenchError: the folder cannot be written, or a file is damaged.
    """

    def __init__(self, folder: Path | None, *, shard: Shard = Shard()) -> None:  # noqa: B008 - frozen
        self._own: _CacheFile | None = None
        self._others: list[_CacheFile] = []
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(folder / _file_name(shard), error) from error
        self._own = _CacheFile(folder / _file_name(shard))
        # Those of the same layout hold other images.
        others = [path for path in sorted(folder.glob("stages*.sqlite")) if _shard_count(path) != shard.count]
        self._others = [_CacheFile(path) for path in others]

    @property
    def damaged(self) -> int:
        """How many results were asked for, so far, and were not as they had been stored."""
        return sum(file.damaged for file in self._files())

    def get(self, stage: str, images: Sequence[str]) -> dict[str, Arrays]:
        """Stored results of a stage, by image content; images without one, or with a damaged one, are left out."""
        found: dict[str, Arrays] = {}
        for file in self._files():
            wanted = [image for image in images if image not in found]
            if wanted:
                found |= file.get(stage, wanted)
        return found

    def put(self, stage: str, results: Mapping[str, Arrays]) -> None:
        """Store results of a stage, all or none of them."""
        if self._own is not None:
            self._own.put(stage, results)

    def known_sha256(
        self, places: Sequence[ImagePlace], marks: Sequence[ContentMark | None] | None = None
    ) -> list[str | None]:
        """The content hash of each image that is the same as when it was hashed; None for others.

        Args:
            places: where the images lie.
            marks: what they are like now; None: this is looked up. Equal marks mean equal content: of a file, its
                size, inode, and times of the last change of content and of status.
        """
        if self._own is None:
            return [None] * len(places)
        marks = marks_of(places) if marks is None else marks
        keys = [key_of(place) for place in places]
        now = {key: mark.text for key, mark in zip(keys, marks, strict=True) if mark is not None and mark.text}
        stored: dict[str, str] = {}
        for file in self._files():
            wanted = {key: mark for key, mark in now.items() if key not in stored}
            if wanted:
                stored |= file.known_sha256(wanted)
        return [stored.get(key) for key in keys]

    def remember_sha256(self, hashed: Iterable[tuple[ImagePlace, ContentMark, str]]) -> None:
        """Store content hashes with the marks that the images had just before they were read."""
        if self._own is not None:
            self._own.remember_sha256(hashed)

    def close(self) -> None:
        """Close the cache's files; what was stored stays."""
        for file in self._files():
            file.close()

    def _files(self) -> list[_CacheFile]:
        return [] if self._own is None else [self._own, *self._others]


_SHARD_FILE = re.compile(r"stages-\d{5}-of-(\d{5})\.sqlite")


def _file_name(shard: Shard) -> str:
    return "stages.sqlite" if shard.count == 1 else f"stages-{shard.name}.sqlite"


def _shard_count(path: Path) -> int:
    match = _SHARD_FILE.fullmatch(path.name)
    return 1 if match is None else int(match[1])


class _CacheFile:
    """One SQLite file; several processes may share it."""

    def __init__(self, path: Path) -> None:
        self._lock = RLock()  # one connection serves the loading thread and the main thread
        self._file = path
        self._in_use: dict[str, bool] = {}
        self.damaged = 0
        try:
            # SQLite waits for another process everywhere but here: two that make the file at once would collide.
            with FileLock(path.parent / ".opening.lock", timeout=_PATIENCE):
                self._connection = self._open()
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
        # Write-ahead logging does not work on the file systems that many machines share.
        mode = "WAL" if _shard_count(self._file) == 1 else "TRUNCATE"
        try:
            connection.execute(f"PRAGMA journal_mode={mode}")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, stage: str, images: Sequence[str]) -> dict[str, Arrays]:
        """As `StageCache.get`."""
        found: dict[str, Arrays] = {}
        if not self._holds(stage):
            return found
        for start in range(0, len(images), _PER_QUERY):
            part = images[start : start + _PER_QUERY]
            marks = ",".join("?" * len(part))
            query = f"SELECT image, arrays FROM results WHERE stage = ? AND image IN ({marks})"  # noqa: S608
            for image, arrays in self._execute(query, (stage, *part)):
                try:
                    found[image] = load(_checked(arrays, stage=stage, image=image))
                except (SafetensorError, TypeError, ValueError, KeyError):
                    self.damaged += 1
        return found

    def put(self, stage: str, results: Mapping[str, Arrays]) -> None:
        """As `StageCache.put`."""
        rows = [(stage, image, _saved(arrays, stage=stage, image=image)) for image, arrays in results.items()]
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)
        self._in_use[stage] = True

    def _holds(self, stage: str) -> bool:
        # Asked once while there is nothing: what another process adds meanwhile is computed twice and is equal.
        if stage not in self._in_use:
            self._in_use[stage] = bool(self._execute("SELECT 1 FROM results WHERE stage = ? LIMIT 1", (stage,)))
        return self._in_use[stage]

    def known_sha256(self, marks: Mapping[str, str]) -> dict[str, str]:
        """The content hash of each image, by key, that has these marks still."""
        stored: dict[str, str] = {}
        names = list(marks)
        for start in range(0, len(names), _PER_QUERY):
            part = names[start : start + _PER_QUERY]
            query = f"SELECT * FROM contents WHERE place IN ({','.join('?' * len(part))})"  # noqa: S608
            stored.update(
                {
                    name: sha256
                    for name, mark, kept in self._execute(query, part)
                    # A damaged row is no knowledge: the file is read again.
                    if marks.get(name) == mark and (sha256 := _known(name, mark, kept)) is not None
                }
            )
        return stored

    def remember_sha256(self, hashed: Iterable[tuple[ImagePlace, ContentMark, str]]) -> None:
        """As `StageCache.remember_sha256`."""
        now = time.time_ns()
        self._write(
            "INSERT OR REPLACE INTO contents VALUES (?, ?, ?)",
            [
                (key_of(place), mark.text, f"{sha256} {_check_of(key_of(place), mark.text, sha256)}")
                for place, mark, sha256 in hashed
                if mark.text and (mark.changed is None or now - mark.changed > _SETTLING_NANOSECONDS)
            ],
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _execute(self, query: str, values: Sequence[str]) -> list[Any]:
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
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
        return _unusable(self._file, error)


def _unusable(file: Path, error: Exception) -> DetectorBenchError:
    return DetectorBenchError(
        f"the stage cache {str(file)!r} cannot be used: {error}; name another folder with --cache-dir or "
        f"{CACHE_VARIABLE}, or run with --no-cache; answers that were paid for stand in the folder `paid` of "
        "their results"
    )


_MARK = b"checked\n"
"""What a kept result begins with; those of older versions begin with the length of safetensors' header, whose last
bytes are zero."""


def _saved(arrays: Arrays, *, stage: str, image: str) -> bytes:
    # safetensors writes the memory as it lies there, which is another order for views and Fortran arrays.
    stored: bytes = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return _MARK + _digest(stage, image, stored) + stored


def _checked(kept: object, *, stage: str, image: str) -> bytes:
    """What safetensors stored; a ValueError if it is not that any more."""
    if not isinstance(kept, bytes):
        raise TypeError("not what is stored there")
    if not kept.startswith(_MARK):
        return kept  # from before there was a digest
    digest, stored = kept[len(_MARK) : len(_MARK) + 32], kept[len(_MARK) + 32 :]
    if digest != _digest(stage, image, stored):
        raise ValueError("not as it was stored")
    return stored


def _digest(stage: str, image: str, stored: bytes) -> bytes:
    return hashlib.sha256(f"{stage} {image} ".encode() + stored).digest()


def _known(place: str, mark: str, kept: object) -> str | None:
    """The sha256 of an image's content, if the row that keeps it is as it was written."""
    sha256, _, check = str(kept).partition(" ")
    return sha256 if _SHA256.fullmatch(sha256) and check == _check_of(place, mark, sha256) else None


def _check_of(place: str, mark: str, sha256: str) -> str:
    return hashlib.sha256("\0".join((place, mark, sha256)).encode(errors="surrogatepass")).hexdigest()[:16]
