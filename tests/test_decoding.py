"""Pixels out of every odd but good image, one reason out of every bad one, and never another exception."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from detector_bench.dataset.decoding import ImageError, decode_image, image_size, read_image_file


def smooth_picture(width: int = 60, height: int = 44) -> Image.Image:
    """Colour ramps: every pixel differs from its neighbours, and JPEG keeps them nearly."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, (x + y) / 2], axis=-1).astype(np.uint8))


def encoded(image: Image.Image, image_format: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, image_format, **options)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width: int, height: int, depth: int, colour_type: int, rows: bytes, *extra: bytes) -> bytes:
    """A PNG written by hand: `rows` holds each row's filter byte and packed pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    body = b"".join([chunk(b"IHDR", header), *extra, chunk(b"IDAT", zlib.compress(rows))])
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


JPEG = encoded(smooth_picture(), "JPEG", quality=90)
PNG = encoded(smooth_picture(), "PNG")


def jpeg_with_exif(exif: bytes) -> bytes:
    """Put an EXIF segment behind the first two bytes of a JPEG file that has none."""
    segment = b"Exif\0\0" + exif
    return JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + JPEG[2:]


def float_tiff() -> bytes:
    return encoded(Image.fromarray(np.full((4, 4), 0.5, dtype=np.float32)), "TIFF")


def damaged_header(data: bytes) -> bytes:
    return data[:16] + bytes([data[16] ^ 0xFF]) + data[17:]


def damaged_pixels(data: bytes) -> bytes:
    start = data.index(b"IDAT") + 40
    return data[:start] + bytes(255 - byte for byte in data[start : start + 8]) + data[start + 8 :]


RANDOM = np.random.default_rng(0).bytes(400)
HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>"

DAMAGED: dict[str, tuple[bytes, str]] = {
    "cut_at_10_percent.jpg": (JPEG[: len(JPEG) // 10], "truncated"),
    "cut_at_50_percent.jpg": (JPEG[: len(JPEG) // 2], "truncated"),
    "cut_at_99_percent.jpg": (JPEG[: len(JPEG) * 99 // 100], "truncated"),
    "progressive_cut.jpg": (encoded(smooth_picture(), "JPEG", progressive=True)[:-40], "truncated"),
    "signature_only.jpg": (JPEG[:3], "truncated"),
    "cut.png": (PNG[: len(PNG) * 2 // 3], "truncated"),
    "cut.webp": (encoded(smooth_picture(), "WEBP")[:-30], "truncated"),
    "cut.gif": (encoded(smooth_picture(), "GIF")[:-100], "truncated"),
    "cut.bmp": (encoded(smooth_picture(), "BMP")[:-100], "truncated"),
    "cut.tif": (encoded(smooth_picture(), "TIFF")[:-100], "truncated"),
    "cut_lzw.tif": (encoded(smooth_picture(), "TIFF", compression="tiff_lzw")[:200], "truncated"),
    "cut.avif": (encoded(smooth_picture(), "AVIF")[:-100], "truncated"),
    "cut.jp2": (encoded(smooth_picture(), "JPEG2000")[:-100], "truncated"),
    "cut.ppm": (encoded(smooth_picture(), "PPM")[:-100], "truncated"),
    "empty.png": (b"", "empty_file"),
    "text.png": (b"This is no picture at all.\n", "not_an_image"),
    "error_page.jpg": (HTML, "not_an_image"),
    "document.png": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "not_an_image"),
    "drawing.jpg": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not_an_image"),
    "vector.png": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not_an_image"),
    "pointer.png": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "not_an_image"),
    "noise.jpg": (RANDOM, "not_an_image"),
    "gigantic.png": (png(60_000, 60_000, 8, 2, b""), "too_large"),
    "gigantic_first_frame.gif": (
        b"GIF89a\1\0\1\0\0\0\0" + b"\x2c\0\0\0\0" + struct.pack("<HH", 60_000, 60_000) + b"\0\2\0;",
        "too_large",
    ),
    "bomb.png": (png(8_000, 8_000, 1, 0, bytes(1001 * 8_000)), "too_large"),
    "no_width.png": (png(0, 5, 8, 2, b""), "corrupt"),
    "wrong_checksum.png": (damaged_header(PNG), "corrupt"),
    "damaged_pixels.png": (damaged_pixels(PNG), "corrupt"),
    "noise_after_header.png": (PNG[:33] + RANDOM + chunk(b"IEND", b""), "corrupt"),
    "noise_after_header.jpg": (JPEG[:2] + b"\xff" + RANDOM + b"\xff\xd9", "corrupt"),
    "noise_after_header.tif": (b"II*\0\x08\0\0\0" + RANDOM, "corrupt"),
    "float.tif": (float_tiff(), "unsupported_mode"),
    "float.pfm": (b"Pf\n1 1\n-1.0\n" + struct.pack("<f", 0.5), "unsupported_mode"),
    "signed_32_bit.tif": (encoded(Image.new("I", (2, 2), 70_000), "TIFF"), "unsupported_mode"),
}


@pytest.fixture(scope="module")
def damaged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    for name, (content, _) in DAMAGED.items():
        (folder / name).write_bytes(content)
    (folder / "directory.png").mkdir()
    (folder / "leads_nowhere.png").symlink_to(folder / "gone.png")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe.png")
    return folder


def reason_of(action: Callable[[], object]) -> str:
    with pytest.raises(ImageError) as caught:
        action()
    assert str(caught.value) == f"{caught.value.reason}: {caught.value.detail}"
    assert caught.value.detail
    return caught.value.reason


@pytest.mark.parametrize("name", DAMAGED)
def test_each_damaged_file_gives_its_reason(damaged_folder: Path, name: str) -> None:
    assert reason_of(lambda: decode_image(read_image_file(damaged_folder / name))) == DAMAGED[name][1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.png", "missing_file"),
        ("leads_nowhere.png", "missing_file"),
        ("text.png/inside.png", "missing_file"),
        ("null\0character.png", "unreadable"),
        ("directory.png", "not_a_file"),
        ("empty.png", "empty_file"),
    ],
)
def test_paths_that_cannot_be_read(damaged_folder: Path, name: str, reason: str) -> None:
    assert reason_of(lambda: read_image_file(damaged_folder / name)) == reason


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_refused_without_waiting(damaged_folder: Path) -> None:
    assert reason_of(lambda: read_image_file(damaged_folder / "pipe.png")) == "not_a_file"
    assert reason_of(lambda: read_image_file(Path(os.devnull))) == "not_a_file"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "locked.png"
    path.write_bytes(PNG)
    path.chmod(0)
    assert reason_of(lambda: read_image_file(path)) == "unreadable"


def test_files_above_the_byte_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(PNG)
    assert read_image_file(path, max_bytes=len(PNG)) == PNG
    assert reason_of(lambda: read_image_file(path, max_bytes=len(PNG) - 1)) == "too_large"


def test_message_says_what_the_file_really_is() -> None:
    with pytest.raises(ImageError, match=r"a web page; accepted: JPEG, PNG"):
        decode_image(HTML)


def test_pixel_limit_is_checked_on_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("pixels were decoded")

    assert decode_image(PNG, max_pixels=60 * 44).shape == (44, 60, 3)
    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    with pytest.raises(ImageError, match=r"60 x 44 = 2,640 pixels, the limit is 2,639"):
        decode_image(PNG, max_pixels=60 * 44 - 1)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM"])
def test_ordinary_images_equal_plain_pillow(image_format: str) -> None:
    data = encoded(smooth_picture(), image_format)
    pixels = decode_image(data)
    with Image.open(BytesIO(data)) as image:
        np.testing.assert_array_equal(pixels, np.asarray(image.convert("RGB")))
    assert (pixels.dtype, pixels.shape) == (np.uint8, (44, 60, 3))
    assert pixels.flags.c_contiguous
    assert pixels.flags.writeable
    assert image_size(data) == (60, 44)


def test_extension_may_lie(tmp_path: Path) -> None:
    path = tmp_path / "really_a_jpeg.png"
    path.write_bytes(JPEG)
    np.testing.assert_array_equal(decode_image(read_image_file(path)), decode_image(JPEG))


def grey(*values: int) -> NDArray[np.uint8]:
    """One row of grey pixels."""
    return np.array([[[value] * 3 for value in values]], dtype=np.uint8)


def rgb(*pixels: tuple[int, int, int]) -> NDArray[np.uint8]:
    return np.array([pixels], dtype=np.uint8)


def row(mode: str, *pixels: Any) -> Image.Image:
    """An image of one row."""
    image = Image.new(mode, (len(pixels), 1))
    for x, value in enumerate(pixels):
        image.putpixel((x, 0), value)
    return image


def palette_row(*indices: int) -> Image.Image:
    """Palette: 0 is red, 1 is green, 2 is (10, 20, 30)."""
    image = row("P", *indices)
    image.putpalette([255, 0, 0, 0, 255, 0, 10, 20, 30])
    return image


def sixteen_bit_row(*values: int) -> bytes:
    return b"\0" + struct.pack(f">{len(values)}H", *values)


def tiff_with(image: Image.Image, tag: int, old: int, new: int) -> bytes:
    """Patch one short value of a TIFF's directory, for kinds that Pillow reads but does not write."""
    data = encoded(image, "TIFF")
    entry = struct.pack("<HHIH", tag, 3, 1, old)
    assert data.count(entry) == 1
    return data.replace(entry, struct.pack("<HHIH", tag, 3, 1, new))


