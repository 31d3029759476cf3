"""Turns a network's numbers into a verdict on one attribute. Pure functions, one per sort of output."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detector_bench.errors import ConfigError

UNCERTAIN = "uncertain"
"""The reason for filtering an image that the network cannot decide on."""

_TOLERANCE = 1e-3
_SUM_TOLERANCE = 0.02


class Verdict(NamedTuple):
    """A class with its probability, and for ages the years behind it. `uncertain` filters the image."""

    label: str
    score: float | None = None
    value: float | None = None
    uncertain: bool = False


class ClassReading(BaseModel):
    """One number per class; the largest wins, the first of equals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: Literal["classes"] = "classes"
    output: str
    classes: tuple[str, ...] = Field(min_length=2)
    """Labels in the order of the output's numbers. An image that the class `uncertain` wins is filtered."""
    activation: Literal["none", "softmax"] = "none"
    """`none` if the network gives probabilities already."""
    min_score: float = Field(default=0.0, ge=0, le=1)
    """A winner below this probability is `uncertain`: the image is filtered."""

    def verdict(self, numbers: NDArray[Any]) -> Verdict:
        """Read one image's output, shape (classes,).

        Raises:
            ConfigError: another number of classes, or no probabilities.
        """
        numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
        if len(numbers) != len(self.classes):
            raise ConfigError(f"output {self.output!r} has {len(numbers)} numbers for {len(self.classes)} classes")
        numbers = _softmax(numbers) if self.activation == "softmax" else _probabilities(numbers, self.output)
        winner = int(np.argmax(numbers))
        score, label = float(numbers[winner]), self.classes[winner]
        return Verdict(label, score, uncertain=label == UNCERTAIN or score < self.min_score)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return tuple(label for label in self.classes if label != UNCERTAIN)


class BinaryReading(BaseModel):
    """One number: the probability of the first class."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: Literal["binary"] = "binary"
    output: str
    classes: tuple[str, str]
    """The class whose probability the number is, and the other one."""
    activation: Literal["none", "sigmoid"] = "none"
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Above it, the first class wins."""
    min_score: float = Field(default=0.0, ge=0, le=1)
    """A winner below this probability is `uncertain`: the image is filtered."""

    def verdict(self, numbers: NDArray[Any]) -> Verdict:
        """Read one image's output, shape (1,).

        Raises:
            ConfigError: several numbers, or no probability.
        """
        numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
        if len(numbers) != 1:
            raise ConfigError(f"output {self.output!r} has {len(numbers)} numbers where one is expected")
        # The hyperbolic tangent gives the sigmoid without an overflow on the way.
        sigmoid = self.activation == "sigmoid"
        numbers = (1 + np.tanh(numbers / 2)) / 2 if sigmoid else _probabilities(numbers, self.output)
        probability = float(numbers[0])
        first = probability > self.threshold
        score = probability if first else 1 - probability
        return Verdict(self.classes[0 if first else 1], score, uncertain=score < self.min_score)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return self.classes


class AgeReading(BaseModel):
    """Probabilities of ages; the expected value in years, and the age group it falls into."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: Literal["age"] = "age"
    output: str
    activation: Literal["none", "softmax"] = "none"
    """`none` if the network gives probabilities already."""
    first_age: float = 0.0
    """Age in years of the first number; each further number stands for one year more."""
    groups: tuple[str, ...] = ("young", "middle_aged", "elderly")
    bounds: tuple[float, ...] = (30.0, 60.0)
    """Ages at which the next group begins (BIGbench: 0-30, 30-60, 60+)."""

    @model_validator(mode="after")
    def _one_more_group_than_bounds(self) -> AgeReading:
        if len(self.groups) != len(self.bounds) + 1 or any(a >= b for a, b in pairwise(self.bounds)):
            raise ValueError("bounds must rise, and there is one group more than bounds")
        return self

    def verdict(self, numbers: NDArray[Any]) -> Verdict:
        """Read one image's output, shape (ages,).

        Raises:
            ConfigError: a single number, or no probabilities that add up to 1.
        """
        numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
        if len(numbers) < 2:
            raise ConfigError(f"output {self.output!r} has one number where one for each year of age is expected")
        numbers = _softmax(numbers) if self.activation == "softmax" else _probabilities(numbers, self.output)
        if abs(numbers.sum() - 1) > _SUM_TOLERANCE:
            raise ConfigError(
                f"output {self.output!r} adds up to {numbers.sum():.4g}, where probabilities of ages add up to 1"
            )
        years = float(numbers @ (self.first_age + np.arange(len(numbers))))
        return Verdict(age_group(years, groups=self.groups, bounds=self.bounds), value=years)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return self.groups


Reading = Annotated[ClassReading | BinaryReading | AgeReading, Field(discriminator="read")]


def age_group(years: float, *, groups: tuple[str, ...], bounds: tuple[float, ...]) -> str:
    """The group an age falls into; a bound belongs to the older group."""
    return groups[int(np.searchsorted(bounds, years, side="right"))]


def _softmax(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(numbers - numbers.max())
    return np.asarray(exponentials / exponentials.sum())


def _probabilities(numbers: NDArray[np.float64], output: str) -> NDArray[np.float64]:
    # A network's raw numbers, taken for probabilities, would meet the wrong threshold without anyone noticing.
    strange = numbers[~((numbers >= -_TOLERANCE) & (numbers <= 1 + _TOLERANCE))]
    if strange.size:
        raise ConfigError(
            f"output {output!r} holds {strange[0]:.4g}, which is no probability: set its `activation`"
        )
    return numbers.clip(0, 1)
