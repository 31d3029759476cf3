"""Person and face boxes by a YOLO network: one run for all that ask for its boxes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.installation import require
from detector_bench.perception.boxes import boxes
from detector_bench.perception.networks.onnx_networks import open_session, session_device
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.perception.torch_settings import OF_THE_FILE, exact_convolutions
from detector_bench.perception.ultralytics_loading import device_of_ultralytics, load_network
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.catalogue import YOLOV8N_PERSONS
from detector_bench.weights.files import WeightsField

CLASSES = ("person", "face")
"""The classes that are looked for; a network need not know all of them."""

_SHARED_CONFIDENCE = 0.25
_LETTERBOX_GREY = 114
_NO_LIMIT = 30_000
_MOST_CLASSES = 1_000_000
_LONGEST_NAMES = 1_000_000  # characters


class YoloSettings(Stage):
    """What decides the boxes: the parameters of `yolo_boxes` and of the stages that pick one class out of it."""

    network: WeightsField = YOLOV8N_PERSONS
    confidence: float = Field(default=0.25, ge=0, le=1)
    """A box's score is above this."""
    overlap_threshold: float = Field(default=0.7, gt=0, le=1)
    """Intersection over union above which two boxes of a class are taken for one person or face."""
    image_size: int = Field(default=640, ge=32, multiple_of=32)
    """Side of the network's input in pixels."""


