"""Which pixels belong to the skin of a face, by its 68 landmarks. Pure geometry.

Landmarks are those of iBUG 300-W, (68, 2), x and y in pixels, where a pixel's centre has whole coordinates: 0-16
the jaw line from ear to ear, 36-41 and 42-47 the eyes, 48-59 the outer line of the mouth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LANDMARKS = 68
JAW = slice(0, 17)
HOLES = (slice(36, 42), slice(42, 48), slice(48, 60))
"""What is on a face and is no skin: both eyes and the mouth."""

_ARC_STEPS = 18


class FaceRegion(NamedTuple):
    """A part of an image, and which of its pixels are meant; `mask` is (rows, columns)."""

    rows: slice
    columns: slice
    mask: NDArray[np.bool_]


def face_outline(landmarks: NDArray[Any]) -> NDArray[np.float64]:
    """The outline of a face, (34, 2): the jaw line, closed by a semicircle over the forehead.

    The semicircle stands on the chord between the ends of the jaw line, |x16 - x0| across, on the side that the
    jaw does not hang down to; so it turns with the head, and a face upside down is outlined like any other. It is
    drawn in 18 straight pieces of 10 degrees, as in BiasPainter's released program.

    Known divergence: in that program the semicircle always points to the top of the image, and its diameter is the
    horizontal distance of the two points. For an upright head this is the same.
    """
    jaw = np.asarray(landmarks[JAW], dtype=np.float64)
    middle, radius = (jaw[0] + jaw[-1]) / 2, (jaw[-1] - jaw[0]) / 2
    across = np.array([radius[1], -radius[0]])
    hangs = float(((jaw - middle) @ across).sum())
    up = -across if hangs > 0 else across
    angle = np.linspace(0, np.pi, _ARC_STEPS + 1)[1:-1, None]
    return np.concatenate([jaw, middle + np.cos(angle) * radius + np.sin(angle) * up])


def pixels_inside(polygon: NDArray[Any], *, left: int, top: int, width: int, height: int) -> NDArray[np.bool_]:
    """Which pixels of a rectangle lie inside a polygon, (height, width).

    A pixel is inside if its centre is, by the even-odd rule: a ray to the left crosses an odd number of edges. Of
    pixels that lie on an edge, those at the right and at the bottom are inside, so that of two polygons with a
    common edge each pixel belongs to one. Drawing functions, as OpenCV's or Pillow's, also take every pixel that
    the edge touches: OpenCV makes an eye 30 pixels wide some 14 % larger.

    Args:
        polygon: (corners, 2), x and y; the last corner is joined to the first. It may reach over the rectangle.
        left: column of the rectangle's first pixel in the coordinates of the polygon.
        top: likewise its row.
        width: of the rectangle.
        height: of the rectangle.
    """
    start = np.asarray(polygon, dtype=np.float64)
    end = np.roll(start, -1, axis=0)
    rows = top + np.arange(height)
    edges, lines = np.nonzero((start[:, 1, None] < rows) != (end[:, 1, None] < rows))
    (x, y), (across, down) = start[edges].T, (end - start)[edges].T
    crossings = x + (rows[lines] - y) * across / down
    first_right = np.clip(np.floor(crossings).astype(np.int64) + 1 - left, 0, width)
    # One column more takes the crossings that lie right of the rectangle.
    crossed = np.bincount(lines * (width + 1) + first_right, minlength=height * (width + 1))
    counts = np.cumsum(crossed.astype(np.uint8).reshape(height, width + 1), axis=1, dtype=np.uint8)
    inside: NDArray[np.bool_] = (counts[:, :width] & 1).astype(np.bool_)
    return inside


def skin_region(landmarks: NDArray[Any], *, width: int, height: int) -> FaceRegion:
    """The skin of a face in an image: inside of the outline, outside of both eyes and the mouth.

    Args:
        landmarks: (68, 2); they may lie outside the image.
        width: of the image.
        height: of the image.

    Returns:
        The part of the image around the face, with the mask of its skin; it is empty for a face outside the image.
    """
    outline = face_outline(landmarks)
    lowest, highest = np.floor(outline.min(axis=0)), np.ceil(outline.max(axis=0)) + 1
    left, top = (int(value) for value in np.clip(lowest, 0, (width, height)))
    right, bottom = (int(value) for value in np.clip(highest, 0, (width, height)))
    place = {"left": left, "top": top, "width": right - left, "height": bottom - top}
    mask = pixels_inside(outline, **place)
    for hole in HOLES:
        mask &= ~pixels_inside(landmarks[hole], **place)
    return FaceRegion(slice(top, bottom), slice(left, right), mask)
