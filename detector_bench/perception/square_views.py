"""The last steps before a network: a region made square, and its mirror image. Pure functions of pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

Shape = Literal["as_is", "padded", "squashed"]
"""What becomes of a region that is no square."""

Fill = Literal["black", "mean", "edge"]
"""What the rest of a padded square shows."""

Views = Literal["as_is", "as_is_and_mirrored"]
"""What a network sees of a region."""

LARGEST_SIDE = 1024
"""Pixels: a square is never larger, so that a panorama fits into memory. Networks take a few hundred."""

LARGEST_ASPECT = 200
"""How many times as long as wide a region may be that is made square."""

View = TypeVar("View")
Output = TypeVar("Output")


def shaped(region: Pixels, shape: Shape, *, fill: Fill = "black") -> Pixels:
    """A region, (height, width, 3), in a shape; a square has the longer side, at most `LARGEST_SIDE`.

    Args:
        region: what was cut out of an image; a square of at most that side is given back as it is.
        shape: see `Shape`. Where pixels have to be resized, Pillow's bicubic filter does it.
        fill: of `padded`.

    Raises:
        ValueError: it is more than 200 times as long as wide.
    """
    height, width = region.shape[:2]
    side = min(max(height, width), LARGEST_SIDE)
    if shape == "as_is" or height == width == side:
        return region
    if max(height, width) > LARGEST_ASPECT * min(height, width):
        raise ValueError(f"the image or crop is {width} pixels wide and {height} high: too narrow for a square")
    if shape == "squashed":
        return _resized(region, side, side)
    if max(height, width) > side:
        scale = side / max(height, width)
        region = _resized(region, max(round(height * scale), 1), max(round(width * scale), 1))
    return _padded(region, side, fill=fill)


def _resized(region: Pixels, height: int, width: int) -> Pixels:
    image = Image.fromarray(np.ascontiguousarray(region))
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))


def _padded(region: Pixels, side: int, *, fill: Fill) -> Pixels:
    height, width = region.shape[:2]
    top, left = (side - height) // 2, (side - width) // 2
    if fill == "edge":
        around = ((top, side - height - top), (left, side - width - left), (0, 0))
        return np.pad(region, around, mode="edge")
    square = np.zeros((side, side, 3), np.uint8)
    if fill == "mean":
        square[:] = region.mean(axis=(0, 1)).round().astype(np.uint8)
    square[top : top + height, left : left + width] = region
    return square


def mirrored(region: Pixels) -> Pixels:
    """Left and right exchanged."""
    return np.ascontiguousarray(region[:, ::-1])


def averaged(
    seen: Sequence[Sequence[View]],
    compute: Callable[[Sequence[View]], Iterable[Output]],
    mean: Callable[[Sequence[Output]], Output],
) -> list[Output | None]:
    """What a network gives for images of which it sees none, one or several views each.

    Args:
        seen: for each image, its views.
        compute: one output for each view of all images; called once, and not at all without a view.
        mean: of the outputs of an image with several views.

    Returns:
        For each image its output, the mean over its views; None for an image without any.
    """
    views = [view for each in seen for view in each]
    outputs: Iterator[Output] = iter(compute(views) if views else ())
    own = ([next(outputs) for _ in each] for each in seen)
    return [None if not each else each[0] if len(each) == 1 else mean(each) for each in own]
