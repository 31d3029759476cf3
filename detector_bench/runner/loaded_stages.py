"""The stages of a run with their networks: loaded when first needed, counted, and their results kept."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Container, Mapping
from threading import RLock

from detector_bench.errors import DetectorBenchError, WeightsError
from detector_bench.perception.answers.paid_ledger import PaidLedger, TakesLedger
from detector_bench.perception.cores import computing_with
from detector_bench.perception.stage import (
    Arrays,
    Frame,
    PreparesAhead,
    Stage,
    StageFailure,
    StageFunction,
)
from detector_bench.runner.batch_calls import checked_numbers
from detector_bench.runner.stage_cache import StageCache
from detector_bench.runner.time_spent import TimeSpent
from detector_bench.weights import WeightsLocator


class LoadedStages:
    """What all who run stages share; several threads may use it.

    Args:
        fingerprints: of every stage that may run.
        weights: where weights are found.
        cache: where results are kept; may be exchanged.
        threads: how many cores this process may use.
        essential: stages that all detectors of the run read. What keeps one of them from being loaded ends the
            run; what keeps another one from it is the failure of its images, and the other detectors go on.

    Attributes:
        seconds: time spent in each stage, by `label`, added up over threads; loading under `<label> (loading)`.
        images: how many images each stage was really run on.
        spent: what the run's time goes into.
        paid: where stages that ask paid services record it; to be set before they are loaded.
    """

    def __init__(
        self,
        *,
        fingerprints: Mapping[Stage, str],
        weights: WeightsLocator,
        cache: StageCache,
        threads: int,
        essential: Container[Stage],
    ) -> None:
        self._fingerprints = fingerprints
        self._contents = {
            stage: {file: weights.content_sha256(file) for file in stage.weights()} for stage in fingerprints
        }
        self._weights = weights
        self._essential = essential
        self._lock = RLock()
        self._functions: dict[Stage, StageFunction] = {}
        self._fixed: set[Stage] = set()
        self._preparing: dict[Stage, PreparesAhead] = {}
        self.cache = cache
        self.paid = PaidLedger(None)
        self.threads = threads
        self.seconds: dict[str, float] = defaultdict(float)
        self.images: dict[str, int] = defaultdict(int)
        self.spent = TimeSpent()

    def label(self, stage: Stage) -> str:
        """The stage's name and the beginning of its fingerprint, which tells its variants apart."""
        return f"{stage.kind}-{self._fingerprints[stage][:8]}"

    def function(self, stage: Stage) -> StageFunction:
        """The loaded stage; of one that runs in lanes, with one thread in each call."""
        with self._lock:
            if stage not in self._functions:
                self._functions[stage] = self._loaded(stage, threads=1 if stage.lanes else self.threads)
            return self._functions[stage]

    def reload(self, stage: Stage, *, threads: int) -> StageFunction:
        """The stage, loaded anew with so many threads in each call; what was loaded before goes first."""
        with self._lock:
            self._functions.pop(stage, None)
            self._functions[stage] = self._loaded(stage, threads=threads)
            return self._functions[stage]

    def _loaded(self, stage: Stage, *, threads: int) -> StageFunction:
        began = time.perf_counter()
        with computing_with(threads) as cores:
            loaded = self._load(stage)
        self._require_same_weights(stage)
        function = checked_numbers(loaded)
        asking: object = loaded
        if isinstance(asking, TakesLedger):
            asking.take_ledger(self.paid, stage=self.label(stage), fingerprint=self._fingerprints[stage])
        if isinstance(loaded, PreparesAhead):
            self._preparing[stage] = loaded
        if cores.asked:
            self._fixed.add(stage)
        self.count(stage, time.perf_counter() - began, what=" (loading)")
        return function

    def _load(self, stage: Stage) -> StageFunction:
        try:
            return stage.load(self._weights)
        except DetectorBenchError as error:
            if stage in self._essential:
                raise
            failure = StageFailure("stage_failed", " ".join(str(error).split()))
            return lambda frames: [failure] * len(frames)

    def _require_same_weights(self, stage: Stage) -> None:
        """Refuse weights that have changed since the run began, even while they were read."""
        for file, content in self._contents[stage].items():
            self._weights.locate(file)  # what is pinned
            if self._weights.content_sha256(file) != content:
                raise WeightsError(f"weights {file.name!r} have changed since this run began: run it again")

    def preparing(self, stage: Stage) -> PreparesAhead | None:
        """The loaded stage, if part of its work can be done ahead of its network."""
        return self._preparing.get(stage)

    def threads_are_fixed(self, stage: Stage) -> bool:
        """Whether a loaded stage keeps the number of threads that it was loaded with."""
        return stage in self._fixed

    def weights_size(self, stage: Stage) -> int:
        """Bytes of the weights files that a stage reads itself."""
        paths = [self._weights.locate(file) for file in stage.weights()]
        files = [each for path in paths for each in (path.rglob("*") if path.is_dir() else [path])]
        return sum(file.stat().st_size for file in files if file.is_file())

    def count(self, stage: Stage, seconds: float, *, images: int = 0, what: str = "") -> None:
        """Note that a stage has worked."""
        label = self.label(stage)
        with self._lock:
            self.seconds[f"{label}{what}"] += seconds
            if images:
                self.images[label] += images

    def keep(self, stage: Stage, results: dict[str, Arrays]) -> None:
        """Put results, by content, into the cache, if the stage's are worth it."""
        if stage.cached and results:
            self.cache.put(self._fingerprints[stage], results)


def inherit_failure(stage: Stage, frame: Frame) -> bool:
    """Whether an input of the stage failed on the image; then its failure becomes that of the stage, too."""
    for needed in stage.inputs():
        result = frame.results[needed]
        if isinstance(result, StageFailure):
            frame.results[stage] = result
            return True
    return False
