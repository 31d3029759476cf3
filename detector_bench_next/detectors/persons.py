"""Persons and faces by a YOLO network: one run of it for all stages that ask for its boxes.

An `.onnx` file runs through onnxruntime, a `.pt` file through ultralytics. Either way: the image is fitted into
a square with grey bars; candidates go for which neither person nor face is the likeliest class, or that are not
likelier than `confidence`; of boxes of one class that overlap by more than `overlap_threshold` the surest stays.
Classes are found by their names in the network's own list; an `.onnx` file without one is taken for one of COCO,
whose class 0 is person.
"""

from __future__ import annotations

import ast
import contextlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from platformdirs import user_cache_path
from pydantic import Field

from detector_bench_next.detector import Arrays, Frame, Place, Stage, WeightsField
from detector_bench_next.detectors.boxes import boxes, letterbox
from detector_bench_next.detectors.networks import exact_convolutions, onnx_place, open_session, torch_place
from detector_bench_next.errors import ConfigError, WeightsError, require
from detector_bench_next.registry import register
from detector_bench_next.weights import Weights, Where

CLASSES = ("person", "face")
_SHARED_CONFIDENCE = 0.25
_MOST = 1_000_000  # characters of a list of names, and classes
Run = Callable[[Sequence[Frame]], list[Arrays]]


class _Yolo(Stage):
    """Fields of the network's run and of the stages that pick one class out of it."""

    network: WeightsField = Weights(path="yolov8n.pt")
    confidence: float = Field(default=0.25, ge=0, le=1)
    """A box's score is above this."""
    overlap_threshold: float = Field(default=0.7, gt=0, le=1)
    """Intersection over union above which two boxes of a class are taken for one person or face."""
    image_size: int = Field(default=640, ge=32, multiple_of=32)
    """Side of the network's input in pixels."""


@register("stage", "yolo_boxes")
class YoloBoxes(_Yolo):
    """Persons and faces of a YOLO network: boxes, surest first, with `classes` [box] and `known` [class].

    `classes` are positions in `CLASSES`; `known` says which of them the network knows. A `.pt` file is a pickle:
    it is loaded in ultralytics' restricted mode, or refused. ultralytics and its networks are licensed AGPL-3.0.
    """

    per_call: ClassVar[int | None] = 8

    @property
    def _pickled(self) -> bool:
        return self.network.path.endswith(".pt")

    @property
    def extra(self) -> str:  # type: ignore[override]
        """Extra that brings the packages."""
        return "yolo" if self._pickled else "onnx"

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """Packages that the file's format needs."""
        return ("ultralytics",) if self._pickled else ("onnxruntime", "cv2")

    @property
    def threadsafe(self) -> bool:  # type: ignore[override]
        """False through ultralytics, which keeps an image's state in its model."""
        return not self._pickled

    @property
    def place(self) -> Place:  # type: ignore[override]
        """Where the runtime computes."""
        return torch_place("auto") if self._pickled else onnx_place()

    def load(self, where: Where) -> Run:
        """Read the network; see `Stage.load`."""
        path = where.locate(self.network)
        return self._load_pickled(path) if self._pickled else self._load_onnx(path, where.threads)

    def _load_onnx(self, path: Path, threads: int) -> Run:
        cv2, session, side = require("cv2", "onnx"), open_session(path, threads), self.image_size
        numbers, name = _checked(path, session, side), session.get_inputs()[0].name

        def detect(frame: Frame) -> Arrays:
            canvas, scale, offset = letterbox(cv2, frame.pixels, side=side)
            values = np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32)
            values /= 255
            candidates = session.run(None, {name: values})[0][0].T  # [candidate, 4 + class]
            likeliest, found = candidates[:, 4:].max(axis=1), []
            for position, number in numbers.items():
                scores = candidates[:, 4 + number]
                kept = np.flatnonzero((scores > self.confidence) & (scores >= likeliest))
                x, y, width, height = candidates[kept, :4].T
                left, top, scores = x - width / 2, y - height / 2, scores[kept]
                places = np.stack([left, top, width, height], axis=1).tolist()
                chosen = cv2.dnn.NMSBoxes(places, scores.tolist(), self.confidence, self.overlap_threshold)
                corners = np.stack([left, top, left + width, top + height, scores], axis=1)
                found += [(position, *corners[at]) for at in np.asarray(chosen, int).reshape(-1)]
            # The surest first, in float32 as the network gives them; in the letterbox until here.
            rows = np.array(sorted(found, key=lambda row: -row[5])).reshape(-1, 6)
            corners = (rows[:, 1:5] - np.array([*offset, *offset])) / np.array([*scale, *scale])
            height, width = frame.pixels.shape[:2]
            return _result(corners.clip(0, [width, height, width, height]), rows[:, 5], rows[:, 0], numbers)

        return lambda frames: [detect(frame) for frame in frames]

    def _load_pickled(self, path: Path) -> Run:
        torch, model = require("torch", "yolo"), _through_ultralytics(path)
        numbers = _numbers(path, model.names)
        positions = {number: position for position, number in numbers.items()}
        # rect: else the bars would depend on which other images are in the batch. max_det: no limit.
        settings: dict[str, Any] = {"rect": False, "max_det": 30_000, "verbose": False, "imgsz": self.image_size}
        settings |= {"conf": self.confidence, "iou": self.overlap_threshold, "classes": list(positions)}

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            with exact_convolutions(torch):  # arrays are taken for BGR, as OpenCV reads them
                images = [np.ascontiguousarray(frame.pixels[..., ::-1]) for frame in frames]
                found = [one.boxes.cpu().numpy() for one in model.predict(images, **settings)]
            classes = [np.array([positions[int(number)] for number in one.cls], int) for one in found]
            return [_result(one.xyxy, one.conf, own, numbers) for one, own in zip(found, classes, strict=True)]

        return detect


