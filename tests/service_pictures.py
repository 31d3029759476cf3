"""Small PNG files that depend on what was asked for, with a manifest of their origin or without."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from hashlib import sha256

SIDE = 32
"""Width and height, where nobody says otherwise."""


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def box(kind: bytes, data: bytes) -> bytes:
    """A box of an ISO media file, as manifests are packed in."""
    return struct.pack(">I", 8 + len(data)) + kind + data


def manifest() -> bytes:
    """The beginning of a C2PA manifest store, which has no claim."""
    identifier = bytes.fromhex("63327061" + "00110010800000AA00389B71")
    return box(b"jumb", box(b"jumd", identifier + b"\x03c2pa\x00"))


@lru_cache(maxsize=64)
def _scanlines(width: int, height: int, pattern: bytes) -> bytes:
    row = (pattern * (width // 8 // len(pattern) + 1))[: (width + 7) // 8]
    return zlib.compress((b"\x00" + row) * height, 1)


def picture(content: bytes, width: int = SIDE, height: int = SIDE, *, c2pa: bool = False) -> bytes:
    """A PNG file of two colours that depend on `content`."""
    digest = sha256(content).digest()
    header = struct.pack(">IIBBBBB", width, height, 1, 3, 0, 0, 0)
    pattern = bytes([digest[6] & 0b11111110, digest[7] | 1]) if width <= 256 else b"\xf0"
    kept = chunk(b"caBX", manifest()) if c2pa else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + kept
        + chunk(b"PLTE", digest[:6])
        + chunk(b"IDAT", _scanlines(width, height, pattern))
        + chunk(b"IEND", b"")
    )
