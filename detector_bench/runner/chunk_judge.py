"""Judges chunks of images in a process that stores nothing, by the same steps as a run that judges by itself."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import NamedTuple

from detector_bench.detectors.base import Prediction
from detector_bench.perception.stage import Arrays, Stage
from detector_bench.runner.ahead import ahead
from detector_bench.runner.chunks import Chunk, Encoded, JudgedChunk, StageResults, predictions_table
from detector_bench.runner.image_reading import LoadedImage
from detector_bench.runner.judging import BatchJudge
from detector_bench.runner.loading import LoadedBatches
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.stage_cache import StageCache


class ChunkJudge:
    """Judges chunks one after another, in the order in which they come, with the next ones decoded meanwhile.

    Args:
        judge: detectors, and stages that stay loaded from chunk to chunk.
        settings: batch size, cores and the like.
    """

    def __init__(self, judge: BatchJudge, settings: RunSettings) -> None:
        self._judge = judge
        self._rules = judge.loading_rules(settings)
        self._results = _NewResults()
        judge.execution.cache = self._results
        self._stages = {own: stage for stage, own in judge.fingerprints.items()}
        self._told = _Spending()
        self._coming: SimpleQueue[_Work] = SimpleQueue()
        self._begun: deque[_Work] = deque()
        Thread(target=self._work, name="chunks", daemon=True).start()

    def judge(self, chunk: Chunk, data: Sequence[Encoded]) -> JudgedChunk:
        """Judge a chunk; may be called by several threads, each of which waits for its own.

        Args:
            chunk: images that are read already.
            data: their bytes.

        Raises:
            DetectorBenchError: something that the user has to mend.
            Exception: a mistake in a detector's or stage's loading.
        """
        work = _Work(chunk, data, detectors=len(self._judge.detectors))
        self._coming.put(work)
        work.done.wait()
        if work.error is not None:
            raise work.error
        shas = {each.sha256 for each in chunk.images if each.sha256 is not None}
        return JudgedChunk(
            predictions_table(chunk, work.predictions),
            self._results.taken(shas),
            *self._spent(),
            devices=self._devices(),
            layouts=self._judge.execution.layouts(),
        )

    def taken_results(self) -> StageResults:
        """Stage results of chunks that are not done yet: slow or paid answers, that a kill would lose."""
        return self._results.taken()

    def _work(self) -> None:
        while True:
            first = self._coming.get()
            try:
                loading = LoadedBatches(
                    self._parts(first), left=first.left_of_all, cache=self._results, rules=self._rules
                )
                with closing(ahead(loading, depth=2, spent=self._judge.execution.spent)) as batches:
                    for batch in batches:
                        self._take(batch)
            except BaseException as error:  # noqa: BLE001 - raised where somebody waits for the chunk
                for work in [*self._begun] or [first]:
                    work.fail(error)
                self._begun.clear()

    def _parts(self, first: _Work) -> Generator[list[LoadedImage], None, None]:
        """The chunks as long as there are some; when none waits, those that are begun come to their end."""
        work = first
        while True:
            self._begun.append(work)
            yield work.images(self._stages)
            try:
                work = self._coming.get_nowait()
            except Empty:
                return

    def _take(self, batch: Sequence[LoadedImage]) -> None:
        work = self._begun[0]
        work.take(batch, self._judge.judge(batch))
        if work.left == 0:
            self._begun.popleft()
            work.done.set()

    def _spent(self) -> tuple[dict[str, float], dict[str, int], dict[str, float]]:
        """Seconds and images by stage, and seconds by what they went into, since this was asked last."""
        execution, before = self._judge.execution, self._told
        spent = Counter(execution.spent.beside)
        spent.update(execution.spent.main)
        now = self._told = _Spending(dict(execution.seconds), dict(execution.images), dict(spent))
        return (
            {label: seconds - before.seconds.get(label, 0.0) for label, seconds in now.seconds.items()},
            {label: images - before.images.get(label, 0) for label, images in now.images.items()},
            {what: seconds - before.spent.get(what, 0.0) for what, seconds in now.spent.items()},
        )

    def _devices(self) -> Mapping[str, str]:
        execution = self._judge.execution
        labels = {execution.label(stage): stage for stage in self._judge.fingerprints}
        return {label: stage.device_taken for label, stage in labels.items() if label in execution.images}


class _Spending(NamedTuple):
    """What an execution had counted at some moment."""

    seconds: Mapping[str, float] = MappingProxyType({})
    images: Mapping[str, int] = MappingProxyType({})
    spent: Mapping[str, float] = MappingProxyType({})


class _Work:
    """A chunk, and what came out so far."""

    def __init__(self, chunk: Chunk, data: Sequence[Encoded], *, detectors: int) -> None:
        self._chunk = chunk
        self._data = data
        self.left = len(chunk.images)
        self.left_of_all = chunk.left
        self.predictions: list[list[Prediction]] = [[] for _ in range(detectors)]
        self.error: BaseException | None = None
        self.done = Event()

    def images(self, stages: Mapping[str, Stage]) -> list[LoadedImage]:
        data, self._data = self._data, []
        return self._chunk.loaded(data, stages)

    def take(self, batch: Sequence[LoadedImage], predictions: Sequence[Sequence[Prediction]]) -> None:
        self.left -= len(batch)
        for mine, found in zip(self.predictions, predictions, strict=True):
            mine.extend(found)

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()


class _NewResults(StageCache):
    """In the place of a stage cache: holds results until they are taken."""

    def __init__(self) -> None:
        super().__init__(None)
        self._lock = Lock()
        self._new: StageResults = {}

    def put(self, stage: str, results: Mapping[str, Arrays]) -> None:
        with self._lock:
            self._new.setdefault(stage, {}).update(results)

    def taken(self, images: set[str] | None = None) -> StageResults:
        """Results that were not taken yet, of these images or of all."""
        with self._lock:
            found: StageResults = {}
            for stage, results in self._new.items():
                wanted = set(results) if images is None else images & set(results)
                if wanted:
                    found[stage] = {image: results.pop(image) for image in wanted}
            return found