class _View(_Yolo):
    """Boxes of one class, picked out of `yolo_boxes`: no work of its own.

    The network runs with a confidence of 0.25, or this stage's where that is lower, so that stages with several
    thresholds share its run. Only surer boxes suppress one, so unsure ones may go before that or here.
    """

    version: ClassVar[int] = YoloBoxes.version
    needs_pixels: ClassVar[bool] = False
    cached: ClassVar[bool] = False
    threadsafe: ClassVar[bool] = True
    name: ClassVar[str]

    @cached_property
    def run(self) -> YoloBoxes:
        """The stage that runs the network, once for all classes."""
        fields = {name: getattr(self, name) for name in _Yolo.model_fields}
        return YoloBoxes(**{**fields, "confidence": min(self.confidence, _SHARED_CONFIDENCE)})

    def stages(self) -> tuple[Stage, ...]:
        """The network's run alone."""
        return (self.run,)

    def load(self, where: Where) -> Run:  # noqa: ARG002 - the network is the run's
        """Load nothing; a network that does not know the class is refused at the first image."""
        position = CLASSES.index(self.name)

        def pick(frame: Frame) -> Arrays:
            found = frame[self.run]
            if not found["known"][position]:
                raise ConfigError(
                    f"{Path(self.network.path).name} knows no class {self.name!r}, which {self.kind} needs: "
                    "give a network that was trained to find it"
                )
            chosen = (found["classes"] == position) & (found["scores"] > self.confidence)
            return boxes(found["corners"][chosen], found["scores"][chosen])

        return lambda frames: [pick(frame) for frame in frames]


@register("stage", "yolo_persons")
class YoloPersons(_View):
    """Boxes of persons by a YOLO network; see `YoloBoxes`. YOLOv8n boxes a person twice at 0.7: take 0.5 there."""

    name: ClassVar[str] = "person"


@register("stage", "yolo_faces")
class YoloFaces(_View):
    """Boxes of faces by a YOLO network that was trained to find them, as MiVOLO's own; see `YoloBoxes`."""

    name: ClassVar[str] = "face"


def _result(corners: Any, scores: Any, classes: Any, numbers: Mapping[int, int]) -> Arrays:
    known = np.array([position in numbers for position in range(len(CLASSES))])
    return {**boxes(corners, scores), "classes": classes.astype(np.int64), "known": known}


