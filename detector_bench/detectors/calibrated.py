"""Verdicts whose scores are probabilities, and detectors that abstain so that a promised error holds."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError
from detector_bench.perception.calibration import Abstention, ScoreCalibration, calibrated_score, is_kept
from detector_bench.perception.stage import ADDED_LATER, Arrays, Frame, Stage
from detector_bench.weights.files import WeightsField


class Calibrated(Declaration):
    """What a reading of scores may be told besides: a calibration file, and an error to promise."""

    calibration: WeightsField | None = Field(default=None, json_schema_extra=ADDED_LATER)
    """A file that `detector-bench calibrate` wrote: scores become the share of right verdicts. Classes stay as
    they are; `min_score` is about the calibrated score."""
    abstain: Abstention | None = Field(default=None, json_schema_extra=ADDED_LATER)
    """Filter (`uncertain`) what keeps an error from being promised: `{error: 0.05}`."""

    @model_validator(mode="after")
    def _promises_rest_on_a_file(self) -> Self:
        if self.abstain is not None and self.calibration is None:
            raise ValueError("abstain needs `calibration`: the file says which errors can be promised")
        return self

    def calibrated_by(self, attribute: str) -> ScoreCalibration | None:
        """The stage that reads the file; None: scores stay as they are."""
        if self.calibration is None:
            return None
        return ScoreCalibration(file=self.calibration, attribute=attribute, abstain=self.abstain)

    def calibration_stages(self, attribute: str) -> tuple[Stage, ...]:
        """That stage, if there is one."""
        stage = self.calibrated_by(attribute)
        return () if stage is None else (stage,)

    def calibration_of(self, frame: Frame, attribute: str) -> Arrays | None:
        """What that stage gives for an image; None: scores stay as they are."""
        stage = self.calibrated_by(attribute)
        return None if stage is None else frame[stage]

    def weighed(self, score: float, calibration: Arrays | None) -> tuple[float, bool]:
        """The score that a verdict has, and whether the promise lets it be kept.

        Args:
            score: the network's.
            calibration: as `calibration_of` gives it.

        Raises:
            ConfigError: a file is named, and the detector does not apply it.
        """
        if calibration is None:
            if self.calibration is not None:
                raise ConfigError("`calibration`: this detector does not apply it; leave it out")
            return score, True
        return calibrated_score(score, calibration), is_kept(score, calibration)
