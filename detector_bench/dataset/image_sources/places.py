"""Where image files lie, and what all such places can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from detector_bench.dataset.decoding import ImageError


@dataclass(frozen=True, slots=True)
class ContentMark:
    """What tells, without reading it, that a file has not changed.

    Attributes:
        text: equal for equal content; None: the place says nothing that could be relied on.
        size: of the file in bytes; None: unknown.
        changed: of a text that rests on times alone, when the file changed last, in nanoseconds since 1970.
    """

    text: str | None
    size: int | None
    changed: int | None = None


class FilePlace(Protocol):
    """A disk, a web server, a store of objects. Any thread may ask; `address` is what the place calls a file."""

    def mark(self, address: str) -> ContentMark:
        """What the file is like now.

        Raises:
            ImageError: it cannot be told; see `ImageError` for the reasons.
        """
        ...

    def marks(self, addresses: Sequence[str]) -> list[ContentMark | None]:
        """What many files are like now; None where it cannot be told."""
        ...

    def read(
        self,
        address: str,
        *,
        max_bytes: int,
        start: int | None = None,
        end: int | None = None,
        mark: ContentMark | None = None,
    ) -> bytes:
        """A file, or its bytes from `start` up to `end`.

        Args:
            address: the file.
            max_bytes: no more than this is taken into memory.
            start: the first byte; None: the whole file.
            end: the byte after the last one.
            mark: what the file was like: if it is like that no longer, nothing is returned.

        Raises:
            ImageError: see there for the reasons.
        """
        ...


def require_size(address: str, size: int | None, max_bytes: int) -> None:
    """Refuse a file that is too large, and one that is empty."""
    if size is not None and size > max_bytes:
        raise ImageError("too_large", f"{address}: {size:,} bytes, the limit is {max_bytes:,}")
    if size == 0:
        raise ImageError("empty_file", f"{address}: the file holds no bytes")


def changed(address: str) -> ImageError:
    """The error of a file that is another one than it was when it was listed."""
    return ImageError("changed", f"{address}: it changed after it was listed; run again")
