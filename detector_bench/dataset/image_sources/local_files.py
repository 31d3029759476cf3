"""Files below the image set's folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from detector_bench.dataset.decoding import ImageError, content_of
from detector_bench.dataset.image_folder import (
    LEAVES_THROUGH_LINK,
    ROOTS_VARIABLE,
    ImageFolder,
    LeavesFolderError,
    NotARegularFileError,
)
from detector_bench.dataset.image_sources.places import ContentMark, changed, require_size


class LocalFiles:
    """A folder; addresses are paths relative to it. What leads out of it is refused, see `ImageFolder`.

    Messages name files as the image set does: where it lies on this machine is nobody's business in a published
    table.

    Args:
        folder: the image set's, or its path.
    """

    def __init__(self, folder: ImageFolder | Path) -> None:
        self._folder = folder if isinstance(folder, ImageFolder) else ImageFolder(folder)

    @property
    def root(self) -> str:
        """The folder, with links resolved."""
        return self._folder.root

    def mark(self, address: str) -> ContentMark:
        """Size, inode, and the times of the last change of content and of status, in nanoseconds."""
        try:
            return mark_of_file(self._folder.find(address)[1])
        except LeavesFolderError:
            raise _leaves(address) from None
        except (FileNotFoundError, NotADirectoryError):
            raise ImageError("missing_file", f"{address}: no such file") from None
        except (OSError, ValueError) as error:
            detail = f"{address}: {getattr(error, 'strerror', None) or error}"
            raise ImageError("unreadable", detail) from error

    def marks(self, addresses: Sequence[str]) -> list[ContentMark | None]:
        """The marks of files; None where there is none, or where a file lies outside."""
        return [self.mark_or_none(address) for address in addresses]

    def mark_or_none(self, address: str) -> ContentMark | None:
        """The mark of a file; None: there is none, or it lies outside."""
        try:
            return mark_of_file(self._folder.find(address)[1])
        except (LeavesFolderError, OSError, ValueError):
            return None

    def read(
        self,
        address: str,
        *,
        max_bytes: int,
        start: int | None = None,
        end: int | None = None,
        mark: ContentMark | None = None,
    ) -> bytes:
        """Read a regular file, or a part of it; see `FilePlace.read`."""
        if start is None:
            return content_of(lambda: self._opened(address), address, max_bytes=max_bytes)
        return self._part(address, start=start, end=end, max_bytes=max_bytes, mark=mark)

    def _part(
        self, address: str, *, start: int, end: int | None, max_bytes: int, mark: ContentMark | None
    ) -> bytes:
        try:
            with self._opened(address) as file:
                now = mark_of_file(os.fstat(file.fileno()))
                if mark is not None and mark.text != now.text:
                    raise changed(address)
                end = (now.size or 0) if end is None else end
                require_size(address, end - start, max_bytes)
                file.seek(start)
                return file.read(end - start)
        except (FileNotFoundError, NotADirectoryError):
            raise ImageError("missing_file", f"{address}: no such file") from None
        except (OSError, ValueError) as error:
            detail = f"{address}: {getattr(error, 'strerror', None) or error}"
            raise ImageError("unreadable", detail) from error

    def _opened(self, address: str) -> BinaryIO:
        try:
            return self._folder.open(address)
        except LeavesFolderError:
            raise _leaves(address) from None
        except NotARegularFileError:
            raise ImageError("not_a_file", f"{address}: a folder, device, pipe or socket, not a file") from None


def _leaves(address: str) -> ImageError:
    detail = f"{address}: {LEAVES_THROUGH_LINK} (--allow-root or {ROOTS_VARIABLE} can allow where it leads)"
    return ImageError("outside_folder", detail)


def mark_of_file(status: os.stat_result) -> ContentMark:
    """The mark of a file on a disk: size, times of the last change of content and of status, inode."""
    text = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
    return ContentMark(text, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns))
