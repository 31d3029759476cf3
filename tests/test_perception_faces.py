"""Face boxes on real pictures: those of the libraries themselves, found in every image as it is."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import cv2
import dlib
import numpy as np
import pytest
from running import Pixels, found_by, frames_of, noise, plain, portraits, read_image

from detector_bench.errors import WeightsError
from detector_bench.perception.boxes import areas
from detector_bench.perception.faces.dlib_faces import DlibCnnFaces, DlibHogFaces
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.stage import Stage
from detector_bench.weights import CATALOGUE, WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
FACE_OF_THE_ASTRONAUT = (181, 75, 271, 176)  # by eye, from the hair to the chin


@pytest.fixture(scope="module")
def astronaut() -> Pixels:
    """A portrait that scikit-image carries: 512 pixels, one face."""
    return pytest.importorskip("skimage.data").astronaut()


@pytest.fixture(scope="module")
def yunet(shared: Path) -> WeightsLocator:
    return WeightsLocator(folders=(shared / "weights",), cache=Path("nowhere"))


@cache
def hog() -> Any:
    return dlib.get_frontal_face_detector()


def overlap(first: Any, second: Any) -> float:
    """Intersection over union of two boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared_area = max(width, 0) * max(height, 0)
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return shared_area / (both - shared_area)


def test_every_stage_finds_the_astronauts_face(astronaut: Pixels, yunet: WeightsLocator) -> None:
    # The CNN is slow, so it gets a part of 256 x 256 pixels.
    part = np.ascontiguousarray(astronaut[20:276, 100:356])
    for stage, image, shift in [
        (DlibHogFaces(), astronaut, (0, 0)),
        (YuNetFaces(), astronaut, (0, 0)),
        (DlibCnnFaces(), part, (100, 20)),
    ]:
        (found,) = found_by(stage, [image], weights=yunet)
        (corners,) = found["corners"]
        assert overlap(corners + np.array([*shift, *shift]), FACE_OF_THE_ASTRONAUT) > 0.5, stage.kind


# dlib


@pytest.mark.parametrize(("upsample", "threshold"), [(0, 0.0), (0, -0.5), (1, 0.0)])
def test_hog_boxes_are_dlibs(astronaut: Pixels, upsample: int, threshold: float) -> None:
    stage = DlibHogFaces(upsample=upsample, threshold=threshold)
    (found,) = found_by(stage, [astronaut], weights=ANYWHERE)
    rectangles, scores, _ = hog().run(astronaut, upsample, threshold)
    # dlib's own width and height count the last column and row.
    expected = [[r.left(), r.top(), r.left() + r.width(), r.top() + r.height()] for r in rectangles]
    assert found["corners"].tolist() == expected
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-6)
    assert len(expected) >= 1


def test_hog_boxes_of_portraits_are_those_of_a_plain_call(shared: Path) -> None:
    images = portraits(shared, 4)
    detect = hog()
    for image, found in zip(images, found_by(DlibHogFaces(), images, weights=ANYWHERE), strict=True):
        expected = [[r.left(), r.top(), r.right() + 1, r.bottom() + 1] for r in detect(image, 0)]
        assert found["corners"].tolist() == expected


def test_hog_upsampling_finds_smaller_faces(astronaut: Pixels) -> None:
    small = cv2.resize(astronaut, (256, 256), interpolation=cv2.INTER_AREA)
    (without,) = found_by(DlibHogFaces(), [small], weights=ANYWHERE)
    (doubled,) = found_by(DlibHogFaces(upsample=1), [small], weights=ANYWHERE)
    assert len(without["scores"]) == 0
    (corners,) = doubled["corners"]
    assert overlap(corners * 2, FACE_OF_THE_ASTRONAUT) > 0.5


def test_cnn_boxes_are_dlibs(astronaut: Pixels) -> None:
    part = np.ascontiguousarray(astronaut[20:276, 100:356])
    (found,) = found_by(DlibCnnFaces(), [part], weights=ANYWHERE)
    path = ANYWHERE.locate(CATALOGUE["mmod_human_face_detector.dat"])
    expected = dlib.cnn_face_detection_model_v1(str(path))(part, 0)
    assert len(expected) == 1
    rectangle = expected[0].rect
    left, top = rectangle.left(), rectangle.top()
    assert found["corners"].tolist() == [[left, top, left + rectangle.width(), top + rectangle.height()]]
    assert found["scores"].tolist() == [pytest.approx(expected[0].confidence)]


