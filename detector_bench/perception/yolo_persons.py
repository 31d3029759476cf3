"""Person boxes by a YOLO network trained on COCO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.extras import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.onnx_session import open_session
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import YOLOV8N_PERSONS
from detector_bench.weights.files import WeightsField

_PERSON = 0  # class number in COCO
_LETTERBOX_GREY = 114


class YoloPersons(Stage):
    """YOLOv8 (or a later one with the same output) finding persons.

    An `.onnx` file runs through onnxruntime, a `.pt` file through ultralytics. Either way: the image is shrunk
    or enlarged to fit a square of `image_size` with grey bars, boxes below `confidence` go, and of boxes that
    overlap by more than `overlap_threshold` the surest stays. The `.onnx` export gives 4 + classes rows per
    candidate (centre x, centre y, width, height, class scores), before suppression of overlaps.

    ultralytics and its networks are licensed AGPL-3.0.
    """

    kind: ClassVar[str] = "yolo_persons"
    extra: ClassVar[str | None] = "onnx"
    modules: ClassVar[tuple[str, ...]] = ("onnxruntime", "cv2")

    network: WeightsField = YOLOV8N_PERSONS
    confidence: float = Field(default=0.25, ge=0, le=1)
    """Lowest score that counts as a person."""
    overlap_threshold: float = Field(default=0.7, gt=0, le=1)
    """Intersection over union above which two boxes are taken for one person."""
    image_size: int = Field(default=640, ge=32, multiple_of=32)
    """Side of the network's input in pixels."""

    def weights(self) -> tuple[WeightsFile, ...]:
        """The network's file."""
        return (self.network,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        if self.network.path.endswith(".pt"):
            return self._load_ultralytics(weights)
        cv2 = require("cv2", extra=self.extra)
        path = weights.locate(self.network)
        session = open_session(path)
        entry = session.get_inputs()[0]
        side = entry.shape[2]
        if isinstance(side, int) and side != self.image_size:
            raise WeightsError(f"{path.name} takes images of {side} pixels: set image_size: {side}")

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            return [self._detect_one(cv2, session, entry.name, frame) for frame in frames]

        return detect

    def _detect_one(self, cv2: Any, session: Any, input_name: str, frame: Frame) -> Arrays:
        canvas, scale, offset = letterbox(cv2, frame.pixels, side=self.image_size)
        values = np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32)
        values /= 255
        candidates = session.run(None, {input_name: values})[0][0].T
        scores = candidates[:, 4 + _PERSON]
        kept = np.flatnonzero(scores >= self.confidence)
        centre_x, centre_y, width, height = candidates[kept, :4].T
        left, top = centre_x - width / 2, centre_y - height / 2
        chosen = np.asarray(
            cv2.dnn.NMSBoxes(
                np.stack([left, top, width, height], axis=1).tolist(),
                scores[kept].tolist(),
                self.confidence,
                self.overlap_threshold,
            ),
            dtype=int,
        ).reshape(-1)
        corners = np.stack([left, top, left + width, top + height], axis=1)[chosen]
        corners = (corners - np.array([*offset, *offset])) / scale
        image_height, image_width = frame.pixels.shape[:2]
        corners[:, 0::2] = corners[:, 0::2].clip(0, image_width)
        corners[:, 1::2] = corners[:, 1::2].clip(0, image_height)
        return boxes(corners, scores[kept][chosen])

    def _load_ultralytics(self, weights: WeightsLocator) -> StageFunction:
        ultralytics = require("ultralytics", extra="yolo")
        model = ultralytics.YOLO(str(weights.locate(self.network)))

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            found = model.predict(
                # ultralytics takes arrays for BGR, as OpenCV reads them.
                [np.ascontiguousarray(frame.pixels[..., ::-1]) for frame in frames],
                conf=self.confidence,
                iou=self.overlap_threshold,
                imgsz=self.image_size,
                classes=[_PERSON],
                verbose=False,
            )
            return [boxes(one.boxes.xyxy.cpu().numpy(), one.boxes.conf.cpu().numpy()) for one in found]

        return detect


def letterbox(
    cv2: Any, pixels: NDArray[np.uint8], *, side: int
) -> tuple[NDArray[np.uint8], float, tuple[float, float]]:
    """Fit an image into a grey square without changing its proportions.

    Returns:
        The square, the scale that was applied, and the (x, y) position of the image in the square.
    """
    height, width = pixels.shape[:2]
    scale = min(side / height, side / width)
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (side - new_width) // 2, (side - new_height) // 2
    canvas = np.full((side, side, 3), _LETTERBOX_GREY, np.uint8)
    resized = cv2.resize(pixels, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    canvas[top : top + new_height, left : left + new_width] = resized
    return canvas, scale, (left, top)
