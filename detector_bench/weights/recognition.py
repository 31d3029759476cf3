"""Says what a file of weights is, by what it holds and not by what it is called.

First by its sha256. Of files whose authors publish none, by the names and shapes of their tensors, which are read
without running anything of the file.
"""

from __future__ import annotations

import json
import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from detector_bench.errors import DetectorBenchError, WeightsError
from detector_bench.installation import is_installed, require
from detector_bench.weights.catalogue import (
    CATALOGUE,
    FAIRFACE_RACE4,
    FAIRFACE_RACE7,
    MIVOLO_IMDB,
    YOLOV8X_PERSONS,
    YOLOV8X_PERSONS_AND_FACES,
)
from detector_bench.weights.files import Checkpoint, WeightsFile, sha256_of
from detector_bench.weights.side_files import side_files
from detector_bench.weights.torch_files import read_tensors

_MOST_PICKLE_BYTES = 4 * 1024**2
"""Those of ultralytics have a tenth of it; each byte may be an operation of its own."""
_TORCH = (".pt", ".pth", ".tar", ".bin", ".ckpt", ".safetensors")


class Recognised(NamedTuple):
    """What a file or folder is.

    Attributes:
        what: in words.
        meant: the known weights that it may be: one, or none, or several that its content does not tell apart.
    """

    what: str
    meant: tuple[WeightsFile | Checkpoint, ...] = ()


def recognise(path: Path) -> Recognised:
    """Say what a file of weights, or a folder with a checkpoint, is.

    Raises:
        WeightsError: there is nothing, or it cannot be read.
    """
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise WeightsError(f"there is no file {str(path)!r}")
    content = sha256_of(path)
    for file in CATALOGUE.values():
        if isinstance(file, WeightsFile) and file.sha256 == content:
            return Recognised(f"{file.name}, by its sha256", (file,))
    if path.suffix == ".onnx":
        return _onnx(path)
    return _of_torch(path) if path.suffix in _TORCH else Recognised(f"a file of {path.stat().st_size:,} bytes")


def _folder(path: Path) -> Recognised:
    for known in CATALOGUE.values():
        if isinstance(known, Checkpoint) and known.complete_in(path):
            differing = [name for name, pin in known.sha256.items() if sha256_of(path / name) != pin]
            if not differing:
                return Recognised(f"{known.name}, by the sha256 of {', '.join(known.sha256)}", (known,))
    try:
        settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
        sort = str(settings.get("model_type", "without a model_type"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return Recognised("a folder without a config.json that can be read")
    return Recognised(f"a checkpoint of transformers ({sort[:100]}), of which the content is not known")


def _onnx(path: Path) -> Recognised:
    if not is_installed("onnxruntime"):
        return Recognised("an ONNX file; install 'detector-bench[onnx]' to see its inputs and outputs")
    runtime = require("onnxruntime", extra="onnx")
    try:
        side_files(path)  # which refuses what leads out of its folder
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - onnxruntime's own sorts
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return Recognised(f"no ONNX network that can be loaded: {first[:300]}")
    inputs, outputs = (
        ", ".join(f"{each.name} {each.shape}" for each in found)
        for found in (session.get_inputs(), session.get_outputs())
    )
    return Recognised(f"an ONNX network with the inputs {inputs} and the outputs {outputs}")


def _of_torch(path: Path) -> Recognised:
    if path.suffix != ".safetensors" and (yolo := _yolo(path)) is not None:
        return yolo
    try:
        held = read_tensors(path, extra="torch")
    except DetectorBenchError as error:
        return Recognised(f"a file of tensors that cannot be read: {error}")
    state = held.content
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    shapes = {name: list(each.shape) for name, each in _tensors(state).items()}
    if shapes.get("fc.weight") == [18, 512] and shapes.get("conv1.weight") == [64, 3, 7, 7]:
        return _fairface(path)
    if len(shapes.get("pos_embed", [])) > 1 and "patch_embed.conv1.0.weight" in shapes:
        side = shapes["pos_embed"][1] * 16
        meant = (MIVOLO_IMDB,) if shapes.get("head.weight", [])[:1] == [3] and side == 224 else ()
        return Recognised(f"a MiVOLO of {side} pixels", meant)
    if not shapes:
        return Recognised("a file of PyTorch without tensors by name")
    first = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:3])
    return Recognised(f"{len(shapes)} tensors of PyTorch: {first}{', ...' if len(shapes) > 3 else ''}")


def _tensors(state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        return {}
    tensor = require("torch", extra="torch").Tensor  # other sorts may have a shape of any form
    return {str(name): each for name, each in state.items() if isinstance(each, tensor)}


def _fairface(path: Path) -> Recognised:
    """Both networks have 18 outputs: only the name tells which of them a file is."""
    what = "FairFace's network, a ResNet-34 with 18 outputs"
    for races, file in ((7, FAIRFACE_RACE7), (4, FAIRFACE_RACE4)):
        if path.name in file.names:
            return Recognised(f"{what}, by its name the one for {races} races", (file,))
    return Recognised(f"{what}; its content does not tell 7 races from 4", (FAIRFACE_RACE7, FAIRFACE_RACE4))


def _yolo(path: Path) -> Recognised | None:
    """What ultralytics saved, by the words of its pickle; None for anything else."""
    words = _words(path)
    if not any(word.startswith("ultralytics.nn") for word in words):
        return None
    design = next((word for word in words if word.startswith("yolo") and word.endswith(".yaml")), "unknown design")
    faces, coco = {"person", "face"} <= words, {"person", "bicycle", "toothbrush"} <= words
    sorts = "COCO's 80 classes" if coco else "persons and faces" if faces else "other classes"
    meant: tuple[WeightsFile, ...] = ()
    if design == "yolov8x.yaml" and (coco or faces):
        meant = (YOLOV8X_PERSONS if coco else YOLOV8X_PERSONS_AND_FACES,)
    return Recognised(f"a network of ultralytics, {design.removesuffix('.yaml')}, for {sorts}", meant)


def _words(path: Path) -> set[str]:
    """All texts and names in a zipped pickle, which is not executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = next((each for each in archive.infolist() if each.filename.endswith("data.pkl")), None)
            if member is None or member.file_size > _MOST_PICKLE_BYTES:
                return set()
            content = archive.read(member)
        return {
            str(value).replace(" ", ".") if operation.name == "GLOBAL" else value
            for operation, value, _ in pickletools.genops(content)
            if isinstance(value, str)
        }
    except Exception:  # noqa: BLE001 - no archive, or a damaged one: each way of packing has a sort of its own
        return set()
