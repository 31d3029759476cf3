"""Person boxes by a YOLO network trained on COCO."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.extras import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.onnx_session import open_session
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsFile, WeightsLocator
from detector_bench.weights.catalogue import YOLOV8N_PERSONS
from detector_bench.weights.files import WeightsField

_PERSON = 0  # class number in COCO
_LETTERBOX_GREY = 114
_NO_LIMIT = 30_000


class YoloPersons(Stage):
    """YOLOv8 (or a later one with the same output) finding persons.

    An `.onnx` file runs through onnxruntime, a `.pt` file through ultralytics. Either way: the image is shrunk
    or enlarged to fit a square of `image_size` with grey bars; candidates go for which person is not the likeliest
    class, or not likelier than `confidence`; of boxes that overlap by more than `overlap_threshold` the surest
    stays. The `.onnx` export gives 4 + classes rows per candidate (centre x, centre y, width, height, scores),
    before suppression of overlaps.

    A `.pt` file is a pickle, which can run code when it is loaded. It is loaded in ultralytics' restricted mode,
    and refused where the installed version has none. ultralytics and its networks are licensed AGPL-3.0.
    """

    kind: ClassVar[str] = "yolo_persons"
    images_per_call: ClassVar[int | None] = 8

    network: WeightsField = YOLOV8N_PERSONS
    confidence: float = Field(default=0.25, ge=0, le=1)
    """A person's score is above this."""
    overlap_threshold: float = Field(default=0.7, gt=0, le=1)
    """Intersection over union above which two boxes are taken for one person."""
    image_size: int = Field(default=640, ge=32, multiple_of=32)
    """Side of the network's input in pixels."""

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that the file's format needs."""
        return "yolo" if self._through_ultralytics else "onnx"

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the file's format needs."""
        return ("ultralytics",) if self._through_ultralytics else ("onnxruntime", "cv2")

    @property
    def _through_ultralytics(self) -> bool:
        return self.network.path.endswith(".pt")

    def weights(self) -> tuple[WeightsFile, ...]:
        """The network's file."""
        return (self.network,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        path = weights.locate(self.network)
        return self._load_ultralytics(path) if self._through_ultralytics else self._load_onnx(path)

    def _load_onnx(self, path: Path) -> StageFunction:
        cv2 = require("cv2", extra=self.extra)
        session = open_session(path)
        self._check(path, session)
        name = session.get_inputs()[0].name

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            return [self._detect_one(cv2, session, name, frame) for frame in frames]

        return detect

    def _check(self, path: Path, session: Any) -> None:
        """Refuse a network with another input, another sort of output, or other classes."""
        entry, side = session.get_inputs()[0], self.image_size
        if entry.type != "tensor(float)" or not _fits(entry.shape, [1, 3, side, side]):
            raise ConfigError(
                f"{path.name} takes {entry.type} of the shape {entry.shape}; float32 of the shape "
                f"{[1, 3, side, side]} is needed: correct image_size, or export the network again"
            )
        shape = session.get_outputs()[0].shape
        # With its own suppression of overlaps built in, a network gives 6 numbers for each of some hundred boxes.
        if not _fits(shape, [1, None, None]) or shape[2] == 6 or (isinstance(shape[1], int) and shape[1] < 5):
            raise ConfigError(
                f"{path.name} gives {shape} instead of [1, 4 + classes, candidates]: export a network for "
                "detection without suppression of overlaps (nms=False, end2end=False)"
            )
        facts = session.get_modelmeta().custom_metadata_map
        if facts.get("task", "detect") != "detect":
            raise ConfigError(f"{path.name} is a network for {facts['task']!r}; one for 'detect' is needed")
        if "names" in facts:
            _check_classes(path, ast.literal_eval(facts["names"]))

    def _detect_one(self, cv2: Any, session: Any, input_name: str, frame: Frame) -> Arrays:
        canvas, scale, offset = letterbox(cv2, frame.pixels, side=self.image_size)
        values = np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32)
        values /= 255
        candidates = session.run(None, {input_name: values})[0][0].T
        scores = candidates[:, 4 + _PERSON]
        kept = np.flatnonzero((scores > self.confidence) & (scores >= candidates[:, 4:].max(axis=1)))
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
        corners = (corners - np.array([*offset, *offset])) / np.array([*scale, *scale])
        image_height, image_width = frame.pixels.shape[:2]
        corners[:, 0::2] = corners[:, 0::2].clip(0, image_width)
        corners[:, 1::2] = corners[:, 1::2].clip(0, image_height)
        return boxes(corners, scores[kept][chosen])

    def _load_ultralytics(self, path: Path) -> StageFunction:
        ultralytics = _restricted_ultralytics()
        try:
            model = ultralytics.YOLO(str(path), task="detect")
        except Exception as error:  # ultralytics raises many sorts, for a damaged file and for a refused one
            raise WeightsError(f"ultralytics cannot read {str(path)!r}: {error}") from error
        _check_classes(path, model.names)

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            found = model.predict(
                # ultralytics takes arrays for BGR, as OpenCV reads them.
                [np.ascontiguousarray(frame.pixels[..., ::-1]) for frame in frames],
                conf=self.confidence,
                iou=self.overlap_threshold,
                imgsz=self.image_size,
                # Else the bars would depend on which other images are in the batch.
                rect=False,
                classes=[_PERSON],
                max_det=_NO_LIMIT,
                verbose=False,
            )
            return [boxes(one.boxes.xyxy.cpu().numpy(), one.boxes.conf.cpu().numpy()) for one in found]

        return detect


