"""Turns a network's numbers into a verdict on one attribute. Pure functions, one per sort of output."""

from __future__ import annotations

import json
from collections.abc import Mapping as MappingType
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.calibrated import Calibrated
from detector_bench.errors import ConfigError
from detector_bench.perception.stage import Arrays, Frame, Stage
from detector_bench.vocabulary.taxonomies import Mapping, MappingField

UNCERTAIN = "uncertain"
"""The reason for filtering an image that the network cannot decide on."""

OTHER_CLASS = "other_class"
"""The reason for filtering an image for which the network has a word, and we have no class: "other" for a race.
It has answered, so it is no error; its own reason keeps such images apart from those without a face."""

Decide: TypeAlias = Literal["likeliest_word", "likeliest_class"]
"""Who wins where several words mean one class: the class of the likeliest word, or the class whose words add up to
most (what lies outside our classes competes as one). Either way the score is what the winner's words add up to."""

_TOLERANCE = 1e-3
_SUM_TOLERANCE = 0.02


class NetworkVerdict(NamedTuple):
    """A class with its probability, and for ages the years behind it; with a `reason`, the image is filtered."""

    label: str
    """A class of ours; if it is `outside`, the network's own word for what it saw."""
    score: float | None = None
    value: float | None = None
    uncertain: bool = False
    outside: bool = False
    raw: str | None = None
    """The network's own words with their probabilities, as JSON; None where its words are ours."""

    @property
    def reason(self) -> str | None:
        """Why the image is filtered; None: it is clear."""
        if self.outside:
            return OTHER_CLASS
        return UNCERTAIN if self.uncertain else None


class ScoreReading(Calibrated):
    """A reading that gives a class with its probability, and filters what it is unsure of."""

    min_score: float = Field(default=0.0, ge=0, le=1)
    """A winner below this probability is `uncertain`: the image is filtered."""

    def settled(self, found: NetworkVerdict, calibration: Arrays | None) -> NetworkVerdict:
        """A verdict with its score calibrated, `uncertain` where it is too low or keeps a promise from holding.

        Args:
            found: the network's own; one outside our classes, or for the class `uncertain`, stays as it is.
            calibration: see `Calibrated.calibration_of`.
        """
        if found.score is None or found.label == UNCERTAIN:
            return found
        score, kept = self.weighed(found.score, calibration)
        return found._replace(score=score, uncertain=score < self.min_score or not kept)


class ClassReading(ScoreReading):
    """One number per class; the largest wins, the first of equals.

    With `taxonomy` in place of `classes`, the numbers stand for the network's own words. They are kept in `raw`;
    the label is what the mapping says, and a winner outside our classes filters the image (`other_class`).
    """

    read: Literal["classes"] = "classes"
    output: str
    classes: tuple[str, ...] | None = Field(default=None, min_length=2)
    """Labels in the order of the output's numbers. An image that the class `uncertain` wins is filtered."""
    taxonomy: MappingField | None = None
    """The network's own words and what they mean: a taxonomy's name, a mapping's name, or `{word: class or null}`
    in the order of the output's numbers. `detector-bench taxonomies` lists them."""
    decide: Decide = "likeliest_word"
    """Which of the network's own words wins; only with `taxonomy`."""
    activation: Literal["none", "softmax"] = "none"
    """`none` if the network gives probabilities already."""

    @model_validator(mode="after")
    def _one_of_two(self) -> ClassReading:
        if (self.classes is None) == (self.taxonomy is None):
            raise ValueError("either `classes`, in our words, or `taxonomy`, in the network's; not both")
        return self

    def verdict(self, numbers: NDArray[Any], calibration: Arrays | None = None) -> NetworkVerdict:
        """Read one image's output, shape (classes,).

        Args:
            numbers: the output.
            calibration: see `Calibrated.calibration_of`.

        Raises:
            ConfigError: another number of classes, or no probabilities.
        """
        if self.taxonomy is not None:
            shares = _word_shares(numbers, self.taxonomy, output=self.output, activation=self.activation)
            return self.settled(read_words(shares, self.taxonomy, decide=self.decide), calibration)
        classes = self.classes or ()
        numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
        _require_length(numbers, len(classes), output=self.output)
        numbers = softmax(numbers) if self.activation == "softmax" else _probabilities(numbers, self.output)
        winner = int(np.argmax(numbers))
        score, label = float(numbers[winner]), classes[winner]
        return self.settled(NetworkVerdict(label, score, uncertain=label == UNCERTAIN), calibration)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        if self.taxonomy is not None:
            return _reached(self.taxonomy)
        return tuple(label for label in self.classes or () if label != UNCERTAIN)


