"""Reads the images of an image set, wherever they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TypeAlias, TypeVar

from platformdirs import user_cache_path

from detector_bench.dataset.decoding import DEFAULT_MAX_BYTES, ImageError
from detector_bench.dataset.image_folder import ImageFolder, allowed_roots
from detector_bench.dataset.image_paths import (
    SCHEMES,
    WEB_SCHEMES,
    ImageReference,
    address_problem,
    is_file_below,
    parse_reference,
    shown,
)
from detector_bench.dataset.image_sources.local_copies import LocalCopies, size_from_environment
from detector_bench.dataset.image_sources.local_files import LocalFiles
from detector_bench.dataset.image_sources.object_stores import ObjectStore
from detector_bench.dataset.image_sources.parquet_images import ParquetImages
from detector_bench.dataset.image_sources.places import ContentMark, FilePlace
from detector_bench.dataset.image_sources.tar_archives import TarArchives
from detector_bench.dataset.image_sources.web_files import WebFiles

T = TypeVar("T")
R = TypeVar("R")

_Given: TypeAlias = tuple[Path, Path | None, int | None, tuple[str, ...]]

READERS = 32
"""Distant images that are read at once: each has to be waited for, most of the time."""

FOLDER_VARIABLE = "DETECTOR_BENCH_IMAGE_CACHE"


def default_folder() -> Path:
    """Where indexes and copies are kept: `DETECTOR_BENCH_IMAGE_CACHE`, or the user's cache folder."""
    variable = os.environ.get(FOLDER_VARIABLE)
    return Path(variable) if variable else user_cache_path("detector_bench") / "images"


class ImageSources:
    """Reads what cells of `images.path` name. Any thread may ask, and it can be pickled for another process.

    Args:
        root: the image set's folder, with links resolved.
        folder: where indexes of archives and copies of distant images are kept; None: `default_folder`.
        copies: bytes that the copies may take; None: `size_from_environment`.
        allowed: folders that links may lead to besides this one, with links resolved; None: `allowed_roots`.
    """

    def __init__(
        self,
        root: Path,
        *,
        folder: Path | None = None,
        copies: int | None = None,
        allowed: Sequence[str] | None = None,
    ) -> None:
        self.root = root
        allowed = allowed_roots() if allowed is None else tuple(allowed)
        self._given = (root, folder, copies, allowed)
        self._folder = folder or default_folder()
        size = size_from_environment() if copies is None else copies
        self._copies = LocalCopies(self._folder / "copies", size)
        self.local = LocalFiles(ImageFolder(root, allowed))
        self._places: dict[str, FilePlace] = {}
        self._lock = Lock()
        self._tars = TarArchives(self.place_of, folder=self._folder / "indexes")
        self._tables = ParquetImages(self.place_of)

    def __reduce__(self) -> tuple[Callable[..., ImageSources], _Given]:
        return _again, self._given

    def read(self, path: str, *, mark: ContentMark | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
        """The content of an image file.

        Args:
            path: as in `images.path`.
            mark: what `marks` said of it a moment ago: a file that has changed since is an error, and what is
                known to be unchanged need not be asked for. None: as it is now.
            max_bytes: larger files are refused, distant ones before they are in memory.

        Raises:
            ImageError: there is no content; messages name the path without secrets.
            MissingExtraError: a package is needed that is not installed.
        """
        reference = parse_reference(path)
        if reference.is_local:
            return self._content(reference, mark=mark, max_bytes=max_bytes)
        if problem := address_problem(path):
            raise ImageError("unreadable", f"{shown(path)}: {problem[0]}")
        if mark is None:
            mark = self._place(reference.scheme).mark(reference.place)
        known = mark.text
        if known is not None and (copy := self._copies.get(path, known)) is not None:
            return copy
        data = self._content(reference, mark=mark, max_bytes=max_bytes)
        if known is not None:
            self._copies.put(path, known, data)
        return data

    def marks(self, paths: Sequence[str]) -> list[ContentMark | None]:
        """What tells that each image has not changed; None, or a mark without a text: it has to be read.

        An archive is looked at once for all its members. Folders in stores of objects are listed as a whole.
        """
        references = [parse_reference(path) for path in paths]
        wanted: dict[str, dict[str, None]] = {}
        for reference in references:
            wanted.setdefault(reference.scheme, {})[reference.place] = None
        found: dict[str, ContentMark | None] = {}
        for scheme, places in wanted.items():
            if scheme in ("", *SCHEMES):
                found |= zip(places, self._place(scheme).marks(list(places)), strict=True)
        return [found.get(reference.place) for reference in references]

    def readers(self, paths: Sequence[str]) -> int | None:
        """How many threads should read these; None: as many as there are cores, for none has to be waited for."""
        return None if all(map(is_file_below, paths)) else READERS

    def _content(self, reference: ImageReference, *, mark: ContentMark | None, max_bytes: int) -> bytes:
        if reference.kind == "tar":
            return self._tars.read(reference.place, reference.part, max_bytes=max_bytes, mark=mark)
        if reference.kind == "parquet":
            return self._tables.read(reference.place, reference.part, max_bytes=max_bytes, mark=mark)
        return self._place(reference.scheme).read(reference.place, max_bytes=max_bytes, mark=mark)

    def members(self, archive: str) -> list[str]:
        """The names of the files in a tar file, in its order.

        Raises:
            ImageError: it is no tar file, or cannot be read.
        """
        return list(self._tars.index(archive, self.place_of(archive).mark(archive)))

    def place_of(self, address: str) -> FilePlace:
        """The disk, server or store where a file lies."""
        return self._place(parse_reference(address).scheme)

    def _place(self, scheme: str) -> FilePlace:
        if not scheme:
            return self.local
        with self._lock:
            scheme = "https" if scheme in WEB_SCHEMES else scheme
            if scheme not in self._places:
                self._places[scheme] = WebFiles() if scheme in WEB_SCHEMES else ObjectStore(scheme)
            return self._places[scheme]


@lru_cache(maxsize=8)
def _again(root: Path, folder: Path | None, copies: int | None, allowed: tuple[str, ...]) -> ImageSources:
    """The sources of another process here; the same each time, for connections and indexes are worth keeping."""
    return ImageSources(root, folder=folder, copies=copies, allowed=allowed)
