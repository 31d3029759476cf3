"""The tiled image pyramid of dlib's CNN face detector, and the way back from the network's output to face boxes.

dlib shrinks an image again and again by 5/6, lays all sizes side by side into one large image, and slides one face
window of fixed size over it. Where a size lies in that image decides the phase in which the window, which moves in
steps of 8 pixels, crosses it: to give dlib's boxes and scores, the layout has to be dlib's, pixel by pixel.

All this follows dlib 20.0 (`image_pyramid.h`, `input.h`, `loss.h` and `box_overlap_testing.h` of its source).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.perception.faces.dlib_cnn_weights import DetectorWeights, Floats

_SHRINKING = 6  # each level has 5/6 of the width and height of the one before
_LOWEST_LEVEL = 5  # pixels
_GAP = 10
_BORDER = 11
_STEP = 8  # pixels of the tiled image from one output of the network to the next
_FIRST_CENTRE = 14  # where the first output's window has its centre
_POINT_SHIFT = 0.3  # dlib's estimate of how far its shrinking moves the picture
_DOUBLING_SHIFT = (1.25, 0.75)  # likewise for doubling, in x and y

Resize = Callable[[Floats, int, int], Floats]
"""Resizes planes (channels, height, width) to the given height and width as `resize_bilinear` does."""


class Level(NamedTuple):
    """One size of the image: where it lies in the tiled image, in pixels."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class TiledPyramid:
    """Where all sizes of an image lie.

    Attributes:
        width: of the tiled image.
        height: of the tiled image.
        levels: largest (the image itself) first.
    """

    width: int
    height: int
    levels: tuple[Level, ...]


def plan_pyramid(*, width: int, height: int) -> TiledPyramid:
    """Lay out the pyramid of an image.

    The levels go down one column at the left, until the next one would fit beside the last and at least half of
    the remaining height is used; the rest goes up again at the right, from the bottom, as far as there is room
    below the image itself.
    """
    sizes = _level_sizes(width, height)
    total = sum(level_height + _GAP for _, level_height in sizes) - 2 * _GAP
    used, previous = 0, 0
    for level_width, level_height in sizes:
        fits_beside = level_width <= width - previous - _GAP
        if fits_beside and 2 * (used - height) >= total - height:
            break
        used += level_height + _GAP
        previous = level_width
    used -= _GAP

    levels: list[Level] = []
    bottom = _BORDER
    while bottom < used + _BORDER and len(levels) < len(sizes):
        level_width, level_height = sizes[len(levels)]
        levels.append(Level(_BORDER, bottom, level_width, level_height))
        bottom += level_height + _GAP
    bottom -= _GAP
    for level_width, level_height in sizes[len(levels) :]:
        top = bottom - level_height
        if top < _BORDER + height:
            break
        levels.append(Level(_BORDER + width - level_width, top, level_width, level_height))
        bottom = top - _GAP
    return TiledPyramid(width + 2 * _BORDER, used + 2 * _BORDER, tuple(levels))


def _level_sizes(width: int, height: int) -> list[tuple[int, int]]:
    sizes = [(width, height)]
    rate = (_SHRINKING - 1.0) / _SHRINKING
    while True:
        width, height = math.floor(rate * width), math.floor(rate * height)
        if width == 0 or height < _LOWEST_LEVEL:
            return sizes
        sizes.append((width, height))


def tile(
    pixels: NDArray[np.uint8],
    pyramid: TiledPyramid,
    *,
    mean_colour: tuple[float, float, float],
    resize: Resize | None = None,
) -> Floats:
    """Draw the tiled image: (RGB - mean colour) / 256, and 0 where no level lies.

    Args:
        pixels: (height, width, 3), RGB; already enlarged, where that is wanted.
        pyramid: the plan for this size.
        mean_colour: red, green, blue, 0 to 255.
        resize: a faster equivalent of `resize_bilinear`.

    Returns:
        (3, pyramid.height, pyramid.width).
    """
    shrink = resize_bilinear if resize is None else resize
    canvas = np.zeros((3, pyramid.height, pyramid.width), np.float32)
    level = np.empty((3, *pixels.shape[:2]), np.float32)
    for channel, mean in enumerate(mean_colour):
        np.subtract(pixels[..., channel], np.float32(mean), out=level[channel])
    level /= 256
    for place, (left, top, width, height) in enumerate(pyramid.levels):
        if place > 0:
            level = shrink(level, height, width)
        canvas[:, top : top + height, left : left + width] = level
    return canvas


