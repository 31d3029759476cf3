"""Images on their way into a batch: what is known of them, their content and its sha256, results that are kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.decoding import ImageError, decode_image, image_size
from detector_bench.dataset.image_sources import (
    ContentMark,
    ImagePlace,
    marks_of,
    read_image,
    readers_for,
    size_of,
)
from detector_bench.perception.stage import Frame, Stage, StageResult
from detector_bench.runner.execution import StageExecution
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.time_spent import READING

BYTES_PER_READING = 64_000_000
"""Files that are read at once hold no more than this together, unless one alone is larger."""

_HASHED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class ImageFile:
    """One image to be judged: its id, where it lies, and which detectors (by number) still want it."""

    image_id: str
    path: ImagePlace
    shown_path: str
    detectors: tuple[int, ...]


MarkedFile: TypeAlias = tuple[ImageFile, ContentMark | None]
"""An image to be judged, and what it was like before it was read."""


@dataclass(slots=True)
class LoadedImage:
    """An image with what is known about it before the stages run."""

    file: ImageFile
    sha256: str | None = None
    error: str | None = None
    pixels: NDArray[np.uint8] | None = None
    cached: dict[Stage, StageResult] = field(default_factory=dict)
    """Results of stages: of earlier runs, and of the lanes."""
    prepared: dict[Stage, Any] = field(default_factory=dict)
    """What the lanes prepared for stages that run later."""
    data: bytes | None = None
    size: int = 0
    mark: ContentMark | None = None
    needs_decoding: bool = False

    def frame(self) -> Frame:
        """The image as stages and detectors see it."""
        return Frame(
            self.file.image_id,
            pixels=self.pixels,
            results=dict(self.cached),
            prepared=dict(self.prepared),
            sha256=self.sha256,
        )


@dataclass(frozen=True)
class LoadingRules:
    """What the loader must know of the rest of the run.

    Attributes:
        wanted: the stages that an image's detectors read.
        needs_decoding: whether an image must be decoded, given what was found in the cache.
        fingerprints: each stage's key in the cache.
        batch_size: images per batch.
        max_pixels: larger images become errors.
        threads: how many images are decoded at once: the cores that this process may use.
        execution: whose lanes compute stages as soon as an image is decoded; None: images are decoded, no more.
    """

    wanted: Callable[[ImageFile], Sequence[Stage]]
    needs_decoding: Callable[[LoadedImage], bool]
    fingerprints: dict[Stage, str]
    batch_size: int
    max_pixels: int
    threads: int
    execution: StageExecution | None = None


def measure_all(
    images: Sequence[LoadedImage], *, cache: StageCache, rules: LoadingRules, pool: ThreadPoolExecutor
) -> None:
    """Fill in what is known of images, from the cache or by reading them, and how large they are."""
    began = time.perf_counter()
    _identify([image for image in images if image.sha256 is None and image.error is None], cache=cache, pool=pool)
    look_up(images, cache=cache, rules=rules)
    for image in images:
        image.needs_decoding = image.error is None and rules.needs_decoding(image)
    waiting = [image for image in images if image.needs_decoding]
    list(pool.map(lambda image: _measure(image, max_pixels=rules.max_pixels), waiting))
    if rules.execution is not None:
        rules.execution.spent.add(READING, time.perf_counter() - began, beside=True)


def hash_files(paths: Sequence[ImagePlace], *, cache: StageCache, threads: int) -> list[str | None]:
    """The sha256 of each image's content, from memory where it has not changed; None if unreadable."""
    marks = marks_of(paths)
    found = cache.known_sha256(paths, marks)
    unknown = [number for number, sha256 in enumerate(found) if sha256 is None]
    with ThreadPoolExecutor(readers_for(paths, cores=threads)) as pool:
        # In parts, so that an interruption does not lose all of them.
        for start in range(0, len(unknown), _HASHED_AT_ONCE):
            part = unknown[start : start + _HASHED_AT_ONCE]
            hashed = list(pool.map(lambda number: _hash(paths[number], marks[number]), part))
            cache.remember_sha256(
                (paths[number], mark, sha256)
                for number, sha256 in zip(part, hashed, strict=True)
                if sha256 is not None and (mark := marks[number]) is not None
            )
            for number, sha256 in zip(part, hashed, strict=True):
                found[number] = sha256
    return found


