"""Face boxes by small networks: YuNet through onnxruntime, and BlazeFace through MediaPipe."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.networks.onnx_networks import open_session, session_device
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.perception.torch_settings import OF_THE_FILE
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import MEDIAPIPE_FACES_FULL_RANGE, MEDIAPIPE_FACES_SHORT_RANGE, YUNET_FACES
from detector_bench.weights.files import WeightsField

_STRIDES = (8, 16, 32)
_MULTIPLE = 32
_POINTS = 5
_MOST_CANDIDATES = 5000

Floats = NDArray[np.float32]


class YuNetFaces(Stage):
    """YuNet (Wu et al., Machine Intelligence Research 2023), trained on faces of 10 to 300 pixels.

    The boxes are those of OpenCV's `FaceDetectorYN`, in a third of its time on a CPU.

    Finds turned and partly hidden faces too; some milliseconds per image. Much larger faces escape it: of 47
    portraits whose face it finds at 480 pixels, it finds 16 when they are enlarged to 2048. So larger images are
    shrunk first. Scores are in [0, 1]. Landmarks: right eye, left eye, nose tip, right and left corner of the
    mouth, as the person has them. The surest face comes first.
    """

    kind: ClassVar[str] = "yunet_faces"
    # 1 ran through OpenCV, which adds up in another order: boxes differ in their last digits.
    version: ClassVar[int] = 2
    extra: ClassVar[str | None] = "onnx"
    modules: ClassVar[tuple[str, ...]] = ("onnxruntime", "cv2")
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "float32"

    network: WeightsField = YUNET_FACES
    score_threshold: float = Field(default=0.7, ge=0, le=1)
    """Lowest score that counts as a face."""
    overlap_threshold: float = Field(default=0.3, gt=0, le=1)
    """Of two boxes that overlap by more than this (intersection over union), only the surer one is kept."""
    longest_side: int | None = Field(default=640, ge=32)
    """Larger images are shrunk to this many pixels first; None leaves them as they are."""

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where onnxruntime computes on this machine."""
        return session_device()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        cv2 = require("cv2", extra=self.extra)
        path = weights.locate(self.network)
        session = open_session(path)
        input_name = _input_of(session, path)
        names = [f"{head}_{stride}" for head in ("cls", "obj", "bbox", "kps") for stride in _STRIDES]

        def detect_one(frame: Frame) -> Arrays:
            image, shrink = self._shrunk(cv2, frame.pixels)
            height, width = (-(-side // _MULTIPLE) * _MULTIPLE for side in image.shape[:2])
            values = np.zeros((1, 3, height, width), np.float32)
            values[0, :, : image.shape[0], : image.shape[1]] = image[..., ::-1].transpose(2, 0, 1)
            heads = dict(zip(names, session.run(names, {input_name: values}), strict=True))
            found = self._without_overlaps(cv2, self._candidates(heads, height=height, width=width))
            corners = np.column_stack([found[:, :2], found[:, :2] + found[:, 2:4]])
            return boxes(corners / shrink, found[:, 14], found[:, 4:14] / shrink)

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            return [detect_one(frame) for frame in frames]

        return detect

    def _shrunk(self, cv2: Any, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float]:
        height, width = pixels.shape[:2]
        if self.longest_side is None or max(height, width) <= self.longest_side:
            return pixels, 1.0
        shrink = self.longest_side / max(height, width)
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), shrink

    def _candidates(self, heads: dict[str, Any], *, height: int, width: int) -> Floats:
        """Every place with a score of a face: left, top, width, height, landmarks (x, y), score; (places, 15)."""
        found = []
        for stride in _STRIDES:
            whole = {name: heads[f"{name}_{stride}"][0] for name in ("cls", "obj", "bbox", "kps")}
            scores = np.sqrt(whole["cls"][:, 0].clip(0, 1) * whole["obj"][:, 0].clip(0, 1))
            kept = np.flatnonzero(scores >= self.score_threshold)
            places = _places(height // stride, width // stride)[kept]
            centre = (places + whole["bbox"][kept, :2]) * np.float32(stride)
            size = np.exp(whole["bbox"][kept, 2:]) * np.float32(stride)
            points = (whole["kps"][kept] + np.tile(places, _POINTS)) * np.float32(stride)
            found.append(np.column_stack([centre - size / 2, size, points, scores[kept]]))
        return np.concatenate(found)

    def _without_overlaps(self, cv2: Any, found: Floats) -> Floats:
        if len(found) <= 1:
            return found
        # OpenCV's detector compares boxes in whole pixels.
        kept = cv2.dnn.NMSBoxes(
            found[:, :4].astype(np.int32).tolist(),
            found[:, 14].tolist(),
            self.score_threshold,
            self.overlap_threshold,
            top_k=_MOST_CANDIDATES,
        )
        chosen: Floats = found[np.asarray(kept, dtype=int).reshape(-1)]
        return chosen


@lru_cache(maxsize=64)
def _places(rows: int, columns: int) -> Floats:
    """Column and row of every place of a head, in the order of its output; (rows x columns, 2)."""
    row, column = np.indices((rows, columns), np.float32).reshape(2, -1)
    return np.column_stack([column, row])


def _input_of(session: Any, path: Path) -> str:
    """The name of the network's input, if it is one that this stage can read."""
    outputs = {entry.name for entry in session.get_outputs()}
    wanted = {f"{head}_{stride}" for head in ("cls", "obj", "bbox", "kps") for stride in _STRIDES}
    inputs = session.get_inputs()
    if len(inputs) != 1 or not wanted <= outputs:
        raise WeightsError(
            f"{str(path)!r} is no YuNet network: it gives {', '.join(sorted(outputs))}; "
            f"needed are cls, obj, bbox and kps for the strides {', '.join(map(str, _STRIDES))}"
        )
    if any(isinstance(size, int) for size in inputs[0].shape[2:]):
        raise WeightsError(
            f"{str(path)!r} takes images of the shape {inputs[0].shape} alone; one with free height and width is "
            "needed, such as OpenCV's of 2026"
        )
    return str(inputs[0].name)


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
