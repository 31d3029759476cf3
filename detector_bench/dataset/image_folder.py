"""The one rule for links in an image set: what a path names must lie below the image set's folder, links followed.

A link to a file, a linked folder and a link in the middle of a path are followed as long as they stay below the
folder. What leads out of it is never read: whoever made the image set could show any picture of this machine to
annotators, judges and readers of a report that way. Clusters that link their images allow the folder they link to,
by `--allow-root FOLDER` or the variable `DETECTOR_BENCH_IMAGE_ROOTS`; neither a study nor an image set can.

A hard link is a file like any other, and cannot be told from one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from detector_bench.errors import ConfigError

ROOTS_VARIABLE = "DETECTOR_BENCH_IMAGE_ROOTS"
"""Folders that links of image sets may lead to, separated as in PATH."""

LEAVES_THROUGH_LINK = "path that leaves the folder through a link"

_FLAGS = (
    os.O_RDONLY
    | os.O_CLOEXEC
    # Between the look and the opening the file may have become a pipe, which would be waited for, or a link.
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_OPEN_FILES = "/proc/self/fd"


class LeavesFolderError(Exception):
    """A path leads out of the image set's folder, and not to a folder that is allowed."""

    def __init__(self) -> None:
        super().__init__(LEAVES_THROUGH_LINK)


class NotARegularFileError(Exception):
    """A folder, device, pipe or socket stands where a file was expected."""


def allowed_roots() -> tuple[str, ...]:
    """The folders that links may lead to besides the image set's own, with links resolved.

    Raises:
        ConfigError: the variable names something that is no folder, or is not absolute.
    """
    return _resolved(os.environ.get(ROOTS_VARIABLE, ""))


@lru_cache(maxsize=8)
def _resolved(variable: str) -> tuple[str, ...]:
    roots = []
    for part in variable.split(os.pathsep):
        if part:
            path = Path(part).expanduser()
            if not path.is_absolute():
                raise ConfigError(f"{ROOTS_VARIABLE}: {part!r} (accepted: absolute paths of folders)")
            roots.append(_folder(path, ROOTS_VARIABLE))
    return tuple(dict.fromkeys(roots))


def _folder(path: Path, origin: str) -> str:
    if not path.is_dir():
        raise ConfigError(f"{origin}: there is no folder {str(path)!r}")
    return os.path.realpath(path)


@contextmanager
def allowing(folders: Sequence[Path], *, origin: str = "--allow-root") -> Iterator[None]:
    """Allow links into further folders as long as the block takes; processes that it starts allow them, too.

    Raises:
        ConfigError: there is no such folder, or its name cannot stand in a list of folders.
    """
    added = [_folder(folder, origin) for folder in folders]
    for folder in added:
        if os.pathsep in folder:
            raise ConfigError(f"{origin}: {folder!r} (accepted: a folder without {os.pathsep!r} in its path)")
    before = os.environ.get(ROOTS_VARIABLE)
    if added:
        os.environ[ROOTS_VARIABLE] = os.pathsep.join(dict.fromkeys([*([before] if before else []), *added]))
    try:
        yield
    finally:
        if added and before is None:
            os.environ.pop(ROOTS_VARIABLE, None)
        elif added and before is not None:
            os.environ[ROOTS_VARIABLE] = before


class ImageFolder:
    """Finds and opens files below a folder, and refuses what leads out of it. Any thread may ask.

    Each folder is resolved once, so that a file costs one look at itself. It can be pickled; then the folders that
    are allowed go with it to machines that know nothing of them.

    Args:
        root: the image set's folder.
        allowed: further folders that links may lead to, with links resolved; None: `allowed_roots`.
    """

    def __init__(self, root: Path | str, allowed: Sequence[str] | None = None) -> None:
        self.root = os.path.realpath(root)
        self._allowed = allowed_roots() if allowed is None else tuple(allowed)
        self._within = tuple(folder.rstrip(os.sep) + os.sep for folder in (self.root, *self._allowed))
        self._real_folders: dict[str, str | None] = {}

    def __reduce__(self) -> tuple[Callable[..., ImageFolder], tuple[str, tuple[str, ...]]]:
        return _again, (self.root, self._allowed)

    def find(self, path: str) -> tuple[str, os.stat_result]:
        """Where a file really lies, and what it is like.

        Args:
            path: relative to the folder, with / between its parts.

        Raises:
            LeavesFolderError: it lies outside.
            OSError: it is not there, or cannot be looked at.
            ValueError: no file can have this name.
        """
        head, _, name = path.rpartition("/")
        is_known = head in self._real_folders
        try:
            return self._find(path, head, name)
        except FileNotFoundError:
            if not is_known:
                raise
        self._real_folders.pop(head, None)  # perhaps the folder has moved since it was resolved
        return self._find(path, head, name)

    def _find(self, path: str, head: str, name: str) -> tuple[str, os.stat_result]:
        if head not in self._real_folders:
            real = os.path.realpath(os.path.join(self.root, head), strict=True)  # noqa: PTH118 - may be millions
            self._real_folders[head] = real if self._contains(real) else None
        folder = self._real_folders[head]
        if folder is None:
            raise LeavesFolderError
        whole = f"{folder}{os.sep}{name}"
        status = os.lstat(whole)
        if stat.S_ISLNK(status.st_mode) or name in ("", os.curdir, os.pardir):
            whole = os.path.realpath(os.path.join(self.root, path), strict=True)  # noqa: PTH118 - as above
            if not self._contains(whole):
                raise LeavesFolderError
            status = os.lstat(whole)
        return whole, status

    def open(self, path: str) -> BinaryIO:
        """Open a regular file to be read.

        Raises:
            NotARegularFileError: it is another thing.
            LeavesFolderError, OSError, ValueError: as in `find`.
        """
        whole, status = self.find(path)
        # Opening a device may do something to it.
        if not stat.S_ISREG(status.st_mode):
            raise NotARegularFileError(path)
        file = open(os.open(whole, _FLAGS), "rb")  # noqa: PTH123, SIM115 - pathlib cannot open a descriptor
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotARegularFileError(path)
            self._require_inside(file.fileno(), whole)
        except BaseException:
            file.close()
            raise
        return file

    def leads_out(self, path: str) -> bool:
        """Whether a path leads out of the folder, be there a file or not."""
        return not self._contains(os.path.realpath(os.path.join(self.root, path)))  # noqa: PTH118 - as above

    def _require_inside(self, descriptor: int, whole: str) -> None:
        """Make sure that an open file lies where it was found: a folder may have become a link in between."""
        try:
            opened = os.readlink(f"{_OPEN_FILES}/{descriptor}")  # noqa: PTH115 - there may be millions
        except OSError:  # a system that does not tell
            return
        if opened == whole:
            return
        real = os.path.realpath(whole, strict=True)
        if not self._contains(real) or not os.path.samestat(os.stat(real), os.fstat(descriptor)):  # noqa: PTH116
            raise LeavesFolderError

    def _contains(self, real: str) -> bool:
        return real == self.root or f"{real}{os.sep}".startswith(self._within)


@lru_cache(maxsize=8)
def _again(root: str, allowed: tuple[str, ...]) -> ImageFolder:
    """The folder of another process here; the same each time, for what is known of folders is worth keeping."""
    return ImageFolder(root, allowed)
