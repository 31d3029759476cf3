"""Faces by dlib: boxes of the HOG detector, boxes of the CNN that FairFace and CLIP-Enhance use, 68 landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.dlib_resizing import LongestSide, resize_to_longest, scaled
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES, FACE_LANDMARKS_68
from detector_bench.weights.files import WeightsField

_SMALLEST_FOR_CNN = 32


class DlibHogFaces(Stage):
    """dlib's frontal face detector: histograms of oriented gradients and a linear classifier.

    Finds upright faces that look towards the camera, from 80 pixels on (40 with `upsample=1`). It misses turned
    and partly hidden faces: on T2I portraits it keeps clearly more women than men. Scores have no upper bound.
    The detector is part of the dlib library (Boost Software License), so it has no weights file.
    """

    kind: ClassVar[str] = "dlib_hog_faces"
    extra: ClassVar[str | None] = "dlib"
    modules: ClassVar[tuple[str, ...]] = ("dlib",)
    images_per_call: ClassVar[int | None] = 1
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    upsample: int = Field(default=0, ge=0, le=3)
    """How many times the image is doubled in size first, to find smaller faces."""
    threshold: float = 0.0
    """Lowest score that counts as a face."""

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Build the detector; see `Stage.load`."""
        detector = require("dlib", extra=self.extra).get_frontal_face_detector()
        alone = Lock()  # it keeps the pyramid of the image that it looks at

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            results = []
            for frame in frames:
                with alone:
                    rectangles, scores, _ = detector.run(frame.pixels, self.upsample, self.threshold)
                results.append(boxes([_corners(rectangle) for rectangle in rectangles], scores))
            return results

        return detect


class DlibCnnFaces(Stage):
    """dlib's CNN face detector (max-margin object detection), as in FairFace's and CLIP-Enhance's programs.

    Finds faces of 80 pixels and more (40 with `upsample=1`), turned ones too. Slow on a CPU: about 1.5 s for
    an image of 512 pixels, 7 s with `upsample=1`. Scores above 0 are faces; clear faces score about 1.
    """

    kind: ClassVar[str] = "dlib_cnn_faces"
    extra: ClassVar[str | None] = "dlib-cnn"
    modules: ClassVar[tuple[str, ...]] = ("dlib",)
    images_per_call: ClassVar[int | None] = 1
    precision_taken: ClassVar[str] = "float32"

    upsample: int = Field(default=0, ge=0, le=3)
    """How many times the image is doubled in size first, to find smaller faces."""
    longest_side: LongestSide = None
    network: WeightsField = DLIB_CNN_FACES

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """A GPU where dlib was built for one."""
        return "cuda" if require("dlib", extra=self.extra).DLIB_USE_CUDA else "cpu"

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        dlib = require("dlib", extra=self.extra)
        detector = dlib.cnn_face_detection_model_v1(str(weights.locate(self.network)))

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            results = []
            for frame in frames:
                pixels = resize_to_longest(frame.pixels, self.longest_side)
                # On an image a few pixels high or wide dlib fails and damages the memory of the process, while no
                # image of this size can show a face of 80 pixels.
                if min(pixels.shape[:2]) * 2**self.upsample < _SMALLEST_FOR_CNN:
                    results.append(boxes([], []))
                    continue
                found = detector(pixels, self.upsample)
                corners = np.array([_corners(face.rect) for face in found], np.float32).reshape(-1, 4)
                back = scaled(corners, seen=pixels, wanted=frame.pixels)
                results.append(boxes(back, [face.confidence for face in found]))
            return results

        return detect


def _corners(rectangle: Any) -> tuple[int, int, int, int]:
    # dlib's rectangles include their last column and row.
    return rectangle.left(), rectangle.top(), rectangle.right() + 1, rectangle.bottom() + 1


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
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    faces: StageField = Field(default_factory=lambda: DlibHogFaces(upsample=1))
    network: WeightsField = FACE_LANDMARKS_68
    """A dlib shape predictor with the same 68 landmarks."""

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
