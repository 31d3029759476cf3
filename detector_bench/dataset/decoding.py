"""From a file to pixels: every image becomes an RGB array, and whatever goes wrong becomes one `ImageError`.

What a picture looks like is what a person at the labelling screen saw, so: the EXIF orientation is applied,
transparency lies on white, of an animation or a multi-page file the first picture counts, and sixteen-bit grey
is scaled, not clipped. The content decides what a file is, not its extension. Colour profiles are not applied.

Pillow does the decoding. Its plugins are called directly instead of through `Image.open`, because that function
hides whether a file is no image or a broken one, and enforces a limit of its own on the number of pixels.

Everything here may be called from many threads at once, and changes no setting of Pillow.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ExifTags import Base as ExifTag
from PIL.GifImagePlugin import GifImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import BITSPERSAMPLE, PHOTOMETRIC_INTERPRETATION, TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from detector_bench.dataset.tiff_complaints import complaint_of_libtiff, listen_to_libtiff

DEFAULT_MAX_PIXELS = 50_000_000
"""Largest width x height that is decoded: about 7,000 x 7,000, far above what T2I models paint."""

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
"""Largest file that is read into memory."""


# Pillow's log says on standard error what its exceptions say, too, without the image's name.
logging.getLogger("PIL").addHandler(logging.NullHandler())


class ImageError(Exception):
    """An image that gives no pixels: `reason` is a word for tables, `detail` a sentence for people.

    Reasons of `read_image_file`: `missing_file`, `not_a_file` (a directory, device, pipe or socket), `unreadable`
    (no permission, or the disk failed), `empty_file`, `too_large` (more bytes than the limit).
    Reasons of `image_size` and `decode_image`: `empty_file`, `not_an_image`, `truncated` (the file ends early),
    `corrupt`, `too_large` (more pixels than the limit), `unsupported_mode` (floating-point pixels, for instance),
    `out_of_memory`.
    Reasons of `image_sources` besides those: `outside_folder` (a link leads out of it), `no_permission`,
    `changed` (it is another file than the one that was listed), `unreachable` (nobody answers, or not in time),
    `truncated_transfer` (the connection broke off), `no_ranges` (a server that sends no parts of files, where a
    part is wanted).
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


