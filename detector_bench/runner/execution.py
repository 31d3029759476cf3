"""Runs stages and detectors on a batch; a failure costs the image it belongs to, never the batch."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Real
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageFailure, StageFunction, with_inputs
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator

R = TypeVar("R")


class StageExecution:
    """Loads stages when they are first needed, runs them, and keeps their results in the cache.

    Attributes:
        seconds: time spent in each stage, by `label`; loading weights counts under `<label> (loading)`.
        images: how many images each stage was really run on.
        cache: where results are kept; each shard has its own.
    """

    def __init__(self, *, fingerprints: dict[Stage, str], weights: WeightsLocator, cache: StageCache) -> None:
        self._fingerprints = fingerprints
        self._weights = weights
        self.cache = cache
        self._functions: dict[Stage, StageFunction] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.images: dict[str, int] = defaultdict(int)

    def label(self, stage: Stage) -> str:
        """The stage's name and the beginning of its fingerprint, which tells its variants apart."""
        return f"{stage.kind}-{self._fingerprints[stage][:8]}"

    def run(
        self, frames: Sequence[Frame], *, sha256: Sequence[str | None], wanted: Sequence[Sequence[Stage]]
    ) -> None:
        """Fill in `frame.results` for all wanted stages.

        Args:
            frames: with cached results in place already.
            sha256: content of each image, for the cache.
            wanted: for each frame, the stages that its detectors read.
        """
        todo: dict[Stage, list[int]] = {}
        for number, (frame, stages) in enumerate(zip(frames, wanted, strict=True)):
            for stage in with_inputs(stages, present=frame.results):
                todo.setdefault(stage, []).append(number)
        for stage in with_inputs(list(todo)):
            numbers = todo.get(stage, [])
            ready = [number for number in numbers if not self._inherit_failure(stage, frames[number])]
            if ready:
                self._run_stage(stage, [frames[n] for n in ready], [sha256[n] for n in ready])

    def _inherit_failure(self, stage: Stage, frame: Frame) -> bool:
        for needed in stage.inputs():
            result = frame.results[needed]
            if isinstance(result, StageFailure):
                frame.results[stage] = result
                return True
        return False

    def _run_stage(self, stage: Stage, frames: Sequence[Frame], sha256: Sequence[str | None]) -> None:
        label = self.label(stage)
        function = _checked(self._function(stage))
        step = stage.images_per_call or len(frames)
        parts = [slice(start, start + step) for start in range(0, len(frames), step)]
        done: dict[str, Arrays] = {}
        began = time.perf_counter()
        try:
            for part, results in each_finished(
                lambda part: each_or_failure(function, frames[part], failed=_stage_failure),
                parts,
                at_once=stage.calls_at_once,
            ):
                for frame, content, result in zip(frames[part], sha256[part], results, strict=True):
                    frame.results[stage] = result
                    self.images[label] += 1
                    if content is not None and not isinstance(result, StageFailure):
                        done[content] = result
                # A slow or paid answer is kept at once, so that not even a kill loses it.
                self._keep(stage, done)
        finally:
            self.seconds[label] += time.perf_counter() - began

    def _keep(self, stage: Stage, done: dict[str, Arrays]) -> None:
        if stage.cached and done:
            self.cache.put(self._fingerprints[stage], done)
            done.clear()

    def _function(self, stage: Stage) -> StageFunction:
        if stage not in self._functions:
            began = time.perf_counter()
            self._functions[stage] = stage.load(self._weights)
            self.seconds[f"{self.label(stage)} (loading)"] += time.perf_counter() - began
        return self._functions[stage]


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
    """A detector's error rows for an image, one for each attribute."""
    return [Prediction.error(image_id, attribute, reason) for attribute in detector.attributes]


def each_or_failure(
    function: Callable[[Sequence[Frame]], Sequence[R]],
    frames: Sequence[Frame],
    *,
    failed: Callable[[Frame, Exception], R],
) -> list[R]:
    """Call a batch function; if it fails, halve the batch until the failure is one image's own.

    Halving also gets over a lack of memory. Mistakes that the user must mend (a missing package, wrong weights)
    are raised as they are.
    """
    if not frames:
        return []
    try:
        results = list(function(frames))
        if len(results) != len(frames):
            raise ValueError(f"{len(results)} results for {len(frames)} images")
    except DetectorBenchError:
        raise
    except Exception as error:  # noqa: BLE001 - networks and libraries raise anything; it becomes a row
        if len(frames) == 1:
            return [failed(frames[0], error)]
    else:
        return results
    # Behind the handler, where the failed call's arrays are free again: perhaps it failed for want of memory.
    half = len(frames) // 2
    return [
        *each_or_failure(function, frames[:half], failed=failed),
        *each_or_failure(function, frames[half:], failed=failed),
    ]


def _stage_failure(frame: Frame, error: Exception) -> Arrays | StageFailure:  # noqa: ARG001
    return StageFailure("stage_failed", f"{type(error).__name__}: {error}")


def _checked(function: StageFunction) -> StageFunction:
    def checked(frames: Sequence[Frame]) -> Sequence[Arrays | StageFailure]:
        results = list(function(frames))
        for result in results:
            if not isinstance(result, StageFailure):
                _require_numbers(result)
        return results

    return checked


def _require_numbers(result: Any) -> None:
    # What could not be cached is an error at once, also where there is no cache.
    if not isinstance(result, Mapping):
        raise TypeError(f"a stage gives named arrays for each image; got {type(result).__name__}")
    for name, array in result.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            found = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(f"a stage gives arrays of numbers; {name!r} is {found}")


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
        held = {number: found for number, found in held.items() if found is signal.default_int_handler}

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
