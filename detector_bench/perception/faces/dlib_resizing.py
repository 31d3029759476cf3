"""Resizes images exactly as dlib's `resize_image` does, without dlib.

Face networks trained on dlib's output, and boxes to be equal to dlib's, need its grey levels. dlib interpolates
linearly between corner pixels that stay at the corners, and cuts values off to whole numbers instead of rounding
them: on a plain surface the last bit of a weight decides about one grey level. So the weights follow dlib's
arithmetic: columns in groups of four in float32, the last ones, whose right neighbour could lie outside, in
float64 (dlib 20.0, `image_transforms/interpolation.h`).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

_ROWS_AT_ONCE = 64

LongestSide = Annotated[int | None, Field(ge=32, le=8192)]
"""Resize an image first, up or down, so that its longer side has this many pixels; None leaves it as it is."""


def sides_for(*, width: int, height: int, longest_side: int) -> tuple[int, int]:
    """Width and height of an image whose longer side becomes `longest_side`, both up and down.

    The shorter side is cut off to whole pixels, as in FairFace's published program, and is at least 1.
    """
    if width > height:
        return longest_side, max(1, int(longest_side * height / width))
    return max(1, int(longest_side * width / height)), longest_side


def resize_to_longest(pixels: NDArray[np.uint8], longest_side: int | None) -> NDArray[np.uint8]:
    """Resize (height, width, 3) as `sides_for` says; None leaves the image as it is."""
    if longest_side is None:
        return pixels
    height, width = pixels.shape[:2]
    new_width, new_height = sides_for(width=width, height=height, longest_side=longest_side)
    return resize(pixels, height=new_height, width=new_width)


def scaled(places: NDArray[Any], *, seen: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Carry corners or points, x and y in turn on the last axis, from an image over to a resized form of it.

    Args:
        places: pixels of the image `seen`.
        seen: (height, width, 3).
        wanted: the other form, in whose pixels the result is.
    """
    factors = [wanted.shape[1] / seen.shape[1], wanted.shape[0] / seen.shape[0]]
    return np.asarray(places * np.tile(factors, places.shape[-1] // 2), dtype=np.float32)


def double(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Double an image in size as dlib's face detectors do, to 2 width + 2 and 2 height + 1 pixels."""
    height, width = pixels.shape[:2]
    return resize(pixels, height=2 * height + 1, width=2 * width + 2)


def resize(pixels: NDArray[np.uint8], *, height: int, width: int) -> NDArray[np.uint8]:
    """Resize (rows, columns, 3) to the given height and width."""
    rows, columns = pixels.shape[:2]
    down = _between(_added_up(0.0, (rows - 1) / max(height - 1, 1), height), rows)
    step = (columns - 1) / max(width - 1, 1)
    grouped = _grouped_places(step, columns, width)
    count = len(grouped)
    left_part = _between(grouped, columns)
    right_part = _between(_added_up(count * step, step, width - count), columns)
    result = np.empty((height, width, 3), np.uint8)
    for start in range(0, height, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        first = down.before[start]
        source = pixels[first : down.after[part][-1] + 1]
        near = _Between(down.before[part] - first, down.after[part] - first, down.share[part])
        result[part, :count] = _in_float32(source, near, left_part)
        result[part, count:] = _in_float64(source, near, right_part)
    return result


class _Between(NamedTuple):
    """For each place in the result, the two source places around it, and how far it is from the first (0 to 1)."""

    before: NDArray[np.intp]
    after: NDArray[np.intp]
    share: NDArray[Any]


def _between(places: NDArray[Any], size: int) -> _Between:
    before = places.astype(np.intp)
    return _Between(before, np.minimum(before + 1, size - 1), places - before.astype(places.dtype))


def _added_up(start: float, step: float, count: int) -> NDArray[np.float64]:
    """`count` places from `start` on: dlib adds, rounding errors included, where one would multiply."""
    return np.cumsum(np.concatenate([[start - step], np.full(count, step)]))[1:]


def _grouped_places(step: float, columns: int, width: int) -> NDArray[np.float32]:
    """The source places of those groups of four columns whose right neighbours all lie inside."""
    current = (-4 * step + np.arange(4) * step).astype(np.float32)
    groups = np.empty((width // 4, 4), np.float32)
    for number in range(len(groups)):
        current = current + np.float32(4 * step)
        if int(current[3]) + 1 >= columns:
            return groups[:number].reshape(-1)
        groups[number] = current
    return groups.reshape(-1)


def _in_float32(source: NDArray[np.uint8], down: _Between, across: _Between) -> NDArray[np.float32]:
    """(rows, columns, 3): four weights, each rounded, times four grey levels."""
    near_top, near_bottom = (1 - down.share).astype(np.float32), down.share.astype(np.float32)
    near_left, near_right = np.repeat(np.float32(1) - across.share, 3), np.repeat(across.share, 3)
    lines = source.astype(np.float32)
    left, right = (np.take(lines, places, axis=1).reshape(len(lines), -1) for places in across[:2])
    total: NDArray[np.float32] = np.outer(near_top, near_left) * left[down.before]
    total += np.outer(near_top, near_right) * right[down.before]
    total += np.outer(near_bottom, near_left) * left[down.after]
    total += np.outer(near_bottom, near_right) * right[down.after]
    return total.reshape(len(total), -1, 3)


def _in_float64(source: NDArray[np.uint8], down: _Between, across: _Between) -> NDArray[np.float64]:
    """(rows, columns, 3): first along each of the two lines, then between them."""
    share = across.share[:, None]
    lines = (1 - share) * source[:, across.before] + share * source[:, across.after]
    weight = down.share[:, None, None]
    between: NDArray[np.float64] = (1 - weight) * lines[down.before] + weight * lines[down.after]
    return between
