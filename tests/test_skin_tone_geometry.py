"""Which pixels are facial skin: polygons counted by hand, and the outline of a face in every position."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from skin_faces import HEIGHT, WIDTH, square_face

from detector_bench.perception.skin_tones import face_outline, pixels_inside, skin_region

SQUARE = np.array([(1, 1), (4, 1), (4, 3), (1, 3)])


def drawn(
    polygon: NDArray[np.float64], *, left: int = 0, top: int = 0, width: int = 6, height: int = 5
) -> list[str]:
    inside = pixels_inside(np.asarray(polygon), left=left, top=top, width=width, height=height)
    return ["".join(".#"[pixel] for pixel in row) for row in inside.astype(int)]


def skin(landmarks: NDArray[np.float32], *, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.bool_]:
    """The mask in an image of that size."""
    image = np.zeros((height, width), bool)
    region = skin_region(landmarks, width=width, height=height)
    image[region.rows, region.columns] = region.mask
    return image


def test_right_and_bottom_edges_are_inside_left_and_top_ones_are_not() -> None:
    assert drawn(SQUARE) == ["......", "......", "..###.", "..###.", "......"]


def test_a_rectangle_may_start_anywhere() -> None:
    assert drawn(SQUARE, left=3, top=2, width=3, height=3) == ["##.", "##.", "..."]
    assert drawn(SQUARE, left=-2, top=-1, width=5, height=4) == [".....", ".....", ".....", "....#"]
    assert drawn(SQUARE, left=9, top=0) == ["......"] * 5


def test_corners_between_pixels() -> None:
    # At row 1 the triangle reaches from 0.5 to 4.5 - 1/3, at row 2 to 4.5 - 5/3, at row 3 to 4.5 - 3.
    triangle = [(0.5, 0.75), (4.5, 0.75), (0.5, 3.75)]
    assert drawn(triangle) == ["......", ".####.", ".##...", ".#....", "......"]


def test_a_notch_stays_outside_and_a_line_has_no_inside() -> None:
    notched = [(0, 0), (5, 0), (5, 4), (3, 4), (3, 2), (2, 2), (2, 4), (0, 4)]
    assert drawn(notched) == ["......", ".#####", ".#####", ".##.##", ".##.##"]
    assert drawn([(0, 2), (5, 2), (5, 2), (0, 2)]) == ["......"] * 5


def test_polygons_with_a_common_edge_share_no_pixel_and_leave_none_out() -> None:
    slanted = [(0, 0), (2, 0), (4, 5), (0, 5)], [(2, 0), (6, 0), (6, 5), (4, 5)]
    left, right = (pixels_inside(np.array(part), left=0, top=0, width=8, height=7) for part in slanted)
    whole = pixels_inside(np.array([(0, 0), (6, 0), (6, 5), (0, 5)]), left=0, top=0, width=8, height=7)
    np.testing.assert_array_equal(left ^ right, whole)
    assert not (left & right).any()


def test_the_outline_is_the_jaw_and_a_semicircle_over_it() -> None:
    outline = face_outline(square_face())
    assert outline.shape == (34, 2)
    np.testing.assert_array_equal(outline[:17], square_face()[:17])
    arc = outline[17:]
    np.testing.assert_allclose(np.hypot(*(arc - [30, 30]).T), 20)
    assert (arc[:, 1] < 30).all()
    np.testing.assert_allclose(arc[8], [30, 10])
    # From the end of the jaw line to its beginning: 10 degrees further, and so on.
    np.testing.assert_allclose(arc[0], [30 + 20 * math.cos(math.pi / 18), 30 - 20 * math.sin(math.pi / 18)])
    x, y = outline.T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    # The square, and 18 triangles with two sides of 20 and 10 degrees between them.
    assert area == pytest.approx(1600 + 18 * 200 * math.sin(math.pi / 18))


@pytest.mark.parametrize("degrees", [30, 90, 180, 250])
def test_the_semicircle_turns_with_the_head(degrees: int) -> None:
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    np.testing.assert_allclose(face_outline(square_face() @ turn), face_outline(square_face()) @ turn, atol=1e-4)


def test_a_mirrored_face_has_its_forehead_on_top_too() -> None:
    mirrored = square_face() * [-1, 1] + [60, 0]
    np.testing.assert_allclose(face_outline(mirrored)[17 + 8], [30, 10])


def test_skin_is_the_face_without_eyes_and_mouth() -> None:
    mask = skin(square_face())
    below = np.zeros((HEIGHT, WIDTH), bool)
    below[31:71, 11:51] = True
    below[39:43, 17:23] = below[39:43, 37:43] = below[56:61, 23:39] = False
    assert below.sum() == 1600 - 24 - 24 - 80
    np.testing.assert_array_equal(mask[31:], below[31:])
    # The semicircle: its highest row, the pixel below its top, and those beside it and in its corners.
    assert not mask[:11].any()
    assert mask[11, 30]
    assert mask[29, 30]
    assert not mask[12, 14]
    assert not mask[12, 46]
    assert mask[:31].sum() == pytest.approx(18 * 200 * math.sin(math.pi / 18), rel=0.03)


@pytest.mark.parametrize(("x", "y"), [(-30, 0), (25, 0), (0, -45), (0, 30), (-35, -40)])
def test_a_face_partly_outside_the_image_is_cut_off_there(x: int, y: int) -> None:
    wide = skin(square_face(60, 60), width=180, height=200)
    shifted = skin(square_face(x, y))
    assert 0 < shifted.sum() < wide.sum()
    np.testing.assert_array_equal(shifted, wide[60 - y :, 60 - x :][:HEIGHT, :WIDTH])


@pytest.mark.parametrize(("x", "y"), [(-60, 0), (64, 0), (0, -75), (0, 80), (5000, -5000)])
def test_a_face_outside_the_image_has_no_skin(x: int, y: int) -> None:
    region = skin_region(square_face(x, y), width=WIDTH, height=HEIGHT)
    assert region.mask.sum() == 0
    assert skin(square_face(x, y)).shape == (HEIGHT, WIDTH)


def test_landmarks_in_one_point_have_no_skin() -> None:
    assert skin(np.full((68, 2), 20, np.float32)).sum() == 0
