"""Images for the browser: what detectors see, or the reason why nobody can see it."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from detector_bench.dataset.decoding import ImageError, decode_image
from detector_bench.labelling import LabelStore, RefusedAnswerError

NARROWEST, WIDEST = 16, 4096
"""Widths that may be asked for, in pixels."""

NOT_THERE = "not_there"
"""Reason of a picture without a file: the store takes no answer to it, only a skip."""

_JPEG_QUALITY = 88
_FAST_PNG = 1
_MOST_DECODED_AT_ONCE = 4
"""A picture of 50 million pixels takes 150 MB while it is decoded."""

_MOST_REMEMBERED = 100_000

# What the reasons of `ImageError` mean to somebody who should have had the picture before them.
_IN_WORDS = {
    "missing_file": "its file is not there",
    "not_a_file": "its path names no file",
    "unreadable": "its file cannot be read",
    "empty_file": "its file is empty",
    "not_an_image": "its file holds no image",
    "truncated": "its file ends early",
    "corrupt": "its file is damaged",
    "too_large": "it is too large",
    "unsupported_mode": "its pixels have no defined colours",
    "out_of_memory": "it does not fit into memory",
    "no_permission": "the place where it lies does not allow it to be read",
    "changed": "its file changed a moment ago",
    "unreachable": "the place where it lies does not answer",
    "truncated_transfer": "its transfer broke off",
    "no_ranges": "the server where it lies sends no parts of files",
}


class PictureError(Exception):
    """A picture that cannot be shown: `reason` is a word, the text says it to the annotator."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Picture:
    """What is sent: the content (None: the browser has it already), its media type, and a strong ETag."""

    content: bytes | None
    media_type: str
    etag: str


class Pictures:
    """The images of a store, as a browser can show them. Any thread may use it.

    An image is decoded once, as detectors decode it, before it is sent: a file that decodes only half is not taken
    for a picture. JPEG, PNG, WebP, BMP and AVIF files are sent as they are; other formats and animations (of which
    only the first picture counts) as PNG.
    """

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._decoding = threading.BoundedSemaphore(_MOST_DECODED_AT_ONCE)
        self._sound: set[str] = set()

    def picture(self, image_id: str, *, width: int | None = None, known_etags: str = "") -> Picture:
        """One image, at most `width` pixels wide (None: as it is).

        Args:
            image_id: as in the image set.
            width: scaled down to it; a narrower image stays as it is.
            known_etags: the request's `If-None-Match`.

        Raises:
            PictureError: it cannot be shown, or is not in the image set.
        """
        try:
            data = self._store.image_content(image_id)
            digest = hashlib.sha256(data).hexdigest()
            etag = f'"{digest[:40]}{"" if width is None else f"-{width}"}"'
            if etag in known_etags and digest in self._sound:
                return Picture(None, "", etag)
            content, media_type = self._rendered(data, digest, width=width)
        except RefusedAnswerError as error:
            message = str(error)
            raise PictureError(NOT_THERE, f"{message[0].upper()}{message[1:]}.") from error
        except ImageError as error:
            message = f"This picture cannot be shown: {_IN_WORDS.get(error.reason, error.reason)}."
            raise PictureError(error.reason, message) from error
        return Picture(content, media_type, etag)

    def _rendered(self, data: bytes, digest: str, *, width: int | None) -> tuple[bytes, str]:
        media_type = _media_type_for_browsers(data)
        if width is None and media_type is not None and digest in self._sound:
            return data, media_type
        with self._decoding:
            pixels = decode_image(data)
            if len(self._sound) >= _MOST_REMEMBERED:
                self._sound.clear()
            self._sound.add(digest)
            if width is not None:
                return _scaled(pixels, width=width), "image/jpeg"
            if media_type is not None:
                return data, media_type
            return _encoded(Image.fromarray(pixels), "PNG", compress_level=_FAST_PNG), "image/png"


def _media_type_for_browsers(data: bytes) -> str | None:
    """The media type of a file that every browser shows as one still picture; None for any other."""
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        is_animated = b"acTL" in data[: max(data.find(b"IDAT"), 0)]
        return None if is_animated else "image/png"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        is_animated = data[12:16] == b"VP8X" and bool(data[20] & 0b10)
        return None if is_animated else "image/webp"
    if data.startswith(b"BM"):
        return "image/bmp"
    return "image/avif" if data[4:12] == b"ftypavif" else None


def _scaled(pixels: NDArray[np.uint8], *, width: int) -> bytes:
    image = Image.fromarray(pixels)
    if image.width > width:
        height = max(1, round(image.height * width / image.width))
        image = image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    return _encoded(image, "JPEG", quality=_JPEG_QUALITY)


def _encoded(image: Image.Image, image_format: str, **options: int) -> bytes:
    stream = BytesIO()
    image.save(stream, image_format, **options)
    return stream.getvalue()
