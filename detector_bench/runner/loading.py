"""Reads, hashes and decodes images ahead of inference, and only those that something still needs."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from threading import Condition, Event, Semaphore, Thread
from typing import Any, Protocol, TypeAlias, TypeVar

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
from detector_bench.perception.cores import libraries_as_before
from detector_bench.perception.stage import Frame, Stage, StageFailure, StageResult
from detector_bench.runner.execution import StageExecution
from detector_bench.runner.lanes import FEWEST_IMAGES, IMAGES_OF_TRIAL
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.time_spent import DECODING, READING, TimeSpent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PIXELS_PER_BATCH = 24_000_000
"""A batch is closed early when its images reach this size together: 32 images of 866 x 866."""

PIXELS_PER_LANE = 4_000_000
"""Where images are larger than this, not all cores may work at once."""

BYTES_PER_READING = 64_000_000
"""Files that are read at once hold no more than this together, unless one alone is larger."""

_FEWEST_READERS = 4

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
            self.file.image_id, pixels=self.pixels, results=dict(self.cached), prepared=dict(self.prepared)
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


class LoadedBatches(Iterator[list[LoadedImage]]):
    """The images in their order, in batches bounded in number and in pixels.

    With `rules.execution`, the thread that decoded an image also computes those of its stages that run in lanes.
    Then its pixels go if nobody else needs them. The results stand in `LoadedImage.cached`.

    Args:
        parts: the images, in parts that are read together; some may be read already. No batch mixes them.
        left: how many images there are.
        cache: where stage results are found.
        rules: what the loader must know.
        readers: how many threads read what is not read yet.
    """

    def __init__(
        self,
        parts: Iterable[list[LoadedImage]],
        *,
        left: int,
        cache: StageCache,
        rules: LoadingRules,
        readers: int = _FEWEST_READERS,
    ) -> None:
        self._parts = parts
        self._left = left
        self._readers = readers
        self._cache = cache
        self._rules = rules
        self._stopped = Event()
        self._room = _Room(max(PIXELS_PER_BATCH, PIXELS_PER_LANE * rules.threads))
        self._batches = self._made()

    def __next__(self) -> list[LoadedImage]:
        return next(self._batches)

    def cancel(self) -> None:
        """Let no further image be begun; from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """End all threads."""
        self.cancel()
        self._batches.close()

    def _made(self) -> Generator[list[LoadedImage], None, None]:
        rules = self._rules
        with (
            libraries_as_before(),
            ThreadPoolExecutor(self._readers, thread_name_prefix="read") as readers,
            ThreadPoolExecutor(rules.threads, thread_name_prefix="decode") as pool,
        ):
            begun: deque[tuple[list[LoadedImage], list[Future[None]]]] = deque()
            try:
                # Nothing here may hold on to a batch that was handed over: its pixels are what takes the memory.
                left = self._left
                for images in self._parts:
                    _measure_all(images, cache=self._cache, rules=rules, pool=readers)
                    wait(
                        [future for _, futures in begun for future in futures] if self._tries(images, left) else []
                    )
                    hold = self._planned(images, left=left, pool=pool)
                    left -= len(images)
                    batches = deque(_split(images) if hold else [images] if images else [])
                    del images
                    while batches:
                        self._begin(batches.popleft(), begun, pool=pool)
                        while begun and (hold or len(begun) > 1):
                            yield self._finished(begun)
                while begun:
                    yield self._finished(begun)
            finally:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                if rules.execution is not None:
                    rules.execution.lanes.keep()

    def _tries(self, images: Sequence[LoadedImage], left: int) -> bool:
        """Whether these images are those of a trial: some network has not been tried, and it is worth it."""
        if self._rules.execution is None or left < FEWEST_IMAGES:
            return False
        return any(map(self._rules.execution.lanes.unsettled, map(self._in_lanes, _open(images))))

    def _planned(self, images: Sequence[LoadedImage], *, left: int, pool: ThreadPoolExecutor) -> bool:
        """Try out what is to be tried; True if pixels of these images will be needed when they are handed over."""
        needed = _open(images)
        if self._rules.execution is None:
            return bool(needed)
        if self._tries(images, left):
            self._try_out(needed[: IMAGES_OF_TRIAL * self._rules.threads], pool)
        return any(map(self._keeps_pixels, needed))

    def _in_lanes(self, image: LoadedImage) -> list[Stage]:
        # Asked of each image: not before its stages are loaded is it known where they compute.
        assert self._rules.execution is not None  # noqa: S101 - asked before
        return self._rules.execution.lanes.stages_for(self._rules.wanted(image.file), image.cached)

    def _keeps_pixels(self, image: LoadedImage) -> bool:
        """Whether an image's pixels are needed after the lanes have done what they can."""
        assert self._rules.execution is not None  # noqa: S101 - asked before
        done = {**image.cached, **dict.fromkeys(self._in_lanes(image), _NOTHING_YET)}
        ahead = self._rules.execution.lanes.prepared_for(self._rules.wanted(image.file), done)
        return self._rules.needs_decoding(replace(image, cached={**done, **dict.fromkeys(ahead, _NOTHING_YET)}))

    def _begin(
        self,
        batch: list[LoadedImage],
        begun: deque[tuple[list[LoadedImage], list[Future[None]]]],
        *,
        pool: ThreadPoolExecutor,
    ) -> None:
        """Let the pool work on a batch."""
        needed = _open(batch)
        at_once = 1 if self._rules.execution is None else self._rules.execution.lanes.images_at_once
        groups = [needed[start : start + at_once] for start in range(0, len(needed), at_once)]
        begun.append((batch, [pool.submit(self._work, group) for group in groups]))

    def _try_out(self, images: Sequence[LoadedImage], pool: ThreadPoolExecutor) -> None:
        list(pool.map(self._decode, images))
        sound = [image for image in images if image.error is None]
        frames = [image.frame() for image in sound]
        assert self._rules.execution is not None  # noqa: S101 - asked before
        self._rules.execution.lanes.settle(
            frames,
            sha256=[image.sha256 for image in sound],
            wanted=[self._rules.wanted(image.file) for image in sound],
            pool=pool,
        )
        for image, frame in zip(sound, frames, strict=True):
            image.cached = dict(frame.results)

    def _work(self, images: Sequence[LoadedImage]) -> None:
        """Decode some images and compute their stages, in one of the pool's threads."""
        if self._stopped.is_set():
            return
        with self._room.taken(sum(image.size for image in images)):
            for image in images:
                if image.pixels is None:
                    self._decode(image)
            if self._rules.execution is None:
                return
            sound = [image for image in images if image.error is None]
            frames = [image.frame() for image in sound]
            self._rules.execution.lanes.run(
                frames,
                sha256=[image.sha256 for image in sound],
                wanted=[self._rules.wanted(image.file) for image in sound],
            )
            for image, frame in zip(sound, frames, strict=True):
                self._rules.execution.lanes.prepare(frame, self._rules.wanted(image.file))
                image.cached, image.prepared = dict(frame.results), frame.prepared
                done = {**image.cached, **dict.fromkeys(frame.prepared, _NOTHING_YET)}
                if not self._rules.needs_decoding(replace(image, cached=done)):
                    image.pixels = None

    def _decode(self, image: LoadedImage) -> None:
        began = time.perf_counter()
        _decode(image, max_pixels=self._rules.max_pixels)
        image.data = None
        if self._rules.execution is not None:
            self._rules.execution.spent.add(DECODING, time.perf_counter() - began, beside=True)

    def _finished(self, begun: deque[tuple[list[LoadedImage], list[Future[None]]]]) -> list[LoadedImage]:
        batch, futures = begun.popleft()
        for future in futures:
            future.result()
        for image in batch:
            image.data = None
        if self._rules.execution is not None:
            self._rules.execution.lanes.keep()
        return batch


