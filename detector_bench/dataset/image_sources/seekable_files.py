"""A file in any place, as the object with `read` and `seek` that Python's readers of archives and tables want."""

from __future__ import annotations

import io

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_sources.places import ContentMark, FilePlace

_BUFFER = 1 << 20
"""Bytes that one request brings at least: headers of small members come in one."""

_LARGEST_PART = 1 << 31


def seekable(place: FilePlace, address: str, mark: ContentMark) -> io.BufferedReader:
    """Open a file; its parts are read when they are asked for, and only while it is as the mark says.

    Raises:
        ImageError: the place does not say how long the file is. Reading raises it too.
    """
    if mark.size is None:
        raise ImageError("no_ranges", f"{address}: the server does not say how long the file is")
    return io.BufferedReader(_PartReader(place, address, mark, mark.size), _BUFFER)


class _PartReader(io.RawIOBase):
    def __init__(self, place: FilePlace, address: str, mark: ContentMark, size: int) -> None:
        self._place = place
        self._address = address
        self._mark = mark
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        data = self._place.read(
            self._address, start=self._position, end=end, mark=self._mark, max_bytes=_LARGEST_PART
        )
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
