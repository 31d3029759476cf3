"""Calibration files: what a detector's scores are worth, found on one study and used in others.

`detector-bench calibrate` writes them: sealed JSON with a score map and promised thresholds for each attribute,
and on which images, prompts and stages they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field, FiniteFloat, ValidationError

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, DetectorBenchError, WeightsError
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.sealed import DamagedRecordError, read_sealed, write_sealed
from detector_bench.vocabulary.score_maps import ScoreMap, Temperature
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import WeightsField

Unit: TypeAlias = Literal["prompt", "image"]

_MOST_BYTES = 64 * 1024**2

THRESHOLD, TEMPERATURE, SCORES, SHARES = "threshold", "temperature", "scores", "shares"
"""The arrays that `ScoreCalibration` gives."""


class Abstention(Declaration):
    """An error that is promised of the verdicts that are kept; the others are filtered (`uncertain`)."""

    error: float = Field(gt=0, lt=1)
    """Of the kept verdicts, at most this share is wrong; one of those that the calibration file lists."""
    unit: Unit = "prompt"
    """Of which images that is promised: of other prompts, drawn as those of the calibration were; or of other
    images of its own prompts (`image`), which takes fewer labels and promises less."""


class FittedPrompt(Declaration):
    """A prompt whose images took part in a calibration."""

    prompt_id: str
    prompt: str = ""
    """Its text; empty where the image set has none."""

    def is_same(self, other: FittedPrompt) -> bool:
        """Whether two prompts are one: by their texts, or by their ids where one has no text."""
        if self.prompt and other.prompt:
            return self.prompt == other.prompt
        return self.prompt_id == other.prompt_id


class FittedOn(Declaration):
    """Where a calibration comes from."""

    image_set: str
    """Its name."""
    images_sha256: str
    """The fingerprint of the image set."""
    detector: str
    """The detector's name in that study."""
    stages: tuple[str, ...]
    """The sha256 of the identity of each stage that it read: another network has other scores."""
    prompts: tuple[FittedPrompt, ...] = Field(min_length=1)


class PromisedThreshold(Declaration):
    """The lowest score of a verdict that may be kept."""

    unit: Unit
    error: FiniteFloat
    threshold: FiniteFloat | None
    """None: these images could promise nothing so small."""


class AttributeCalibration(Declaration):
    """What was found for one attribute."""

    score_map: ScoreMap
    images: int
    """With a human label of a class and a verdict with a score."""
    confidence: FiniteFloat
    """With which each promise holds by itself."""
    promises: tuple[PromisedThreshold, ...]


class CalibrationFile(Declaration):
    """The content of a calibration file."""

    calibration: Literal[1] = 1
    """The version of this form."""
    fitted_on: FittedOn
    attributes: dict[str, AttributeCalibration] = Field(min_length=1)

    @classmethod
    def read(cls, path: Path) -> CalibrationFile:
        """Read one.

        Raises:
            WeightsError: it cannot be read, was changed since it was written, or is no calibration file.
        """
        try:
            if (size := path.stat().st_size) > _MOST_BYTES:
                raise WeightsError(f"calibration file {str(path)!r} is too large: {size:,} bytes")
            return cls.model_validate(read_sealed(path))
        except (OSError, DamagedRecordError) as error:
            raise WeightsError(f"calibration file {str(path)!r}: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise WeightsError(
                f"{str(path)!r} is no calibration file as `detector-bench calibrate` writes it: {where}: "
                f"{first['msg'].lower()}"
            ) from error

    def write(self, path: Path) -> None:
        """Write it with its seal.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        write_sealed(path, self.model_dump(mode="json"))


class ScoreCalibration(Stage):
    """What a calibration file says of an attribute; the same for every image.

    Gives `threshold`, (1,): the lowest score of the network that is kept, 0 where nothing is promised; and either
    `temperature`, (1,), or `scores` and `shares`, (points,): see `vocabulary.score_maps`.
    """

    kind: ClassVar[str] = "score_calibration"
    cached: ClassVar[bool] = False
    needs_pixels: ClassVar[bool] = False
    precision_taken: ClassVar[str] = "float64"
    device_taken: ClassVar[str] = "cpu"

    file: WeightsField
    attribute: str
    abstain: Abstention | None = None

    def mistakes(self, weights: WeightsLocator) -> tuple[str, ...]:
        """Why the file cannot be used, if it is there: known before any image is judged."""
        path = weights.find(self.file)
        try:
            if path is not None:
                self._arrays(CalibrationFile.read(path), path.name)
        except DetectorBenchError as error:
            return (str(error),)
        return ()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the file; see `Stage.load`."""
        path = weights.locate(self.file)
        arrays = self._arrays(CalibrationFile.read(path), path.name)

        def give(frames: Sequence[Frame]) -> list[Arrays]:
            return [dict(arrays) for _ in frames]

        return give

    def _arrays(self, file: CalibrationFile, name: str) -> Arrays:
        if self.attribute not in file.attributes:
            known = ", ".join(file.attributes)
            raise ConfigError(f"{name} has no calibration of {self.attribute!r} (it has: {known})")
        found = file.attributes[self.attribute]
        threshold = {THRESHOLD: np.array([self._threshold(found, name)])}
        if isinstance(found.score_map, Temperature):
            return {**threshold, TEMPERATURE: np.array([found.score_map.temperature])}
        return {**threshold, SCORES: np.array(found.score_map.scores), SHARES: np.array(found.score_map.shares)}

    def _threshold(self, found: AttributeCalibration, name: str) -> float:
        if self.abstain is None:
            return 0.0
        promised = {each.error: each.threshold for each in found.promises if each.unit == self.abstain.unit}
        threshold = promised.get(self.abstain.error)
        if threshold is None:
            can = ", ".join(f"{error:g}" for error, lowest in promised.items() if lowest is not None)
            raise ConfigError(
                f"{name}: `abstain: {{error: {self.abstain.error:g}, unit: {self.abstain.unit}}}` cannot be "
                f"promised from {found.images:,} images of {self.attribute} (what can: {can or 'nothing'})"
            )
        return threshold


def calibrated_score(score: float, found: Arrays) -> float:
    """A network's score by what `ScoreCalibration` gives."""
    if TEMPERATURE in found:
        return float(Temperature(temperature=float(found[TEMPERATURE][0]))(np.array(score)))
    return float(np.interp(score, found[SCORES], found[SHARES]))


def is_kept(score: float, found: Arrays) -> bool:
    """Whether a network's score reaches the promised threshold."""
    return score >= float(found[THRESHOLD][0])