def _identify(images: Sequence[LoadedImage], *, cache: StageCache, pool: ThreadPoolExecutor) -> None:
    known = cache.known_sha256([image.file.path for image in images], [image.mark for image in images])
    for image, sha256 in zip(images, known, strict=True):
        image.sha256 = sha256
    unknown = [image for image in images if image.sha256 is None]
    list(pool.map(read_and_hash, unknown))
    cache.remember_sha256(
        (image.file.path, image.mark, image.sha256)
        for image in unknown
        if image.mark is not None and image.sha256 is not None
    )


def look_up(images: Sequence[LoadedImage], *, cache: StageCache, rules: LoadingRules) -> None:
    """Fill in the stage results that are kept already, of images whose content is known."""
    by_stage: dict[Stage, list[LoadedImage]] = {}
    for image in images:
        if image.error is None:
            for stage in rules.wanted(image.file):
                by_stage.setdefault(stage, []).append(image)
    for stage, wanting in by_stage.items():
        if not stage.cached:
            continue
        contents = list({image.sha256 for image in wanting if image.sha256 is not None})
        found = cache.get(rules.fingerprints[stage], contents)
        for image in wanting:
            if image.sha256 in found:
                image.cached[stage] = found[image.sha256]


def readings(files: Sequence[ImageFile], *, most: int) -> Iterator[list[MarkedFile]]:
    """The images that are read at once: at most so many, and no more bytes than `BYTES_PER_READING`."""
    part: list[MarkedFile] = []
    size = 0
    for start in range(0, len(files), most):
        asked = files[start : start + most]
        for file, mark in zip(asked, marks_of([file.path for file in asked]), strict=True):
            own = size_of(file.path, mark)
            if part and (len(part) == most or size + own > BYTES_PER_READING):
                yield part
                part, size = [], 0
            part.append((file, mark))
            size += own
    if part:
        yield part


def read_and_hash(image: LoadedImage) -> None:
    """Fill in an image's data and their sha256, or the error."""
    if _read(image) and image.data is not None:
        image.sha256 = hashlib.sha256(image.data).hexdigest()


def _hash(place: ImagePlace, mark: ContentMark | None) -> str | None:
    try:
        return hashlib.sha256(read_image(place, mark=mark)).hexdigest()
    except ImageError:
        return None


def _read(image: LoadedImage) -> bool:
    try:
        image.data = read_image(image.file.path, mark=image.mark)
    except ImageError as error:
        image.error = _shown(error, image.file)
        return False
    return True


def _read_known(image: LoadedImage) -> bool:
    """Read a file whose content's hash is known, and make sure that it is still that content."""
    if not _read(image):
        return False
    sha256 = hashlib.sha256(image.data or b"").hexdigest()
    if sha256 != image.sha256:
        # Somebody wrote to it a moment ago.
        image.sha256, image.cached = sha256, {}
    return True


def _measure(image: LoadedImage, *, max_pixels: int) -> None:
    if image.data is None and not _read_known(image):
        return
    try:
        width, height = image_size(image.data or b"")
    except ImageError as error:
        image.error = _shown(error, image.file)
        return
    # What is too large is refused by the decoder, and then takes no room in the batch.
    image.size = width * height if width * height <= max_pixels else 0


def decode(image: LoadedImage, *, max_pixels: int) -> None:
    """Fill in an image's pixels, or the error."""
    try:
        image.pixels = decode_image(image.data or b"", max_pixels=max_pixels)
    except ImageError as error:
        image.error = _shown(error, image.file)


def _shown(error: ImageError, file: ImageFile) -> str:
    # Where the image set lies on this machine is nobody's business in a published table.
    return str(error).replace(str(file.path), file.shown_path)
