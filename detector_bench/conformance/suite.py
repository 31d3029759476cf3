"""The suite: one detector or stage, the same images on every way, what differs, and how that is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from detector_bench.conformance.comparison import (
    Observation,
    Pixels,
    Session,
    prediction_difference,
    stage_difference,
)
from detector_bench.conformance.other_process import observe_in_another_process, reader_of
from detector_bench.conformance.runs import RunsOfOneSet, write_image_set
from detector_bench.detectors.base import Detector
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.stage import Stage, StageFailure, with_inputs
from detector_bench.runner.readiness import require_ready
from detector_bench.vocabulary import Status
from detector_bench.weights import WeightsLocator


class Way(StrEnum):
    """A way to go about the same images. Whichever is taken, the verdicts must be the same."""

    ONE_BY_ONE = "one by one"
    THREE_BATCHES = "in three batches of 1, 2 and more images"
    OTHER_ORDER = "in another order, after them"
    RESUMED = "interrupted and resumed"
    FROM_KEPT_RESULTS = "from kept stage results"
    OTHER_PROCESS = "in another process"


class Nonconformity(NamedTuple):
    """One thing that is not as it must be: on which way, where (an image; a stage or an attribute), and what."""

    way: Way
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.way}: {self.place}: {self.message}"


@dataclass(frozen=True)
class Conformance:
    """What the suite found.

    Attributes:
        ways: the ways that were taken.
        findings: what is not as it must be; empty if all is well.
        verdicts: how many verdicts of each status there were, one by one. Without a clear one, the check says
            nothing about what comes behind the filter.
    """

    ways: tuple[Way, ...]
    findings: tuple[Nonconformity, ...]
    verdicts: Mapping[Status, int]

    @property
    def passed(self) -> bool:
        """Whether everything is as it must be: there are no findings."""
        return not self.findings


DEFAULT_TOLERANCE = 1e-4
"""How far numbers may differ, relative to the larger of 1 and the largest of them: float32 adds up in another
order in another batch. A probability of 0.5 may become 0.5001, an age of 30 years 30.003."""

FEWEST_IMAGES = 6


def check_detector(
    detector: Detector,
    images: Sequence[Pixels],
    *,
    weights: WeightsLocator | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    ways: Collection[Way] = tuple(Way),
) -> Conformance:
    """Ask a detector about the same images on every way that a run can take, and compare with one by one.

    Compared are status, reason, label, score, value and raw of every verdict, and every array of every stage
    behind them. An error on any way is a finding: the images are to be ones that the detector can judge. Each
    image is looked at five times; of a paid service, name few.

    Args:
        detector: from `build_detector`.
        images: at least six, (height, width, 3), RGB; of different sizes, some of which are filtered.
        weights: where weights are found; None looks where the command line does.
        tolerance: see `DEFAULT_TOLERANCE`; labels, reasons and whole numbers must be equal.
        ways: the ways to take; one by one is always among them.

    Raises:
        ConfigError: fewer than six images.
        MissingExtraError, WeightsError: the detector cannot run on this machine.
    """
    if len(images) < FEWEST_IMAGES:
        raise ConfigError(f"conformance is checked on at least {FEWEST_IMAGES} images; got {len(images)}")
    weights = WeightsLocator.from_environment() if weights is None else weights
    require_ready(with_inputs(detector.stages), weights=weights)
    named = {f"image_{number}": pixels for number, pixels in enumerate(images, start=1)}
    with Session(detector, weights=weights) as session:
        reference = session.observe(named, [[image_id] for image_id in named])
    findings = list(_failures(reference))
    with TemporaryDirectory(prefix="detector_bench_") as folder, Session(detector, weights=weights) as session:
        suite = _Suite(session, detector, named, reference, Path(folder), weights=weights, tolerance=tolerance)
        for way in Way:
            if way in ways and way is not Way.ONE_BY_ONE:
                findings += suite.findings(way)
    verdicts = Counter(prediction.status for prediction in reference.predictions.values())
    taken = tuple(way for way in Way if way in ways or way is Way.ONE_BY_ONE)
    return Conformance(taken, tuple(findings), verdicts)


def check_stage(
    stage: Stage,
    images: Sequence[Pixels],
    *,
    weights: WeightsLocator | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    ways: Collection[Way] = tuple(Way),
) -> Conformance:
    """The same for a stage and its inputs, without a detector; see `check_detector`."""
    return check_detector(reader_of(stage), images, weights=weights, tolerance=tolerance, ways=ways)


class _Suite:
    """All ways but the first, each compared with what came out one by one."""

    def __init__(
        self,
        session: Session,
        detector: Detector,
        images: dict[str, Pixels],
        reference: Observation,
        folder: Path,
        *,
        weights: WeightsLocator,
        tolerance: float,
    ) -> None:
        self._detector = detector
        self._images = images
        self._reference = reference
        self._folder = folder
        self._weights = weights
        self._tolerance = tolerance
        self._image_set = write_image_set(folder / "images", images)
        self._runs = RunsOfOneSet(self._image_set, detector, folder / "runs", weights=weights)
        self._session = session

    def findings(self, way: Way) -> Iterator[Nonconformity]:
        """Take one way."""
        ids = list(self._images)
        if way is Way.THREE_BATCHES:
            yield from self._compared(way, self._session.observe(self._images, [ids[:1], ids[1:3], ids[3:]]))
        elif way is Way.OTHER_ORDER:
            # Of the stages that have seen all images already, so that what they remember shows.
            yield from self._compared(way, self._session.observe(self._images, [ids[::-1]]))
        elif way is Way.RESUMED:
            found, judged = self._runs.interrupted_and_resumed()
            if judged == len(ids):
                yield Nonconformity(way, "all images", "what was judged before the interruption was judged again")
            yield from self._compared(way, found)
        elif way is Way.FROM_KEPT_RESULTS:
            yield from self._compared(way, self._runs.from_kept_results())
        elif way is Way.OTHER_PROCESS:
            try:
                found = observe_in_another_process(
                    self._detector, self._image_set, self._folder / "process", weights=self._weights
                )
            except DetectorBenchError as error:
                yield Nonconformity(way, "all images", str(error))
            else:
                yield from self._compared(way, found, all_stages=True)

    def _compared(self, way: Way, found: Observation, *, all_stages: bool = False) -> Iterator[Nonconformity]:
        for image_id in found.changed_pixels:
            yield Nonconformity(way, image_id, "the pixels, which other stages see, too, are changed")
        if all_stages:
            labels = {stage for stage, _ in self._reference.results}
            for stage in sorted(labels - {stage for stage, _ in found.results}):
                yield Nonconformity(way, f"stage {stage}", "it has another fingerprint there")
        for key, expected in self._reference.results.items():
            stage, image_id = key
            if key in found.results:
                message = stage_difference(expected, found.results[key], tolerance=self._tolerance)
                if message is not None:
                    yield Nonconformity(way, f"{image_id}, stage {stage}", message)
        for (image_id, attribute), wanted in self._reference.predictions.items():
            given = found.predictions.get((image_id, attribute))
            message = (
                "no verdict" if given is None else prediction_difference(wanted, given, tolerance=self._tolerance)
            )
            if message is not None:
                yield Nonconformity(way, f"{image_id}, {attribute}", message)


def _failures(reference: Observation) -> Iterator[Nonconformity]:
    for image_id in reference.changed_pixels:
        yield Nonconformity(Way.ONE_BY_ONE, image_id, "the pixels, which other stages see, too, are changed")
    for (stage, image_id), result in reference.results.items():
        if isinstance(result, StageFailure):
            yield Nonconformity(Way.ONE_BY_ONE, f"{image_id}, stage {stage}", f"{result.reason}: {result.detail}")
    for prediction in reference.predictions.values():
        if prediction.status is Status.ERROR:
            place = f"{prediction.image_id}, {prediction.attribute}"
            yield Nonconformity(Way.ONE_BY_ONE, place, f"{prediction.reason}")
