"""Reads, hashes and decodes images ahead of inference, and only those that something still needs."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Semaphore, Thread
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.decoding import ImageError, decode_image, image_size, read_image_file
from detector_bench.perception.stage import Arrays, Stage
from detector_bench.runner.stage_cache import StageCache

T = TypeVar("T")

PIXELS_PER_BATCH = 24_000_000
"""A batch is closed early when its images reach this size together: 32 images of 866 x 866."""

BYTES_PER_READING = 256_000_000
"""Files that are read at once hold no more than this together, unless one alone is larger."""

_HASHED_AT_ONCE = 2_000


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
    needs_decoding: bool = False


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
    parts = ([LoadedImage(file) for file in part] for part in readings(files, most=rules.batch_size))
    return batches_of(parts, cache=cache, rules=rules)


def batches_of(
    parts: Iterable[list[LoadedImage]], *, cache: StageCache, rules: LoadingRules
) -> Generator[list[LoadedImage], None, None]:
    """As `loaded_batches`, for images of which some may be read already; a batch has images of one part only."""
    with ThreadPoolExecutor(rules.threads, thread_name_prefix="decode") as pool:
        for part in parts:
            # Nothing here may hold on to a batch that was handed over: its pixels are what takes the memory.
            batches = _measured_batches(part, cache=cache, rules=rules, pool=pool)
            del part
            while batches:
                _decode_all(batches[0], rules=rules, pool=pool)
                yield batches.popleft()


def _measured_batches(
    images: Sequence[LoadedImage], *, cache: StageCache, rules: LoadingRules, pool: ThreadPoolExecutor
) -> deque[list[LoadedImage]]:
    _identify([image for image in images if image.sha256 is None and image.error is None], cache=cache, pool=pool)
    look_up(images, cache=cache, rules=rules)
    for image in images:
        image.needs_decoding = image.error is None and rules.needs_decoding(image)
    waiting = [image for image in images if image.needs_decoding]
    list(pool.map(lambda image: _measure(image, max_pixels=rules.max_pixels), waiting))
    return deque(_split(images))


def _decode_all(batch: Sequence[LoadedImage], *, rules: LoadingRules, pool: ThreadPoolExecutor) -> None:
    needed = [image for image in batch if image.needs_decoding and image.error is None]
    list(pool.map(lambda image: _decode(image, max_pixels=rules.max_pixels), needed))
    for image in batch:
        image.data = None


def hash_files(paths: Sequence[Path], *, cache: StageCache, threads: int) -> list[str | None]:
    """The sha256 of each file's content, from memory where a file has not changed; None if unreadable."""
    found = cache.known_sha256(paths)
    unknown = [number for number, sha256 in enumerate(found) if sha256 is None]
    with ThreadPoolExecutor(threads) as pool:
        # In parts, so that an interruption does not lose all of them.
        for start in range(0, len(unknown), _HASHED_AT_ONCE):
            part = unknown[start : start + _HASHED_AT_ONCE]
            hashed = zip(part, pool.map(lambda number: _hash(paths[number]), part), strict=True)
            fresh = {number: each for number, each in hashed if each is not None}
            cache.remember_sha256((paths[number], status, sha256) for number, (status, sha256) in fresh.items())
            for number, (_, sha256) in fresh.items():
                found[number] = sha256
    return found


def ahead(iterator: Generator[T, None, None], *, depth: int = 1) -> Generator[T, None, None]:
    """Run an iterator in a thread, at most `depth` items ahead of who takes them.

    An exception in the iterator is raised here, after the items before it. Closing this generator ends the thread.
    """
    queue: Queue[T | _End] = Queue()
    free = Semaphore(depth)
    stop = Event()

    def work() -> None:
        end = _End()
        try:
            with closing(iterator):
                while _acquired(free, stop):
                    queue.put(next(iterator))
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - handed on to the thread that takes the items
            end = _End(error)
        queue.put(end)

    thread = Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := _take(queue, thread), _End):
            free.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class _End:
    """Nothing comes any more; because of an error, if there is one."""

    error: BaseException | None = None


def _acquired(free: Semaphore, stop: Event) -> bool:
    while not stop.is_set():
        if free.acquire(timeout=0.1):
            return True
    return False


def _take(queue: Queue[T | _End], thread: Thread) -> T | _End:
    # With a timeout, so that Ctrl-C gets through on every system.
    while True:
        try:
            return queue.get(timeout=0.5)
        except Empty:
            if not thread.is_alive() and queue.empty():
                return _End(RuntimeError("the loading thread ended without a word"))


def _identify(images: Sequence[LoadedImage], *, cache: StageCache, pool: ThreadPoolExecutor) -> None:
    known = cache.known_sha256([image.file.path for image in images])
    for image, sha256 in zip(images, known, strict=True):
        image.sha256 = sha256
    unknown = [image for image in images if image.sha256 is None]
    statuses = list(pool.map(read_and_hash, unknown))
    cache.remember_sha256(
        (image.file.path, status, image.sha256)
        for image, status in zip(unknown, statuses, strict=True)
        if status is not None and image.sha256 is not None
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


def readings(files: Iterable[ImageFile], *, most: int) -> Iterator[list[ImageFile]]:
    """Cut images into parts that are read at once: bounded in number and in bytes."""
    part: list[ImageFile] = []
    size = 0
    for file in files:
        own = _file_size(file.path)
        if part and (len(part) == most or size + own > BYTES_PER_READING):
            yield part
            part, size = [], 0
        part.append(file)
        size += own
    if part:
        yield part


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0


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


def read_and_hash(image: LoadedImage) -> os.stat_result | None:
    """Fill in an image's data and their sha256, or the error; give the file's status from before it was read."""
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


def _decode(image: LoadedImage, *, max_pixels: int) -> None:
    try:
        image.pixels = decode_image(image.data or b"", max_pixels=max_pixels)
    except ImageError as error:
        image.error = _shown(error, image.file)


def _shown(error: ImageError, file: ImageFile) -> str:
    # Where the image set lies on this machine is nobody's business in a published table.
    return str(error).replace(str(file.path), file.shown_path)
