"""Runs stages and detectors on a batch; a failure costs the image it belongs to, never the batch."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Real
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import Generic, NamedTuple, TypeVar

from detector_bench.dataset.published_text import without_folders
from detector_bench.detectors.base import Detector, Prediction
from detector_bench.interruption import stop_once
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.cores import computing_with
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageFailure, StageResult, with_inputs
from detector_bench.runner.batch_calls import each_or_failure, stage_failure
from detector_bench.runner.lanes import Lanes
from detector_bench.runner.loaded_stages import LoadedStages, inherit_failure
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

R = TypeVar("R")


class StageExecution:
    """Runs stages on batches, and keeps their results in the cache.

    Args:
        fingerprints: of every stage that may run.
        weights: where weights are found.
        cache: where results are kept; may be exchanged between batches.
        threads: how many cores this process may use; None: all of them.
        essential: as of `LoadedStages`; None: all stages.

    Attributes:
        lanes: runs those stages that compute on a CPU image by image, as soon as an image is decoded.
        seconds: time spent in each stage, by `label`, added up over threads; loading under `<label> (loading)`.
        images: how many images each stage was really run on.
        spent: what the run's time goes into.
    """

    def __init__(
        self,
        *,
        fingerprints: dict[Stage, str],
        weights: WeightsLocator,
        cache: StageCache,
        threads: int | None = None,
        essential: Container[Stage] | None = None,
    ) -> None:
        self._stages = LoadedStages(
            fingerprints=fingerprints,
            weights=weights,
            cache=cache,
            threads=threads or os.cpu_count() or 1,
            essential=fingerprints if essential is None else essential,
        )
        self.lanes = Lanes(self._stages)
        self.seconds = self._stages.seconds
        self.images = self._stages.images
        self.spent = self._stages.spent
        self.label = self._stages.label

    @property
    def cache(self) -> StageCache:
        """Where results are kept."""
        return self._stages.cache

    @cache.setter
    def cache(self, cache: StageCache) -> None:
        self._stages.cache = cache

    @property
    def paid(self) -> PaidLedger:
        """Where stages that ask paid services record it."""
        return self._stages.paid

    @paid.setter
    def paid(self, ledger: PaidLedger) -> None:
        self._stages.paid = ledger

    def layouts(self) -> dict[str, dict[str, int | bool | None]]:
        """How the work of each network that ran is laid on the cores, by `label`, as plain data."""
        return {
            self.label(stage): layout.as_data() for stage, layout in self.lanes.layouts.items() if stage.weights()
        }

    def run(
        self, frames: Sequence[Frame], *, sha256: Sequence[str | None], wanted: Sequence[Sequence[Stage]]
    ) -> None:
        """Fill in `frame.results` for all wanted stages.

        Args:
            frames: with cached results, and those of the lanes, in place already.
            sha256: content of each image, for the cache.
            wanted: for each frame, the stages that its detectors read.
        """
        todo: dict[Stage, list[int]] = {}
        for number, (frame, stages) in enumerate(zip(frames, wanted, strict=True)):
            for stage in with_inputs(stages, present=frame.results):
                todo.setdefault(stage, []).append(number)
        for stage in with_inputs(list(todo)):
            numbers = todo.get(stage, [])
            ready = [number for number in numbers if not inherit_failure(stage, frames[number])]
            if ready:
                self._run_stage(stage, [frames[n] for n in ready], [sha256[n] for n in ready])

    def _run_stage(self, stage: Stage, frames: Sequence[Frame], sha256: Sequence[str | None]) -> None:
        function = self._stages.function(stage)
        layout = self.lanes.layout(stage)
        step = (layout and layout.images_per_call) or stage.images_per_call or len(frames)
        threads = layout.threads_per_call if layout else self._stages.threads
        parts = [slice(start, start + step) for start in range(0, len(frames), step)]
        at_once = min(layout.lanes, len(parts)) if layout else stage.calls_at_once

        def call(part: slice) -> Sequence[StageResult]:
            with computing_with(threads):
                return each_or_failure(function, frames[part], failed=stage_failure)

        done: dict[str, Arrays] = {}
        began = time.perf_counter()
        images = 0
        try:
            for part, results in each_finished(call, parts, at_once=at_once):
                for frame, content, result in zip(frames[part], sha256[part], results, strict=True):
                    frame.results[stage] = result
                    images += 1
                    if content is not None and not isinstance(result, StageFailure):
                        done[content] = result
                # A slow or paid answer is kept at once, so that not even a kill loses it.
                self._stages.keep(stage, done)
                done.clear()
        finally:
            seconds = time.perf_counter() - began
            self._stages.count(stage, seconds, images=images)
            self.spent.add(self.label(stage), seconds, beside=False)


def judge(detector: Detector, frames: Sequence[Frame]) -> list[Prediction]:
    """Ask a detector about a batch; images that a stage or the detector fails on become errors."""
    if detector.parts:
        # One by one, so that what one part fails on stays clear for the others.
        parts = {id(part): part for part in detector.parts.values()}.values()
        return [
            each for part in parts for each in judge(part, frames) if detector.parts.get(each.attribute) is part
        ]
    predictions: list[Prediction] = []
    sound: list[Frame] = []
    for frame in frames:
        failure = next(
            (found for stage in detector.stages if isinstance(found := frame.results[stage], StageFailure)), None
        )
        if failure is None:
            sound.append(frame)
        else:
            predictions += errors_for(detector, frame.image_id, f"{failure.reason}: {failure.detail}")

    def by_image(part: Sequence[Frame]) -> list[list[Prediction]]:
        found: dict[str, list[Prediction]] = {frame.image_id: [] for frame in part}
        for prediction in detector.predict(Batch(part)):
            _require_storable(prediction)
            found[prediction.image_id].append(prediction)
        return list(found.values())

    def failed(frame: Frame, error: Exception) -> list[Prediction]:
        return errors_for(detector, frame.image_id, f"detector_failed: {type(error).__name__}: {error}")

    for of_image in each_or_failure(by_image, sound, failed=failed):
        predictions += of_image
    return predictions


def errors_for(detector: Detector, image_id: str, reason: str) -> list[Prediction]:
    """A detector's error rows for an image, one for each attribute; they are published, with the reason."""
    reason = without_folders(reason)
    return [Prediction.error(image_id, attribute, reason) for attribute in detector.attributes]