# 16-bit grey v becomes round(v / 257). Alpha a over white: round((v a + 255 (255 - a)) / 255).
ODD_BUT_GOOD: dict[str, tuple[bytes, NDArray[np.uint8]]] = {
    "one bit": (encoded(row("1", 0, 255), "PNG"), grey(0, 255)),
    "grey": (encoded(row("L", 0, 77, 255), "PNG"), grey(0, 77, 255)),
    "grey, two bits": (png(4, 1, 2, 0, b"\0\x1b"), grey(0, 85, 170, 255)),
    "grey with a transparent value": (
        png(4, 1, 2, 0, b"\0\x1b", chunk(b"tRNS", struct.pack(">H", 1))),
        grey(0, 255, 170, 255),
    ),
    "grey, 16 bits": (
        png(5, 1, 16, 0, sixteen_bit_row(0, 128, 129, 32768, 65535)),
        grey(0, 0, 1, 128, 255),
    ),
    "grey, 16 bits, with a transparent value": (
        png(3, 1, 16, 0, sixteen_bit_row(0, 1000, 65535), chunk(b"tRNS", struct.pack(">H", 1000))),
        grey(0, 255, 255),
    ),
    "grey, 16 bits, TIFF": (encoded(row("I;16", 0, 257, 65535), "TIFF"), grey(0, 1, 255)),
    "grey, 16 bits, TIFF, big-endian": (encoded(row("I;16B", 0, 257, 65535), "TIFF"), grey(0, 1, 255)),
    "grey, 16 bits, TIFF, white is zero": (
        tiff_with(row("I;16", 0, 65535, 257), 262, 1, 0),
        grey(255, 0, 254),
    ),
    # The little-endian bytes FF F0 00 00 hold the 12-bit values FFF and 000.
    "grey, 12 bits, TIFF": (tiff_with(row("I;16", 0xF0FF, 0), 258, 16, 12), grey(255, 0)),
    "grey, 16 bits, PGM": (b"P5 3 1 65535\n" + struct.pack(">3H", 0, 257, 65535), grey(0, 1, 255)),
    "grey, 10 bits, PGM": (b"P5 3 1 1023\n" + struct.pack(">3H", 0, 512, 1023), grey(0, 128, 255)),
    "colour, 16 bits": (
        png(2, 1, 16, 2, sixteen_bit_row(0x1234, 0xFFFF, 0x0080, 0xABCD, 0, 0x7F00)),
        rgb((0x12, 0xFF, 0x00), (0xAB, 0, 0x7F)),
    ),
    "colour, 16 bits, with a transparent colour": (
        png(2, 1, 16, 2, sixteen_bit_row(0x1234, 0, 0, 0xABCD, 0, 0), chunk(b"tRNS", b"\x12\x34\0\0\0\0")),
        rgb((255, 255, 255), (0xAB, 0, 0)),
    ),
    "alpha": (
        encoded(row("RGBA", (10, 20, 30, 255), (10, 20, 30, 0), (200, 100, 0, 51)), "PNG"),
        rgb((10, 20, 30), (255, 255, 255), (244, 224, 204)),
    ),
    "alpha, WebP": (
        encoded(row("RGBA", (10, 20, 30, 255), (10, 20, 30, 0)), "WEBP", lossless=True),
        rgb((10, 20, 30), (255, 255, 255)),
    ),
    "grey and alpha": (encoded(row("LA", (100, 255), (100, 0), (0, 51)), "PNG"), grey(100, 255, 204)),
    "grey and alpha, 16 bits": (png(2, 1, 16, 4, sixteen_bit_row(0, 65535, 0, 0)), grey(0, 255)),
    "palette": (encoded(palette_row(0, 1, 2), "PNG"), rgb((255, 0, 0), (0, 255, 0), (10, 20, 30))),
    "palette with a transparent entry": (
        encoded(palette_row(0, 1, 2), "PNG", transparency=1),
        rgb((255, 0, 0), (255, 255, 255), (10, 20, 30)),
    ),
    "palette with alpha values": (
        encoded(palette_row(0, 1, 2), "PNG", transparency=bytes([255, 51, 0])),
        rgb((255, 0, 0), (204, 255, 204), (255, 255, 255)),
    ),
    "GIF with a transparent entry": (
        encoded(palette_row(0, 1, 2), "GIF", transparency=1),
        rgb((255, 0, 0), (255, 255, 255), (10, 20, 30)),
    ),
    "CMYK, TIFF": (
        encoded(row("CMYK", (0, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255)), "TIFF"),
        rgb((255, 255, 255), (255, 0, 0), (0, 0, 0)),
    ),
    "EXIF data that is broken": (jpeg_with_exif(b"MM\0*\xff\xff\xff\xff" + RANDOM[:50]), decode_image(JPEG)),
    "EXIF data with a nonsense orientation": (
        jpeg_with_exif(b"II*\0\x08\0\0\0\1\0" + struct.pack("<HHIHH", 0x112, 3, 1, 99, 0) + b"\0\0\0\0"),
        decode_image(JPEG),
    ),
    "animation chunk that is broken": (
        png(1, 1, 8, 0, b"\0\x07", chunk(b"acTL", b"\0\0\0\0\0\0\0\0")),
        grey(7),
    ),
}


