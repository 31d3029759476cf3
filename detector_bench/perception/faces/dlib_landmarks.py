"""dlib's 68 landmarks of a face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.extras import require
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import FACE_LANDMARKS_68
from detector_bench.weights.files import WeightsField

_LANDMARKS = 68


class DlibLandmarks(Stage):
    """The 68 landmarks of every face of an image, in the order of the face boxes, by dlib's shape predictor.

    Gives `landmarks`, (faces, 68, 2), x and y in whole pixels of the image; they may lie outside it, as a box may.
    0-16 are the jaw line, 17-26 the eyebrows, 27-35 the nose, 36-47 the eyes, 48-67 the mouth (iBUG 300-W). The
    person's right side, on the left of the image, comes first.

    The predictor was made for boxes of dlib's HOG detector. On boxes that other detectors put differently around a
    face, its landmarks are less exact.
    """

    kind: ClassVar[str] = "dlib_landmarks"
    extra: ClassVar[str | None] = "dlib-cnn"
    modules: ClassVar[tuple[str, ...]] = ("dlib",)
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    faces: StageField = Field(default_factory=lambda: DlibHogFaces(upsample=1))
    network: WeightsField = FACE_LANDMARKS_68
    """A dlib shape predictor with the same 68 landmarks."""

    def inputs(self) -> tuple[Stage, ...]:
        """The face boxes."""
        return (self.faces,)

    def weights(self) -> tuple[WeightsFile, ...]:
        """The landmark model."""
        return (self.network,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the landmark model; see `Stage.load`."""
        dlib = require("dlib", extra=self.extra)
        path = weights.locate(self.network)
        try:
            predictor = dlib.shape_predictor(str(path))
        except RuntimeError as error:
            raise WeightsError(f"dlib cannot read {str(path)!r} as a shape predictor: {error}") from error
        points = predictor(np.zeros((8, 8, 3), np.uint8), dlib.rectangle(0, 0, 7, 7)).num_parts
        if points != _LANDMARKS:
            raise WeightsError(f"{str(path)!r} finds {points} landmarks of a face; expected {_LANDMARKS}")

        def find(frame: Frame) -> Arrays:
            found = [_landmarks(dlib, predictor, frame.pixels, box) for box in frame[self.faces]["corners"]]
            return {"landmarks": np.array(found, np.float32).reshape(-1, _LANDMARKS, 2)}

        def find_all(frames: Sequence[Frame]) -> list[Arrays]:
            return [find(frame) for frame in frames]

        return find_all


def _landmarks(
    dlib: Any, predictor: Any, pixels: NDArray[np.uint8], corners: NDArray[Any]
) -> list[tuple[int, int]]:
    left, top, right, bottom = (round(float(value)) for value in corners)
    # dlib's rectangles include their last column and row.
    shape = predictor(pixels, dlib.rectangle(left, top, right - 1, bottom - 1))
    return [(point.x, point.y) for point in shape.parts()]
