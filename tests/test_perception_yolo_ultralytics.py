"""YOLO through ultralytics, and its `.onnx` export, against ultralytics' own `predict`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from running import Pixels, found_by
from yolo_networks import quiet_ultralytics, random_yolo

from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.perception.yolo import YoloBoxes, YoloPersons
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

SIDE = 320
NAMES = {0: "person", 1: "thing 1", 2: "thing 2", 3: "face"}
ANYWHERE = WeightsLocator(cache=Path("nowhere"))
INSTALLED = find_spec("ultralytics") is not None
needs_ultralytics = pytest.mark.skipif(not INSTALLED, reason="ultralytics (AGPL-3.0) is not installed")


@pytest.fixture(scope="module")
def images(shared: Path) -> list[Pixels]:
    folders = [shared / "data" / name / "images" for name in ("group_scenes", "t2i_portraits")]
    found = [np.asarray(Image.open(sorted(folder.iterdir())[0]).convert("RGB")) for folder in folders]
    return [*found, np.ascontiguousarray(found[0].transpose(1, 0, 2)), found[1][:300, :180].copy()]


@pytest.fixture(scope="module")
def networks(images: list[Pixels], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a YOLOv8n of random weights as `.pt` and `.onnx`, tuned so that it finds something."""
    folder = tmp_path_factory.mktemp("yolo")
    network = random_yolo(NAMES, folder=folder)
    import torch
    from ultralytics import YOLO

    small = [np.asarray(Image.fromarray(image).resize((SIDE, SIDE))) for image in images]
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
            classes[-1].weight.mul_(4)
            classes[-1].bias.fill_(-4)
    network.save(folder / "random.pt")
    YOLO(folder / "random.pt").export(format="onnx", imgsz=SIDE, simplify=False)
    return folder


@needs_ultralytics
@pytest.mark.parametrize("suffix", ["pt", "onnx"])
@pytest.mark.parametrize("confidence", [0.05, 0.3])
def test_boxes_are_those_of_ultralytics(
    images: list[Pixels], networks: Path, suffix: str, confidence: float
) -> None:
    from ultralytics import YOLO

    stage = YoloBoxes(network=str(networks / f"random.{suffix}"), confidence=confidence, image_size=SIDE)
    # Pillow images, so that ultralytics itself takes care of the order of colours.
    expected = YOLO(networks / "random.pt").predict(
        [Image.fromarray(image) for image in images],
        conf=confidence,
        iou=0.7,
        classes=[0, 3],
        imgsz=SIDE,
        rect=False,
        max_det=30_000,
        verbose=False,
    )
    total = np.zeros(2, int)
    for one, found in zip(expected, found_by(stage, images, weights=ANYWHERE), strict=True):
        corners, scores = one.boxes.xyxy.numpy(), one.boxes.conf.numpy()
        classes = np.searchsorted([0, 3], one.boxes.cls.numpy())
        # Boxes with nearly the same score may come in another order, and others end at the same borders.
        distances = np.abs(found["corners"][:, None] - corners[None]).max(axis=2, initial=0)
        distances += 1000 * np.abs(found["scores"][:, None] - scores[None])
        distances[found["classes"][:, None] != classes[None]] = np.inf
        partners = distances.argmin(axis=1) if len(corners) else np.zeros(0, int)
        assert sorted(partners) == list(range(len(corners)))
        np.testing.assert_allclose(found["corners"], corners[partners], atol=0.5)
        np.testing.assert_allclose(found["scores"], scores[partners], atol=1e-4)
        assert found["known"].all()
        total += np.bincount(classes, minlength=2)
    assert (total > 10).all()


@needs_ultralytics
def test_what_else_is_in_the_batch_does_not_matter(images: list[Pixels], networks: Path) -> None:
    stage = YoloPersons(network=str(networks / "random.pt"), confidence=0.05, image_size=SIDE)
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
def test_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    quiet_ultralytics(tmp_path)
    import torch

    trace = tmp_path / "trace"
    torch.save({"model": _Harmful(trace)}, tmp_path / "harmful.pt")
    with pytest.raises(WeightsError, match=r"ultralytics cannot read '.*harmful\.pt'"):
        YoloBoxes(network=str(tmp_path / "harmful.pt")).load(ANYWHERE)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(_Harmful(trace)))
    with pytest.raises(WeightsError, match=r"ultralytics cannot read '.*plain\.pt'"):
        YoloBoxes(network=str(tmp_path / "plain.pt")).load(ANYWHERE)
    assert not trace.exists()


@needs_ultralytics
def test_unrestricted_loading_is_refused(networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ultralytics.utils.SAFE_LOAD", False)
    with pytest.raises(WeightsError, match=r"a \.pt file can run code when it is loaded"):
        YoloBoxes(network=str(networks / "random.pt")).load(ANYWHERE)


@needs_ultralytics
def test_network_without_persons_is_refused(networks: Path, images: list[Pixels], tmp_path: Path) -> None:
    from ultralytics import YOLO

    network = YOLO(networks / "random.pt")
    for names, file in [({**NAMES, 0: "thing"}, "faces.pt"), (dict.fromkeys(NAMES, "thing"), "things.pt")]:
        network.model.names = names
        network.save(tmp_path / file)
    with pytest.raises(ConfigError, match=r"things\.pt finds neither 'person' nor 'face'; .*: thing, thing"):
        YoloBoxes(network=str(tmp_path / "things.pt")).load(ANYWHERE)
    stage = YoloPersons(network=str(tmp_path / "faces.pt"), image_size=SIDE)
    with pytest.raises(ConfigError, match=r"faces\.pt knows no class 'person', which yolo_persons needs"):
        found_by(stage, images[:1], weights=ANYWHERE)


@needs_ultralytics
@pytest.mark.slow
def test_loading_writes_into_no_folder_of_the_users_and_sends_nothing(networks: Path, tmp_path: Path) -> None:
    program = f"""
import socket, sys
def refused(*arguments): raise AssertionError(f"asked the network: {{arguments}}")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from pathlib import Path
from detector_bench.perception.ultralytics_loading import load_network
print(load_network(Path({str(networks / "random.pt")!r})).names[3])
"""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("YOLO_", "ULTRALYTICS_"))}
    home = tmp_path / "home"
    home.mkdir()
    folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ours | folders,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("face\n", 0), done.stderr
    written = {path.relative_to(home) for path in home.rglob("*") if path.is_file()}
    assert written == {Path("cache/detector_bench/ultralytics/Ultralytics/settings.json")}


@pytest.mark.skipif(INSTALLED, reason="ultralytics is installed")
def test_missing_ultralytics_is_named(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"")
    with pytest.raises(
        MissingExtraError, match=r"'ultralytics' is not installed; pip install 'detector-bench\[yolo\]'"
    ):
        YoloBoxes(network=str(tmp_path / "net.pt")).load(ANYWHERE)


@pytest.mark.slow
@needs_ultralytics
def test_other_networks_keep_their_threads(networks: Path) -> None:
    program = f"""
import os, torch
from detector_bench.perception.yolo import YoloBoxes
from detector_bench.weights import WeightsLocator
torch.set_num_threads(3)
YoloBoxes(network={str(networks / "random.pt")!r}, image_size={SIDE}).load(WeightsLocator())
print(torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["3", "None"]
