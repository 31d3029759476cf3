"""Boxes by YOLO: candidates worked out by hand, networks that do not fit, and ultralytics' own `predict`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detector_bench_next.detector import Pixels, with_inputs
from detector_bench_next.detectors.persons import YoloBoxes, YoloFaces, YoloPersons
from detector_bench_next.errors import ConfigError, WeightsError
from tests_next.detectors.pictures import HERE, files, plain, read, results

onnx = pytest.importorskip("onnx")
SIDE = 64
GREY = plain(9, 9, 9)
ONE = [[20, 20, 16, 16, 0.9, 0.1]]
NAMES = "{0: 'person', 1: 'bicycle'}"
BOTH = "{0: 'person', 1: 'face'}"


def network(path: Path, candidates: Any, names: str | None = NAMES, **settings: Any) -> dict[str, str]:
    """A network that gives these candidates for every image: centre, size, score of each class."""
    answer = settings.get("answer", np.float32(candidates).T[None])
    shape = settings.get("shape", [1, 3, SIDE, SIDE])
    node = onnx.helper.make_node("Identity", ["answer"], ["output0"])
    entry = onnx.helper.make_tensor_value_info("images", settings.get("kind", onnx.TensorProto.FLOAT), shape)
    result = onnx.helper.make_tensor_value_info("output0", onnx.TensorProto.FLOAT, None)
    constant = onnx.numpy_helper.from_array(answer, "answer")
    graph = onnx.helper.make_graph([node], "net", [entry], [result], [constant])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    facts = {"names": names, "task": settings.get("task")}
    onnx.helper.set_model_props(model, {name: fact for name, fact in facts.items() if fact})
    onnx.save(model, path)
    return {"path": str(path)}


def persons(path: dict[str, str], image: Pixels = GREY, kind: Any = YoloPersons, **fields: Any) -> Any:
    return results(kind(network=path, image_size=SIDE, **fields), [image])[0]


@pytest.mark.parametrize(
    ("size", "candidate", "box"),
    [
        # 200 x 100 pixels become 64 x 32 with bars of 16 above and below.
        ((100, 200), [32, 32, 16, 8, 0.9, 0.1], [75, 37.5, 125, 62.5]),
        ((200, 100), [32, 32, 16, 8, 0.9, 0.1], [25, 87.5, 75, 112.5]),
        ((64, 64), [0, 0, 40, 40, 0.9, 0], [0, 0, 20, 20]),  # it ends at the image's border
    ],
)
def test_boxes_are_mapped_back_to_the_image(tmp_path: Path, size: Any, candidate: Any, box: Any) -> None:
    found = persons(network(tmp_path / "n.onnx", [candidate]), plain(9, 9, 9, height=size[0], width=size[1]))
    np.testing.assert_allclose(found["corners"], [box], atol=1e-4)
    np.testing.assert_allclose(found["scores"], [0.9], rtol=1e-6)


RATHER_A_BICYCLE = [50, 10, 8, 8, 0.60, 0.7]
SEVERAL = [[10, 10, 8, 8, 0.30, 0], [30, 10, 8, 8, 0.25, 0], RATHER_A_BICYCLE, [10, 30, 8, 8, 0.50, 0.4]]
# 16 x 16, moved by 4: 192 of 320 pixels are shared, 0.6. Moved by 2: 224 of 288, 0.78.
NEAR = [[20, 20, 16, 16, 0.8, 0], [22, 20, 16, 16, 0.9, 0], [26, 20, 16, 16, 0.7, 0]]


@pytest.mark.parametrize(
    ("candidates", "fields", "scores"),
    [
        (SEVERAL, {"confidence": 0.25}, [0.5, 0.3]),  # above it
        (SEVERAL, {"confidence": 0.4}, [0.5]),
        (SEVERAL, {"confidence": 0.2}, [0.5, 0.3, 0.25]),
        (NEAR, {"overlap_threshold": 0.7}, [0.9, 0.7]),
        (NEAR, {"overlap_threshold": 0.55}, [0.9]),
        (NEAR, {"overlap_threshold": 0.8}, [0.9, 0.8, 0.7]),
        ([[20, 20, 16, 16, 0.1, 0.9]], {}, []),
    ],
)
def test_likely_persons_without_overlaps_are_kept(
    tmp_path: Path, candidates: Any, fields: dict[str, float], scores: list[float]
) -> None:
    found = persons(network(tmp_path / "n.onnx", candidates), **fields)
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-6)
    assert (found["corners"].shape, found["landmarks"].shape[1:]) == ((len(scores), 4), (0, 2))


def test_persons_and_faces_share_a_run_and_are_suppressed_apart(tmp_path: Path) -> None:
    near = [[20, 20, 16, 16, 0.8, 0], [21, 20, 16, 16, 0, 0.6], [22, 20, 16, 16, 0, 0.9], [50, 50, 8, 8, 0.3, 0.2]]
    path = network(tmp_path / "n.onnx", near, BOTH)
    np.testing.assert_allclose(persons(path)["scores"], [0.8, 0.3], rtol=1e-6)
    np.testing.assert_allclose(persons(path, kind=YoloFaces)["corners"], [[14, 12, 30, 28]], atol=1e-4)
    views = [YoloPersons(network=path), YoloPersons(network=path, confidence=0.4), YoloFaces(network=path)]
    kinds = [(own.kind, own.cached, own.needs_pixels) for own in with_inputs(views)]
    assert kinds == [("yolo_boxes", True, True), *((own.kind, False, False) for own in views)]
    assert YoloPersons(network=path, confidence=0.1).stages() == (YoloBoxes(network=path, confidence=0.1),)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": [1, 3, 96, 96]}, r"takes \[1, 3, 96, 96\] and not .*: correct image_size"),
        ({"kind": onnx.TensorProto.FLOAT16}, r"not float32 of"),
        ({"answer": np.zeros((1, 300, 6), np.float32)}, r"gives \[1, 300, 6\] .*nms=False, end2end=False"),
        ({"answer": np.zeros((1, 4, 84), np.float32)}, r"gives \[1, 4, 84\] instead of"),
        ({"task": "pose"}, "is a network for 'pose'; one for 'detect' is needed"),
        ({"names": "{0: 'helmet', 1: 'vest'}"}, "finds neither 'person' nor 'face'; .* helmet, vest"),
        ({"names": "{0: 'person', 2: 'face'}"}, "with class 2 among them"),
        ({"names": "{0: 'person'"}, "its class names are"),
        ({"names": "7"}, "its class names are '7', accepted: a mapping"),
        ({"names": "{[]: 1}"}, "its class names are"),
        ({"names": "-" * 10_000 + "1"}, "its class names are '-{80}'"),
        ({"names": "1if 1else " * 9}, "its class names are"),
    ],
)
def test_networks_of_another_sort_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    path = network(tmp_path / "net.onnx", ONE, **settings)
    with pytest.raises((ConfigError, WeightsError), match=r"^net\.onnx:? .*" + message) as raised:
        YoloBoxes(network=path, image_size=SIDE).load(HERE)
    assert len(str(raised.value).splitlines()) == 1


def test_a_network_without_names_and_with_free_sizes_is_one_of_coco(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", ONE, None, shape=["N", 3, "height", "width"])
    assert len(persons(path)["scores"]) == 1
    assert [own.modules for own in YoloPersons(network=path).stages()] == [("onnxruntime", "cv2")]
    with pytest.raises(ConfigError, match=r"^net\.onnx knows no class 'face', which yolo_faces needs"):
        persons(path, kind=YoloFaces)


# ultralytics

PERSON_FACE = {0: "person", 1: "thing 1", 2: "thing 2", 3: "face"}


@pytest.fixture(scope="module")
def pictures(shared: Path) -> list[Pixels]:
    scene, portrait = (read(files(shared, name, 1)[0]) for name in ("group_scenes", "t2i_portraits"))
    return [scene, portrait, np.ascontiguousarray(scene.transpose(1, 0, 2)), portrait[:300, :180].copy()]


@pytest.fixture(scope="module")
def yolo(pictures: list[Pixels], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a YOLOv8n of random weights as `.pt` and `.onnx`, tuned so that it finds something."""
    folder = tmp_path_factory.mktemp("yolo")
    settings = {"YOLO_CONFIG_DIR": str(folder), "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true"}
    os.environ |= {**settings, "YOLO_VERBOSE": "false", "ULTRALYTICS_SAFE_LOAD": "true"}  # it reads them at import
    pytest.importorskip("ultralytics")
    import torch
    from ultralytics import YOLO
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    made = YOLO("yolov8n.yaml", task="detect")
    made.model = DetectionModel("yolov8n.yaml", nc=len(PERSON_FACE), verbose=False)
    made.model.names, made.ckpt = PERSON_FACE, {}
    batch = np.stack([np.asarray(Image.fromarray(own).resize((320, 320))) for own in pictures])
    for module in made.model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    head = made.model.model[-1]
    with torch.no_grad():
        made.model.train()
        made.model(torch.from_numpy(batch.transpose(0, 3, 1, 2).copy()).float() / 255)
        made.model.eval()
        for boxes, classes in zip(head.cv2, head.cv3, strict=True):
            boxes[-1].weight.mul_(60)
            classes[-1].weight.mul_(4)
            classes[-1].bias.fill_(-4)
    made.save(folder / "random.pt")
    YOLO(folder / "random.pt").export(format="onnx", imgsz=320, simplify=False)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["pt", "onnx"])