def read_image_file(path: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Read a whole regular file; never wait on a pipe or a device.

    Raises:
        ImageError: see there for the reasons.
    """

    def opened() -> BinaryIO:
        _require_regular_file(path, path.stat())
        # Between the check and the opening the path may have become a pipe: O_NONBLOCK keeps that from hanging.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        return open(descriptor, "rb")  # noqa: PTH123 - pathlib cannot open a descriptor

    return content_of(opened, str(path), max_bytes=max_bytes)


def content_of(opened: Callable[[], BinaryIO], name: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """The whole content of a file.

    Args:
        opened: opens it.
        name: what messages call it.
        max_bytes: larger files are refused.

    Raises:
        ImageError: as `read_image_file`.
    """
    try:
        with opened() as file:
            status = os.fstat(file.fileno())
            _require_regular_file(name, status)
            if status.st_size > max_bytes:
                raise ImageError("too_large", f"{name}: {status.st_size:,} bytes, the limit is {max_bytes:,}")
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise ImageError("missing_file", f"{name}: no such file") from None
    except (OSError, ValueError) as error:
        # ValueError: a null character in the path.
        raise ImageError("unreadable", f"{name}: {getattr(error, 'strerror', None) or error}") from error
    if not data:
        raise ImageError("empty_file", f"{name}: the file holds no bytes")
    return data


def image_size(data: bytes, *, upright: bool = False) -> tuple[int, int]:
    """Width and height in pixels as the header states them, without decoding.

    Args:
        data: the file's content.
        upright: of the picture that people and detectors see, with its EXIF orientation applied.

    Raises:
        ImageError: see there for the reasons.
    """
    with _open(data) as image:
        width, height = image.size
        return (height, width) if upright and _is_on_its_side(image) else (width, height)


def image_format(data: bytes) -> str:
    """The format by its content, as Pillow calls it, such as PNG; without decoding.

    Raises:
        ImageError: see there for the reasons.
    """
    with _open(data) as image:
        return image.format or "unknown"


def decode_image(data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> NDArray[np.uint8]:
    """Decode a JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF, JPEG 2000 or PPM file's content.

    Conversions: orientation applied; transparent pixels blended with white; palette, grey, 1-bit, CMYK (read
    as inverted, as Adobe writes it), YCbCr and LAB to RGB; grey of 16 bits per pixel to `round(value / 257)`,
    colour of 16 bits to its high byte (as Pillow does it: at most 1 off); first frame or page only.

    A JPEG whose middle is damaged decodes to wrong pixels in every viewer, and does so here: only what libjpeg
    cannot get over is an error.

    Args:
        data: the file's bytes.
        max_pixels: limit on width x height, checked on the header before any pixel is decoded. Inside GIF and
            TIFF files Pillow's own limit of 179 million pixels holds too.

    Returns:
        (height, width, 3) uint8 RGB, 0 to 255, C-contiguous and writable, owned by the caller.

    Raises:
        ImageError: see there for the reasons. No other exception escapes, and no warning.
    """
    with _open(data) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise ImageError(
                "too_large", f"{width} x {height} = {width * height:,} pixels, the limit is {max_pixels:,}"
            )
        _mend_transparency(image)
        _load(image)
        return np.array(_to_rgb(_upright(image)))


def _load(image: ImageFile.ImageFile) -> None:
    if not isinstance(image, TiffImageFile):
        image.load()
        return
    listen_to_libtiff()
    image.load()
    if complaint := complaint_of_libtiff():
        # libtiff goes on behind damage, with pixels that nobody painted.
        raise ImageError("corrupt", f"TIFF: libtiff found damage: {complaint}")


class _Format(NamedTuple):
    """An image format that is accepted: how its content begins, who reads it, and whether it ends early."""

    name: str
    signature: re.Pattern[bytes]
    plugin: Callable[[BytesIO], ImageFile.ImageFile]
    ends_early: Callable[[bytes], bool]


def _lacks_end_marker(data: bytes) -> bool:
    return b"\xff\xd9" not in data[-1024:]


def _shorter_than(start: int, *, extra: int) -> Callable[[bytes], bool]:
    """Compare with the file size that stands in the header, little-endian in four bytes."""
    return lambda data: int.from_bytes(data[start : start + 4], "little") + extra > len(data)


def _directory_lies_past_end(data: bytes) -> bool:
    """TIFF: many programs write the directory behind the pixels, so that a cut file has none."""
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    return int.from_bytes(data[4:8], order) >= len(data)


def _box_runs_past_end(data: bytes) -> bool:
    """AVIF: the file is a row of boxes, each beginning with its size in four bytes."""
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        if size < 8:  # 0 means up to the end of the file, 1 a size in eight bytes
            return False
        position += size
    return position > len(data)


def _cannot_tell(_data: bytes) -> bool:
    return False


def _format(
    name: str,
    signature: bytes,
    plugin: Callable[[BytesIO], ImageFile.ImageFile],
    ends_early: Callable[[bytes], bool] = _cannot_tell,
) -> _Format:
    return _Format(name, re.compile(signature, re.DOTALL), plugin, ends_early)


# PostScript, PDF and the like are left out on purpose: Pillow hands them to other programs.
_FORMATS = (
    _format("JPEG", rb"\xff\xd8\xff", JpegImageFile, _lacks_end_marker),
    _format("PNG", rb"\x89PNG\r\n\x1a\n", PngImageFile, lambda data: b"IEND" not in data[-1024:]),
    _format("WebP", rb"RIFF.{4}WEBP", WebPImageFile, _shorter_than(4, extra=8)),
    _format("GIF", rb"GIF8[79]a", GifImageFile, lambda data: not data.rstrip(b"\0").endswith(b";")),
    _format("BMP", rb"BM", BmpImageFile, _shorter_than(2, extra=0)),
    _format("TIFF", rb"II[*+]\0|MM\0[*+]", TiffImageFile, _directory_lies_past_end),
    _format("AVIF", rb".{4}ftyp(?:avif|avis|mif1|msf1)", AvifImageFile, _box_runs_past_end),
    _format(
        "JPEG 2000",
        rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n",
        Jpeg2KImageFile,
        _lacks_end_marker,
    ),
    _format("PPM", rb"P[1-6Ff]\s", PpmImageFile),
)

# What people put into image folders by mistake, so that the message can say it.
_OTHER_CONTENT = (
    (re.compile(rb"%PDF"), "a PDF document"),
    (re.compile(rb"%!PS|\xc5\xd0\xd3\xc6"), "a PostScript file"),
    (re.compile(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype html|html)", re.IGNORECASE | re.DOTALL), "a web page"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer: the real file was never fetched"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive"),
    (re.compile(rb".{4}ftyp(?:hei[cfmsx]|hev[cx])", re.DOTALL), "a HEIC photograph: convert it first"),
    (re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<svg", re.DOTALL), "an SVG drawing"),
    (re.compile(rb"[\t\n\r\x20-\x7e]{16}"), "text"),
)


def _format_of(data: bytes) -> _Format:
    if not data:
        raise ImageError("empty_file", "the file holds no bytes")
    for known in _FORMATS:
        if known.signature.match(data):
            return known
    found = next((name for pattern, name in _OTHER_CONTENT if pattern.match(data[:1024])), "no known format")
    raise ImageError("not_an_image", f"the content is {found}; accepted: {', '.join(f.name for f in _FORMATS)}")


@contextmanager
def _open(data: bytes) -> Iterator[ImageFile.ImageFile]:
    """Read the header; whatever Pillow raises from here to the end of the block becomes an `ImageError`."""
    image_format = _format_of(data)
    try:
        with _without_warnings():
            yield image_format.plugin(BytesIO(data))
    except ImageError:
        raise
    except MemoryError as error:
        raise ImageError("out_of_memory", f"{image_format.name}: not enough memory to decode it") from error
    except Image.DecompressionBombError as error:
        raise ImageError("too_large", f"{image_format.name}: {error}") from error
    except Exception as error:  # Pillow's plugins raise whatever their parsing runs into
        reason = _reason_for(error, image_format, data)
        raise ImageError(reason, f"{image_format.name}: {error or type(error).__name__}") from error


_UNSUPPORTED = re.compile(r"unknown pixel mode|cannot handle|unsupported|not supported", re.IGNORECASE)
_TRUNCATED = re.compile(r"truncated|\bEOF\b|end of (?:file|data)", re.IGNORECASE)


def _reason_for(error: Exception, image_format: _Format, data: bytes) -> str:
    message = str(error)
    if isinstance(error, EOFError) or _TRUNCATED.search(message) or image_format.ends_early(data):
        return "truncated"
    return "unsupported_mode" if _UNSUPPORTED.search(message) else "corrupt"


def _require_regular_file(path: Path | str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise ImageError("not_a_file", f"{path}: {kind}, not a file")


_TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation. `ImageOps.exif_transpose` would copy every image and rewrite its EXIF data."""
    method = _transposition(image)
    return image if method is None else image.transpose(method)


def _is_on_its_side(image: Image.Image) -> bool:
    turns = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270)
    return _transposition(image) in (*turns, Image.Transpose.TRANSPOSE, Image.Transpose.TRANSVERSE)