class BinaryReading(ScoreReading):
    """One number: the probability of the first class."""

    read: Literal["binary"] = "binary"
    output: str
    classes: tuple[str, str]
    """The class whose probability the number is, and the other one."""
    activation: Literal["none", "sigmoid"] = "none"
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Above it, the first class wins."""

    def verdict(self, numbers: NDArray[Any], calibration: Arrays | None = None) -> NetworkVerdict:
        """Read one image's output, shape (1,).

        Args:
            numbers: the output.
            calibration: see `Calibrated.calibration_of`.

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
        return self.settled(NetworkVerdict(self.classes[0 if first else 1], score), calibration)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return self.classes


class AgeReading(Declaration):
    """Probabilities of ages; the expected value in years, and the age group it falls into."""

    read: Literal["age"] = "age"
    output: str
    activation: Literal["none", "softmax"] = "none"
    """`none` if the network gives probabilities already."""
    first_age: float = 0.0
    """Age in years of the first number; each further number stands for one year more."""
    likeliest: int | None = Field(default=None, ge=1)
    """Only so many of the likeliest ages go into the expected value, as if the others were impossible; None: all.
    What a network thinks hardly possible pulls the mean to the middle of its range otherwise."""
    groups: tuple[str, ...] = ("young", "middle_aged", "elderly")
    bounds: tuple[float, ...] = (30.0, 60.0)
    """Ages at which the next group begins (BIGbench: 0-30, 30-60, 60+)."""

    @model_validator(mode="after")
    def _one_more_group_than_bounds(self) -> AgeReading:
        if len(self.groups) != len(self.bounds) + 1 or any(a >= b for a, b in pairwise(self.bounds)):
            raise ValueError("bounds must rise, and there is one group more than bounds")
        return self

    def verdict(self, numbers: NDArray[Any]) -> NetworkVerdict:
        """Read one image's output, shape (ages,).

        Raises:
            ConfigError: a single number, or no probabilities that add up to 1.
        """
        numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
        if len(numbers) < 2:
            raise ConfigError(f"output {self.output!r} has one number where one for each year of age is expected")
        numbers = softmax(numbers) if self.activation == "softmax" else _probabilities(numbers, self.output)
        _require_whole(numbers, output=self.output, of="ages")
        ages = self.first_age + np.arange(len(numbers))
        if self.likeliest is not None:
            # Stable, so that the younger of equally likely ages is taken.
            chosen = np.argsort(-numbers, kind="stable")[: self.likeliest]
            ages, numbers = ages[chosen], numbers[chosen] / numbers[chosen].sum()
        years = float(numbers @ ages)
        return NetworkVerdict(age_group(years, groups=self.groups, bounds=self.bounds), value=years)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return self.groups