def test_boxes_are_those_of_ultralytics(pictures: list[Pixels], yolo: Path, suffix: str) -> None:
    from ultralytics import YOLO

    stage = YoloBoxes(network={"path": str(yolo / f"random.{suffix}")}, confidence=0.05, image_size=320)
    found = results(stage, pictures)
    settings = {"conf": 0.05, "iou": 0.7, "classes": [0, 3], "imgsz": 320, "rect": False, "max_det": 30_000}
    # Pillow images, so that ultralytics itself takes care of the order of colours.
    expected = YOLO(yolo / "random.pt").predict([Image.fromarray(p) for p in pictures], verbose=False, **settings)
    total = np.zeros(2, int)
    for one, ours in zip(expected, found, strict=True):
        theirs = one.boxes.cpu().numpy()
        classes = np.searchsorted([0, 3], theirs.cls)
        # Boxes with nearly the same score may come in another order.
        away = np.abs(ours["corners"][:, None] - theirs.xyxy[None]).max(axis=2, initial=0)
        away += 1000 * np.abs(ours["scores"][:, None] - theirs.conf[None])
        away[ours["classes"][:, None] != classes[None]] = np.inf
        partners = away.argmin(axis=1) if len(classes) else np.zeros(0, int)
        assert sorted(partners) == list(range(len(classes)))
        np.testing.assert_allclose(ours["corners"], theirs.xyxy[partners], atol=0.5)
        np.testing.assert_allclose(ours["scores"], theirs.conf[partners], atol=1e-4)
        total += np.bincount(classes, minlength=2)
    assert (total > 10).all()
    for together, alone in zip(found, results(stage, pictures, batch=1), strict=True):
        np.testing.assert_allclose(np.sort(together["scores"]), np.sort(alone["scores"]), atol=1e-4)


