"""Decoded images as files again, for services that take files."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ImageFormat = Literal["jpeg", "png"]
"""PNG is exact; JPEG takes fewer bytes."""


def encoded(
    pixels: NDArray[np.uint8],
    *,
    image_format: ImageFormat,
    jpeg_quality: int,
    size: tuple[int, int] | None = None,
) -> bytes:
    """The content of an image file.

    Args:
        pixels: (height, width, 3), RGB.
        image_format: the kind of file.
        jpeg_quality: 1 to 100; colours keep their full resolution.
        size: width and height to resize to.
    """
    image = Image.fromarray(pixels)
    if size is not None and size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    options: dict[str, Any] = {"quality": jpeg_quality, "subsampling": 0} if image_format == "jpeg" else {}
    stream = io.BytesIO()
    image.save(stream, format=image_format, **options)
    return stream.getvalue()