def _numbers(path: Path, said: Any) -> dict[int, int]:
    """The network's numbers of the classes that it knows, by position in `CLASSES`, out of its list of names."""
    names = dict(enumerate(said)) if isinstance(said, list | tuple) else said
    if not isinstance(names, dict) or not all(
        type(number) is int and 0 <= number < _MOST and isinstance(name, str) for number, name in names.items()
    ):
        raise WeightsError(
            f"{path.name}: its class names are {str(said)[:80]!r}, accepted: a mapping such as "
            "{0: 'person', 1: 'face'}: export the network again"
        )
    by_name = {name: number for number, name in names.items()}
    numbers = {position: by_name[name] for position, name in enumerate(CLASSES) if name in by_name}
    if not numbers:
        listed = ", ".join(" ".join(name[:40].split()) for name in list(names.values())[:5])
        raise ConfigError(f"{path.name} finds neither 'person' nor 'face'; its classes begin with: {listed}")
    return numbers


def _checked(path: Path, session: Any, side: int) -> dict[int, int]:
    """The numbers of a network of the right sort, as a blank image proves: what it declares may be free."""
    facts = session.get_modelmeta().custom_metadata_map
    if (task := facts.get("task", "detect")) != "detect":
        raise ConfigError(f"{path.name} is a network for {task[:40]!r}; one for 'detect' is needed")
    names: Any = facts.get("names", "{0: 'person'}")
    unreadable = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
    # Python itself warns about text that is nearly a program.
    with contextlib.suppress(*unreadable), warnings.catch_warnings(action="ignore"):
        names = ast.literal_eval(names if len(names) <= _MOST else "")
    numbers, blank = _numbers(path, names), np.zeros((1, 3, side, side), np.float32)
    try:
        shape = session.run(None, {session.get_inputs()[0].name: blank})[0].shape
    except Exception as error:  # onnxruntime raises classes of its own compiled module
        raise ConfigError(
            f"{path.name} takes {session.get_inputs()[0].shape} and not float32 of {list(blank.shape)}: correct "
            "image_size, or export the network again"
        ) from error
    # With suppression of overlaps built in, a network gives 6 numbers for each of some hundred boxes.
    if len(shape) != 3 or shape[2] == 6 or shape[1] < 5 + max(numbers.values()):
        raise ConfigError(
            f"{path.name} gives {list(shape)} instead of [1, 4 + classes, candidates] with class "
            f"{max(numbers.values())} among them: export a network for detection without suppression of overlaps "
            "(nms=False, end2end=False)"
        )
    return numbers


def _through_ultralytics(path: Path) -> Any:
    """An `ultralytics.YOLO` for detection, read in its restricted mode.

    ultralytics reads its settings when it is imported: it loads only known classes, installs nothing, sends
    nothing, and keeps its settings file in this project's cache folder. Variables that are already set stay as
    they are. PyTorch's threads and OMP_NUM_THREADS, which it changes at import and at its first call, are given
    back.
    """
    wanted = "ULTRALYTICS_SAFE_LOAD=true YOLO_AUTOINSTALL=false YOLO_OFFLINE=true YOLO_VERBOSE=false"
    settings = dict(setting.split("=") for setting in wanted.split())
    settings["YOLO_CONFIG_DIR"] = str(user_cache_path("detector_bench") / "ultralytics")
    for variable, value in settings.items():
        os.environ.setdefault(variable, value)
    torch, own_threads = require("torch", "yolo"), os.environ.get("OMP_NUM_THREADS")
    threads = torch.get_num_threads()
    ultralytics = require("ultralytics", "yolo")
    if own_threads is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    asked = getattr(require("ultralytics.utils", "yolo"), "SAFE_LOAD", False)
    try:
        # Without this function of PyTorch 2.6, ultralytics falls back to unrestricted loading.
        if not asked or not hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint"):
            raise WeightsError(
                "a .pt file can run code when it is loaded, and the installed ultralytics would let it: install a "
                "newer ultralytics and torch, set ULTRALYTICS_SAFE_LOAD=true, or export the network to .onnx"
            )
        network = ultralytics.YOLO(str(path), task="detect")
        network.predict(np.zeros((32, 32, 3), np.uint8), imgsz=32, verbose=False)
    except WeightsError:
        raise
    except Exception as error:  # ultralytics raises many sorts, for a damaged file and for a refused one
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WeightsError(f"ultralytics cannot read {path.name!r}: {first}") from error
    else:
        return network
    finally:
        torch.set_num_threads(threads)
