"""Images as a run handles them: each with what knows how to read it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from detector_bench.dataset.decoding import DEFAULT_MAX_BYTES, read_image_file
from detector_bench.dataset.image_paths import parse_reference, shown
from detector_bench.dataset.image_sources.local_files import LocalFiles, mark_of_file
from detector_bench.dataset.image_sources.places import ContentMark
from detector_bench.dataset.image_sources.sources import READERS, ImageSources


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image that is a file of its own below the image set's folder."""

    files: LocalFiles = field(compare=False, repr=False)
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def key(self) -> str:
        """What the image is remembered by."""
        return f"{self.files.root}{os.sep}{self.path}"


@dataclass(frozen=True, slots=True)
class DistantImage:
    """An image that is no file of its own below the image set's folder."""

    sources: ImageSources = field(compare=False, repr=False)
    path: str

    def __str__(self) -> str:
        return shown(self.path)

    @property
    def key(self) -> str:
        """What the image is remembered by; without secrets, and another one for every image."""
        if "://" not in self.path:
            return str(self.sources.root / self.path)
        public = shown(self.path)
        return public if public == self.path else f"{public} {hashlib.sha256(self.path.encode()).hexdigest()}"


ImagePlace: TypeAlias = Path | LocalImage | DistantImage
"""A path is a file that the user named, and follows links wherever they lead; image sets have none of these."""


def read_image(place: ImagePlace, *, mark: ContentMark | None = None) -> bytes:
    """The content of an image.

    Args:
        place: where it lies.
        mark: what was said of it a moment ago; see `ImageSources.read`.

    Raises:
        ImageError: see there for the reasons.
        MissingExtraError: a package is needed that is not installed.
    """
    if isinstance(place, LocalImage):
        return place.files.read(place.path, max_bytes=DEFAULT_MAX_BYTES)
    if isinstance(place, DistantImage):
        return place.sources.read(place.path, mark=mark)
    return read_image_file(place)


def key_of(place: ImagePlace) -> str:
    """What an image is remembered by."""
    return str(place) if isinstance(place, Path) else place.key


def marks_of(places: Sequence[ImagePlace]) -> list[ContentMark | None]:
    """What tells that each image has not changed; None, or a mark without a text: it has to be read."""
    found: list[ContentMark | None] = [None] * len(places)
    distant: dict[ImageSources, list[int]] = {}
    for number, place in enumerate(places):
        if isinstance(place, DistantImage):
            distant.setdefault(place.sources, []).append(number)
        elif isinstance(place, LocalImage):
            found[number] = place.files.mark_or_none(place.path)
        else:
            found[number] = _mark_of_path(str(place))
    for sources, numbers in distant.items():
        paths = [
            str(place.path) for place in places if isinstance(place, DistantImage) and place.sources is sources
        ]
        for number, mark in zip(numbers, sources.marks(paths), strict=True):
            found[number] = mark
    return found


def size_of(place: ImagePlace, mark: ContentMark | None) -> int:
    """Bytes that an image takes, as far as its mark tells; 0 for what lies in an archive or table."""
    if mark is None or mark.size is None:
        return 0
    return mark.size if not isinstance(place, DistantImage) or parse_reference(place.path).kind == "file" else 0


def readers_for(places: Iterable[ImagePlace], *, cores: int) -> int:
    """How many threads should read: distant images have to be waited for, most of the time."""
    is_distant = any(isinstance(place, DistantImage) for place in places)
    return max(READERS, cores) if is_distant else cores


def _mark_of_path(path: str) -> ContentMark | None:
    try:
        return mark_of_file(os.stat(path))  # noqa: PTH116 - there may be millions
    except (OSError, ValueError):
        return None
