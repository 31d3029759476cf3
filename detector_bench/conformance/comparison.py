"""What a detector's stages and the detector give on frames, and when two results of one image are the same."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.detectors.base import Detector, Prediction
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import Arrays, Frame, StageFailure, with_inputs
from detector_bench.runner.execution import StageExecution, judge
from detector_bench.runner.stage_cache import StageCache
from detector_bench.weights import WeightsLocator

StageResult = Arrays | StageFailure


def stage_difference(expected: StageResult, found: StageResult, *, tolerance: float) -> str | None:
    """Say how two results of a stage differ; None if they are the same.

    Arrays have the same names, types and shapes. Whole numbers, truth values and text are equal; floating-point
    numbers differ by at most `tolerance` times the larger of 1 and the largest number of the expected array.
    """
    if isinstance(expected, StageFailure) or isinstance(found, StageFailure):
        return None if expected == found else f"{_shown(found)}, and one by one: {_shown(expected)}"
    if set(expected) != set(found):
        return f"arrays {sorted(found)}, and one by one: {sorted(expected)}"
    for name, wanted in expected.items():
        given = found[name]
        if (wanted.shape, wanted.dtype) != (given.shape, given.dtype):
            return f"{name!r} is {_form(given)}, and one by one: {_form(wanted)}"
        if wanted.dtype.kind != "f":
            if not np.array_equal(wanted, given):
                return f"{name!r} differs in {int((wanted != given).sum())} of {wanted.size} places"
        elif (distance := _distance(wanted, given)) > tolerance:
            return f"{name!r} differs by {distance:.2g}; accepted: {tolerance:g} of its largest number"
    return None


def prediction_difference(expected: Prediction, found: Prediction, *, tolerance: float) -> str | None:
    """Say how two verdicts differ; None if they are the same.

    Status, reason and label are equal. `score`, `value`, and numbers in a `raw` that is JSON, differ by at most
    `tolerance` times the larger of 1 and the expected number.
    """
    for name in ("status", "reason", "label", "score", "value"):
        wanted, given = getattr(expected, name), getattr(found, name)
        if not _same(wanted, given, tolerance=tolerance):
            return f"{name} is {given!r}, and one by one: {wanted!r}"
    if not _same(_parsed(expected.raw), _parsed(found.raw), tolerance=tolerance):
        return f"raw is {found.raw!r}, and one by one: {expected.raw!r}"
    return None


def _distance(wanted: Any, given: Any) -> float:
    if wanted.size == 0:
        return 0.0
    wanted, given = np.asarray(wanted, np.float64), np.asarray(given, np.float64)
    finite = np.isfinite(wanted) & np.isfinite(given)
    if not np.array_equal(wanted[~finite], given[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    return float(np.abs(wanted - given)[finite].max() / max(1.0, np.abs(wanted[finite]).max()))


def _same(wanted: Any, given: Any, *, tolerance: float) -> bool:
    if isinstance(wanted, float) and isinstance(given, float | int):
        return math.isclose(wanted, given, rel_tol=0.0, abs_tol=tolerance * max(1.0, abs(wanted))) or (
            math.isnan(wanted) and math.isnan(given)
        )
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        return wanted.keys() == given.keys() and all(
            _same(item, given[key], tolerance=tolerance) for key, item in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(given, list):
        pairs = zip(wanted, given, strict=False)
        return len(wanted) == len(given) and all(_same(*pair, tolerance=tolerance) for pair in pairs)
    return bool(wanted == given)


def _parsed(raw: str | None) -> Any:
    try:
        return None if raw is None else json.loads(raw)
    except ValueError:
        return raw


def _form(array: Any) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _shown(result: StageResult) -> str:
    return f"{result.reason}: {result.detail}" if isinstance(result, StageFailure) else "a result"


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
