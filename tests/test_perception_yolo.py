"""Boxes by YOLO: made-up candidates worked out by hand, and the real network on real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_networks import save
from running import Pixels, found_by, noise, plain, portraits, read_image

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.boxes import areas
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import with_inputs
from detector_bench.perception.yolo import YoloBoxes, YoloFaces, YoloPersons, letterbox
from detector_bench.weights import WeightsLocator

ONE = [[20, 20, 16, 16, 0.9, 0.1]]
ANYWHERE = WeightsLocator(cache=Path("nowhere"))
SIDE = 64
NAMES = "{0: 'person', 1: 'bicycle'}"


@pytest.fixture(scope="module")
def yolo(shared: Path) -> WeightsLocator:
    return WeightsLocator(folders=(shared / "weights",), cache=Path("nowhere"))


def constant_network(path: Path, candidates: list[list[float]], **settings: Any) -> Path:
    """A network that gives these candidates for every image: centre, size, score as person and as bicycle."""
    answer = settings.pop("answer", np.float32(candidates).T[None])
    return save(
        path,
        [helper.make_node("Identity", ["answer"], ["output0"])],
        inputs={"images": settings.pop("shape", [1, 3, SIDE, SIDE])},
        outputs={"output0": settings.pop("output", answer.shape)},
        constants={"answer": answer},
        facts=settings.pop("facts", {"names": NAMES, "task": "detect"}),
        **settings,
    )


def persons(path: Path, image: Pixels, **settings: Any) -> Any:
    """The boxes found in an image by a network that takes 64 pixels."""
    return found_by(YoloPersons(network=str(path), image_size=SIDE, **settings), [image], weights=ANYWHERE)[0]


# The letterbox


@pytest.mark.parametrize(
    ("height", "width", "scale", "offset"),
    [
        (64, 64, (1, 1), (0, 0)),
        (100, 200, (0.32, 0.32), (0, 16)),
        (200, 100, (0.32, 0.32), (16, 0)),
        (16, 32, (2, 2), (0, 16)),
        (50, 51, (64 / 51, 63 / 50), (0, 0)),  # 62.7 rows become 63, and the odd row goes below
        (1, 640, (0.1, 1), (0, 31)),
    ],
)
def test_letterbox_keeps_proportions(height: int, width: int, scale, offset) -> None:
    image = noise(height, width)
    canvas, found_scale, found_offset = letterbox(cv2, image, side=SIDE)
    assert canvas.shape == (SIDE, SIDE, 3)
    assert found_scale == pytest.approx(scale)
    assert found_offset == offset
    inner = (round(width * scale[0]), round(height * scale[1]))
    rows, columns = slice(offset[1], offset[1] + inner[1]), slice(offset[0], offset[0] + inner[0])
    np.testing.assert_array_equal(canvas[rows, columns], cv2.resize(image, inner))
    bars = np.ones((SIDE, SIDE), bool)
    bars[rows, columns] = False
    assert (canvas[bars] == 114).all()


# Candidates worked out by hand


def test_boxes_are_mapped_back_to_the_image(tmp_path: Path) -> None:
    # 200 x 100 pixels become 64 x 32 with bars of 16 above and below; the candidate: (24, 28) to (40, 36).
    path = constant_network(tmp_path / "net.onnx", [[32, 32, 16, 8, 0.9, 0.1]])
    found = persons(path, plain(9, 9, 9, height=100, width=200))
    np.testing.assert_allclose(found["corners"], [[75, 37.5, 125, 62.5]], rtol=1e-5)
    np.testing.assert_allclose(found["scores"], [0.9], rtol=1e-6)
    assert found["landmarks"].shape == (1, 0, 2)
    # 100 x 200: the bars are left and right.
    upright = persons(path, plain(9, 9, 9, height=200, width=100))
    np.testing.assert_allclose(upright["corners"], [[25, 87.5, 75, 112.5]], rtol=1e-5)


def test_boxes_end_at_the_images_border(tmp_path: Path) -> None:
    path = constant_network(tmp_path / "net.onnx", [[0, 0, 40, 40, 0.9, 0], [64, 64, 20, 200, 0.8, 0]])
    found = persons(path, plain(9, 9, 9, height=64, width=64))
    np.testing.assert_allclose(found["corners"], [[0, 0, 20, 20], [54, 0, 64, 64]], atol=1e-4)


def test_only_likely_persons_are_kept(tmp_path: Path) -> None:
    candidates = [
        [10, 10, 8, 8, 0.30, 0.0],
        [30, 10, 8, 8, 0.25, 0.0],  # not above the confidence
        [50, 10, 8, 8, 0.60, 0.7],  # rather a bicycle
        [10, 30, 8, 8, 0.50, 0.4],
    ]
    path = constant_network(tmp_path / "net.onnx", candidates)
    found = persons(path, plain(9, 9, 9, height=64, width=64), confidence=0.25)
    np.testing.assert_allclose(found["corners"], [[6, 26, 14, 34], [6, 6, 14, 14]], atol=1e-4)
    np.testing.assert_allclose(found["scores"], [0.5, 0.3], rtol=1e-6)
    for confidence, scores in [(0.4, [0.5]), (0.2, [0.5, 0.3, 0.25])]:
        found = persons(path, plain(9, 9, 9, height=64, width=64), confidence=confidence)
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-6)


def test_of_overlapping_boxes_the_surest_stays(tmp_path: Path) -> None:
    # 16 x 16, moved by 4: 192 of 320 pixels are shared, 0.6. Moved by 2: 224 of 288, 0.78.
    candidates = [[20, 20, 16, 16, 0.8, 0], [22, 20, 16, 16, 0.9, 0], [26, 20, 16, 16, 0.7, 0]]
    path = constant_network(tmp_path / "net.onnx", candidates)
    image = plain(9, 9, 9, height=64, width=64)
    for threshold, kept in [(0.7, [0.9, 0.7]), (0.55, [0.9]), (0.8, [0.9, 0.8, 0.7])]:
        found = persons(path, image, overlap_threshold=threshold)
        np.testing.assert_allclose(found["scores"], kept, rtol=1e-6)


def test_nobody_is_found(tmp_path: Path) -> None:
    path = constant_network(tmp_path / "net.onnx", [[20, 20, 16, 16, 0.1, 0.9]])
    found = persons(path, plain(9, 9, 9))
    assert {name: array.shape for name, array in found.items()} == {
        "corners": (0, 4),
        "scores": (0,),
        "landmarks": (0, 0, 2),
    }


def test_network_sees_rgb_between_zero_and_one(tmp_path: Path) -> None:
    # The scores are the means of red and of green: of a person, only red tells.
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["means", "matrix"], ["scores"]),
        helper.make_node("Concat", ["box", "scores"], ["flat"], axis=1),
        helper.make_node("Unsqueeze", ["flat", "axes"], ["output0"]),
    ]
    path = save(
        tmp_path / "net.onnx",
        nodes,
        inputs={"images": [1, 3, SIDE, SIDE]},
        outputs={"output0": [1, 6, 1]},
        constants={
            "matrix": np.float32([[1, 0], [0, 1], [0, 0]]),
            "box": np.float32([[32, 32, 16, 16]]),
            "axes": np.array([2]),
        },
    )
    assert persons(path, plain(204, 102, 255, height=64, width=64))["scores"].tolist() == [
        pytest.approx(0.8, abs=1e-4)
    ]
    assert persons(path, plain(102, 204, 0, height=64, width=64))["scores"].tolist() == []


# Several classes in one run


PERSON_AND_FACE = {"names": "{0: 'person', 1: 'face'}", "task": "detect"}


def test_persons_and_faces_are_suppressed_apart(tmp_path: Path) -> None:
    candidates = [
        [20, 20, 16, 16, 0.8, 0.0],
        [21, 20, 16, 16, 0.0, 0.6],  # nearly the same place, but a face
        [22, 20, 16, 16, 0.0, 0.9],  # 240 of 272 pixels shared with it: 0.88
        [50, 50, 8, 8, 0.3, 0.2],
    ]
    path = constant_network(tmp_path / "net.onnx", candidates, facts=PERSON_AND_FACE)
    image = plain(9, 9, 9, height=64, width=64)
    (found,) = found_by(YoloBoxes(network=str(path), image_size=SIDE), [image], weights=ANYWHERE)
    np.testing.assert_allclose(found["scores"], [0.9, 0.8, 0.3], rtol=1e-6)
    assert found["classes"].tolist() == [1, 0, 0]
    assert found["known"].tolist() == [True, True]
    people = persons(path, image)
    np.testing.assert_allclose(people["corners"], [[12, 12, 28, 28], [46, 46, 54, 54]], atol=1e-4)
    np.testing.assert_allclose(people["scores"], [0.8, 0.3], rtol=1e-6)
    (faces,) = found_by(YoloFaces(network=str(path), image_size=SIDE), [image], weights=ANYWHERE)
    np.testing.assert_allclose(faces["corners"], [[14, 12, 30, 28]], atol=1e-4)
    assert set(faces) == set(people) == {"corners", "scores", "landmarks"}


def test_classes_are_found_by_name(tmp_path: Path) -> None:
    path = constant_network(tmp_path / "net.onnx", [[20, 20, 16, 16, 0.8, 0.9]], facts={"names": "{1: 'person'}"})
    np.testing.assert_allclose(persons(path, plain(9, 9, 9))["scores"], [0.9], rtol=1e-6)


def test_persons_and_faces_share_one_run() -> None:
    network = "both.onnx"
    stages = with_inputs(
        [YoloPersons(network=network), YoloPersons(network=network, confidence=0.4), YoloFaces(network=network)]
    )
    assert [stage.kind for stage in stages] == ["yolo_boxes", "yolo_persons", "yolo_persons", "yolo_faces"]
    assert [stage.cached for stage in stages] == [True, False, False, False]
    assert [stage.needs_pixels for stage in stages] == [True, False, False, False]
    below = YoloPersons(network=network, confidence=0.1).all_boxes
    assert below == YoloBoxes(network=network, confidence=0.1) != stages[0]


def test_network_of_coco_has_no_faces(tmp_path: Path) -> None:
    path = constant_network(tmp_path / "net.onnx", ONE)
    with pytest.raises(ConfigError, match=r"^net\.onnx knows no class 'face', which yolo_faces needs"):
        found_by(YoloFaces(network=str(path), image_size=SIDE), [plain(9, 9, 9)], weights=ANYWHERE)


# Networks that do not fit


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": [1, 3, 96, 96]}, r"takes tensor\(float\) of the shape \[1, 3, 96, 96\]"),
        ({"shape": [1, 3, 64, 96]}, "correct image_size, or export the network again"),
        ({"shape": [4, 3, 64, 64]}, r"\[1, 3, 64, 64\] is needed"),
        ({"shape": [1, 64, 64, 3]}, r"\[1, 3, 64, 64\] is needed"),
        ({"input_type": TensorProto.FLOAT16}, r"takes tensor\(float16\)"),
        (
            {"answer": np.zeros((1, 300, 6), np.float32)},
            r"gives \[1, 300, 6\] instead of .* \(nms=False, end2end=False\)",
        ),
        ({"answer": np.zeros((1, 4, 84), np.float32)}, r"gives \[1, 4, 84\] instead of"),
        ({"answer": np.zeros((1, 84), np.float32)}, r"gives \[1, 84\] instead of"),
        ({"facts": {"task": "pose", "names": NAMES}}, "is a network for 'pose'; one for 'detect' is needed"),
        ({"facts": {"names": "{0: 'helmet', 1: 'vest'}"}}, "finds neither 'person' nor 'face'; .* helmet, vest"),
        ({"facts": {"names": "{0: 'person', 2: 'face'}"}}, "class 2 of 3, but its output has 2"),
        ({"facts": {"names": "{0: 'person'"}}, "its class names are \"{0: 'person'\", expected a mapping such as"),
        ({"facts": {"names": "person"}}, "its class names are 'person', expected a mapping such as"),
        ({"facts": {"names": "{'person': 0}"}}, "its class names are \"{'person': 0}\", expected a mapping"),
        ({"facts": {"names": "{0: None, 1: 'person'}"}}, "its class names are .*, expected a mapping"),
        ({"facts": {"names": "7"}}, "its class names are '7', expected a mapping"),
        ({"facts": {"names": "{[]: 1}"}}, r"its class names are '{\[\]: 1}', expected a mapping"),
        ({"facts": {"names": "{99999999999999999999: 'person'}"}}, "its class names are .*, expected a mapping"),
        ({"facts": {"names": "-" * 10_000 + "1"}}, "its class names are '-{80}', expected a mapping"),
        ({"facts": {"names": "1if 1else " * 9}}, "its class names are '1if 1else .*', expected a mapping"),
    ],
)
def test_networks_of_another_sort_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    path = constant_network(tmp_path / "net.onnx", ONE, **settings)
    with pytest.raises(
        (ConfigError, WeightsError), match=r"^net\.onnx .*" + message + "|" + r"^net\.onnx: " + message
    ):
        YoloBoxes(network=str(path), image_size=SIDE).load(ANYWHERE)


def test_network_without_facts_about_itself_and_with_free_sizes_is_taken(tmp_path: Path) -> None:
    path = constant_network(
        tmp_path / "net.onnx", ONE, facts={}, shape=["N", 3, "height", "width"], output=["N", 6, "candidates"]
    )
    assert len(persons(path, plain(9, 9, 9))["scores"]) == 1


def test_packages_that_a_file_needs() -> None:
    (through_onnx,), (through_ultralytics,) = YoloPersons().inputs(), YoloPersons(network="yolov8x.pt").inputs()
    assert (through_onnx.extra, through_onnx.modules) == ("onnx", ("onnxruntime", "cv2"))
    assert (through_ultralytics.extra, through_ultralytics.modules) == ("yolo", ("ultralytics",))


# The real network


def share_of_faces_in_persons(images: list[Pixels], weights: WeightsLocator) -> float:
    """The share of clear faces whose centre lies in some person's box."""
    inside = []
    faces = found_by(YuNetFaces(score_threshold=0.8), images, weights=weights)
    for in_image, people in zip(faces, found_by(YoloPersons(), images, weights=weights), strict=True):
        for left, top, right, bottom in in_image["corners"]:
            point = np.array([left + right, top + bottom]) / 2
            boxes = people["corners"]
            inside.append(bool(((boxes[:, :2] < point) & (point < boxes[:, 2:])).all(axis=1).any()))
    return float(np.mean(inside))


