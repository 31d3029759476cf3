"""The face that is judged, turned upright and cut out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.installation import require
from detector_bench.perception.boxes import largest
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces
from detector_bench.perception.faces.dlib_resizing import LongestSide, resize_to_longest, scaled
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import FACE_LANDMARKS_5
from detector_bench.weights.files import WeightsField


def aligned_chips(
    dlib: Any,
    landmarks: Any,
    pixels: NDArray[np.uint8],
    corners: NDArray[Any],
    *,
    sizes: Sequence[int],
    padding: float,
) -> list[NDArray[np.uint8]]:
    """Cut one face out at several sizes.

    Args:
        dlib: the dlib module.
        landmarks: a loaded dlib shape predictor.
        pixels: (height, width, 3), RGB.
        corners: left, top, right, bottom of the face box, right and bottom outside the box.
        sizes: sides of the square chips in pixels.
        padding: border around the face as a share of its size: dlib's default is 0.2, FairFace takes 0.25.

    Returns:
        One (size, size, 3) array per size, each cut from the image itself: a smaller chip is not a shrunk
        larger one.
    """
    left, top, right, bottom = (round(float(value)) for value in corners)
    shape = landmarks(pixels, dlib.rectangle(left, top, right - 1, bottom - 1))
    return [dlib.extract_image_chip(pixels, dlib.get_face_chip_details(shape, size, padding)) for size in sizes]


class AlignedFaces(Stage):
    """One face per image, aligned by dlib's five landmarks, as FairFace's published program cuts it.

    Gives `chip`, (size, size, 3), RGB, 0 to 255; no array at all for an image without a face. The image is resized
    first, landmarks are found there, and the chip is cut from there.

    Known divergences from that program: it cuts out every face, this stage the one that `face` names, because a
    verdict is about an image. It stores chips as files of the image's own format before it classifies them, so
    chips of JPEG images lose detail there and not here. And it reads JPEG images with dlib, whose decoder differs
    from Pillow's by up to some 20 grey levels at coloured edges.

    Chips are not kept on disk: each is 270 kB, and made again within some 0.03 s from the face boxes, which are.
    """

    kind: ClassVar[str] = "aligned_faces"
    extra: ClassVar[str | None] = "dlib"
    modules: ClassVar[tuple[str, ...]] = ("dlib",)
    cached: ClassVar[bool] = False
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "float64"
    device_taken: ClassVar[str] = "cpu"

    faces: StageField = Field(default_factory=lambda: DlibCnnOnnxFaces(upsample=1, longest_side=800))
    longest_side: LongestSide = 800
    """The longer side of the image that landmarks and chips are taken from; None leaves the image as it is."""
    size: int = Field(default=300, ge=16, le=2048)
    """Side of the chip in pixels."""
    padding: float = Field(default=0.25, ge=0, le=4)
    """Border around the face as a share of its size."""
    face: Literal["largest", "surest"] = "largest"
    """Which face: the one with the largest box, or with the highest score."""
    landmarks: WeightsField = FACE_LANDMARKS_5

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the landmark model; see `Stage.load`."""
        dlib = require("dlib", extra=self.extra)
        landmarks = dlib.shape_predictor(str(weights.locate(self.landmarks)))

        def cut(frame: Frame) -> Arrays:
            corners = self._chosen(frame[self.faces])
            if corners is None:
                return {}
            pixels = resize_to_longest(frame.pixels, self.longest_side)
            place = scaled(corners, seen=frame.pixels, wanted=pixels)
            (chip,) = aligned_chips(dlib, landmarks, pixels, place, sizes=(self.size,), padding=self.padding)
            return {"chip": chip}

        def cut_all(frames: Sequence[Frame]) -> list[Arrays]:
            return [cut(frame) for frame in frames]

        return cut_all

    def _chosen(self, found: Arrays) -> NDArray[np.float32] | None:
        number = largest(found)
        if number is None:
            return None
        if self.face == "surest":
            number = int(np.argmax(found["scores"]))
        chosen: NDArray[np.float32] = found["corners"][number]
        return chosen
