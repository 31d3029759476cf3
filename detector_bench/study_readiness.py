"""Which of a study's detectors can judge on this machine, and what the others lack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from detector_bench.dataset import ImageSet
from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import with_inputs
from detector_bench.runner.readiness import lacking, require_ready
from detector_bench.runner.run import RunSession
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_file import DetectorEntry
from detector_bench.weights import WeightsLocator


class Readiness(NamedTuple):
    """The detectors of a study on this machine.

    Attributes:
        ready: names of those that can judge, or have judged everything; in the study's order.
        lacking: by name of the others, why not, a line each.
    """

    ready: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]]


def readiness(study: StudyConfiguration, out: Path, *, weights_dir: Path | None = None) -> Readiness:
    """Find out which detectors of a study a run into `out` could use.

    Weights that may be downloaded are. A detector whose verdicts are all stored in `out` lacks nothing.

    Raises:
        DetectorBenchError: the image set cannot be read.
    """
    weights = study.locator(weights_dir=weights_dir, out=out)
    ready, missing = [], {}
    images: ImageSet | None = None
    for entry in study.detectors:
        detector, lines = _lines(entry, weights)
        if lines and detector is not None:
            images = images or study.load_image_set()
            if _has_judged_all(detector, images, out, weights=weights):
                lines = []
        if lines:
            missing[entry.name] = tuple(lines)
        else:
            ready.append(entry.name)
    return Readiness(tuple(ready), missing)


def _lines(entry: DetectorEntry, weights: WeightsLocator) -> tuple[Detector | None, list[str]]:
    detector = None
    try:
        detector = build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
        lines = lacking(detector, weights=weights)
        if not lines:
            require_ready(with_inputs(detector.stages), weights=weights)
    except DetectorBenchError as error:
        lines = str(error).splitlines()
    return detector, lines


def _has_judged_all(detector: Detector, images: ImageSet, out: Path, *, weights: WeightsLocator) -> bool:
    try:
        return not RunSession(images, [detector], out / "predictions", weights=weights).left_to_judge()
    except DetectorBenchError:  # without its weights nobody can tell which version it is
        return False
