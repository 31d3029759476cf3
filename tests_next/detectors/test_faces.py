"""Faces: boxes of OpenCV's own YuNet detector, of dlib itself, and of the old package; chips as dlib cuts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detector_bench_next.detector import Frame, Pixels, build
from detector_bench_next.detectors.boxes import boxes
from detector_bench_next.detectors.faces import AlignedFaces, DlibHogFaces, DlibLandmarks, WholeImage, YunetFaces
from detector_bench_next.errors import WeightsError
from detector_bench_next.weights import Weights, Where
from tests_next.detectors.conftest import framed
from tests_next.detectors.pictures import files, read, results

cv2 = pytest.importorskip("cv2")


@pytest.mark.parametrize("size", [None, (700, 911)])
def test_yunet_gives_opencvs_boxes(shared: Path, where: Where, size: tuple[int, int] | None) -> None:
    path = str(where.locate(YunetFaces().network))
    faces = 0
    for picture in map(read, files(shared, "t2i_portraits", 80)):
        pixels = picture if size is None else np.asarray(Image.fromarray(picture).resize(size))
        (found,) = results(YunetFaces(longest_side=None), [pixels], where)
        height, width = pixels.shape[:2]
        theirs = cv2.FaceDetectorYN.create(path, "", (width, height), 0.7, 0.3, 5000)
        rows = theirs.detect(np.ascontiguousarray(pixels[..., ::-1]))[1]
        rows = np.zeros((0, 15)) if rows is None else rows
        faces += len(rows)
        np.testing.assert_allclose(found["scores"], rows[:, 14], atol=1e-4)
        np.testing.assert_allclose(found["corners"][:, :2], rows[:, :2], atol=0.01)
        np.testing.assert_allclose(found["corners"][:, 2:] - found["corners"][:, :2], rows[:, 2:4], atol=0.01)
        np.testing.assert_allclose(found["landmarks"].reshape(-1, 10), rows[:, 4:14], atol=0.01)
    assert size or faces >= 4


def test_large_images_are_shrunk_first(shared: Path, where: Where) -> None:
    picture = read(files(shared, "t2i_portraits", 1)[0])
    large = np.asarray(Image.fromarray(picture).resize((1000, 800)))
    small = cv2.resize(large, (640, 512), interpolation=cv2.INTER_AREA)
    (found,), (within,) = (
        results(YunetFaces(), [large], where),
        results(YunetFaces(longest_side=None), [small], where),
    )
    assert len(found["scores"]) == 1
    np.testing.assert_allclose(found["corners"], within["corners"] / 0.64, rtol=1e-6)
    np.testing.assert_allclose(found["landmarks"], within["landmarks"] / 0.64, rtol=1e-6)


def test_another_network_is_refused(shared: Path, where: Where, tmp_path: Path) -> None:
    for network in (Weights(path="gear.onnx"), Weights(path=str(tmp_path / "cut.onnx"))):
        (tmp_path / "cut.onnx").write_bytes(b"\x08\x07 no network")
        with pytest.raises(WeightsError, match=r"is no YuNet network|onnxruntime cannot read"):
            YunetFaces(network=network).load(where)


def test_hog_gives_dlibs_rectangles(where: Where, pictures: dict[str, Pixels]) -> None:
    dlib = pytest.importorskip("dlib")
    (found,) = results(DlibHogFaces(), [pictures["face"]], where)
    (box,) = dlib.get_frontal_face_detector()(pictures["face"])
    assert found["corners"][0].tolist() == [
        box.left(),
        box.top(),
        box.left() + box.width(),
        box.top() + box.height(),
    ]


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