def _require_storable(prediction: Prediction) -> None:
    # Otherwise the mistake would be met when the predictions are stored, and stop the run.
    if not isinstance(prediction.status, Status):
        raise TypeError(f"status is one of {', '.join(Status)}; got {prediction.status!r}")
    for name in ("reason", "label", "raw"):
        if not isinstance(text := getattr(prediction, name), str | None):
            raise TypeError(f"{name} is text or None; got {text!r}")
    for name in ("score", "value"):
        if not isinstance(number := getattr(prediction, name), Real | None):
            raise TypeError(f"{name} is a number or None; got {number!r}")


T = TypeVar("T")


class _Outcome(NamedTuple, Generic[T, R]):
    argument: T
    results: tuple[R, ...]
    error: BaseException | None = None


def each_finished(function: Callable[[T], R], arguments: Sequence[T], *, at_once: int) -> Iterator[tuple[T, R]]:
    """Call a function for each argument, and yield argument and result as soon as the call is done.

    After an exception, or Ctrl-C, no further call begins; those under way come to their end and are yielded before
    it is raised, so that no answer that was paid for is lost. A second Ctrl-C does not wait for them.

    Args:
        function: with more than one call at once, it runs in several threads.
        arguments: what to call it with.
        at_once: how many calls may run at the same time. With 1, each runs right here, in order.
    """
    if at_once == 1:
        for argument in arguments:
            yield argument, function(argument)
        return
    outcomes: SimpleQueue[_Outcome[T, R] | None] = SimpleQueue()
    stop = Event()

    def call(argument: T) -> None:
        if stop.is_set():
            return
        try:
            outcomes.put(_Outcome(argument, (function(argument),)))
        except BaseException as error:  # noqa: BLE001 - raised again where the results are taken
            stop.set()
            outcomes.put(_Outcome(argument, (), error))

    def call_all() -> None:
        try:
            with ThreadPoolExecutor(at_once, thread_name_prefix="call") as pool:
                for argument in arguments:
                    pool.submit(call, argument)
        except BaseException as error:  # noqa: BLE001 - no thread to be had; raised again below
            outcomes.put(_Outcome(arguments[0], (), error))
        outcomes.put(None)

    problem: BaseException | None = None
    with _interrupts_held_back(stop) as interrupted:
        try:
            Thread(target=call_all, name="calls", daemon=True).start()
            while (outcome := outcomes.get()) is not None:
                problem = problem or outcome.error
                yield from ((outcome.argument, result) for result in outcome.results)
        finally:
            stop.set()
    if interrupted.is_set():
        raise KeyboardInterrupt
    if problem is not None:
        raise problem


@contextmanager
def _interrupts_held_back(stop: Event) -> Iterator[Event]:
    """Let the first Ctrl-C set `stop` and the event that is given, and only the second interrupt at once.

    An interrupt could else come between any two steps of whoever takes the results, and an answer would be lost.
    """
    interrupted = Event()
    held = {}
    if current_thread() is main_thread():  # signals come to no other
        held = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        held = {
            number: found for number, found in held.items() if found in (signal.default_int_handler, stop_once)
        }

    def give_back() -> None:
        for number, handler in held.items():
            signal.signal(number, handler)

    def hold_back(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if interrupted.is_set():
            give_back()
            raise KeyboardInterrupt
        interrupted.set()
        stop.set()

    for number in held:
        signal.signal(number, hold_back)
    try:
        yield interrupted
    finally:
        give_back()
