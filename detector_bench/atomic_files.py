"""Writes files whole or not at all: a reader, or a rerun after a crash, never meets half of one."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from detector_bench.errors import DetectorBenchError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; when the block ends well, that file takes the place of `path`.

    Folders are created. The content is on the disk before the name is. What a process of this machine left that
    died while it wrote the same file is removed.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    temporary = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(path)
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


_LEFT_BEHIND = re.compile(r"\.(?P<name>.+)\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)\.tmp")
_left_behind: dict[Path, dict[str, list[str]]] = {}
"""By folder and name, what lay there when this process first wrote into the folder: listing a folder of many
images for each of them would take long."""


@cache
def _machine() -> str:
    """Who writes into a shared folder: the number of a process says nothing on another machine."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _remove_left_behind(path: Path) -> None:
    folder = path.parent.absolute()
    if folder not in _left_behind:
        found: dict[str, list[str]] = {}
        for each in folder.iterdir():
            name = each.name
            if (matched := _LEFT_BEHIND.fullmatch(name)) and matched["machine"] == _machine():
                found.setdefault(matched["name"], []).append(name)
        _left_behind[folder] = found
    for name in _left_behind[folder].pop(path.name, ()):
        matched = _LEFT_BEHIND.fullmatch(name)
        if matched and not _is_alive(int(matched["process"])):
            with suppress(OSError):
                (folder / name).unlink()


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # where asking a process whether it lives would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another person's
        return True
    return True


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