class BinsReading(ScoreReading):
    """Probabilities of bins of ages; the age group, and the years that they average to.

    The value is coarse: the sum of each bin's probability times the years that stand for it. For a bin without an
    end ("above_60") these years are a decision, and nobody can come out older than the last bin's.
    """

    read: Literal["bins"] = "bins"
    output: str
    taxonomy: MappingField
    """The bins in the order of the output's numbers, and the group of each; as in `classes`."""
    years: tuple[float, ...] | None = None
    """What stands for each bin; None: the taxonomy's own years."""
    decide: Decide = "likeliest_class"
    """By default the bins of a group are added up, since bins differ in width: a group cut into many narrow ones
    would lose to one with a wide bin."""
    activation: Literal["none", "softmax"] = "none"
    """`none` if the network gives probabilities already."""

    @model_validator(mode="after")
    def _one_age_for_each_bin(self) -> BinsReading:
        bins = self.taxonomy.source.classes
        if self.bin_years is None:
            raise ValueError(f"`years` is missing: one number for each of the bins {', '.join(bins)}")
        if len(self.bin_years) != len(bins) or any(a >= b for a, b in pairwise(self.bin_years)):
            raise ValueError(
                f"years are one rising number for each of {len(bins)} bins; got {list(self.bin_years)}"
            )
        return self

    @property
    def bin_years(self) -> tuple[float, ...] | None:
        """The years that stand for each bin."""
        return self.taxonomy.source.years if self.years is None else self.years

    def verdict(self, numbers: NDArray[Any], calibration: Arrays | None = None) -> NetworkVerdict:
        """Read one image's output, shape (bins,).

        Args:
            numbers: the output.
            calibration: see `Calibrated.calibration_of`.

        Raises:
            ConfigError: another number of bins, or no probabilities that add up to 1.
        """
        shares = _word_shares(numbers, self.taxonomy, output=self.output, activation=self.activation)
        found = self.settled(read_words(shares, self.taxonomy, decide=self.decide), calibration)
        return found._replace(value=float(shares @ np.asarray(self.bin_years)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return _reached(self.taxonomy)


def verdict_of(reading: Reading, frame: Frame, attribute: str, numbers: NDArray[Any]) -> NetworkVerdict:
    """Read one image's output with the calibration that the reading names, if it names one.

    Raises:
        ConfigError: see the readings' `verdict`.
    """
    if isinstance(reading, ScoreReading):
        return reading.verdict(numbers, reading.calibration_of(frame, attribute))
    return reading.verdict(numbers)


def stages_of(readings: MappingType[str, Reading]) -> tuple[Stage, ...]:
    """The stages that readings of attributes need besides the network's: those of their calibration files."""
    scored = ((name, each) for name, each in readings.items() if isinstance(each, ScoreReading))
    return tuple(stage for name, each in scored for stage in each.calibration_stages(name))


Reading = Annotated[ClassReading | BinaryReading | AgeReading | BinsReading, Field(discriminator="read")]


def read_words(
    shares: NDArray[np.float64], mapping: Mapping, *, decide: Decide = "likeliest_word", min_score: float = 0.0
) -> NetworkVerdict:
    """From the probabilities of a network's own words to a verdict in our classes.

    Args:
        shares: one for each class of the mapping's source, adding up to 1.
        mapping: what the words mean.
        decide: who wins; of equals, the first.
        min_score: a winner below it is `uncertain`.

    Returns:
        Without a score where the winner lies outside our classes; with `raw` in every case.
    """
    words = mapping.source.classes
    inside, outside = mapping.probabilities(shares)
    word = int(np.argmax(shares))
    winner = int(mapping.positions[word]) if decide == "likeliest_word" else int(np.argmax([*inside, outside]))
    probabilities = {name: round(float(share), 4) for name, share in zip(words, shares, strict=True)}
    raw = json.dumps({"answer": words[word], "probabilities": probabilities})
    if winner not in range(len(inside)):
        without_class = np.where(mapping.positions < 0, shares, -1.0)
        return NetworkVerdict(words[int(np.argmax(without_class))], outside=True, raw=raw)
    # Rounding errors of a sum must not leave [0, 1].
    score = min(float(inside[winner]), 1.0)
    return NetworkVerdict(mapping.target.classes[winner], score, uncertain=score < min_score, raw=raw)


def age_group(years: float, *, groups: tuple[str, ...], bounds: tuple[float, ...]) -> str:
    """The group an age falls into; a bound belongs to the older group."""
    return groups[int(np.searchsorted(bounds, years, side="right"))]


def _reached(mapping: Mapping) -> tuple[str, ...]:
    return tuple(label for label in mapping.target.classes if label not in mapping.unreached)


def _word_shares(numbers: NDArray[Any], mapping: Mapping, *, output: str, activation: str) -> NDArray[np.float64]:
    numbers = np.asarray(numbers, dtype=np.float64).reshape(-1)
    _require_length(numbers, len(mapping.source.classes), output=output)
    shares = softmax(numbers) if activation == "softmax" else _probabilities(numbers, output)
    _require_whole(shares, output=output, of="words")
    return shares


def _require_length(numbers: NDArray[np.float64], classes: int, *, output: str) -> None:
    if len(numbers) != classes:
        raise ConfigError(f"output {output!r} has {len(numbers)} numbers for {classes} classes")


def _require_whole(numbers: NDArray[np.float64], *, output: str, of: str) -> None:
    if abs(numbers.sum() - 1) > _SUM_TOLERANCE:
        raise ConfigError(
            f"output {output!r} adds up to {numbers.sum():.4g}, where probabilities of {of} add up to 1"
        )


def softmax(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities from a network's raw numbers, shape (classes,), of any size."""
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
