"""Boxes, and the region of an image that a classifier sees, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from running import Pixels, noise

from detector_bench.perception.boxes import Crop, areas, boxes, largest
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.stage import Frame
from detector_bench.perception.yolo import YoloPersons

FACES = DlibHogFaces()
IMAGE = noise(20, 30)


def cut(crop: Crop, *corners: list[float], image: Pixels = IMAGE) -> Pixels | None:
    """What is cut out of an image with these boxes."""
    return crop.cut(Frame("one", pixels=image, results={FACES: boxes(corners, [1.0] * len(corners))}))


def region(crop: Crop, *corners: list[float]) -> tuple[int, int, int, int] | None:
    return crop.corners(boxes(corners, [1.0] * len(corners)))


# Boxes


def test_no_boxes_have_the_same_shapes_as_some() -> None:
    none, one = boxes([], []), boxes([[1, 2, 3, 4]], [0.5])
    assert {name: (array.shape[1:], array.dtype) for name, array in none.items()} == {
        name: (array.shape[1:], array.dtype) for name, array in one.items()
    }
    assert len(boxes([], [], np.zeros((0, 10)))["landmarks"]) == 0


def test_landmarks_become_points() -> None:
    found = boxes([[0, 0, 9, 9]], [0.5], np.arange(10.0)[None])
    assert found["landmarks"].tolist() == [[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]]


def test_largest_box_by_area_and_the_first_of_equals() -> None:
    found = boxes([[0, 0, 2, 3], [5, 5, 9, 8], [1, 1, 4, 5]], [0.9, 0.1, 0.8])
    assert areas(found).tolist() == [6, 12, 12]
    assert largest(found) == 1
    assert largest(boxes([], [])) is None


# The region of a box


@pytest.mark.parametrize(
    ("crop", "box", "expected"),
    [
        (Crop(boxes=FACES), [10, 4, 20, 12], (10, 4, 20, 12)),
        # 10 wide and 8 high about (15, 8): 12 x 9.6, rounded.
        (Crop(boxes=FACES, margin=1.2), [10, 4, 20, 12], (9, 3, 21, 13)),
        (Crop(boxes=FACES, margin=0.5), [10, 4, 20, 12], (12, 6, 18, 10)),
        (Crop(boxes=FACES, square=True), [10, 4, 20, 12], (10, 3, 20, 13)),
        (Crop(boxes=FACES, square=True), [10, 4, 14, 12], (8, 4, 16, 12)),
        (Crop(boxes=FACES, square=True, margin=1.5), [10, 4, 14, 12], (6, 2, 18, 14)),
        # About (3, 3), 12 x 12: over the border on the left and at the top.
        (Crop(boxes=FACES, margin=2), [0, 0, 6, 6], (-3, -3, 9, 9)),
        # Thinner than a pixel, it is still one pixel.
        (Crop(boxes=FACES, margin=0.1), [10, 4, 12, 6], (11, 5, 12, 6)),
    ],
)
def test_region_is_the_box_about_its_centre(crop: Crop, box: list[float], expected: tuple[int, ...]) -> None:
    assert region(crop, box) == expected


def test_region_is_that_of_the_largest_box() -> None:
    assert region(Crop(boxes=FACES), [0, 0, 4, 4], [10, 10, 15, 15], [20, 0, 24, 4]) == (10, 10, 15, 15)
    assert region(Crop(boxes=FACES)) is None


# What is cut out


def test_without_boxes_the_whole_image_is_seen() -> None:
    assert Crop().cut(Frame("one", pixels=IMAGE)) is IMAGE
    assert Crop().inputs() == ()


def test_region_inside_the_image_is_cut_out() -> None:
    for outside in ("clip", "black"):
        found = cut(Crop(boxes=FACES, outside=outside), [10, 4, 20, 12])
        np.testing.assert_array_equal(found, IMAGE[4:12, 10:20])


@pytest.mark.parametrize(
    ("box", "rows", "columns", "shape", "offset"),
    [
        ([-3, -2, 5, 6], slice(0, 6), slice(0, 5), (8, 8), (2, 3)),
        ([25, 15, 34, 24], slice(15, 20), slice(25, 30), (9, 9), (0, 0)),
        ([-1, -1, 31, 21], slice(0, 20), slice(0, 30), (22, 32), (1, 1)),
    ],
)
def test_region_over_the_border_is_clipped_or_filled_with_black(box, rows, columns, shape, offset) -> None:
    inside = IMAGE[rows, columns]
    np.testing.assert_array_equal(cut(Crop(boxes=FACES), box), inside)
    filled = cut(Crop(boxes=FACES, outside="black"), box)
    expected = np.zeros((*shape, 3), np.uint8)
    expected[offset[0] : offset[0] + inside.shape[0], offset[1] : offset[1] + inside.shape[1]] = inside
    np.testing.assert_array_equal(filled, expected)


@pytest.mark.parametrize(
    "box", [[40, 5, 50, 15], [-20, 5, -5, 15], [5, 20, 10, 30], [5, -10, 10, 0], [30, 0, 35, 5]]
)
def test_box_outside_the_image_is_no_box(box: list[float]) -> None:
    for outside in ("clip", "black"):
        assert cut(Crop(boxes=FACES, outside=outside), box) is None
        whole = Crop(boxes=FACES, outside=outside, without_box="whole_image")
        np.testing.assert_array_equal(cut(whole, box), IMAGE)


def test_image_without_a_box_is_filtered_or_seen_whole() -> None:
    assert cut(Crop(boxes=FACES)) is None
    np.testing.assert_array_equal(cut(Crop(boxes=FACES, without_box="whole_image")), IMAGE)


def test_reason_for_want_of_a_box() -> None:
    assert Crop(boxes=FACES).missing_reason == "no_face"
    assert Crop(boxes=YoloPersons()).missing_reason == "no_person"
    assert Crop(boxes=FACES, reason="face_hidden").missing_reason == "face_hidden"


@pytest.mark.parametrize(
    "wrong",
    [
        {"margin": 1.2},
        {"square": True},
        {"without_box": "whole_image"},
        {"boxes": FACES, "margin": 0},
        {"boxes": FACES, "margin": 160},
        {"boxes": FACES, "margin": float("nan")},
        {"boxes": FACES, "outside": "white"},
        {"boxes": FACES, "reason": "No face!"},
        {"boxes": FACES, "margins": 1.2},
        {"boxes": "no_such_stage"},
    ],
)
def test_wrong_crops_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Crop.model_validate(wrong)