@pytest.mark.parametrize("name", ODD_BUT_GOOD)
def test_odd_but_good_images_have_exactly_these_pixels(name: str) -> None:
    data, expected = ODD_BUT_GOOD[name]
    np.testing.assert_array_equal(decode_image(data), expected)


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_first_picture_of_several_counts(image_format: str) -> None:
    first, second = Image.new("RGB", (8, 6), (255, 0, 0)), Image.new("RGB", (8, 6), (0, 0, 255))
    options = {"lossless": True} if image_format == "WEBP" else {}
    data = encoded(first, image_format, save_all=True, append_images=[second], **options)
    pixels = decode_image(data)
    assert pixels.shape == (6, 8, 3)
    np.testing.assert_allclose(pixels.reshape(-1, 3).astype(int), np.tile([255, 0, 0], (48, 1)), atol=3)


def test_cmyk_jpeg_is_read_as_inverted_and_ycck_likewise() -> None:
    """Pillow writes Adobe's inverted CMYK; the Adobe segment's last byte makes the same file a YCCK one.

    CMYK: each of red, green, blue is (255 - ink)(255 - black) / 255. As YCCK the file's first three bytes, 255 -
    ink = 55, 128, 128, are a grey luma of 55, which libjpeg turns into ink 255 - 55 = 200, stored inverted: 55.
    """
    data = encoded(Image.new("CMYK", (16, 16), (200, 127, 127, 55)), "JPEG", quality=100, subsampling=0)
    pixels = decode_image(data).astype(int)
    np.testing.assert_allclose(pixels[8, 8], [55 * 200 / 255, 128 * 200 / 255, 128 * 200 / 255], atol=2)
    adobe = data.index(b"Adobe") + 11
    assert data[adobe] == 0
    as_ycck = decode_image(data[:adobe] + b"\2" + data[adobe + 1 :]).astype(int)
    np.testing.assert_allclose(as_ycck[8, 8], [(255 - 55) * 200 / 255] * 3, atol=2)


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(image_format: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(smooth_picture(), image_format, exif=exif.tobytes())
    with Image.open(BytesIO(data)) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    np.testing.assert_array_equal(decode_image(data), expected)
    assert expected.shape[:2] == ((44, 60) if orientation < 5 else (60, 44))


def test_many_threads_decode_the_same_without_warnings() -> None:
    noisy = [ODD_BUT_GOOD["EXIF data that is broken"][0], ODD_BUT_GOOD["animation chunk that is broken"][0]]
    good = [JPEG, PNG, *noisy] * 20
    expected = [decode_image(data) for data in good]
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(8) as pool:
        warnings.simplefilter("always")
        for pixels, alone in zip(pool.map(decode_image, good), expected, strict=True):
            np.testing.assert_array_equal(pixels, alone)
        warnings.warn("this one is ours, and must be heard", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["this one is ours, and must be heard"]


def test_the_files_above_make_plain_pillow_warn() -> None:
    """Otherwise the test before this one could not fail."""
    data = ODD_BUT_GOOD["animation chunk that is broken"][0]
    with pytest.warns(UserWarning, match="Invalid APNG"), Image.open(BytesIO(data)) as image:
        image.load()


def test_settings_of_pillow_stay_as_they_are() -> None:
    truncated_allowed, limit = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
    decode_image(PNG, max_pixels=10**12)
    assert truncated_allowed is ImageFile.LOAD_TRUNCATED_IMAGES
    assert limit == Image.MAX_IMAGE_PIXELS
