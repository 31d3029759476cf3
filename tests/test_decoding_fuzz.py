"""Whatever is done to a file's bytes: it decodes to an RGB array, or it is an `ImageError`, and nothing else."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from PIL import Image

from detector_bench.dataset.decoding import ImageError, decode_image


def encoded(image: Image.Image, image_format: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, image_format, **options)
    return file.getvalue()


SMALL = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8))
SEEDS = [
    encoded(SMALL, "JPEG"),
    encoded(SMALL, "JPEG", progressive=True),
    encoded(SMALL.convert("CMYK"), "JPEG"),
    encoded(SMALL, "PNG"),
    encoded(SMALL.convert("P"), "PNG", transparency=3),
    encoded(SMALL, "PNG", save_all=True, append_images=[SMALL.rotate(90)]),
    encoded(SMALL.convert("RGBA"), "WEBP"),
    encoded(SMALL, "GIF", save_all=True, append_images=[SMALL.rotate(90)]),
    encoded(SMALL, "BMP"),
    encoded(SMALL, "TIFF"),
    encoded(SMALL, "TIFF", compression="tiff_lzw"),
    encoded(SMALL, "AVIF"),
    encoded(SMALL, "JPEG2000"),
    encoded(SMALL, "PPM"),
]


@settings(max_examples=400, deadline=None)
@given(
    data=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6)), max_size=8),
    kept=st.floats(0, 1),
    cut=st.booleans(),
)
def test_any_mutation_decodes_or_is_an_image_error(
    data: bytes, changes: list[tuple[int, bytes]], kept: float, cut: bool
) -> None:
    mutated = bytearray(data)
    for position, content in changes:
        start = position % len(mutated)
        mutated[start : start + len(content)] = content
    hostile = bytes(mutated[: round(len(mutated) * kept)]) if cut else bytes(mutated)
    try:
        pixels = decode_image(hostile, max_pixels=1_000_000)
    except ImageError as refused:
        event(refused.reason)
        return
    event("decoded")
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