def _transposition(image: Image.Image) -> Image.Transpose | None:
    """What makes the image upright; None: it is, or nobody knows."""
    try:
        orientation = image.getexif().get(ExifTag.Orientation)
        return _TRANSPOSITIONS.get(orientation) if isinstance(orientation, int) else None
    except Exception:  # noqa: BLE001 - broken EXIF data says nothing about the pixels
        return None


def _mend_transparency(image: ImageFile.ImageFile) -> None:
    """Bring a PNG's transparent colour to the scale of the decoded pixels; Pillow leaves it in the file's."""
    colour = image.info.get("transparency")
    if not isinstance(image, PngImageFile) or not image.tile or isinstance(colour, bytes | None):
        return
    match image.tile[0].args:
        case "L;2":
            image.info["transparency"] = colour * 85
        case "L;4":
            image.info["transparency"] = colour * 17
        case "RGB;16B":
            image.info["transparency"] = tuple(channel >> 8 for channel in colour)


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert any mode that Pillow knows to RGB."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise ImageError("unsupported_mode", "floating-point pixels have no defined range to show them in")
    if image.mode.startswith("I"):
        return _sixteen_bit_grey_to_rgb(image)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return _on_white(image)
    return image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode == "La":
        image = image.convert("LA")
    image = image.convert("RGBA")
    canvas = Image.new("RGB", image.size, "white")
    canvas.paste(image, mask=image)
    return canvas


def _sixteen_bit_grey_to_rgb(image: Image.Image) -> Image.Image:
    """Scale 0 to 65535 down to 0 to 255, rounding; Pillow's own conversion clips at 255."""
    white, inverted = 65535, False
    if isinstance(image, TiffImageFile):
        if image.mode == "I":
            raise ImageError("unsupported_mode", "32-bit or signed pixels have no defined range to show them in")
        white = 4095 if image.tag_v2.get(BITSPERSAMPLE) == (12,) else white
        inverted = image.tag_v2.get(PHOTOMETRIC_INTERPRETATION) == 0
    values = np.asarray(image).astype(np.uint32)
    transparent = image.info.get("transparency")
    grey = np.minimum((values * 255 + white // 2) // white, 255)
    if inverted:
        grey = 255 - grey
    if transparent is not None:
        grey[values == transparent] = 255
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")


class _DecodingHere(threading.local):
    """Stands in a warnings filter where the module pattern stands: matches while this thread decodes.

    `warnings.catch_warnings` cannot be used for this, as it changes the filters of every thread.
    """

    depth = 0

    def match(self, _module: str) -> bool:
        return self.depth > 0


_decoding_here = _DecodingHere()
_QUIET_FILTER = ("ignore", None, Warning, _decoding_here, 0)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence this thread's warnings: Pillow warns of broken metadata, which concern nobody here."""
    # The filter is inert outside this block; it has to come first, and `catch_warnings` elsewhere may drop it.
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] is not _QUIET_FILTER:
        filters.insert(0, _QUIET_FILTER)
    _decoding_here.depth += 1
    try:
        yield
    finally:
        _decoding_here.depth -= 1