@pytest.mark.slow
def test_persons_of_real_pictures(shared: Path, yolo: WeightsLocator) -> None:
    alone = portraits(shared, 3)
    for found in found_by(YoloPersons(), alone, weights=yolo):
        assert areas(found).max() > 0.25 * 480 * 480
    assert share_of_faces_in_persons(alone, yolo) == 1
    groups = [read_image(path) for path in sorted((shared / "data/group_scenes/images").iterdir())[:3]]
    for image, found in zip(groups, found_by(YoloPersons(), groups, weights=yolo), strict=True):
        assert len(found["scores"]) >= 2
        assert (found["corners"] >= 0).all()
        assert (found["corners"] <= np.array([image.shape[1], image.shape[0]] * 2)).all()
    assert share_of_faces_in_persons(groups, yolo) > 0.8


def test_boxes_of_an_image_are_those_of_its_letterbox_mapped_back(shared: Path, yolo: WeightsLocator) -> None:
    # An image in its letterbox needs no other: the network sees the same pixels both times.
    groups = [read_image(path) for path in sorted((shared / "data/group_scenes/images").iterdir())[:3]]
    images = [*groups, np.ascontiguousarray(groups[0].transpose(1, 0, 2)), portraits(shared, 1)[0][:333, :201]]
    boxed = [letterbox(cv2, image, side=640)[0] for image in images]
    for image, own, other in zip(
        images,
        found_by(YoloPersons(), images, weights=yolo),
        found_by(YoloPersons(), boxed, weights=yolo),
        strict=True,
    ):
        height, width = image.shape[:2]
        inner_width, inner_height = (
            round(width * 640 / max(width, height)),
            round(height * 640 / max(width, height)),
        )
        shift = np.array([(640 - inner_width) // 2, (640 - inner_height) // 2] * 2)
        mapped = (other["corners"] - shift) * np.array([width / inner_width, height / inner_height] * 2)
        mapped = mapped.clip(0, np.array([width, height] * 2))
        np.testing.assert_allclose(own["corners"], mapped, atol=0.01)
        np.testing.assert_array_equal(own["scores"], other["scores"])
        assert len(own["scores"]) > 0