def letterbox(
    cv2: Any, pixels: NDArray[np.uint8], *, side: int
) -> tuple[NDArray[np.uint8], tuple[float, float], tuple[int, int]]:
    """Fit an image into a grey square without changing its proportions.

    Returns:
        The square, the scale that was applied in x and in y (they differ by rounding to whole pixels), and the
        (x, y) position of the image in the square.
    """
    height, width = pixels.shape[:2]
    scale = min(side / height, side / width)
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (side - new_width) // 2, (side - new_height) // 2
    canvas = np.full((side, side, 3), _LETTERBOX_GREY, np.uint8)
    resized = cv2.resize(pixels, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    canvas[top : top + new_height, left : left + new_width] = resized
    return canvas, (new_width / width, new_height / height), (left, top)


def _fits(shape: Sequence[int | str | None], wanted: Sequence[int | None]) -> bool:
    """Whether a network's declared shape, in which free sizes have names, allows the wanted one."""
    return len(shape) == len(wanted) and all(
        want is None or not isinstance(size, int) or size == want for size, want in zip(shape, wanted, strict=True)
    )


def _check_classes(path: Path, names: Mapping[int, str]) -> None:
    if names[_PERSON] != "person":
        raise ConfigError(f"{path.name}: class {_PERSON} of the network is {names[_PERSON]!r}, not 'person'")


def _restricted_ultralytics() -> Any:
    # Read when ultralytics is imported: load nothing but known classes, install nothing, send nothing.
    for variable, value in {
        "ULTRALYTICS_SAFE_LOAD": "true",
        "YOLO_AUTOINSTALL": "false",
        "YOLO_OFFLINE": "true",
    }.items():
        os.environ.setdefault(variable, value)
    ultralytics = require("ultralytics", extra="yolo")
    asked = getattr(require("ultralytics.utils", extra="yolo"), "SAFE_LOAD", False)
    # Without this function of PyTorch 2.6, ultralytics falls back to unrestricted loading.
    able = hasattr(require("torch.serialization", extra="yolo"), "get_unsafe_globals_in_checkpoint")
    if not asked or not able:
        raise WeightsError(
            "a .pt file can run code when it is loaded, and the installed ultralytics would let it: install newer "
            "versions of ultralytics and torch, set ULTRALYTICS_SAFE_LOAD=true, or export the network to .onnx"
        )
    return ultralytics
