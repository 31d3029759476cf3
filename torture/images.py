"""Mutated images of every format, cut ones, and bombs, judged by a run: each has a row with a verdict or a reason.

    python -m torture.images --cases 200 --seed 1        (12 images in each case)

Nothing may be printed on standard error that names no image: libraries like to talk there.
"""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from torture.cases import Case, WrongAnswerError, expect, main
from torture.mutations import pick, spoiled_bytes
from torture.small_studies import MODULES, image_set

IMAGE_MODULES = (*MODULES, "PIL.Image", "detector_bench.dataset.decoding", "pyarrow.parquet")
IMAGES = 12


@cache
def good() -> tuple[tuple[str, bytes], ...]:
    """A small picture in every format and many of their forms."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    wide = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    forms = [
        ("JPEG", picture, {}),
        ("JPEG", picture, {"progressive": True}),
        ("JPEG", picture.convert("CMYK"), {}),
        ("PNG", picture, {}),
        ("PNG", picture.convert("P"), {"transparency": 3}),
        ("PNG", wide, {}),
        ("PNG", picture, {"save_all": True, "append_images": [picture.rotate(90)]}),
        ("WEBP", picture.convert("RGBA"), {}),
        ("WEBP", picture, {"lossless": True}),
        ("GIF", picture, {"save_all": True, "append_images": [picture.rotate(90)]}),
        ("BMP", picture, {}),
        ("TIFF", picture, {}),
        ("TIFF", picture, {"compression": "tiff_lzw"}),
        ("TIFF", picture, {"compression": "tiff_adobe_deflate"}),
        ("TIFF", picture, {"compression": "jpeg"}),
        ("TIFF", picture.convert("1"), {"compression": "group4"}),
        ("TIFF", wide, {}),
        ("AVIF", picture, {}),
        ("JPEG2000", picture, {}),
        ("PPM", picture, {}),
    ]
    found = []
    for name, image, options in forms:
        file = io.BytesIO()
        image.save(file, name, **options)
        found.append((name.lower(), file.getvalue()))
    return tuple(found)


def png_bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes whose pixels take gigabytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 2_000_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def text_bomb() -> bytes:
    """A PNG with a compressed text of 200 MB."""
    good_png = dict(good())["png"]
    packed = b"Comment\0\0" + zlib.compress(b"\0" * 200_000_000, 9)
    chunk = struct.pack(">I", len(packed)) + b"zTXt" + packed + struct.pack(">I", zlib.crc32(b"zTXt" + packed))
    return good_png[:33] + chunk + good_png[33:]


@cache
def bombs() -> tuple[bytes, ...]:
    """Small files that want much memory."""
    return (
        png_bomb(60_000, 60_000),
        png_bomb(2**31 - 1, 1),
        png_bomb(7_000, 7_000),
        text_bomb(),
        b"P6 99999 99999 255\n" + b"x" * 100,
        b"GIF89a\xff\xff\xff\xff\x80\0\0" + b"\0" * 6 + b",\0\0\0\0\xff\xff\xff\xff\0\x08\0;",
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 2**30, 2**30, 1, 24, 0, 0, 0, 0, 0, 0),
    )


def run(case: Case) -> None:
    """Twelve spoilt images in a folder, judged by two detectors."""
    from pyarrow import parquet

    from detector_bench.dataset import ImageSet  # noqa: F401 - what the run needs is imported before it is forked

    tables = {path.name: path.read_text() for path in image_set().glob("*.csv")}
    folder = Path("set/images")
    folder.mkdir(parents=True)
    for name, text in tables.items():
        (folder.parent / name).write_text(text)
    for number in range(IMAGES):
        name, content = pick(good(), case.rng)
        kind = case.rng.random()
        note = "whole"
        if kind < 0.05:
            content, note = pick(bombs(), case.rng), "bomb"
        elif kind < 0.95:
            for _ in range(1 + int(case.rng.integers(2))):
                content, note = spoiled_bytes(content, case.rng)
        (folder / f"image_{number:03d}.png").write_bytes(content)
        case.note(f"{number}: {name}, {note}")
    Path("study.yaml").write_text("image_set: set\ndetectors: [test-colour, test-brightness]\n")
    expect(case.command("run", "study.yaml", "--out", "out", "--no-cache", "--quiet"), 1)
    for detector in ("test-colour", "test-brightness"):
        files = sorted(Path("out/predictions", detector).glob("*.parquet"))
        rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
        if len({row["image_id"] for row in rows}) != IMAGES or len(rows) != IMAGES:
            raise WrongAnswerError(f"{detector} has {len(rows)} rows for {IMAGES} images")
        if silent := [row["image_id"] for row in rows if row["status"] == "error" and not row["reason"]]:
            raise WrongAnswerError(f"{detector}: no reason for the error of {silent}")
    said = (case.folder / "stderr.txt").read_text(errors="replace").splitlines()
    if stray := [line for line in said if line.strip() and "image" not in line]:
        raise WrongAnswerError(f"a line on standard error that names no image: {stray[0]}")


if __name__ == "__main__":
    image_set()
    good()
    bombs()
    main("images (12 in a case)", run, modules=IMAGE_MODULES, cases=200, about="Mutated images.")
