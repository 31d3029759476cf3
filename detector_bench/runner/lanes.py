"""Lanes: each image in one thread of a CPU, from its decoding to its last stage.

One-thread calls side by side use all cores without waiting for each other between the operators of a network, and
only as many images are held at once as there are threads. Whether a network is quicker that way, with how many
images in a call, or with all threads in one call, a short trial on a run's first images finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import RLock
from typing import Any

from detector_bench.perception.cores import computing_with
from detector_bench.perception.stage import Frame, Stage, StageFailure, StageFunction, with_inputs
from detector_bench.runner.batch_calls import each_or_failure, stage_failure
from detector_bench.runner.loaded_stages import LoadedStages, inherit_failure
from detector_bench.runner.time_spent import PREPARING

FEWEST_IMAGES = 96
"""In a shorter run a trial would cost more than it brings."""

IMAGES_OF_TRIAL = 10
"""So many images for each thread; what comes out of them is kept."""

_GROUP = 4
_MOST_LOOKS = 3  # batches in which a network may have nothing to do yet
_QUICK = 0.001  # seconds for an image: then there is nothing to gain
_SMALL_WEIGHTS = (
    50_000_000  # bytes: they stay in the processor's cache from image to image, so groups gain nothing
)
_LARGE_WEIGHTS = 200_000_000  # bytes: such a network is not opened a second time only to be tried
_CLEARLY_BETTER = 0.92
_SECONDS_BETWEEN_KEEPING = 1.0


@dataclass(frozen=True)
class StageLayout:
    """How a stage's work is laid on the cores; no part of a fingerprint.

    Attributes:
        lanes: how many calls run side by side.
        threads_per_call: how many threads each call uses.
        images_per_call: how many images a call gets; None: the whole batch.
        tried: whether a trial chose it.
    """

    lanes: int
    threads_per_call: int
    images_per_call: int | None
    tried: bool = False

    def as_data(self) -> dict[str, int | bool | None]:
        """Plain data, for the record of a run."""
        return asdict(self)


class Lanes:
    """Which stages of a run are computed in lanes, and the computing itself.

    Args:
        stages: loads the stages, and counts what they do.

    Attributes:
        layouts: of every stage that was loaded.
    """

    def __init__(self, stages: LoadedStages) -> None:
        self._stages = stages
        self._threads = stages.threads
        self._lock = RLock()
        self._alone = RLock()
        self._done: dict[Stage, dict[str, Any]] = {}
        self._kept = time.monotonic()
        self.layouts: dict[Stage, StageLayout] = {}
        self._settled: set[Stage] = set()
        self._elsewhere: set[Stage] = set()
        self._looks: dict[Stage, int] = {}

    @property
    def images_at_once(self) -> int:
        """How many images a lane takes on together."""
        sizes = [each.images_per_call or 1 for stage, each in self.layouts.items() if self._side_by_side(stage)]
        return max(sizes, default=1)

    def layout(self, stage: Stage) -> StageLayout | None:
        """How a stage is laid on the cores; None where the stage itself says how it wants to be called."""
        return self._laid_out(stage) if self._may(stage) else None

    def _may(self, stage: Stage) -> bool:
        return stage.lanes and stage.calls_at_once == 1

    def stages_for(self, wanted: Sequence[Stage], present: Any) -> list[Stage]:
        """Those of the wanted stages, and of their inputs, that are computed in lanes; inputs first.

        Loads what is not loaded yet, as only then it is known where it computes.
        """
        found: dict[Stage, None] = {}
        for stage in with_inputs(wanted, present=present):
            ready = all(needed in present or needed in found for needed in stage.inputs())
            if ready and self._may(stage) and self._laid_out(stage) and self._side_by_side(stage):
                found[stage] = None
        return list(found)

    def prepared_for(self, wanted: Sequence[Stage], present: Any) -> list[Stage]:
        """Those of the wanted stages that are no work of the lanes, but whose images they prepare."""
        return [
            stage
            for stage in with_inputs(wanted, present=present)
            if all(needed in present for needed in stage.inputs())
            and stage in self.layouts
            and not self._side_by_side(stage)
            and self._stages.preparing(stage) is not None
        ]

    def prepare(self, frame: Frame, wanted: Sequence[Stage]) -> None:
        """Fill in `frame.prepared` for the wanted stages that allow it."""
        for stage in self.prepared_for(wanted, frame.results):
            preparing = self._stages.preparing(stage)
            failed = any(isinstance(frame.results[needed], StageFailure) for needed in stage.inputs())
            if preparing is None or failed:
                continue
            began = time.perf_counter()
            # What fails here fails again where the stage is called, and is reported there.
            with computing_with(1), suppress(Exception):
                frame.prepared[stage] = preparing.prepare(frame)
            self._stages.spent.add(PREPARING, time.perf_counter() - began, beside=True)

    def run(
        self, frames: Sequence[Frame], *, sha256: Sequence[str | None], wanted: Sequence[Sequence[Stage]]
    ) -> None:
        """Fill in `frame.results` in this thread alone, for all wanted stages that are computed in lanes."""
        contents = dict(zip(map(id, frames), sha256, strict=True))
        for stage, ready in self._by_stage(frames, wanted):
            step = self.layouts[stage].images_per_call or 1
            with computing_with(1):
                self._compute(stage, ready, contents, step=step)

    def settle(
        self,
        frames: Sequence[Frame],
        *,
        sha256: Sequence[str | None],
        wanted: Sequence[Sequence[Stage]],
        pool: ThreadPoolExecutor,
    ) -> None:
        """Try out every network that has not been tried, on these images; what comes out is kept."""
        contents = dict(zip(map(id, frames), sha256, strict=True))
        for stage, ready in self._by_stage(frames, wanted):
            if stage not in self._settled:
                self._looks[stage] = self._looks.get(stage, 0) + 1
                if len(ready) >= _GROUP and stage.weights():
                    self.layouts[stage] = self._tried(stage, ready, contents, pool)
                if len(ready) >= _GROUP or self._looks[stage] == _MOST_LOOKS:
                    self._settled.add(stage)
            open_frames = [frame for frame in ready if stage not in frame.results]
            list(pool.map(lambda frame, stage=stage: self._alone_in_lane(stage, frame, contents), open_frames))

    def unsettled(self, stages: Sequence[Stage]) -> bool:
        """Whether any of these stages has not been tried yet."""
        return any(stage not in self._settled for stage in stages)

    def keep(self) -> None:
        """Put all results into the cache that are not there yet."""
        with self._lock:
            done, self._done = self._done, {}
            self._kept = time.monotonic()
            for stage, results in done.items():
                self._stages.keep(stage, results)

    def _by_stage(
        self, frames: Sequence[Frame], wanted: Sequence[Sequence[Stage]]
    ) -> Iterator[tuple[Stage, list[Frame]]]:
        """Each stage that is computed in lanes, inputs first, with the frames that are ready for it."""
        todo: dict[Stage, list[Frame]] = {}
        for frame, stages in zip(frames, wanted, strict=True):
            for stage in self.stages_for(stages, frame.results):
                todo.setdefault(stage, []).append(frame)
        for stage in with_inputs(list(todo)):
            waiting = todo.get(stage, [])
            present = [frame for frame in waiting if all(needed in frame.results for needed in stage.inputs())]
            ready = [frame for frame in present if not inherit_failure(stage, frame)]
            if ready and self._side_by_side(stage):
                yield stage, ready

    def _laid_out(self, stage: Stage) -> StageLayout:
        with self._lock:
            if stage not in self.layouts:
                self._stages.function(stage)
                if stage.device_taken == "cpu":
                    self.layouts[stage] = StageLayout(self._threads, 1, 1)
                else:
                    self.layouts[stage] = StageLayout(1, self._threads, stage.images_per_call)
                    self._elsewhere.add(stage)
                    self._settled.add(stage)
            return self.layouts[stage]

    def _side_by_side(self, stage: Stage) -> bool:
        return stage not in self._elsewhere and self.layouts[stage].lanes == self._threads

    def _compute(
        self, stage: Stage, frames: Sequence[Frame], contents: dict[int, str | None], *, step: int
    ) -> None:
        function = self._stages.function(stage)
        for start in range(0, len(frames), step):
            part = frames[start : start + step]
            began = time.perf_counter()
            results = each_or_failure(function, part, failed=stage_failure)
            self._spent(stage, time.perf_counter() - began)
            for frame, found in zip(part, results, strict=True):
                result = found
                if isinstance(found, StageFailure) and self._threads > 1:
                    # Perhaps for want of memory, beside the other lanes.
                    with self._alone:
                        [result] = each_or_failure(function, [frame], failed=stage_failure)
                self._take(stage, frame, result, contents[id(frame)])

    def _spent(self, stage: Stage, seconds: float) -> None:
        self._stages.count(stage, seconds)
        self._stages.spent.add(self._stages.label(stage), seconds, beside=True)

    def _alone_in_lane(self, stage: Stage, frame: Frame, contents: dict[int, str | None]) -> None:
        with computing_with(1):
            self._compute(stage, [frame], contents, step=1)

    def _take(self, stage: Stage, frame: Frame, result: Any, content: str | None) -> None:
        if stage in frame.results:
            return
        frame.results[stage] = result
        self._stages.count(stage, 0.0, images=1)
        with self._lock:
            if content is not None and not isinstance(result, StageFailure) and stage.cached:
                self._done.setdefault(stage, {})[content] = result
            if time.monotonic() - self._kept > _SECONDS_BETWEEN_KEEPING:
                self.keep()

    def _tried(
        self, stage: Stage, frames: Sequence[Frame], contents: dict[int, str | None], pool: ThreadPoolExecutor
    ) -> StageLayout:
        """The quickest layout of a network on these images; one image per call in lanes, unless another is clearly
        better."""
        stages, threads = self._stages, self._threads
        trial = _Trial(
            lambda: stages.function(stage),
            frames,
            pool,
            lanes=threads,
            take=lambda frame, result: self._take(stage, frame, result, contents[id(frame)]),
            spent=lambda seconds: self._spent(stage, seconds),
        )
        single, grouped = (StageLayout(threads, 1, size, tried=True) for size in (1, _GROUP))
        together = StageLayout(1, threads, stage.images_per_call or max(_GROUP, threads), tried=True)
        one_each = [1] * threads
        trial.side_by_side(one_each)  # the first calls take longer
        seconds = {single: trial.side_by_side(one_each)}
        if seconds[single] * threads < _QUICK:
            return single
        size = stages.weights_size(stage)
        if size >= _SMALL_WEIGHTS and (stage.images_per_call or _GROUP) >= _GROUP:
            seconds[grouped] = trial.side_by_side([_GROUP] * threads)
        # A session of onnxruntime keeps the memory of its largest batch: it goes before another one comes.
        again = stages.threads_are_fixed(stage) and size <= _LARGE_WEIGHTS
        if threads > 1 and (again or not stages.threads_are_fixed(stage)):
            if again:
                stages.reload(stage, threads=threads)
            with computing_with(threads):
                trial.one_by_one([1])
                seconds[together] = trial.one_by_one([together.images_per_call or _GROUP])
            if again:
                stages.reload(stage, threads=1)
                trial.side_by_side(one_each)
        seconds[single] = min(seconds[single], trial.side_by_side(one_each))
        best = min(seconds, key=lambda layout: seconds[layout])
        if seconds[best] > seconds[single] * _CLEARLY_BETTER:
            return single
        if best == together and again:
            stages.reload(stage, threads=threads)
        return best


class _Trial:
    """Times calls of a stage on some frames, which are taken one after another, and again from the first.

    Args:
        function: gives the function as it is loaded now.
        frames: at least one.
        pool: whose threads are the lanes.
        lanes: how many threads the pool has.
        take: is given each frame with its result.
        spent: is told the seconds of each call.
    """

    def __init__(
        self,
        function: Callable[[], StageFunction],
        frames: Sequence[Frame],
        pool: ThreadPoolExecutor,
        *,
        lanes: int,
        take: Callable[[Frame, Any], None],
        spent: Callable[[float], None],
    ) -> None:
        self._function = function
        self._frames = frames
        self._pool = pool
        self._lanes = lanes
        self._next = 0
        self._take = take
        self._spent = spent

    def side_by_side(self, sizes: Sequence[int]) -> float:
        """Seconds for an image, with calls on groups of these sizes in the pool's threads, one thread each.

        By the processor's time, which other programs on the machine disturb less than the clock's.
        """

        def call(group: Sequence[Frame]) -> None:
            with computing_with(1):
                self._call(group)

        groups = self._groups(sizes)
        began = time.process_time()
        list(self._pool.map(call, groups))
        return (time.process_time() - began) / sum(sizes) / self._lanes

    def one_by_one(self, sizes: Sequence[int]) -> float:
        """Seconds for an image, with one call after another in this thread."""
        groups = self._groups(sizes)
        began = time.perf_counter()
        for group in groups:
            self._call(group)
        return (time.perf_counter() - began) / sum(sizes)

    def _groups(self, sizes: Sequence[int]) -> list[list[Frame]]:
        groups = []
        for size in sizes:
            groups.append([self._frames[(self._next + place) % len(self._frames)] for place in range(size)])
            self._next += size
        return groups

    def _call(self, group: Sequence[Frame]) -> None:
        began = time.perf_counter()
        results = each_or_failure(self._function(), group, failed=stage_failure)
        self._spent(time.perf_counter() - began)
        for frame, result in zip(group, results, strict=True):
            self._take(frame, result)
