"""From a detector's score to the share of verdicts with such a score that are right: calibration, as data.

A score map never changes a verdict. It takes the score of the class that won, and gives the probability that this
class is the right one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator

from detector_bench.declarations import Declaration

FloatArray: TypeAlias = NDArray[np.float64]

SURE = 1e-7
"""Scores are kept this far from 0 and 1, where a float32 can still tell them apart and their logits are finite."""


class Temperature(Declaration):
    """Temperature scaling (Guo et al. 2017): the logit of the score is divided by a number.

    Above 1 the detector was too sure of itself. Of two classes this is the temperature of the softmax.
    """

    method: Literal["temperature"] = "temperature"
    temperature: float = Field(gt=0, allow_inf_nan=False)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Calibrated scores, in (0, 1), of any shape."""
        halves: FloatArray = np.asarray(logits(scores) / self.temperature / 2)
        return np.clip((1 + np.tanh(halves)) / 2, SURE, 1 - SURE)


class Isotonic(Declaration):
    """Isotonic regression (Zadrozny and Elkan 2002): the rising curve that is closest to the verdicts.

    Between its points it is a straight line, beyond them it stays level.
    """

    method: Literal["isotonic"] = "isotonic"
    scores: tuple[FiniteFloat, ...] = Field(min_length=1)
    """Rising."""
    shares: tuple[FiniteFloat, ...] = Field(min_length=1)
    """The calibrated score at each; never falling, above 0 and below 1."""

    @model_validator(mode="after")
    def _rises(self) -> Isotonic:
        if len(self.scores) != len(self.shares):
            raise ValueError(f"{len(self.scores)} scores and {len(self.shares)} shares: each score has one share")
        if any(a >= b for a, b in pairwise(self.scores)) or any(a > b for a, b in pairwise(self.shares)):
            raise ValueError("scores rise, and shares never fall")
        if not (self.shares[0] > 0 and self.shares[-1] < 1):
            raise ValueError("shares lie above 0 and below 1")
        return self

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Calibrated scores, in (0, 1), of any shape."""
        return np.asarray(np.interp(scores, self.scores, self.shares))


ScoreMap = Annotated[Temperature | Isotonic, Field(discriminator="method")]

Method: TypeAlias = Literal["temperature", "isotonic"]


def logits(scores: FloatArray) -> FloatArray:
    """ln(p / (1 - p)), finite also of 0 and 1."""
    kept = np.clip(scores, SURE, 1 - SURE)
    return np.asarray(np.log(kept) - np.log1p(-kept))
