"""The run: detectors over an image set, resumable at any moment, and what it tells while it goes on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from filelock import FileLock, Timeout

from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import DEFAULT_MAX_PIXELS
from detector_bench.detectors.base import Detector
from detector_bench.errors import (
    ConfigError,
    DetectorBenchError,
    MissingExtraError,
    RunInterruptedError,
    WeightsError,
)
from detector_bench.perception.stage import Stage, fingerprint, with_inputs
from detector_bench.runner.execution import StageExecution, errors_for, judge
from detector_bench.runner.loading import ImageFile, LoadedImage, LoadingRules, ahead, hash_files, loaded_batches
from detector_bench.runner.prediction_store import PredictionStore
from detector_bench.runner.readiness import require_ready
from detector_bench.runner.stage_cache import StageCache
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsFile, WeightsLocator, described


@dataclass
class RunProgress:
    """Where a run stands.

    Attributes:
        total: images of the image set.
        reused: images whose predictions were all there already.
        done: images judged in this run.
        from_cache: those of them that no stage had to look at, since their results were kept by an earlier run.
        counts: verdicts of this run, by detector and status.
    """

    total: int
    reused: int = 0
    done: int = 0
    from_cache: int = 0
    counts: dict[str, Counter[Status]] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Verdicts with this status, over all detectors."""
        return sum(counter[status] for counter in self.counts.values())


class ProgressListener(Protocol):
    """Is told after every batch."""

    def update(self, progress: RunProgress) -> None:
        """Show where the run stands."""


class SilentListener:
    """A listener that shows nothing, where nobody watches the run."""

    def update(self, progress: RunProgress) -> None:
        """Show nothing of what the run tells."""


_SECONDS_BETWEEN_FLUSHES = 10.0
_ROWS_BETWEEN_FLUSHES = 20_000


@dataclass(frozen=True)
class RunSettings:
    """How a run goes about its work; nothing here changes a verdict.

    Attributes:
        batch_size: images per batch.
        threads: for reading and decoding ahead of inference; None takes the number of cores.
        max_pixels: larger images become `too_large` errors.
        cache_folder: where stage results are kept; None keeps none.
    """

    batch_size: int = 32
    threads: int | None = None
    max_pixels: int = DEFAULT_MAX_PIXELS
    cache_folder: Path | None = None


@dataclass
class RunRecord:
    """What a run did, for `run.json`."""

    images: int = 0
    images_judged: int = 0
    seconds: float = 0.0
    seconds_per_stage: dict[str, float] = field(default_factory=dict)
    images_per_stage: dict[str, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    stage_fingerprints: dict[str, str] = field(default_factory=dict)
    precision_per_stage: dict[str, str] = field(default_factory=dict)
    """The number format that each stage takes on this machine."""
    device_per_stage: dict[str, str] = field(default_factory=dict)
    """Where each stage ran; stages whose results were all there already have no entry."""
    layout_per_stage: dict[str, dict[str, int | bool | None]] = field(default_factory=dict)
    """How the work of each network that ran was laid on the cores; see `lanes.StageLayout`."""
    waited_for: dict[str, float] = field(default_factory=dict)
    """What the run waited for, in seconds that add up to `seconds`; see `time_spent.waited_for`."""
    identities: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, dict[str, str]] = field(default_factory=dict)
    spending: dict[str, dict[str, float | str]] = field(default_factory=dict)
    """By stage, what its results for this image set cost, those of earlier sessions included."""


