"""Writes one file of a ledger of paid answers: whole lines, with room kept for answers that are on their way."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

_ROOM_KEPT = 256 * 1024
"""Bytes: more than the answers of 64 requests take that are on the way at once."""


class LedgerWriter:
    """A file that lines are added to; it is made with the first one.

    The disk may fill while requests are on the way. Their answers are paid for, and so room for them is kept from
    the beginning, in a file without a name, which goes with the process.

    Args:
        path: the file, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._room: IO[bytes] | None = None
        self._is_torn = False

    def add(self, text: bytes) -> None:
        """Add a line.

        Raises:
            OSError: it cannot be written, or not whole; or the room that is kept had to be used.
        """
        place = self._opened()
        if self._room is None:
            raise OSError("the disk is full")
        self._write(place, text)

    def _write(self, place: int, text: bytes) -> None:
        # Behind half a line, a whole one begins a line of its own.
        text = b"\n" + text if self._is_torn else text
        written = os.write(place, text)
        self._is_torn = self._is_torn if written == 0 else written < len(text)
        if written < len(text):
            raise OSError("the disk is full")

    def add_outcome(self, text: bytes) -> None:
        """As `add`, on a disk that is full in the room that was kept.

        Raises:
            OSError: that is not enough.
        """
        place = self._opened()
        try:
            self._write(place, text)
        except OSError:
            if self._room is None:
                raise
            self._room.close()
            self._room = None
            self._write(place, text)

    def sync(self) -> None:
        """Wait until all is on the disk.

        Raises:
            OSError: it does not get there.
        """
        if self._file is not None:
            os.fsync(self._file)

    def _opened(self) -> int:
        if self._file is None:
            folder = self._path.parent
            folder.mkdir(parents=True, exist_ok=True)
            room = TemporaryFile(dir=folder)  # noqa: SIM115 - it stays open
            try:
                room.write(os.urandom(_ROOM_KEPT))  # zeros take no room on some file systems
                room.flush()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
                self._file = os.open(self._path, flags, 0o644)
            except OSError:
                with suppress(OSError):
                    room.close()
                raise
            self._room = room
            with suppress(OSError):  # not every file system offers it
                place = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(place)
                finally:
                    os.close(place)
        return self._file