def loaded_batches(files: Sequence[ImageFile], *, cache: StageCache, rules: LoadingRules) -> LoadedBatches:
    """The images in their order, in batches; see `LoadedBatches`."""
    parts = (
        [LoadedImage(file, mark=mark) for file, mark in part] for part in readings(files, most=rules.batch_size)
    )
    readers = readers_for((file.path for file in files), cores=max(rules.threads, _FEWEST_READERS))
    return LoadedBatches(parts, left=len(files), cache=cache, rules=rules, readers=readers)


def _open(images: Sequence[LoadedImage]) -> list[LoadedImage]:
    return [image for image in images if image.needs_decoding and image.error is None]


_NOTHING_YET = StageFailure("not_computed")


class _Room:
    """So many pixels may be held at once; who wants more waits, unless nobody else holds any."""

    def __init__(self, pixels: int) -> None:
        self._limit = pixels
        self._held = 0
        self._changed = Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Hold so many pixels as long as the block takes."""
        with self._changed:
            self._changed.wait_for(lambda: self._held == 0 or self._held + pixels <= self._limit)
            self._held += pixels
        try:
            yield
        finally:
            with self._changed:
                self._held -= pixels
                self._changed.notify_all()


def _measure_all(
    images: Sequence[LoadedImage], *, cache: StageCache, rules: LoadingRules, pool: ThreadPoolExecutor
) -> None:
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


class Closable(Protocol[T_co]):
    """An iterator that can be closed, as generators can; with a `cancel`, that is called from another thread."""

    def __next__(self) -> T_co:
        """The next item."""

    def close(self) -> None:
        """Nobody wants the rest."""


def ahead(iterator: Closable[T], *, depth: int = 1, spent: TimeSpent | None = None) -> Generator[T, None, None]:
    """Run an iterator in a thread, at most `depth` items ahead of who takes them.

    An exception in the iterator is raised here, after the items before it. Closing this generator ends the thread.

    Args:
        iterator: what is run.
        depth: how many items may lie ready.
        spent: is told how long items were waited for.
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
        while not isinstance(item := _taken(queue, thread, spent), _End):
            free.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        getattr(iterator, "cancel", lambda: None)()
        thread.join()


def _taken(queue: Queue[T | _End], thread: Thread, spent: TimeSpent | None) -> T | _End:
    with nullcontext() if spent is None else spent.waited():
        return _take(queue, thread)


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


def _decode(image: LoadedImage, *, max_pixels: int) -> None:
    try:
        image.pixels = decode_image(image.data or b"", max_pixels=max_pixels)
    except ImageError as error:
        image.error = _shown(error, image.file)


def _shown(error: ImageError, file: ImageFile) -> str:
    # Where the image set lies on this machine is nobody's business in a published table.
    return str(error).replace(str(file.path), file.shown_path)
