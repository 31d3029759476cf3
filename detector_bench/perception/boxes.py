"""Boxes around faces and persons, as stages hand them on, and the part of an image that a classifier sees.

A box stage gives three arrays for each image, one row per box, in the order in which its model found them:

- `corners`: (boxes, 4), left, top, right, bottom in pixels of the decoded image; right and bottom are outside
  the box, so that width = right - left. A box may reach over the image's border.
- `scores`: (boxes,), the model's own confidence, on the model's own scale; higher is surer.
- `landmarks`: (boxes, points, 2), x and y in pixels; no points where the model gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError
from detector_bench.perception.square_views import Fill, Shape, Views, mirrored, shaped
from detector_bench.perception.stage import ADDED_LATER, Arrays, Frame, Stage, StageField


def boxes(
    corners: Sequence[Sequence[float]] | NDArray[Any],
    scores: Sequence[float] | NDArray[Any],
    landmarks: NDArray[Any] | None = None,
) -> Arrays:
    """Put boxes into the form that all box stages share; none are `boxes([], [])`."""
    count = len(scores)
    return {
        "corners": np.asarray(corners, dtype=np.float32).reshape(count, 4),
        "scores": np.asarray(scores, dtype=np.float32).reshape(count),
        "landmarks": np.zeros((count, 0, 2), np.float32)
        if landmarks is None or count == 0
        else np.asarray(landmarks, dtype=np.float32).reshape(count, -1, 2),
    }


def areas(found: Arrays) -> NDArray[Any]:
    """Area of each box in square pixels, shape (boxes,)."""
    left, top, right, bottom = np.asarray(found["corners"], dtype=np.float64).T
    return np.asarray((right - left) * (bottom - top))


def largest(found: Arrays) -> int | None:
    """Index of the box with the largest area, the first of equals; None where there is no box."""
    if len(found["scores"]) == 0:
        return None
    return int(np.argmax(areas(found)))


Pixels = NDArray[np.uint8]


class Crop(Declaration):
    """The whole image, or the largest box of a box stage, made larger or smaller about its centre."""

    boxes: StageField | None = None
    """The stage whose largest box is cut out; None takes the whole image."""
    margin: float = Field(default=1.0, gt=0, le=10)
    """Factor on the box's width and height: 1.2 adds 10 % on each side."""
    square: bool = False
    """Make the box square, with its longer side, before the margin is applied."""
    outside: Literal["clip", "black"] = "clip"
    """A crop that reaches over the image's border is cut off there, or filled up with black."""
    without_box: Literal["filter", "whole_image"] = "filter"
    """What to do with an image without a box, or with a largest box that lies outside the image."""
    reason: str | None = Field(default=None, pattern=r"^[a-z][a-z_]*$")
    """Reason given for an image filtered for want of a box; by default `no_person` or `no_face`."""
    shape: Shape = Field(default="as_is", json_schema_extra=ADDED_LATER)
    """What becomes of a region that is no square, before the network's own preparation: `as_is` hands it on;
    `padded` puts it into the middle of a square; `squashed` resizes it to a square. Also of whole images."""
    fill: Fill = Field(default="black", json_schema_extra=ADDED_LATER)
    """What `padded` fills up with: black, the mean colour of the region, or its border's pixels (`edge`)."""
    views: Views = Field(default="as_is", json_schema_extra=ADDED_LATER)
    """`as_is_and_mirrored`: the network also sees the region's mirror image, and its outputs for the two are
    averaged: as it gives them, logits as logits; embeddings as unit vectors. It takes twice the time."""

    @model_validator(mode="after")
    def _margin_needs_boxes(self) -> Crop:
        if self.boxes is None and (self.margin != 1.0 or self.square or self.without_box != "filter"):
            raise ValueError("margin, square and without_box need `boxes`")
        if self.fill != "black" and self.shape != "padded":
            raise ValueError("fill needs `shape: padded`")
        return self

    def inputs(self) -> tuple[Stage, ...]:
        """The box stage, if there is one."""
        return () if self.boxes is None else (self.boxes,)

    @property
    def missing_reason(self) -> str:
        """Why an image without a box is filtered."""
        if self.reason is not None:
            return self.reason
        return "no_person" if self.boxes is not None and "person" in self.boxes.kind else "no_face"

    def cut(self, frame: Frame) -> Pixels | None:
        """Cut the region out of an image, (height, width, 3), in its shape; None where there is no box to cut.

        Raises:
            ConfigError: two views are asked for: `seen` gives them.
        """
        if self.views != "as_is":
            raise ConfigError("`views: as_is_and_mirrored`: this network averages no views; leave it out")
        return self._shaped(frame)

    def seen(self, frame: Frame) -> tuple[Pixels, ...]:
        """What the network sees of an image: none without a box, the region, or the region and its mirror image.

        Raises:
            ValueError: the region is too narrow for `shape`.
        """
        region = self._shaped(frame)
        if region is None:
            return ()
        return (region,) if self.views == "as_is" else (region, mirrored(region))

    def _shaped(self, frame: Frame) -> Pixels | None:
        region = self._region(frame)
        return None if region is None else shaped(region, self.shape, fill=self.fill)

    def _region(self, frame: Frame) -> Pixels | None:
        pixels = frame.pixels
        if self.boxes is None:
            return pixels
        corners = self.corners(frame[self.boxes])
        region = None if corners is None else _cut(pixels, corners, pad=self.outside == "black")
        if region is None and self.without_box == "whole_image":
            return pixels
        return region

    def corners(self, found: Arrays) -> tuple[int, int, int, int] | None:
        """Left, top, right, bottom of the region in pixels; None where there is no box."""
        index = largest(found)
        if index is None:
            return None
        left, top, right, bottom = (float(value) for value in found["corners"][index])
        width, height = right - left, bottom - top
        if self.square:
            width = height = max(width, height)
        half_width, half_height = width * self.margin / 2, height * self.margin / 2
        x, y = (left + right) / 2, (top + bottom) / 2
        return (
            round(x - half_width),
            round(y - half_height),
            max(round(x + half_width), round(x - half_width) + 1),
            max(round(y + half_height), round(y - half_height) + 1),
        )


def mean_arrays(found: Sequence[Arrays]) -> Arrays:
    """The mean of each array over several views of one image, in the arrays' own number formats.

    Raises:
        ValueError: an array holds no floating-point numbers, so that its mean says nothing.
    """
    for name, array in found[0].items():
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(
                f"output {name!r} is {array.dtype}: views are averaged of floating-point numbers only"
            )
    return {
        name: np.mean([each[name] for each in found], axis=0, dtype=np.float64).astype(array.dtype)
        for name, array in found[0].items()
    }


def _cut(pixels: Pixels, corners: tuple[int, int, int, int], *, pad: bool) -> Pixels | None:
    height, width = pixels.shape[:2]
    left, top, right, bottom = corners
    inside = pixels[max(top, 0) : max(min(bottom, height), 0), max(left, 0) : max(min(right, width), 0)]
    if inside.size == 0:
        return None
    if not pad or inside.shape[:2] == (bottom - top, right - left):
        return inside
    padded = np.zeros((bottom - top, right - left, 3), np.uint8)
    offset_y, offset_x = max(-top, 0), max(-left, 0)
    padded[offset_y : offset_y + inside.shape[0], offset_x : offset_x + inside.shape[1]] = inside
    return padded