class YoloBoxes(YoloSettings):
    """YOLOv8 (or a later one with the same output) finding persons and faces.

    An `.onnx` file runs through onnxruntime, a `.pt` file through ultralytics. Either way: the image is shrunk
    or enlarged to fit a square of `image_size` with grey bars; candidates go for which neither person nor face is
    the likeliest class, or that are not likelier than `confidence`; of boxes of one class that overlap by more
    than `overlap_threshold` the surest stays. The `.onnx` export gives 4 + classes rows per candidate (centre x,
    centre y, width, height, scores), before suppression of overlaps.

    Classes are found by their names in the network's own list. A network of COCO knows persons and no faces; an
    `.onnx` file that carries no names is taken for one of COCO, whose class 0 is person.

    Gives the arrays of `boxes`, the surest box first, and besides

    - `classes`: (boxes,), the class of each box, as its position in `CLASSES`;
    - `known`: (classes,), for each of `CLASSES` whether the network knows it.

    A `.pt` file is a pickle, which can run code when it is loaded. It is loaded in ultralytics' restricted mode,
    and refused where the installed version has none. ultralytics and its networks are licensed AGPL-3.0.
    """

    kind: ClassVar[str] = "yolo_boxes"
    images_per_call: ClassVar[int | None] = 8

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

    @property
    def precision_taken(self) -> str:  # type: ignore[override]
        """float32 through ultralytics; an `.onnx` file fixes its own."""
        return "float32" if self._through_ultralytics else OF_THE_FILE

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where ultralytics or onnxruntime runs the network."""
        return device_of_ultralytics() if self._through_ultralytics else session_device()

    @property
    def lanes(self) -> bool:  # type: ignore[override]
        """Through onnxruntime; ultralytics keeps one image's state in its model."""
        return not self._through_ultralytics

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        path = weights.locate(self.network)
        return self._load_ultralytics(path) if self._through_ultralytics else self._load_onnx(path)

    def _load_onnx(self, path: Path) -> StageFunction:
        cv2 = require("cv2", extra=self.extra)
        session = open_session(path)
        numbers = self._check(path, session)
        name = session.get_inputs()[0].name

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            return [self._detect_one(cv2, session, name, frame, numbers) for frame in frames]

        return detect

    def _check(self, path: Path, session: Any) -> dict[int, int]:
        """Refuse a network with another input, another sort of output, or other classes; see `_class_numbers`."""
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
            raise ConfigError(f"{path.name} is a network for {facts['task'][:40]!r}; one for 'detect' is needed")
        numbers = _class_numbers(path, _names(path, facts["names"]) if "names" in facts else {0: "person"})
        if isinstance(shape[1], int):
            _check_classes(path.name, numbers, classes=shape[1] - 4)
        return numbers

    def _detect_one(
        self, cv2: Any, session: Any, input_name: str, frame: Frame, numbers: Mapping[int, int]
    ) -> Arrays:
        canvas, scale, offset = letterbox(cv2, frame.pixels, side=self.image_size)
        values = np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32)
        values /= 255
        candidates = session.run(None, {input_name: values})[0][0].T
        _check_classes(self.network.name, numbers, classes=candidates.shape[1] - 4)
        likeliest = candidates[:, 4:].max(axis=1)
        found = [self._of_class(cv2, candidates, likeliest, number) for number in numbers.values()]
        corners = np.concatenate([each for each, _ in found])
        scores = np.concatenate([each for _, each in found])
        classes = np.repeat(list(numbers), [len(each) for _, each in found])
        corners = (corners - np.array([*offset, *offset])) / np.array([*scale, *scale])
        height, width = frame.pixels.shape[:2]
        corners[:, 0::2] = corners[:, 0::2].clip(0, width)
        corners[:, 1::2] = corners[:, 1::2].clip(0, height)
        surest_first = np.argsort(-scores, kind="stable")
        return _result(corners[surest_first], scores[surest_first], classes[surest_first], known=numbers)

    def _of_class(
        self, cv2: Any, candidates: NDArray[Any], likeliest: NDArray[Any], number: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Corners in the letterbox and scores of one class's boxes, without overlaps."""
        scores = candidates[:, 4 + number]
        kept = np.flatnonzero((scores > self.confidence) & (scores >= likeliest))
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
        corners = np.stack([left, top, left + width, top + height], axis=1)
        return corners[chosen], scores[kept][chosen]

    def _load_ultralytics(self, path: Path) -> StageFunction:
        torch, model = require("torch", extra=self.extra), load_network(path)
        numbers = _class_numbers(path, _checked_names(path, model.names, shown=repr(model.names)))
        positions = {number: position for position, number in numbers.items()}

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            with exact_convolutions(torch):
                found = model.predict(
                    # ultralytics takes arrays for BGR, as OpenCV reads them.
                    [np.ascontiguousarray(frame.pixels[..., ::-1]) for frame in frames],
                    conf=self.confidence,
                    iou=self.overlap_threshold,
                    imgsz=self.image_size,
                    # Else the bars would depend on which other images are in the batch.
                    rect=False,
                    classes=list(positions),
                    max_det=_NO_LIMIT,
                    verbose=False,
                )
            return [
                _result(
                    one.boxes.xyxy.cpu().numpy(),
                    one.boxes.conf.cpu().numpy(),
                    np.array([positions[int(number)] for number in one.boxes.cls], int),
                    known=numbers,
                )
                for one in found
            ]

        return detect


class YoloView(YoloSettings):
    """The boxes of one class, picked out of `yolo_boxes`: no work of its own.

    The network runs with a confidence of 0.25, or with this stage's where that is lower, so that stages with
    several thresholds share its run. A box is suppressed only by surer ones, so that it makes no difference
    whether the unsure ones go before that or here.
    """

    version: ClassVar[int] = YoloBoxes.version
    lanes: ClassVar[bool] = True
    cached: ClassVar[bool] = False
    needs_pixels: ClassVar[bool] = False
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"
    name: ClassVar[str]
    """The class of boxes that it picks, as the network calls it."""

    @property
    def all_boxes(self) -> YoloBoxes:
        """The stage that runs the network."""
        fields = {field: getattr(self, field) for field in YoloSettings.model_fields}
        return YoloBoxes(**{**fields, "confidence": min(self.confidence, _SHARED_CONFIDENCE)})

    def inputs(self) -> tuple[Stage, ...]:
        """The stage that runs the network once for all classes."""
        return (self.all_boxes,)

    def weights(self) -> tuple[Weights, ...]:
        """None of its own: the network is read for the boxes of all classes."""
        return ()

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Read nothing; the returned function raises `ConfigError` if the network does not know the class."""
        source, position = self.all_boxes, CLASSES.index(self.name)

        def pick(frames: Sequence[Frame]) -> list[Arrays]:
            return [self._of_class(frame[source], position) for frame in frames]

        return pick

    def _of_class(self, found: Arrays, position: int) -> Arrays:
        if not found["known"][position]:
            raise ConfigError(
                f"{self.network.name} knows no class {self.name!r}, which {self.kind} needs: "
                "give a network that was trained to find it"
            )
        chosen = (found["classes"] == position) & (found["scores"] > self.confidence)
        return boxes(found["corners"][chosen], found["scores"][chosen])


def letterbox(
    cv2: Any, pixels: NDArray[np.uint8], *, side: int, bars: int = _LETTERBOX_GREY
) -> tuple[NDArray[np.uint8], tuple[float, float], tuple[int, int]]:
    """Fit an image into a grey square without changing its proportions.

    Args:
        cv2: the OpenCV module.
        pixels: the image, (height, width, 3).
        side: of the square, in pixels.
        bars: the grey of the bars, 0 to 255.

    Returns:
        The square, the scale that was applied in x and in y (they differ by rounding to whole pixels), and the
        (x, y) position of the image in the square.
    """
    height, width = pixels.shape[:2]
    scale = min(side / height, side / width)
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (side - new_width) // 2, (side - new_height) // 2
    canvas = np.full((side, side, 3), bars, np.uint8)
    resized = cv2.resize(pixels, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    canvas[top : top + new_height, left : left + new_width] = resized
    return canvas, (new_width / width, new_height / height), (left, top)


def _fits(shape: Sequence[int | str | None], wanted: Sequence[int | None]) -> bool:
    """Whether a network's declared shape, in which free sizes have names, allows the wanted one."""
    return len(shape) == len(wanted) and all(
        want is None or not isinstance(size, int) or size == want for size, want in zip(shape, wanted, strict=True)
    )


def _names(path: Path, text: str) -> dict[int, str]:
    """The class names that an `.onnx` file carries as text, by their numbers."""
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's own, about text that is nearly a program
            names = ast.literal_eval(text) if len(text) <= _LONGEST_NAMES else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        names = None
    return _checked_names(path, names, shown=text)


def _checked_names(path: Path, names: Any, *, shown: str) -> dict[int, str]:
    if isinstance(names, list | tuple):
        names = dict(enumerate(names))
    fits = isinstance(names, dict) and all(
        type(number) is int and 0 <= number < _MOST_CLASSES and isinstance(name, str)
        for number, name in names.items()
    )
    if not fits:
        raise WeightsError(
            f"{path.name}: its class names are {shown[:80]!r}, expected a mapping such as "
            "{0: 'person', 1: 'face'}: export the network again"
        )
    return dict(names)


def _check_classes(name: str, numbers: Mapping[int, int], *, classes: int) -> None:
    """Refuse numbers that the output has no row for."""
    highest = max(numbers.values())
    if highest >= classes:
        raise WeightsError(
            f"{name} lists class {highest} of {highest + 1}, but its output has {classes}: "
            "export the network again"
        )


def _class_numbers(path: Path, names: Mapping[int, str]) -> dict[int, int]:
    """The network's numbers of the classes that it knows, by their position in `CLASSES`."""
    by_name = {name: number for number, name in names.items()}
    numbers = {position: by_name[name] for position, name in enumerate(CLASSES) if name in by_name}
    if not numbers:
        listed = ", ".join(" ".join(name[:40].split()) for name in list(names.values())[:5])
        raise ConfigError(f"{path.name} finds neither 'person' nor 'face'; its classes begin with: {listed}")
    return numbers


def _result(
    corners: NDArray[Any], scores: NDArray[Any], classes: NDArray[Any], *, known: Mapping[int, int]
) -> Arrays:
    return {
        **boxes(corners, scores),
        "classes": classes.astype(np.int64),
        "known": np.array([position in known for position in range(len(CLASSES))]),
    }


class YoloPersons(YoloView):
    """Persons found by a YOLO network; how, and with which parameters: see `YoloBoxes`.

    A network that knows no class `person` is refused.
    """

    kind: ClassVar[str] = "yolo_persons"
    name: ClassVar[str] = "person"


class YoloFaces(YoloView):
    """Faces found by a YOLO network that was trained to find them, as MiVOLO's own; see `YoloBoxes`.

    A network that knows no class `face`, as those of COCO, is refused.
    """

    kind: ClassVar[str] = "yolo_faces"
    name: ClassVar[str] = "face"
