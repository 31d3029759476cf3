"""Which of a study's detectors can judge on this machine, and what the others lack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from detector_bench.dataset import ImageSet
from detector_bench.detectors.base import Detector, build_detector
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import with_inputs
from detector_bench.runner.readiness import lacking, require_ready
from detector_bench.runner.run import RunSession
from detector_bench.study_configuration import StudyConfiguration
from detector_bench.study_file import DetectorEntry
from detector_bench.weights import WeightsLocator

Study = TypeVar("Study", bound=StudyConfiguration)


class Readiness(NamedTuple):
    """The detectors of a study on this machine.

    Attributes:
        ready: names of those that can judge, or have judged everything; in the study's order.
        lacking: by name of the others, why not, a line each.
    """

    ready: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]]


def readiness(
    study: StudyConfiguration, out: Path, *, weights_dir: Path | None = None, fetch: bool = True
) -> Readiness:
    """Find out which detectors of a study a run into `out` could use.

    A detector whose verdicts are all stored in `out` lacks nothing.

    Args:
        study: its images are read first, since without them nothing is worth fetching.
        out: the result folder.
        weights_dir: a folder with weights files.
        fetch: download what may be downloaded, and count as lacking what cannot be; False takes it for there.

    Raises:
        DetectorBenchError: the image set cannot be read, or does not fit the study.
    """
    images = study.load_image_set()
    study.check_image_set(images)
    weights = study.locator(weights_dir=weights_dir, out=out)
    # Stored verdicts are worth no download.
    here = study.locator(weights_dir=weights_dir, out=out, allow_download=False)
    ready, missing = [], {}
    for entry in study.detectors:
        detector, lines = _lines(entry, weights, fetch=fetch)
        if lines and detector is not None and _has_judged_all(detector, images, out, weights=here):
            lines = []
        if lines:
            missing[entry.name] = tuple(lines)
        else:
            ready.append(entry.name)
    return Readiness(tuple(ready), missing)


def without_lacking(study: Study, found: Readiness) -> tuple[Study, tuple[str, ...]]:
    """The study of the detectors that are ready, without attributes that only others judge.

    Returns:
        The study, and its attributes that nobody is left to judge.
    """
    smaller = study.with_detectors(only=found.ready)
    judged = {
        attribute
        for each in smaller.detectors
        for attribute in build_detector(each.kind, name=each.name, parameters=each.parameters).attributes
    }
    unjudged = tuple(each for each in study.attributes if each not in judged)
    if len(unjudged) in (0, len(study.attributes)):  # of all of them, building the study tells
        return smaller, ()
    return smaller.with_attributes(judged.intersection(study.attributes)), unjudged


def _lines(entry: DetectorEntry, weights: WeightsLocator, *, fetch: bool) -> tuple[Detector | None, list[str]]:
    detector = None
    try:
        detector = build_detector(entry.kind, name=entry.name, parameters=entry.parameters)
        lines = lacking(detector, weights=weights)
        if fetch and not lines:
            require_ready(with_inputs(detector.stages), weights=weights)
    except DetectorBenchError as error:
        lines = str(error).splitlines()
    return detector, lines


def _has_judged_all(detector: Detector, images: ImageSet, out: Path, *, weights: WeightsLocator) -> bool:
    try:
        return not RunSession(images, [detector], out / "predictions", weights=weights).left_to_judge()
    except DetectorBenchError:  # without its weights nobody can tell which version it is
        return False