def resize_bilinear(planes: Floats, height: int, width: int) -> Floats:
    """Resize (channels, height, width) so that corner pixels stay at the corners, by linear interpolation."""
    top, bottom, down = _neighbours(planes.shape[1], height)
    left, right, across = _neighbours(planes.shape[2], width)
    upper, rows = np.take(planes, top, axis=1), np.take(planes, bottom, axis=1)
    rows -= upper
    rows *= down.astype(np.float32)[:, None]
    rows += upper
    first, resized = np.take(rows, left, axis=2), np.take(rows, right, axis=2)
    resized -= first
    resized *= across.astype(np.float32)
    resized += first
    return resized


def _neighbours(size: int, resized: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each place in the result, the two source places around it, and how far it is from the first."""
    position = np.arange(resized) * ((size - 1) / max(resized - 1, 1))
    before = np.minimum(position.astype(np.intp), size - 1)
    return before, np.minimum(before + 1, size - 1), position - before


def find_boxes(
    scores: Floats, pyramid: TiledPyramid, weights: DetectorWeights, *, upsample: int
) -> tuple[NDArray[np.float32], Floats]:
    """Turn the network's output for one image into face boxes.

    Args:
        scores: (rows, columns); above 0 is a face.
        pyramid: the plan of the tiled image that the network saw.
        weights: window and overlap thresholds.
        upsample: how many times the image was doubled before.

    Returns:
        Corners (boxes, 4) in pixels of the image before doubling, right and bottom outside the box, and scores
        (boxes,), highest first.
    """
    rows, columns = np.nonzero(scores > 0)
    found = scores[rows, columns]
    order = np.argsort(-found, kind="stable")
    kept_boxes: list[tuple[int, int, int, int]] = []
    kept_scores: list[float] = []
    for place in order:
        box = _box_in_image(int(rows[place]), int(columns[place]), pyramid, weights.window)
        if not any(_overlap(box, other, weights) for other in kept_boxes):
            kept_boxes.append(box)
            kept_scores.append(float(found[place]))
    # dlib's boxes include their last column and row.
    corners = [(left, top, right + 1, bottom + 1) for left, top, right, bottom in _halved(kept_boxes, upsample)]
    return np.array(corners, np.float32).reshape(-1, 4), np.array(kept_scores, np.float32)


def _box_in_image(
    row: int, column: int, pyramid: TiledPyramid, window: tuple[int, int]
) -> tuple[int, int, int, int]:
    """The window of one output in whole pixels of the image: left, top, right, bottom, the last two inside."""
    centre = (_STEP * column + _FIRST_CENTRE, _STEP * row + _FIRST_CENTRE)
    number = _nearest_level(centre, pyramid)
    corner = pyramid.levels[number][:2]
    edges = []
    for sign in (-1, 1):
        for axis in (0, 1):
            place = centre[axis] - corner[axis] + sign * (window[axis] - 1) / 2
            for _ in range(number):
                place = place * (_SHRINKING / (_SHRINKING - 1.0)) + _POINT_SHIFT
            edges.append(math.floor(place + 0.5))
    return edges[0], edges[1], edges[2], edges[3]


def _nearest_level(point: tuple[int, int], pyramid: TiledPyramid) -> int:
    """The level that a point of the tiled image lies on, or the first of the nearest."""
    distances = []
    for left, top, width, height in pyramid.levels:
        away_x = max(left - point[0], 0, point[0] - (left + width - 1))
        away_y = max(top - point[1], 0, point[1] - (top + height - 1))
        distances.append(away_x**2 + away_y**2)
    return distances.index(min(distances))


def _halved(found: list[tuple[int, int, int, int]], times: int) -> list[tuple[int, ...]]:
    """Boxes of a doubled image in pixels of the original."""
    halved = []
    for box in found:
        edges: list[float] = list(box)
        for _ in range(times):
            edges = [edge / 2 - _DOUBLING_SHIFT[place % 2] for place, edge in enumerate(edges)]
        halved.append(tuple(math.floor(edge + 0.5) for edge in edges))
    return halved


def _overlap(one: tuple[int, ...], other: tuple[int, ...], weights: DetectorWeights) -> bool:
    """dlib's rule: the "union" is the smallest rectangle around both, not the union of their areas."""
    inner = _area(*map(max, one[:2], other[:2]), *map(min, one[2:], other[2:]))
    if inner == 0:
        return False
    outer = _area(*map(min, one[:2], other[:2]), *map(max, one[2:], other[2:]))
    covered = max(inner / _area(*one), inner / _area(*other))
    return inner / outer > weights.overlap_iou or covered > weights.overlap_covered


def _area(left: Any, top: Any, right: Any, bottom: Any) -> int:
    width, height = right - left + 1, bottom - top + 1
    return int(width * height) if width > 0 and height > 0 else 0