def run_detectors(
    image_set: ImageSet,
    detectors: Sequence[Detector],
    folder: Path,
    *,
    weights: WeightsLocator,
    settings: RunSettings | None = None,
    progress: ProgressListener | None = None,
) -> RunRecord:
    """Judge every image of an image set by every detector, and store the predictions.

    Only what is missing runs: pairs of image and detector without a stored verdict on the image's present content
    by the detector's present version. An image that cannot be read or decoded gets an error row, and is tried
    again next time. When nothing is missing no stage is loaded, and pinned weights may be gone; weights without a
    pin must be there, because their content is part of the version.

    Args:
        image_set: the images.
        detectors: with different names.
        folder: `predictions/`; each detector gets a folder below it.
        weights: where weights are found.
        settings: batch size and the like.
        progress: is told after every batch.

    Returns:
        What was done, and by which versions.

    Raises:
        MissingExtraError, WeightsError: a detector cannot run; nothing has been done then.
        RunInterruptedError: Ctrl-C; what was done is stored.
        DetectorBenchError: another run writes to the same folder, or it cannot be written.
    """
    names = Counter(detector.name for detector in detectors)
    if repeated := sorted(name for name, count in names.items() if count > 1):
        raise ConfigError(f"several detectors have the name {repeated[0]!r}: give each its own `name`")
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise DetectorBenchError(f"another run writes to {str(folder)!r} right now") from None
    except OSError as error:
        raise DetectorBenchError(f"cannot write to {str(folder)!r}: {error}") from error
    try:
        run = _Run(image_set, detectors, folder, weights=weights, settings=settings or RunSettings())
        with closing(run.cache):
            return run.go(progress or SilentListener())
    finally:
        lock.release()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        image_set: ImageSet,
        detectors: Sequence[Detector],
        folder: Path,
        *,
        weights: WeightsLocator,
        settings: RunSettings,
    ) -> None:
        self.detectors = detectors
        self.weights = weights
        self.settings = settings
        self.threads = settings.threads or os.cpu_count() or 1
        self.image_set = image_set
        stages = with_inputs([stage for detector in detectors for stage in detector.stages])
        try:
            self.fingerprints = {stage: fingerprint(stage, weights=weights) for stage in stages}
        except (WeightsError, MissingExtraError):
            # A file without a pin, or PyTorch, is not there: name it together with all else that is missing.
            require_ready(stages, weights=weights)
            raise
        self.record = RunRecord(images=len(image_set.images))
        self.stores = [self._store(detector, folder) for detector in detectors]
        self.cache = StageCache(settings.cache_folder)
        self.execution = StageExecution(
            fingerprints=self.fingerprints, weights=weights, cache=self.cache, threads=self.threads
        )
        self._wanted: dict[tuple[int, ...], list[Stage]] = {}

    def go(self, progress: ProgressListener) -> RunRecord:
        """Plan, judge what is missing, and put the predictions in order."""
        began = time.perf_counter()
        files, contents = self._plan()
        if files:
            self._require_ready(files)
        for store in self.stores:
            store.discard_other_versions()
        state = RunProgress(total=len(self.image_set.images), reused=len(self.image_set.images) - len(files))
        state.counts = {detector.name: Counter() for detector in self.detectors}
        progress.update(state)
        try:
            if files:
                self._judge_all(files, contents, state, progress)
            image_ids = pa.array(self.image_set.images["image_id"].tolist(), pa.string())
            for store in self.stores:
                store.join(image_ids, sha256=contents)
        except KeyboardInterrupt:
            self._flush(force=True)
            raise RunInterruptedError(
                f"stopped after {state.done:,} of {len(files):,} images; nothing is lost: "
                "run the same command again to go on"
            ) from None
        except Exception:
            # What was judged before need not be judged again once the cause is mended.
            self._flush(force=True)
            raise
        self._complete_record(state, seconds=time.perf_counter() - began)
        self._add_up_spending(contents)
        return self.record

    def _add_up_spending(self, contents: Mapping[str, str | None]) -> None:
        images = list({sha256 for sha256 in contents.values() if sha256 is not None})
        for stage, own in self.fingerprints.items():
            if type(stage).spending is not Stage.spending:
                found = self.cache.get(own, images)
                self.record.spending[self.execution.label(stage)] = dict(stage.spending(found.values()))

    def _store(self, detector: Detector, folder: Path) -> PredictionStore:
        # YAML brings along what JSON has no word for, such as dates.
        text = json.dumps(
            detector.identity(weights=self.weights), sort_keys=True, separators=(",", ":"), default=str
        )
        identity = json.loads(text)
        own = hashlib.sha256(text.encode()).hexdigest()
        self.record.fingerprints[detector.name] = own
        self.record.identities[detector.name] = identity
        return PredictionStore(folder / detector.name, detector=detector.name, fingerprint=own, identity=identity)

    def _plan(self) -> tuple[list[ImageFile], dict[str, str | None]]:
        """The images that some detector still has to judge, and the content that stored verdicts are about."""
        images = self.image_set.images
        ids = images["image_id"].tolist()
        shown = images["path"].tolist()
        paths = [self.image_set.image_path(path) for path in shown]
        finished = [
            _verdicts(store, detector) for store, detector in zip(self.stores, self.detectors, strict=True)
        ]
        judged = [number for number, image_id in enumerate(ids) if any(image_id in known for known in finished)]
        hashes = hash_files([paths[number] for number in judged], cache=self.cache, threads=self.threads)
        contents: dict[str, str | None] = {
            ids[number]: sha256 for number, sha256 in zip(judged, hashes, strict=True)
        }
        files = []
        for image_id, path, shown_path in zip(ids, paths, shown, strict=True):
            sha256 = contents.get(image_id)
            open_for = tuple(
                number for number, known in enumerate(finished) if sha256 is None or known.get(image_id) != sha256
            )
            if open_for:
                files.append(ImageFile(image_id, path, shown_path, open_for))
        return files, contents

    def _require_ready(self, files: Sequence[ImageFile]) -> None:
        # A stage may be wanted only through stages whose results are cached: then nothing of it is needed.
        numbers = {number for file in files for number in file.detectors}
        stages = with_inputs([stage for number in sorted(numbers) for stage in self.detectors[number].stages])
        require_ready(stages, weights=self.weights)

    def _judge_all(
        self,
        files: Sequence[ImageFile],
        contents: dict[str, str | None],
        state: RunProgress,
        progress: ProgressListener,
    ) -> None:
        rules = LoadingRules(
            wanted=lambda file: with_inputs(self._stages_for(file)),
            needs_decoding=self._needs_decoding,
            fingerprints=self.fingerprints,
            batch_size=self.settings.batch_size,
            max_pixels=self.settings.max_pixels,
            threads=self.threads,
            execution=self.execution,
        )
        self._flushed = time.perf_counter()
        loading = loaded_batches(files, cache=self.cache, rules=rules)
        with closing(ahead(loading, depth=2, spent=self.execution.spent)) as batches:
            for batch in batches:
                self._judge_batch(batch, contents, state)
                state.done += len(batch)
                state.from_cache += sum(image.error is None and not image.needs_decoding for image in batch)
                progress.update(state)
                self._flush()
        self._flush(force=True)

    def _judge_batch(
        self, batch: Sequence[LoadedImage], contents: dict[str, str | None], state: RunProgress
    ) -> None:
        for image in batch:
            contents[image.file.image_id] = image.sha256
        sound = [image for image in batch if image.error is None]
        frames = [image.frame() for image in sound]
        self.execution.run(
            frames,
            sha256=[image.sha256 for image in sound],
            wanted=[self._stages_for(image.file) for image in sound],
        )
        for number, (detector, store) in enumerate(zip(self.detectors, self.stores, strict=True)):
            asked = [frame for frame, image in zip(frames, sound, strict=True) if number in image.file.detectors]
            predictions = judge(detector, asked)
            for image in batch:
                if image.error is not None and number in image.file.detectors:
                    predictions += errors_for(detector, image.file.image_id, image.error)
            store.add(predictions, sha256=contents)
            state.counts[detector.name].update(prediction.status for prediction in predictions)

    def _stages_for(self, file: ImageFile) -> list[Stage]:
        if file.detectors not in self._wanted:
            stages = [stage for number in file.detectors for stage in self.detectors[number].stages]
            self._wanted[file.detectors] = list(dict.fromkeys(stages))
        return self._wanted[file.detectors]

    def _needs_decoding(self, image: LoadedImage) -> bool:
        if any(self.detectors[number].needs_pixels for number in image.file.detectors):
            return True
        return any(stage.needs_pixels for stage in with_inputs(self._stages_for(image.file), present=image.cached))

    def _flush(self, *, force: bool = False) -> None:
        now = time.perf_counter()
        rows = max(store.pending for store in self.stores)
        if force or rows >= _ROWS_BETWEEN_FLUSHES or now - self._flushed >= _SECONDS_BETWEEN_FLUSHES:
            for store in self.stores:
                store.flush()
            self._flushed = now

    def _complete_record(self, state: RunProgress, *, seconds: float) -> None:
        self.record.images_judged = state.done
        self.record.seconds = seconds
        self.record.seconds_per_stage = dict(sorted(self.execution.seconds.items()))
        self.record.images_per_stage = dict(sorted(self.execution.images.items()))
        self.record.layout_per_stage = self.execution.layouts()
        self.record.waited_for = self.execution.spent.waited_for(seconds)
        for stage, own in self.fingerprints.items():
            label = self.execution.label(stage)
            self.record.stage_fingerprints[label] = own
            self.record.precision_per_stage[label] = stage.precision_taken
            if label in self.execution.images:
                self.record.device_per_stage[label] = stage.device_taken
            for file in stage.weights():
                sha256 = self.weights.content_sha256(file)
                known = described(file, content=sha256) if isinstance(file, WeightsFile) else file
                taken = self.record.weights.get(file.name, {}).get("sha256", sha256) != sha256
                self.record.weights[f"{file.name} ({sha256[:8]})" if taken else file.name] = {
                    "sha256": sha256,
                    "licence": known.licence,
                    "source": known.source,
                }


def _verdicts(store: PredictionStore, detector: Detector) -> Mapping[str, str]:
    """Content that was judged, by image id, for images with a verdict on every attribute."""
    table = store.finished()
    attributes = Counter(table["image_id"].to_pylist())
    contents = dict(zip(table["image_id"].to_pylist(), table["image_sha256"].to_pylist(), strict=True))
    return {image: sha256 for image, sha256 in contents.items() if attributes[image] == len(detector.attributes)}
