"""Writes files whole or not at all: a reader, or a rerun after a crash, never meets half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from detector_bench.errors import DetectorBenchError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; when the block ends well, that file takes the place of `path`.

    Folders are created. The content is on the disk before the name is.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise DetectorBenchError(f"cannot write {str(path)!r}: {error}") from error
    finally:
        with suppress(OSError):  # if it cannot be removed, that is not the news
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    # Windows and some network drives do not offer it; the file is whole there, too.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        DetectorBenchError: the disk is read-only or the like.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DetectorBenchError(f"cannot write {str(path)!r}: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file with line feeds, whole or not at all; see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
