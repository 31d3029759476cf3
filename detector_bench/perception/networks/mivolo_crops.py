"""What MiVOLO sees of an image: the main person's body and face. Pure functions of pixels and boxes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.extras import require
from detector_bench.perception.boxes import largest
from detector_bench.perception.stage import Arrays
from detector_bench.perception.yolo.boxes import letterbox

Pixels = NDArray[np.uint8]

_SMALLEST_BODY = 50  # pixels, width and height
_SMALLEST_REST = 0.4  # share of a body crop that is not black
_TO_THE_EDGE = 0.3  # of the body crop's width or height
_SMALLEST_MATCH = 1e-4
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Subject(NamedTuple):
    """The main person's crops, (height, width, 3), RGB. At least one of them is there."""

    body: Pixels | None
    face: Pixels | None


def main_subject(
    pixels: Pixels,
    persons: Arrays,
    faces: Arrays,
    *,
    without_person: Literal["filter", "face"],
    hide_others: bool,
) -> Subject | None:
    """Cut out the largest person and that person's face, as MiVOLO's program does.

    Boxes are cut at whole pixels, rounded towards zero, without the image's last row and column. A body narrower
    or lower than 50 pixels, and one of which less than 40 % is left after others were hidden, counts as missing.

    Args:
        pixels: the image, (height, width, 3), RGB.
        persons: person boxes, see `boxes`.
        faces: face boxes.
        without_person: what to do with an image without a person box: None, or the largest face alone.
        hide_others: black out other persons and all faces in the body crop.

    Returns:
        The crops, or None if neither body nor face can be cut out.
    """
    main = largest(persons)
    if main is None:
        alone = largest(faces) if without_person == "face" else None
        body, face = None, None if alone is None else _cut(pixels, _whole(faces, pixels)[alone])
    else:
        own = face_of(main, persons, faces)
        body = _body(pixels, main, persons, faces, hide_others=hide_others)
        face = None if own is None else _cut(pixels, _whole(faces, pixels)[own])
    return None if body is None and face is None else Subject(body, face)


def face_of(person: int, persons: Arrays, faces: Arrays) -> int | None:
    """Index of the face that belongs to a person; None where none does.

    A face fits a person by the mean of the share of it that lies in the person's box and of the intersection over
    union. Faces go to persons one to one, so that all fit best together: a face that lies in two persons' boxes is
    left to the one who has no other.
    """
    if len(faces["scores"]) == 0:
        return None
    optimize = require("scipy.optimize", extra="mivolo")
    person_boxes, face_boxes = (np.trunc(found["corners"]).astype(np.float64) for found in (persons, faces))
    shared, own, union = _overlaps(person_boxes, face_boxes)
    # A box that rounding has left without an area belongs to nobody.
    fit = (shared / np.maximum(own, 1) + shared / np.maximum(union, 1)) / 2
    rows, columns = optimize.linear_sum_assignment(fit, maximize=True)
    return next(
        (
            int(face)
            for row, face in zip(rows, columns, strict=True)
            if row == person and fit[row, face] > _SMALLEST_MATCH
        ),
        None,
    )


def network_input(cv2: Any, crop: Pixels | None, *, side: int) -> NDArray[np.float32]:
    """Fit a crop into a black square and normalise it as ImageNet's images, (3, side, side); None is all black."""
    square = np.zeros((side, side, 3), np.uint8) if crop is None else letterbox(cv2, crop, side=side, bars=0)[0]
    values = (square / np.float32(255) - np.array(_MEAN, np.float32)) / np.array(_STD, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _whole(found: Arrays, pixels: Pixels) -> NDArray[np.int64]:
    """Corners in whole pixels inside the image."""
    height, width = pixels.shape[:2]
    return np.trunc(found["corners"]).astype(np.int64).clip(0, [width - 1, height - 1, width - 1, height - 1])


def _cut(pixels: Pixels, corners: NDArray[np.int64]) -> Pixels | None:
    left, top, right, bottom = corners
    crop = pixels[top:bottom, left:right]
    return crop if crop.size else None


def _body(pixels: Pixels, main: int, persons: Arrays, faces: Arrays, *, hide_others: bool) -> Pixels | None:
    boxes = _whole(persons, pixels)
    crop = _cut(pixels, boxes[main])
    if crop is None or min(crop.shape[:2]) < _SMALLEST_BODY:
        return None
    if not hide_others:
        return crop
    crop = crop.copy()
    others = np.delete(boxes, main, axis=0)
    for other in others:
        _black_out(crop, boxes[main], other, to_the_edge=True)
    for face in _whole(faces, pixels):
        _black_out(crop, boxes[main], face, to_the_edge=False)
    return crop if np.count_nonzero(crop) >= _SMALLEST_REST * crop.size else None


def _black_out(crop: Pixels, own: NDArray[np.int64], other: NDArray[np.int64], *, to_the_edge: bool) -> None:
    """Black out another box in a crop; near the crop's edge, also the strip between."""
    height, width = crop.shape[:2]
    left, top = np.maximum(other[:2] - own[:2], 0)
    right, bottom = np.minimum(other[2:] - own[:2], [width, height])
    if left >= right or top >= bottom:
        return
    if to_the_edge:
        top = 0 if top / height < _TO_THE_EDGE else top
        bottom = height if (height - bottom) / height < _TO_THE_EDGE else bottom
        left = 0 if left / width < _TO_THE_EDGE else left
        right = width if (width - right) / width < _TO_THE_EDGE else right
    crop[top:bottom, left:right] = 0


def _overlaps(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Shared area (first, second), the second ones' own areas (second,), and the area of both together."""
    corner = np.maximum(first[:, None, :2], second[None, :, :2])
    shared = (np.minimum(first[:, None, 2:], second[None, :, 2:]) - corner).clip(0).prod(axis=2)
    area_first, area_second = ((boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (first, second))
    return shared, area_second, area_first[:, None] + area_second - shared
