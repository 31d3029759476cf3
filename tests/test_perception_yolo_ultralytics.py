"""YOLO through ultralytics, and its `.onnx` export, against ultralytics' own `predict`."""

from __future__ import annotations

import ast
import os
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from running import Pixels, found_by

from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.perception.yolo_persons import YoloPersons
from detector_bench.weights import WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
INSTALLED = find_spec("ultralytics") is not None
needs_ultralytics = pytest.mark.skipif(not INSTALLED, reason="ultralytics (AGPL-3.0) is not installed")


@pytest.fixture(scope="module")
def images(shared: Path) -> list[Pixels]:
    folders = [shared / "data" / name / "images" for name in ("group_scenes", "t2i_portraits")]
    paths = [path for folder in folders for path in sorted(folder.iterdir())[:3]]
    found = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    return [*found, np.ascontiguousarray(found[0].transpose(1, 0, 2)), found[3][:300, :180].copy()]


@pytest.fixture(scope="module")
def networks(images: list[Pixels], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a YOLOv8n of random weights as `.pt` and `.onnx`, tuned so that it finds something."""
    os.environ.update(ULTRALYTICS_SAFE_LOAD="true", YOLO_AUTOINSTALL="false", YOLO_OFFLINE="true")
    import torch
    from ultralytics import YOLO

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("yolo")
    network = YOLO("yolov8n.yaml")
    network.model.names = {number: "person" if number == 0 else f"thing {number}" for number in range(80)}
    small = [np.asarray(Image.fromarray(image).resize((640, 640))) for image in images]
    batch = torch.from_numpy(np.stack(small).transpose(0, 3, 1, 2).copy()).float() / 255
    for module in network.model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    head = network.model.model[-1]
    with torch.no_grad():
        network.model.train()
        network.model(batch)
        network.model.eval()
        for boxes, classes in zip(head.cv2, head.cv3, strict=True):
            boxes[-1].weight.mul_(60)
            classes[-1].weight.mul_(2)
            classes[-1].bias.fill_(-6)
            classes[-1].bias[0] = -4
    network.save(folder / "random.pt")
    YOLO(folder / "random.pt").export(format="onnx", imgsz=640, simplify=False)
    return folder


@needs_ultralytics
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["pt", "onnx"])
@pytest.mark.parametrize("confidence", [0.05, 0.3])
def test_boxes_are_those_of_ultralytics(
    images: list[Pixels], networks: Path, suffix: str, confidence: float
) -> None:
    from ultralytics import YOLO

    # Pillow images, so that ultralytics itself takes care of the order of colours.
    expected = YOLO(networks / "random.pt").predict(
        [Image.fromarray(image) for image in images],
        conf=confidence,
        iou=0.7,
        classes=[0],
        imgsz=640,
        rect=False,
        max_det=30_000,
        verbose=False,
    )
    stage = YoloPersons(network=str(networks / f"random.{suffix}"), confidence=confidence)
    total = 0
    for one, found in zip(expected, found_by(stage, images, weights=ANYWHERE), strict=True):
        corners, scores = one.boxes.xyxy.numpy(), one.boxes.conf.numpy()
        # Boxes with nearly the same score may come in another order.
        distances = np.abs(found["corners"][:, None] - corners[None]).max(axis=2, initial=0)
        partners = distances.argmin(axis=1) if len(corners) else np.zeros(0, int)
        assert sorted(partners) == list(range(len(corners)))
        np.testing.assert_allclose(found["corners"], corners[partners], atol=0.5)
        np.testing.assert_allclose(found["scores"], scores[partners], atol=1e-4)
        total += len(scores)
    assert total > 20


@needs_ultralytics
@pytest.mark.slow
def test_what_else_is_in_the_batch_does_not_matter(images: list[Pixels], networks: Path) -> None:
    stage = YoloPersons(network=str(networks / "random.pt"), confidence=0.05)
    together = found_by(stage, images, weights=ANYWHERE)
    for image, first in zip(images, together, strict=True):
        (second,) = found_by(stage, [image], weights=ANYWHERE)
        assert len(first["scores"]) == len(second["scores"])
        np.testing.assert_allclose(first["corners"], second["corners"], atol=0.05)


class _Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@needs_ultralytics
@pytest.mark.slow
def test_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    os.environ.update(ULTRALYTICS_SAFE_LOAD="true", YOLO_AUTOINSTALL="false", YOLO_OFFLINE="true")
    import torch

    trace = tmp_path / "trace"
    torch.save({"model": _Harmful(trace)}, tmp_path / "harmful.pt")
    with pytest.raises(WeightsError, match=r"ultralytics cannot read '.*harmful\.pt'"):
        YoloPersons(network=str(tmp_path / "harmful.pt")).load(ANYWHERE)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(_Harmful(trace)))
    with pytest.raises(WeightsError, match=r"ultralytics cannot read '.*plain\.pt'"):
        YoloPersons(network=str(tmp_path / "plain.pt")).load(ANYWHERE)
    assert not trace.exists()


@needs_ultralytics
@pytest.mark.slow
def test_unrestricted_loading_is_refused(networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ultralytics.utils.SAFE_LOAD", False)
    with pytest.raises(WeightsError, match=r"a \.pt file can run code when it is loaded"):
        YoloPersons(network=str(networks / "random.pt")).load(ANYWHERE)


@needs_ultralytics
@pytest.mark.slow
def test_network_without_persons_is_refused(networks: Path, tmp_path: Path) -> None:
    from ultralytics import YOLO

    network = YOLO(networks / "random.pt")
    assert ast.literal_eval(str(network.names))[0] == "person"
    network.model.names = {number: f"thing {number}" for number in range(80)}
    network.save(tmp_path / "things.pt")
    with pytest.raises(ConfigError, match=r"things\.pt: class 0 of the network is 'thing 0', not 'person'"):
        YoloPersons(network=str(tmp_path / "things.pt")).load(ANYWHERE)


@pytest.mark.skipif(INSTALLED, reason="ultralytics is installed")
def test_missing_ultralytics_is_named(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"")
    with pytest.raises(
        MissingExtraError, match=r"'ultralytics' is not installed; pip install 'detector-bench\[yolo\]'"
    ):
        YoloPersons(network=str(tmp_path / "net.pt")).load(ANYWHERE)
