"""Reads images for who judges elsewhere: in tasks on the nodes, or in this process where only it sees them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detector_bench.dataset.image_sources import marks_of, size_of
from detector_bench.runner.chunks import Encoded
from detector_bench.runner.image_reading import LoadedImage, LoadingRules, look_up, read_and_hash
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.stage_cache import StageCache
from detector_bench.study_ray.cluster import RayCluster
from detector_bench.study_ray.nodes import ReadImage, read_files

_FEWEST_READERS = 8
"""Threads that read: a disk or a server far away makes them wait, and cores are not what limits that."""


@dataclass(eq=False)
class Portion:
    """Images that are read together, and then judged together.

    Attributes:
        images: at least one.
        left: how many images of the shard are to be judged from here on.
        cache: of their shard.
        tries: how many workers have died on it.
        wanted: those whose bytes are needed.
        data: references to lists of bytes.
        places: by image id, the place of its bytes among all of these.
    """

    images: list[LoadedImage]
    left: int
    cache: StageCache
    tries: int = 0
    wanted: list[LoadedImage] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def halves(self) -> list[Portion]:
        """The portion in two, to be read again; one image stays as it is."""
        half = len(self.images) // 2
        if not half:
            return [self]
        return [
            Portion(self.images[:half], self.left, self.cache, tries=self.tries),
            Portion(self.images[half:], self.left - half, self.cache, tries=self.tries),
        ]


class PortionReader:
    """Reads portions ahead of who judges them, each of them once in memory: where it is read, or on its way.

    Which images must be read is seen from the shard's cache; what was read is remembered there. Where nodes cannot
    read what this process can, it reads everything itself from then on: an image is in error only if it is here.

    Args:
        cluster: an open one.
        judge: knows which images need their pixels.
        rules: of loading.
        in_tasks: whether nodes are asked first.
    """

    def __init__(self, cluster: RayCluster, judge: BatchJudge, rules: LoadingRules, *, in_tasks: bool) -> None:
        self._ray = cluster.ray
        self._judge = judge
        self._rules = rules
        self._in_tasks = in_tasks
        self._task = self._ray.remote(num_returns=2, num_cpus=0, scheduling_strategy="SPREAD")(read_files)
        self._pool = ThreadPoolExecutor(max(rules.threads, _FEWEST_READERS), thread_name_prefix="read")
        self._in_nodes: dict[Any, tuple[Portion, Any]] = {}
        self._here: deque[tuple[Portion, list[Future[None]]]] = deque()
        self._ready: deque[Portion] = deque()

    @property
    def under_way(self) -> int:
        """How many portions were begun and not taken yet."""
        return len(self._in_nodes) + len(self._here) + len(self._ready)

    @property
    def references(self) -> list[Any]:
        """What to wait for in Ray."""
        return list(self._in_nodes)

    @property
    def reads_here(self) -> bool:
        """Whether this process reads something right now."""
        return bool(self._here)

    def begin(self, portion: Portion) -> None:
        """Begin to read a portion, for the first time or again."""
        portion.data, portion.places = [], {}
        places = [image.file.path for image in portion.images]
        marks = marks_of(places) if portion.tries else [image.mark for image in portion.images]
        known = portion.cache.known_sha256(places, marks)
        for image, mark, sha256 in zip(portion.images, marks, known, strict=True):
            image.mark, image.sha256, image.error, image.cached, image.data = mark, sha256, None, {}, None
        look_up(portion.images, cache=portion.cache, rules=self._rules)
        portion.wanted = [
            image for image in portion.images if image.sha256 is None or self._judge.needs_decoding(image)
        ]
        if not portion.wanted:
            self._ready.append(portion)
        elif self._in_tasks:
            told, data = self._task.remote([(image.file, image.mark) for image in portion.wanted])
            self._in_nodes[told] = portion, data
        else:
            self._read_here(portion)

    def hear(self, reference: Any) -> bool:
        """Take what a task has read; False if it is none of these tasks."""
        if reference not in self._in_nodes:
            return False
        portion, data = self._in_nodes.pop(reference)
        try:
            told: list[ReadImage] = self._ray.get(reference)
        except self._ray.exceptions.RayError:  # its node is gone, or cannot import this package
            self._read_here(portion)
            return True
        again, readable = [], 0
        portion.data.append(data)
        for place, (image, found) in enumerate(zip(portion.wanted, told, strict=True)):
            if found.error is None and size_of(image.file.path, image.mark) in (0, found.size):
                self._take(portion, image, found.sha256, place)
            else:  # perhaps only there
                again.append(image)
        for image in again:
            image.sha256, image.cached = None, {}
            read_and_hash(image)
            readable += image.error is None
        if readable and readable == len(portion.wanted):
            self._in_tasks = False
        self._offer(portion, again, before=len(portion.wanted))
        self._finish(portion)
        return True

    def hear_here(self, *, wait: bool) -> None:
        """Take what threads of this process have read; wait for the oldest portion, if asked to."""
        while self._here and (wait or all(future.done() for future in self._here[0][1])):
            portion, futures = self._here.popleft()
            for future in futures:
                future.result()
            self._offer(portion, portion.wanted, before=0)
            self._finish(portion)
            wait = False

    def take(self) -> Portion | None:
        """A portion that is read; None if there is none."""
        return self._ready.popleft() if self._ready else None

    def forget(self) -> None:
        """Nobody wants what is under way."""
        self._in_nodes.clear()
        self._here.clear()
        self._ready.clear()

    def close(self) -> None:
        """End the threads."""
        self.forget()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read_here(self, portion: Portion) -> None:
        for image in portion.wanted:
            image.sha256, image.cached = None, {}
        self._here.append((portion, [self._pool.submit(read_and_hash, image) for image in portion.wanted]))

    def _offer(self, portion: Portion, images: Sequence[LoadedImage], *, before: int) -> None:
        """Put what was read here where others can have it, behind so many others."""
        data: list[Encoded] = []
        for image in images:
            if image.error is None and image.data is not None:
                portion.places[image.file.image_id] = before + len(data)
                data.append(np.frombuffer(image.data, np.uint8))
            image.data = None
        if data:
            portion.data.append(self._ray.put(data))

    def _take(self, portion: Portion, image: LoadedImage, sha256: str | None, place: int) -> None:
        if sha256 != image.sha256:  # it was not known, or somebody wrote to it a moment ago
            image.sha256, image.cached = sha256, {}
        portion.places[image.file.image_id] = place

    def _finish(self, portion: Portion) -> None:
        portion.cache.remember_sha256(
            (image.file.path, image.mark, image.sha256)
            for image in portion.wanted
            if image.mark is not None and image.sha256 is not None
        )
        look_up([image for image in portion.wanted if not image.cached], cache=portion.cache, rules=self._rules)
        for image in portion.wanted:
            if image.error is not None or not self._judge.needs_decoding(image):
                portion.places.pop(image.file.image_id, None)
        self._ready.append(portion)


def pixels_needed(portion: Portion) -> int:
    """How many images of a portion that is read have their bytes with them."""
    return len(portion.places)
