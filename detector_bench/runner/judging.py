"""Stages and detectors in one process: loaded once, and kept from batch to batch and from shard to shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from detector_bench.detectors.base import Detector, Prediction
from detector_bench.errors import MissingExtraError, WeightsError
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Stage, with_inputs
from detector_bench.runner.execution import StageExecution, errors_for, judge
from detector_bench.runner.image_reading import ImageFile, LoadedImage, LoadingRules
from detector_bench.runner.readiness import require_ready
from detector_bench.runner.run_record import RunRecord
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.stage_cache import StageCache
from detector_bench.sealed import digest_of
from detector_bench.weights import WeightsFile, WeightsLocator, described


class Version(NamedTuple):
    """A detector as it is now."""

    fingerprint: str
    identity: Any
    """What the fingerprint is the sha256 of."""


class BatchJudge:
    """Turns batches of loaded images into predictions.

    Args:
        detectors: with different names.
        weights: where weights are found.
        threads: how many cores this process may use; None: all of them.

    Attributes:
        detectors: as given.
        fingerprints: of every stage that is needed.
        versions: of every detector, in their order.
        execution: the loaded stages; `execution.cache` is set for each shard.
        devices: where stages ran, by label, of those that ran in other processes.
        layouts: how their work was laid on the cores there.

    Raises:
        MissingExtraError, WeightsError: a detector's version cannot be told.
    """

    def __init__(
        self, detectors: Sequence[Detector], *, weights: WeightsLocator, threads: int | None = None
    ) -> None:
        self.detectors = detectors
        self.weights = weights
        of_each = [set(with_inputs(detector.stages)) for detector in detectors]
        stages = with_inputs([stage for detector in detectors for stage in detector.stages])
        try:
            self.fingerprints = {stage: fingerprint(stage, weights=weights) for stage in stages}
        except (WeightsError, MissingExtraError):
            # A file without a pin, or PyTorch, is not there: name it together with all else that is missing.
            require_ready(stages, weights=weights)
            raise
        self.versions = [_version(detector, weights) for detector in detectors]
        self.execution = StageExecution(
            fingerprints=self.fingerprints,
            weights=weights,
            cache=StageCache(None),
            threads=threads,
            essential=set[Stage]().union(*of_each[:1]).intersection(*of_each),
        )
        self.devices: dict[str, str] = {}
        self.layouts: dict[str, dict[str, int | bool | None]] = {}
        self._wanted: dict[tuple[int, ...], list[Stage]] = {}

    @property
    def detector_fingerprints(self) -> dict[str, str]:
        """By name."""
        return {
            detector.name: version.fingerprint
            for detector, version in zip(self.detectors, self.versions, strict=True)
        }

    def require_ready(self, files: Sequence[ImageFile]) -> None:
        """Check that all that these images need can run; see `readiness.require_ready`."""
        # A stage may be wanted only through stages whose results are cached: then nothing of it is needed.
        numbers = {number for file in files for number in file.detectors}
        stages = with_inputs([stage for number in sorted(numbers) for stage in self.detectors[number].stages])
        require_ready(stages, weights=self.weights)

    def require_all_ready(self) -> None:
        """As `require_ready`, for images that all detectors are asked about."""
        require_ready(list(self.fingerprints), weights=self.weights)

    def judge(self, batch: Sequence[LoadedImage]) -> list[list[Prediction]]:
        """Each detector's predictions on those images of a batch that it is asked about; errors are among them."""
        sound = [image for image in batch if image.error is None]
        frames = [image.frame() for image in sound]
        self.execution.run(
            frames,
            sha256=[image.sha256 for image in sound],
            wanted=[self.stages_for(image.file) for image in sound],
        )
        found = []
        for number, detector in enumerate(self.detectors):
            asked = [frame for frame, image in zip(frames, sound, strict=True) if number in image.file.detectors]
            predictions = judge(detector, asked)
            for image in batch:
                if image.error is not None and number in image.file.detectors:
                    predictions += errors_for(detector, image.file.image_id, image.error)
            found.append(predictions)
        return found

    def stages_for(self, file: ImageFile) -> list[Stage]:
        """The stages that an image's detectors read."""
        if file.detectors not in self._wanted:
            stages = [stage for number in file.detectors for stage in self.detectors[number].stages]
            self._wanted[file.detectors] = list(dict.fromkeys(stages))
        return self._wanted[file.detectors]

    def needs_decoding(self, image: LoadedImage) -> bool:
        """Whether an image's pixels are needed, given what was found in the cache."""
        if any(self.detectors[number].needs_pixels for number in image.file.detectors):
            return True
        return any(stage.needs_pixels for stage in with_inputs(self.stages_for(image.file), present=image.cached))

    def loading_rules(self, settings: RunSettings) -> LoadingRules:
        """What the loader must know of these detectors."""
        return LoadingRules(
            wanted=lambda file: with_inputs(self.stages_for(file)),
            needs_decoding=self.needs_decoding,
            fingerprints=self.fingerprints,
            batch_size=settings.batch_size,
            max_pixels=settings.max_pixels,
            threads=settings.cores,
            execution=self.execution,
        )

    def taken_record(self, *, images: int, judged: int, seconds: float) -> RunRecord:
        """What was done since the last record was taken."""
        execution = self.execution
        record = RunRecord(images=images, images_judged=judged, seconds=seconds)
        record.seconds_per_stage = dict(sorted(execution.seconds.items()))
        record.images_per_stage = dict(sorted(execution.images.items()))
        record.layout_per_stage = {**self.layouts, **execution.layouts()}
        record.waited_for = execution.spent.waited_for(seconds)
        for detector, version in zip(self.detectors, self.versions, strict=True):
            record.fingerprints[detector.name] = version.fingerprint
            record.identities[detector.name] = version.identity
        for stage, own in self.fingerprints.items():
            label = execution.label(stage)
            record.stage_fingerprints[label] = own
            record.precision_per_stage[label] = stage.precision_taken
            if label in execution.images:
                record.device_per_stage[label] = self.devices.get(label, stage.device_taken)
            self._add_weights(record, stage)
        execution.seconds.clear()
        execution.images.clear()
        execution.spent.clear()
        return record

    def _add_weights(self, record: RunRecord, stage: Stage) -> None:
        for file in stage.weights():
            sha256, contents = self.weights.content_sha256(file), self.weights.contents(file)
            known = described(file, content=sha256) if isinstance(file, WeightsFile) else file
            taken = record.weights.get(file.name, {}).get("sha256", sha256) != sha256
            record.weights[f"{file.name} ({sha256[:8]})" if taken else file.name] = {
                "sha256": sha256,
                "licence": known.licence,
                "source": known.source,
                **({"files": contents} if contents != {file.name: sha256} else {}),
            }


def _version(detector: Detector, weights: WeightsLocator) -> Version:
    identity = detector.identity(weights=weights)
    return Version(digest_of(identity), identity)
