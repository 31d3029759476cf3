"""Reads, hashes and decodes images ahead of inference, and only those that something still needs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_bench.perception.decoding import ImageError, decode_image, image_size, read_image_file
from detector_bench.perception.stage import Arrays, Stage
from detector_bench.runner.stage_cache import StageCache

T = TypeVar("T")

PIXELS_PER_BATCH = 24_000_000
"""A batch is closed early when its images reach this size together: 32 images of 866 x 866."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """One image to be judged: its id, where it lies, and which detectors (by number) still want it."""

    image_id: str
    path: Path
    shown_path: str
    detectors: tuple[int, ...]


@dataclass(slots=True)
class LoadedImage:
    """An image with what is known about it before the stages run."""

    file: ImageFile
    sha256: str | None = None
    error: str | None = None
    pixels: NDArray[np.uint8] | None = None
    cached: dict[Stage, Arrays] = field(default_factory=dict)
    data: bytes | None = None
    size: int = 0


@dataclass(frozen=True)
class LoadingRules:
    """What the loader must know of the rest of the run.

    Attributes:
        wanted: the stages that an image's detectors read.
        needs_decoding: whether an image must be decoded, given what was found in the cache.
        fingerprints: each stage's key in the cache.
        batch_size: images per batch.
        max_pixels: larger images become errors.
        threads: for reading and decoding.
    """

    wanted: Callable[[ImageFile], Sequence[Stage]]
    needs_decoding: Callable[[LoadedImage], bool]
    fingerprints: dict[Stage, str]
    batch_size: int
    max_pixels: int
    threads: int


def loaded_batches(
    files: Sequence[ImageFile], *, cache: StageCache, rules: LoadingRules
) -> Generator[list[LoadedImage], None, None]:
    """Yield the images in their order, in batches bounded in number and in pixels."""
    with ThreadPoolExecutor(rules.threads, thread_name_prefix="decode") as pool:
        for start in range(0, len(files), rules.batch_size):
            images = [LoadedImage(file) for file in files[start : start + rules.batch_size]]
            _identify(images, cache=cache, pool=pool)
            _look_up(images, cache=cache, rules=rules)
            waiting = [image for image in images if image.error is None and rules.needs_decoding(image)]
            list(pool.map(lambda image: _measure(image, max_pixels=rules.max_pixels), waiting))
            undecoded = {id(image) for image in waiting}
            for batch in _split(images):
                needed = [image for image in batch if id(image) in undecoded and image.error is None]
                list(pool.map(lambda image: _decode(image, max_pixels=rules.max_pixels), needed))
                for image in batch:
                    image.data = None
                yield batch


def hash_files(paths: Sequence[Path], *, cache: StageCache, threads: int) -> list[str | None]:
    """The sha256 of each file's content, from memory where a file has not changed; None if unreadable."""
    known = cache.known_sha256(paths)
    unknown = [number for number, sha256 in enumerate(known) if sha256 is None]
    with ThreadPoolExecutor(threads) as pool:
        hashed = pool.map(lambda number: _hash(paths[number]), unknown)
        fresh = {number: found for number, found in zip(unknown, hashed, strict=True) if found is not None}
    cache.remember_sha256((paths[number], status, sha256) for number, (status, sha256) in fresh.items())
    return [fresh[number][1] if number in fresh else sha256 for number, sha256 in enumerate(known)]


def ahead(iterator: Generator[T, None, None], *, depth: int = 1) -> Generator[T, None, None]:
    """Run an iterator in a thread, at most `depth` items ahead of who takes them.

    An exception in the iterator is raised here. Closing this generator ends the thread.
    """
    queue: Queue[tuple[bool, T | BaseException | None]] = Queue(maxsize=depth)
    stop = Event()

    def put(item: tuple[bool, T | BaseException | None]) -> None:
        while not stop.is_set():
            try:
                queue.put(item, timeout=0.1)
            except Full:
                continue
            return

    def work() -> None:
        try:
            with closing(iterator):
                for item in iterator:
                    put((True, item))
                    if stop.is_set():
                        return
            put((False, None))
        except BaseException as error:  # noqa: BLE001 - handed on to the thread that takes the items
            put((False, error))

    thread = Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        while True:
            more, item = _take(queue, thread)
            if not more:
                if isinstance(item, BaseException):
                    raise item
                return
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()


def _take(
    queue: Queue[tuple[bool, T | BaseException | None]], thread: Thread
) -> tuple[bool, T | BaseException | None]:
    # With a timeout, so that Ctrl-C gets through on every system.
    while True:
        try:
            return queue.get(timeout=0.5)
        except Empty:
            if not thread.is_alive() and queue.empty():
                return False, RuntimeError("the loading thread ended without a word")


def _identify(images: Sequence[LoadedImage], *, cache: StageCache, pool: ThreadPoolExecutor) -> None:
    known = cache.known_sha256([image.file.path for image in images])
    for image, sha256 in zip(images, known, strict=True):
        image.sha256 = sha256
    unknown = [image for image in images if image.sha256 is None]
    statuses = list(pool.map(_read_and_hash, unknown))
    cache.remember_sha256(
        (image.file.path, status, image.sha256)
        for image, status in zip(unknown, statuses, strict=True)
        if status is not None and image.sha256 is not None
    )


def _look_up(images: Sequence[LoadedImage], *, cache: StageCache, rules: LoadingRules) -> None:
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


def _split(images: Sequence[LoadedImage]) -> Iterator[list[LoadedImage]]:
    batch: list[LoadedImage] = []
    pixels = 0
    for image in images:
        if batch and pixels + image.size > PIXELS_PER_BATCH:
            yield batch
            batch, pixels = [], 0
        batch.append(image)
        pixels += image.size
    if batch:
        yield batch


def _read_and_hash(image: LoadedImage) -> os.stat_result | None:
    try:
        status = image.file.path.stat()
    except (OSError, ValueError):
        status = None
    if _read(image) and image.data is not None:
        image.sha256 = hashlib.sha256(image.data).hexdigest()
        return status
    return None


def _hash(path: Path) -> tuple[os.stat_result, str] | None:
    try:
        status = path.stat()
        return status, hashlib.sha256(read_image_file(path)).hexdigest()
    except (ImageError, OSError, ValueError):
        return None


def _read(image: LoadedImage) -> bool:
    try:
        image.data = read_image_file(image.file.path)
    except ImageError as error:
        image.error = _shown(error, image.file)
        return False
    return True


def _measure(image: LoadedImage, *, max_pixels: int) -> None:
    if image.data is None and not _read(image):
        return
    try:
        width, height = image_size(image.data or b"")
    except ImageError as error:
        image.error = _shown(error, image.file)
        return
    # What is too large is refused by the decoder, and then takes no room in the batch.
    image.size = width * height if width * height <= max_pixels else 0


def _decode(image: LoadedImage, *, max_pixels: int) -> None:
    try:
        image.pixels = decode_image(image.data or b"", max_pixels=max_pixels)
    except ImageError as error:
        image.error = _shown(error, image.file)


def _shown(error: ImageError, file: ImageFile) -> str:
    # Where the image set lies on this machine is nobody's business in a published table.
    return str(error).replace(str(file.path), file.shown_path)
