"""Aligned face chips: a face turned upright and cut out at a fixed size, by dlib's five landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def aligned_chips(
    dlib: Any,
    landmarks: Any,
    pixels: NDArray[np.uint8],
    corners: NDArray[Any],
    *,
    sizes: Sequence[int],
    padding: float,
) -> list[NDArray[np.uint8]]:
    """Cut one face out at several sizes.

    Args:
        dlib: the dlib module.
        landmarks: a loaded dlib shape predictor.
        pixels: (height, width, 3), RGB.
        corners: left, top, right, bottom of the face box, right and bottom outside the box.
        sizes: sides of the square chips in pixels.
        padding: border around the face as a share of its size: dlib's default is 0.2, FairFace takes 0.25.

    Returns:
        One (size, size, 3) array per size, each cut from the image itself: a smaller chip is not a shrunk
        larger one.
    """
    left, top, right, bottom = (round(float(value)) for value in corners)
    shape = landmarks(pixels, dlib.rectangle(left, top, right - 1, bottom - 1))
    return [dlib.extract_image_chip(pixels, dlib.get_face_chip_details(shape, size, padding)) for size in sizes]
