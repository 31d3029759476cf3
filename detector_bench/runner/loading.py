"""Images in batches: read, decoded and judged by networks of the CPU ahead of who takes them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition, Event

from detector_bench.dataset.image_sources import readers_for
from detector_bench.perception.cores import libraries_as_before
from detector_bench.perception.stage import Stage, StageFailure
from detector_bench.runner.image_reading import (
    ImageFile,
    LoadedImage,
    LoadingRules,
    decode,
    measure_all,
    readings,
)
from detector_bench.runner.lanes import FEWEST_IMAGES, IMAGES_OF_TRIAL
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.time_spent import DECODING

PIXELS_PER_BATCH = 24_000_000
"""A batch is closed early when its images reach this size together: 32 images of 866 x 866."""

PIXELS_PER_LANE = 4_000_000
"""Where images are larger than this, not all cores may work at once."""

_FEWEST_READERS = 4


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
                    measure_all(images, cache=self._cache, rules=rules, pool=readers)
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
        decode(image, max_pixels=self._rules.max_pixels)
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