class Harmful(str):
    """The name of a file that is made when this is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self),)


@pytest.mark.slow
def test_a_file_that_would_run_code_is_refused(
    yolo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    trace = tmp_path / "trace"
    torch.save({"model": Harmful(str(trace))}, tmp_path / "harmful.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Harmful(str(trace))))
    for name in ("harmful.pt", "plain.pt"):
        with pytest.raises(WeightsError, match=f"ultralytics cannot read '{name}'"):
            YoloBoxes(network={"path": str(tmp_path / name)}).load(HERE)
    assert not trace.exists()
    monkeypatch.setattr("ultralytics.utils.SAFE_LOAD", False)
    with pytest.raises(WeightsError, match=r"a \.pt file can run code when it is loaded"):
        YoloBoxes(network={"path": str(yolo / "random.pt")}).load(HERE)


@pytest.mark.slow
def test_loading_leaves_threads_and_the_users_folders_alone_and_sends_nothing(yolo: Path, tmp_path: Path) -> None:
    program = f"""
import os, socket, torch
def refused(*arguments): raise AssertionError(f"asked the network: {{arguments}}")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from detector_bench_next.detectors.persons import YoloBoxes
from detector_bench_next.weights import Where
torch.set_num_threads(3)
YoloBoxes(network={{"path": {str(yolo / "random.pt")!r}}}, image_size=320).load(Where())
print(torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS"))
"""
    home = tmp_path / "home"
    home.mkdir()
    known = ("YOLO_", "ULTRALYTICS_", "OMP_NUM")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(known)}
    ours |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, env=ours, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("3 None\n", 0), done.stderr
    written = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert all(name.startswith("cache/detector_bench/") for name in written)
