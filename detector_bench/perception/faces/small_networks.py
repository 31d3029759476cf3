"""Face boxes by small networks: YuNet through OpenCV, and BlazeFace through MediaPipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.perception.torch_settings import OF_THE_FILE
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import MEDIAPIPE_FACES_FULL_RANGE, MEDIAPIPE_FACES_SHORT_RANGE, YUNET_FACES
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


class MediapipeFaces(Stage):
    """MediaPipe's face detector, as in CLIP-Prob (Lyu 2025): BlazeFace through the package's tasks API.

    `short` is for faces within 2 metres of the camera, `full` for those within 5. The network sees the whole image
    fitted into a small square (128 and 192 pixels), so faces that are small in the image are missed. Scores lie in
    [0, 1]. Boxes are whole pixels, from the eyebrows to the chin; landmarks are the eyes (the person's right one
    first), the tip of the nose, the mouth and the tragions of the ears. The package brings no network along since
    its version 0.10.30; `weights fetch` downloads it.
    """

    kind: ClassVar[str] = "mediapipe_faces"
    extra: ClassVar[str | None] = "mediapipe"
    modules: ClassVar[tuple[str, ...]] = ("mediapipe",)
    precision_taken: ClassVar[str] = OF_THE_FILE
    device_taken: ClassVar[str] = "cpu"

    range: Literal["short", "full"] = "short"
    """Which of Google's two networks; the other fields being equal, `short` is what MediaPipe takes by default."""
    min_confidence: float = Field(default=0.5, ge=0, le=1)
    """Lowest score that counts as a face."""
    overlap_threshold: float = Field(default=0.3, ge=0, le=1)
    """Of boxes that overlap by more than this (intersection over union), the network's own rule makes one."""
    network: WeightsField | None = None
    """Another network with this interface; by default the one of `range`."""

    def weights(self) -> tuple[WeightsFile, ...]:
        """The network in `network`, or the published one for the range."""
        published = {"short": MEDIAPIPE_FACES_SHORT_RANGE, "full": MEDIAPIPE_FACES_FULL_RANGE}[self.range]
        return (self.network or published,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        mediapipe = require("mediapipe", extra=self.extra)
        (file,) = self.weights()
        path = weights.locate(file)
        options = mediapipe.tasks.vision.FaceDetectorOptions(
            base_options=mediapipe.tasks.BaseOptions(model_asset_path=str(path)),
            min_detection_confidence=self.min_confidence,
            min_suppression_threshold=self.overlap_threshold,
        )
        create = mediapipe.tasks.vision.FaceDetector.create_from_options
        try:
            create(options).close()
        except Exception as error:  # it raises several sorts, for a damaged file and for another network
            raise WeightsError(f"MediaPipe cannot read {str(path)!r} as a face detector: {error}") from error

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            results = []
            # One for each batch costs some milliseconds; one left to the end of the process prints errors there.
            with create(options) as detector:
                for frame in frames:
                    pixels = np.ascontiguousarray(frame.pixels)
                    image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=pixels)
                    results.append(boxes_of(detector.detect(image).detections, pixels))
            return results

        return detect


def boxes_of(detections: Sequence[Any], pixels: NDArray[np.uint8]) -> Arrays:
    """Turn MediaPipe's detections on an image (height, width, 3) into boxes."""
    height, width = pixels.shape[:2]
    corners, scores, landmarks = [], [], []
    for found in detections:
        box = found.bounding_box
        corners.append((box.origin_x, box.origin_y, box.origin_x + box.width, box.origin_y + box.height))
        scores.append(found.categories[0].score)
        landmarks.append([(point.x * width, point.y * height) for point in found.keypoints or ()])
    return boxes(corners, scores, np.asarray(landmarks, np.float32))
