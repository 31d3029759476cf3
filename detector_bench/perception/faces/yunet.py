"""Face boxes by YuNet, a small convolutional network, through OpenCV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import YUNET_FACES
from detector_bench.weights.files import WeightsField


class YuNetFaces(Stage):
    """YuNet (Wu et al., Machine Intelligence Research 2023), trained on faces of 10 to 300 pixels.

    Finds turned and partly hidden faces too; some milliseconds per image. Much larger faces escape it: of 47
    portraits whose face it finds at 480 pixels, it finds 16 when they are enlarged to 2048. So larger images are
    shrunk first. Scores are in [0, 1]. Landmarks: right eye, left eye, nose tip, right and left corner of the
    mouth, as the person has them.
    """

    kind: ClassVar[str] = "yunet_faces"
    extra: ClassVar[str | None] = "onnx"
    modules: ClassVar[tuple[str, ...]] = ("cv2",)
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    network: WeightsField = YUNET_FACES
    score_threshold: float = Field(default=0.7, ge=0, le=1)
    """Lowest score that counts as a face."""
    overlap_threshold: float = Field(default=0.3, gt=0, le=1)
    """Of two boxes that overlap by more than this (intersection over union), only the surer one is kept."""
    longest_side: int | None = Field(default=640, ge=32)
    """Larger images are shrunk to this many pixels first; None leaves them as they are."""

    def weights(self) -> tuple[WeightsFile, ...]:
        """The network's file."""
        return (self.network,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        cv2 = require("cv2", extra=self.extra)
        path = weights.locate(self.network)
        with _only_errors(cv2):
            try:
                detector = cv2.FaceDetectorYN.create(
                    str(path), "", (320, 320), self.score_threshold, self.overlap_threshold, 5000
                )
            except cv2.error as error:
                raise WeightsError(f"OpenCV cannot read {str(path)!r} as a YuNet network: {error}") from error

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            return [self._detect_one(cv2, detector, frame) for frame in frames]

        return detect

    def _detect_one(self, cv2: Any, detector: Any, frame: Frame) -> Arrays:
        height, width = frame.pixels.shape[:2]
        image = cv2.cvtColor(frame.pixels, cv2.COLOR_RGB2BGR)
        shrink = 1.0
        if self.longest_side is not None and max(height, width) > self.longest_side:
            shrink = self.longest_side / max(height, width)
            size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        detector.setInputSize((image.shape[1], image.shape[0]))
        found = detector.detect(image)[1]
        if found is None:
            return boxes([], [])
        corners = np.column_stack([found[:, 0], found[:, 1], found[:, 0] + found[:, 2], found[:, 1] + found[:, 3]])
        return boxes(corners / shrink, found[:, 14], found[:, 4:14] / shrink)


@contextmanager
def _only_errors(cv2: Any) -> Iterator[None]:
    # OpenCV 5 warns about its own default target while it reads a network; nothing a user could act on.
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(level)
