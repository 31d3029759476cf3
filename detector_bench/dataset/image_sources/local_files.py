"""Files below the image set's folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from detector_bench.dataset.decoding import ImageError, read_image_file
from detector_bench.dataset.image_sources.places import ContentMark, changed, require_size


class LocalFiles:
    """A folder; addresses are paths relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def mark(self, address: str) -> ContentMark:
        """Size, inode, and the times of the last change of content and of status, in nanoseconds."""
        try:
            return mark_of_file(os.stat(self._path(address)))  # noqa: PTH116 - a million pathlib objects would be slow
        except (FileNotFoundError, NotADirectoryError):
            raise ImageError("missing_file", f"{address}: no such file") from None
        except (OSError, ValueError) as error:
            detail = f"{address}: {getattr(error, 'strerror', None) or error}"
            raise ImageError("unreadable", detail) from error

    def marks(self, addresses: Sequence[str]) -> list[ContentMark | None]:
        """The marks of files; None where there is none."""
        return [self._mark_or_none(address) for address in addresses]

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
        path = Path(self._path(address))
        if start is None:
            try:
                return read_image_file(path, max_bytes=max_bytes)
            except ImageError as error:
                # Where the image set lies on this machine is nobody's business in a published table.
                raise ImageError(error.reason, error.detail.replace(str(path), address)) from error.__cause__
        return self._part(path, address, start=start, end=end, max_bytes=max_bytes, mark=mark)

    def _part(
        self, path: Path, address: str, *, start: int, end: int | None, max_bytes: int, mark: ContentMark | None
    ) -> bytes:
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for whoever writes to it
                raise ImageError("not_a_file", f"{address}: a folder, device, pipe or socket, not a file")
            with path.open("rb") as file:
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

    def _path(self, address: str) -> str:
        return os.path.join(self._root, address)  # noqa: PTH118 - as above

    def _mark_or_none(self, address: str) -> ContentMark | None:
        try:
            return mark_of_file(os.stat(self._path(address)))  # noqa: PTH116 - as above
        except (OSError, ValueError):
            return None


def mark_of_file(status: os.stat_result) -> ContentMark:
    """The mark of a file on a disk: size, times of the last change of content and of status, inode."""
    text = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
    return ContentMark(text, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns))
