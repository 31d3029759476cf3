"""Faces: boxes of OpenCV's own YuNet detector, of dlib itself, and of the old package; chips as dlib cuts them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detector_bench_next.detector import Frame, Pixels, Stage, build
from detector_bench_next.detectors.boxes import boxes
from detector_bench_next.detectors.faces import AlignedFaces, DlibHogFaces, DlibLandmarks, WholeImage, YunetFaces
from detector_bench_next.errors import WeightsError
from detector_bench_next.weights import Weights, Where
from tests_next.detectors.conftest import framed

cv2 = pytest.importorskip("cv2")


def portraits(shared: Path, step: int) -> Iterator[tuple[str, Pixels]]:
    for path in sorted((shared / "data/t2i_portraits/images").iterdir())[::step]:
        yield path.stem, np.asarray(Image.open(path).convert("RGB"))


def found_by(stage: Stage, where: Where, pixels: Pixels) -> dict[str, Any]:
    (found,) = stage.load(where)([framed(pixels)])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("size", [None, (1000, 1301)])
def test_yunet_gives_opencvs_boxes(shared: Path, where: Where, size: tuple[int, int] | None) -> None:
    path = str(where.locate(YunetFaces().network))
    faces = 0
    for _, picture in portraits(shared, 48):
        pixels = picture if size is None else np.asarray(Image.fromarray(picture).resize(size))
        found = found_by(YunetFaces(longest_side=None), where, pixels)
        height, width = pixels.shape[:2]
        theirs = cv2.FaceDetectorYN.create(path, "", (width, height), 0.7, 0.3, 5000)
        rows = theirs.detect(np.ascontiguousarray(pixels[..., ::-1]))[1]
        rows = np.zeros((0, 15)) if rows is None else rows
        faces += len(rows)
        np.testing.assert_allclose(found["scores"], rows[:, 14], atol=1e-4)
        np.testing.assert_allclose(found["corners"][:, :2], rows[:, :2], atol=0.01)
        np.testing.assert_allclose(found["corners"][:, 2:] - found["corners"][:, :2], rows[:, 2:4], atol=0.01)
        np.testing.assert_allclose(found["landmarks"].reshape(-1, 10), rows[:, 4:14], atol=0.01)
    assert size or faces >= 5


def test_large_images_are_shrunk_first(shared: Path, where: Where) -> None:
    small = next(picture for _, picture in portraits(shared, 1))
    large = np.asarray(Image.fromarray(small).resize((2048, 2048)))
    at = {side: found_by(YunetFaces(longest_side=side), where, large)["corners"] for side in (640, 480)}
    once = found_by(YunetFaces(), where, small)["corners"]
    assert len(once) == 1
    np.testing.assert_allclose(at[640] * small.shape[1] / 2048, once, atol=6)
    np.testing.assert_allclose(at[480] * small.shape[1] / 2048, once, atol=6)


def test_another_network_is_refused(shared: Path, where: Where, tmp_path: Path) -> None:
    for network in (Weights(path="gear.onnx"), Weights(path=str(tmp_path / "cut.onnx"))):
        (tmp_path / "cut.onnx").write_bytes(b"\x08\x07 no network")
        with pytest.raises(WeightsError, match=r"is no YuNet network|onnxruntime cannot read"):
            YunetFaces(network=network).load(where)


def test_boxes_of_the_old_package(shared: Path, where: Where) -> None:
    file = shared / "design/golden/detectors/boxes.csv.gz"
    stages = {"yunet": YunetFaces(), "hog": DlibHogFaces(), "hog_up1": DlibHogFaces(upsample=1)}
    wanted: dict[tuple[str, str], list[list[float]]] = {}
    for stage, image, *_, left, top, right, bottom, score in list(csv.reader(gzip.open(file, "rt")))[1:]:
        row = [[float(x) for x in (left, top, right, bottom, score)]] if score else []
        wanted[stage, image] = wanted.get((stage, image), []) + row
    loaded = {name: stage.load(where) for name, stage in stages.items()}
    for image, pixels in portraits(shared, 4 * 12):
        for name in stages:
            (found,) = loaded[name]([framed(pixels)])
            rows = np.array(wanted[name, image]).reshape(-1, 5)
            np.testing.assert_allclose(found["corners"], rows[:, :4], atol=0.01)
            np.testing.assert_allclose(found["scores"], rows[:, 4], atol=1e-4)


def test_hog_gives_dlibs_rectangles(where: Where, pictures: dict[str, Pixels]) -> None:
    dlib = pytest.importorskip("dlib")
    found = found_by(DlibHogFaces(), where, pictures["face"])
    (rectangle,) = dlib.get_frontal_face_detector()(pictures["face"])
    left, top, right, bottom = found["corners"][0]
    assert (left, top, right, bottom) == (
        rectangle.left(),
        rectangle.top(),
        rectangle.right() + 1,
        rectangle.bottom() + 1,
    )
    assert right - left == rectangle.width()


def with_faces(stage: Any, pixels: Pixels, *corners: tuple[float, ...], scores: list[float]) -> Frame:
    frame = framed(pixels)
    frame.results[stage.faces] = boxes(corners, scores)
    return frame


def test_chips_are_cut_as_dlib_does(where: Where, pictures: dict[str, Pixels]) -> None:
    dlib = pytest.importorskip("dlib")
    stage = AlignedFaces(faces=DlibHogFaces(), longest_side=None, size=80)
    if lacking := stage.lacks(where):
        pytest.skip(lacking[0])
    box = (68.0, 32.0, 176.0, 140.0)
    (found, none) = stage.load(where)(
        [with_faces(stage, pictures["face"], box, scores=[1]), with_faces(stage, pictures["face"], scores=[])]
    )
    assert none == {}
    predictor = dlib.shape_predictor(str(where.locate(stage.landmarks)))
    shape = predictor(pictures["face"], dlib.rectangle(68, 32, 175, 139))
    chip = dlib.get_face_chip(pictures["face"], shape, size=80, padding=0.25)
    assert np.array_equal(found["chip"], chip)


def test_the_largest_or_the_surest_face(where: Where, pictures: dict[str, Pixels]) -> None:
    chips = []
    for face in ("largest", "surest"):
        stage = build("stage", {"kind": "aligned_faces", "faces": "dlib_hog_faces", "face": face})
        if lacking := stage.lacks(where):
            pytest.skip(lacking[0])
        frame = with_faces(stage, pictures["face"], (68, 32, 176, 140), (0, 150, 60, 210), scores=[1, 2])
        chips.append(stage.load(where)([frame])[0]["chip"])
    assert not np.array_equal(*chips)


def test_landmarks_need_the_right_predictor(where: Where, pictures: dict[str, Pixels]) -> None:
    pytest.importorskip("dlib")
    stage = DlibLandmarks(faces=DlibHogFaces())
    if lacking := stage.lacks(where):
        pytest.skip(lacking[0])
    (found,) = stage.load(where)([with_faces(stage, pictures["face"], (68, 32, 176, 140), scores=[1])])
    assert found["landmarks"].shape == (1, 68, 2)
    five = where.find(Weights(path="shape_predictor_5_face_landmarks.dat"))
    with pytest.raises(WeightsError, match="finds 5 landmarks of a face; 68 are needed"):
        DlibLandmarks(network=Weights(path=str(five))).load(where)


def test_a_whole_image_is_its_own_copy(pictures: dict[str, Pixels]) -> None:
    frame = framed(pictures["noise"])
    (found,) = WholeImage().load(Where())([frame])
    assert np.array_equal(found["chip"], frame.pixels)
    assert found["chip"].base is None