def test_cnn_survives_images_that_damage_dlibs_memory() -> None:
    # dlib itself raises an error on the first of these, and aborts the process a little later.
    code = """
        import numpy as np
        from detector_bench.perception.faces.dlib_faces import DlibCnnFaces
        from detector_bench.perception.stage import Frame
        from detector_bench.weights import WeightsLocator
        small = {0: [(200, 5), (5, 200), (1, 1), (7, 7), (31, 60), (32, 60)], 1: [(3, 40), (16, 40)]}
        for upsample, shapes in small.items():
            detect = DlibCnnFaces(upsample=upsample).load(WeightsLocator())
            for shape in shapes * 3:
                (found,) = detect([Frame("one", pixels=np.zeros((*shape, 3), np.uint8))])
                assert len(found["scores"]) == 0
        print("alive")
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


# YuNet


def plain_yunet(path: Path, image: Pixels, *, score: float, overlap: float) -> Any:
    height, width = image.shape[:2]
    detector = cv2.FaceDetectorYN.create(str(path), "", (width, height), score, overlap, 5000)
    found = detector.detect(image[:, :, ::-1].copy())[1]
    return np.zeros((0, 15), np.float32) if found is None else found


@pytest.mark.parametrize(("score", "threshold"), [(0.7, 0.3), (0.3, 0.6)])
def test_yunet_boxes_are_opencvs(shared: Path, yunet: WeightsLocator, score: float, threshold: float) -> None:
    groups = sorted((shared / "data/group_scenes/images").iterdir())[:3]
    images = [*portraits(shared, 6), *map(read_image, groups)]
    images += [image[5:, 3:] for image in images[:4]]  # sides that are no multiples of 32
    stage = YuNetFaces(score_threshold=score, overlap_threshold=threshold)
    faces = 0
    for image, found in zip(images, found_by(stage, images, weights=yunet), strict=True):
        expected = plain_yunet(shared / "weights/yunet.onnx", image, score=score, overlap=threshold)
        assert len(found["scores"]) == len(expected)
        left, top, width, height = expected[:, :4].T
        corners = np.stack([left, top, left + width, top + height], axis=1)
        # Pixels: the two libraries add up in another order.
        np.testing.assert_allclose(found["corners"], corners, rtol=0, atol=2e-4)
        np.testing.assert_allclose(found["landmarks"].reshape(-1, 10), expected[:, 4:14], rtol=0, atol=2e-4)
        np.testing.assert_allclose(found["scores"], expected[:, 14], rtol=0, atol=2e-6)
        faces += len(expected)
    assert faces > len(images)


def test_yunet_landmarks_lie_where_they_should(astronaut: Pixels, yunet: WeightsLocator) -> None:
    (found,) = found_by(YuNetFaces(), [astronaut], weights=yunet)
    right_eye, left_eye, nose, right_mouth, left_mouth = found["landmarks"][0]
    # The person's right is the picture's left.
    assert right_eye[0] < nose[0] < left_eye[0]
    assert right_mouth[0] < left_mouth[0]
    assert max(right_eye[1], left_eye[1]) < nose[1] < min(right_mouth[1], left_mouth[1])


def test_yunet_finds_large_faces_in_large_images(shared: Path, yunet: WeightsLocator) -> None:
    small = portraits(shared, 2)
    large = [cv2.resize(image, (2048, 2048), interpolation=cv2.INTER_CUBIC) for image in small]
    in_small = found_by(YuNetFaces(), small, weights=yunet)
    in_large = found_by(YuNetFaces(), large, weights=yunet)
    as_they_are = found_by(YuNetFaces(longest_side=None), large, weights=yunet)
    assert sum(len(found["scores"]) for found in as_they_are) <= 1
    for first, second in zip(in_small, in_large, strict=True):
        assert len(first["scores"]) == len(second["scores"]) == 1
        assert overlap(first["corners"][0] * 2048 / 480, second["corners"][0]) > 0.85
        np.testing.assert_allclose(first["landmarks"][0] * 2048 / 480, second["landmarks"][0], atol=40)


def test_yunet_shrinks_to_the_longest_side(astronaut: Pixels, yunet: WeightsLocator) -> None:
    wide = np.concatenate([astronaut, np.zeros((512, 488, 3), np.uint8)], axis=1)
    (found,) = found_by(YuNetFaces(longest_side=500), [wide], weights=yunet)
    shrunk = cv2.resize(wide, (500, 256), interpolation=cv2.INTER_AREA)
    (expected,) = found_by(YuNetFaces(longest_side=None), [shrunk], weights=yunet)
    np.testing.assert_array_equal(found["corners"], expected["corners"] * np.float32(2))
    np.testing.assert_array_equal(found["landmarks"], expected["landmarks"] * np.float32(2))


def test_yunet_refuses_another_file(tmp_path: Path, shared: Path) -> None:
    path = tmp_path / "yunet.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(WeightsError, match=r"'.*yunet\.onnx' is no ONNX network"):
        YuNetFaces(network=str(path)).load(ANYWHERE)
    with pytest.raises(WeightsError, match=r"gear\.onnx' is no YuNet network: it gives .*; needed are cls, obj"):
        YuNetFaces(network=str(shared / "weights/gear.onnx")).load(ANYWHERE)


# All of them


@pytest.mark.parametrize("stage", [DlibHogFaces(), DlibHogFaces(upsample=1), DlibCnnFaces(), YuNetFaces()])
def test_image_without_a_face_has_no_boxes(stage: Stage, yunet: WeightsLocator) -> None:
    images = [plain(0, 0, 0), plain(200, 10, 10, height=60, width=90), noise(70, 50), noise(1, 1), noise(1, 300)]
    for found in found_by(stage, images, weights=yunet):
        assert {name: array.shape for name, array in found.items()} == {
            "corners": (0, 4),
            "scores": (0,),
            "landmarks": (0, 0, 2),
        }


@pytest.mark.parametrize("stage", [DlibHogFaces(), YuNetFaces()])
def test_what_else_is_in_the_batch_does_not_matter(stage: Stage, shared: Path, yunet: WeightsLocator) -> None:
    frames = frames_of([*portraits(shared, 2), noise(90, 70), plain(9, 9, 9)])
    detect = stage.load(yunet)
    for frame, first in zip(frames, detect(frames), strict=True):
        (second,) = detect([frame])
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_faces_of_a_group_are_all_found(shared: Path, yunet: WeightsLocator) -> None:
    groups = [read_image(path) for path in sorted((shared / "data/group_scenes/images").iterdir())]
    several = [len(areas(found)) >= 2 for found in found_by(YuNetFaces(), groups, weights=yunet)]
    assert np.mean(several) > 0.9
