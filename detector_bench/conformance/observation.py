"""Runs a detector's stages and the detector on frames, and keeps all that comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.conformance.comparison import StageResult
from detector_bench.detectors.base import Detector
from detector_bench.detectors.prediction import Prediction
from detector_bench.perception.stage import Frame, fingerprint, with_inputs
from detector_bench.runner.execution import StageExecution, judge
from detector_bench.runner.stage_cache import StageCache
from detector_bench.weights import WeightsLocator

Pixels = NDArray[np.uint8]


class Observation(NamedTuple):
    """What came out on one way.

    Attributes:
        predictions: by image and attribute.
        results: by stage (`StageExecution.label`) and image; empty where a way does not show them.
        changed_pixels: the images whose pixels are not what they were before.
    """

    predictions: dict[tuple[str, str], Prediction]
    results: dict[tuple[str, str], StageResult]
    changed_pixels: tuple[str, ...] = ()


class Session:
    """A detector whose stages are loaded once, and asked as often as wanted. Nothing is kept between images."""

    def __init__(self, detector: Detector, *, weights: WeightsLocator) -> None:
        self._detector = detector
        self._stages = with_inputs(detector.stages)
        fingerprints = {stage: fingerprint(stage, weights=weights) for stage in self._stages}
        self._cache = StageCache(None)
        self._execution = StageExecution(fingerprints=fingerprints, weights=weights, cache=self._cache)

    def observe(self, images: dict[str, Pixels], batches: Iterable[Sequence[str]]) -> Observation:
        """Judge images, by id, in these batches."""
        found = Observation({}, {})
        changed: list[str] = []
        for ids in batches:
            frames = [Frame(image_id, pixels=images[image_id].copy()) for image_id in ids]
            self._execution.run(frames, sha256=[None] * len(frames), wanted=[self._detector.stages] * len(frames))
            for prediction in judge(self._detector, frames):
                found.predictions[prediction.image_id, prediction.attribute] = prediction
            for frame in frames:
                for stage in self._stages:
                    if stage in frame.results:  # not behind a failure of its input
                        found.results[self._execution.label(stage), frame.image_id] = frame.results[stage]
            changed += [
                frame.image_id for frame in frames if not np.array_equal(frame.pixels, images[frame.image_id])
            ]
        return found._replace(changed_pixels=tuple(changed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.close()
