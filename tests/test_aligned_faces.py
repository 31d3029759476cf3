"""One face per image, turned upright and cut out: dlib's chip, of the right face."""

from __future__ import annotations

from pathlib import Path

import cv2
import dlib
import numpy as np
import pytest
from running import Pixels, found_by, frames_of, plain, portraits

from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.aligned_faces import AlignedFaces
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import FACE_LANDMARKS_5

ANYWHERE = WeightsLocator(cache=Path("nowhere"))


@pytest.fixture(scope="module")
def faces(shared: Path) -> list[Pixels]:
    """Three portraits of 480 pixels, one of them cut to be no square."""
    first, second, third = portraits(shared, 3)
    return [first, np.ascontiguousarray(second[:, 60:430]), third]


@pytest.mark.slow
def test_a_chip_is_dlibs(faces: list[Pixels]) -> None:
    predictor = dlib.shape_predictor(str(ANYWHERE.locate(FACE_LANDMARKS_5)))
    stage = AlignedFaces(faces=DlibHogFaces(), longest_side=None)
    for image, found in zip(faces[:2], found_by(stage, faces[:2], weights=ANYWHERE), strict=True):
        rectangle = dlib.get_frontal_face_detector()(image, 0)[0]
        expected = dlib.full_object_detections()
        expected.append(predictor(image, rectangle))
        np.testing.assert_array_equal(
            found["chip"], dlib.get_face_chips(image, expected, size=300, padding=0.25)[0]
        )


def test_the_face_is_the_largest_or_the_surest(shared: Path) -> None:
    small, _, large = portraits(shared, 3)
    scene = np.zeros((600, 900, 3), np.uint8)
    scene[100:340, 50:290] = cv2.resize(small, (240, 240))
    scene[60:540, 400:880] = large
    (frame,) = frames_of([scene])
    faces = DlibCnnOnnxFaces()
    (found,) = found_by(faces, [scene], weights=ANYWHERE)
    order = np.argsort(found["corners"][:, 0])
    assert len(order) == 2
    chips = {}
    for face in ("largest", "surest"):
        # The small face, at the left, is given the higher score.
        frame.results[faces] = boxes(found["corners"][order], [0.9, 0.8])
        stage = AlignedFaces.model_validate({"faces": faces, "longest_side": None, "face": face})
        chips[face] = stage.load(ANYWHERE)([frame])[0]["chip"].astype(int)  # type: ignore[index]
    alone = [
        found_by(
            AlignedFaces(longest_side=None, faces=faces), [np.ascontiguousarray(scene[:, part])], weights=ANYWHERE
        )[0]["chip"]
        for part in (slice(350), slice(350, None))
    ]
    for own, other, chip in ((alone[1], alone[0], chips["largest"]), (alone[0], alone[1], chips["surest"])):
        # Boxes may lie a pyramid step apart, and the landmarks a little.
        assert np.abs(chip - own).mean() < 5 < np.abs(chip - other).mean()


def test_an_image_without_a_face_has_no_chip() -> None:
    stage = AlignedFaces(faces=DlibHogFaces())
    assert found_by(stage, [plain(9, 9, 9, height=64, width=64)], weights=ANYWHERE) == [{}]
