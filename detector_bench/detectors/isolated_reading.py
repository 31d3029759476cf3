"""How the answers of a script become a verdict: as those of a network, or as a label or an age that it says."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.reading import (
    UNCERTAIN,
    AgeReading,
    BinaryReading,
    BinsReading,
    ClassReading,
    NetworkVerdict,
    age_group,
)
from detector_bench.perception.stage import Arrays, text_in


class YearsReading(Declaration):
    """One number: the age in years, and the age group it falls into."""

    read: Literal["years"] = "years"
    output: str
    groups: tuple[str, ...] = AgeReading.model_fields["groups"].default
    bounds: tuple[float, ...] = AgeReading.model_fields["bounds"].default
    """Ages at which the next group begins (BIGbench: 0-30, 30-60, 60+)."""

    @model_validator(mode="after")
    def _one_more_group_than_bounds(self) -> YearsReading:
        if len(self.groups) != len(self.bounds) + 1 or any(a >= b for a, b in pairwise(self.bounds)):
            raise ValueError("bounds must rise, and there is one group more than bounds")
        return self

    def verdict(self, numbers: NDArray[Any]) -> NetworkVerdict:
        """Read one image's output, shape (1,).

        Raises:
            ValueError: several numbers, or no age.
        """
        years = _one_number(numbers, self.output)
        if not 0 <= years <= 150:
            raise ValueError(f"output {self.output!r} holds {years:g}, which is no age in years")
        return NetworkVerdict(age_group(years, groups=self.groups, bounds=self.bounds), value=years)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give."""
        return self.groups


class SaidLabelReading(Declaration):
    """A label in words, alone or with its score: `"man"`, or `{"label": "man", "score": 0.9}`.

    The label `uncertain` filters the image, and so does a score below `min_score`.
    """

    read: Literal["label"] = "label"
    output: str
    classes: dict[str, str | None] | None = None
    """What its words mean: `{man: male, woman: female, other: null}`, null for a word that no class of ours stands
    for. None: it says our own classes."""
    min_score: float = Field(default=0.0, ge=0, le=1)
    """A label with a lower score is `uncertain`: the image is filtered."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can give; none where it says our own classes."""
        given = (self.classes or {}).values()
        return tuple(dict.fromkeys(each for each in given if each is not None and each != UNCERTAIN))

    def read_from(self, outputs: Arrays) -> NetworkVerdict:
        """Read one image's outputs.

        Raises:
            ValueError: a word that is none of `classes`, a score that is no probability, or no text at all.
        """
        name = self.output if self.output in outputs else f"{self.output}.label"
        text = _output(outputs, name, wanted=self.output)
        if text.dtype != np.uint8 or text.ndim != 1:
            raise ValueError(f"output {self.output!r} is no text: {text.dtype} of shape {list(text.shape)}")
        word = text_in(text)
        score = None
        if f"{self.output}.score" in outputs:
            score = _one_number(outputs[f"{self.output}.score"], f"{self.output}.score")
            if not 0 <= score <= 1:
                raise ValueError(f"output '{self.output}.score' holds {score:g}, which is no probability")
        uncertain = score is not None and score < self.min_score
        if self.classes is None or (word == UNCERTAIN and word not in self.classes):
            return NetworkVerdict(word, score, uncertain=uncertain or word == UNCERTAIN)
        if word not in self.classes:
            known = ", ".join(self.classes)
            raise ValueError(f"output {self.output!r} says {word[:60]!r}, which is none of its words ({known})")
        label = self.classes[word]
        if label is None:
            return NetworkVerdict(word, score, outside=True, raw=word)
        return NetworkVerdict(label, score, uncertain=uncertain or label == UNCERTAIN, raw=word)


ScriptReading = Annotated[
    ClassReading | BinaryReading | AgeReading | BinsReading | YearsReading | SaidLabelReading,
    Field(discriminator="read"),
]


def read_output(reading: ScriptReading, outputs: Arrays) -> NetworkVerdict:
    """One image's verdict out of all that a script said about it.

    Raises:
        ValueError, ConfigError: the output is missing, or is not what the reading expects.
    """
    if isinstance(reading, SaidLabelReading):
        return reading.read_from(outputs)
    numbers = _output(outputs, reading.output, wanted=reading.output)
    if not np.isfinite(numbers).all():
        raise ValueError(f"output {reading.output!r} holds values that are not finite")
    return reading.verdict(numbers)


def _output(outputs: Arrays, name: str, *, wanted: str) -> NDArray[Any]:
    if name not in outputs:
        there = ", ".join(outputs) or "nothing"
        raise ValueError(f"the script gave no output {wanted!r} (it gave: {there})")
    return outputs[name]


def _one_number(numbers: NDArray[Any], output: str) -> float:
    found = np.asarray(numbers, dtype=np.float64).reshape(-1)
    if len(found) != 1:
        raise ValueError(f"output {output!r} has {len(found)} numbers where one is expected")
    return float(found[0])
