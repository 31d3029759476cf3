"""What a service says in an image file about where it comes from: C2PA manifests, and IPTC's digital source type.

Only whether such a statement is there is read. Whether a manifest's signature holds takes a verifier and its list
of trusted signers; the file is kept as it came, so anybody can ask one.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

_MOST_PARTS = 10_000
_MOST_XMP_BYTES = 1024**2
_PNG = b"\x89PNG\r\n\x1a\n"
_XMP_IN_PNG = b"XML:com.adobe.xmp\x00"
_XMP_IN_JPEG = b"http://ns.adobe.com/xap/1.0/\x00"
_SOURCE_TYPE = re.compile(rb"digitalsourcetype/([A-Za-z]{1,60})\b", re.IGNORECASE)
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_APP1, _APP11 = 0xE1, 0xEB
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""
_HEAD_OF_BOX_SEGMENT = 8
"""In an APP11 segment before the box: identifier, number of the box, number of the segment."""


def provenance_of(content: bytes) -> str | None:
    """What a file says about its origin.

    Args:
        content: of a PNG, JPEG or WebP file; anything else, and damaged files, say nothing.

    Returns:
        `c2pa` for a C2PA manifest; the word of IPTC's vocabulary of digital source types that its XMP names, such
        as `trainedAlgorithmicMedia`; both, with a comma between; or None.
    """
    found: dict[str, None] = {}
    for kind, part in _parts(content):
        if kind == "manifest" and _is_manifest(part):
            found["c2pa"] = None
        elif kind == "xmp":
            found.update((word.decode(), None) for word in _SOURCE_TYPE.findall(part))
    return ", ".join(sorted(found)) or None


def _parts(content: bytes) -> Iterator[tuple[str, bytes]]:
    if content.startswith(_PNG):
        return _parts_of_png(content)
    if content.startswith(b"\xff\xd8\xff"):
        return _parts_of_jpeg(content)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return _parts_of_webp(content)
    return iter(())


def _parts_of_png(content: bytes) -> Iterator[tuple[str, bytes]]:
    at = len(_PNG)
    for _ in range(_MOST_PARTS):
        if at + 8 > len(content):
            return
        length, kind = struct.unpack_from(">I4s", content, at)
        if at + 8 + length > len(content):
            return
        if kind == b"caBX":
            yield "manifest", content[at + 8 : at + 8 + length]
        elif kind == b"iTXt" and content.startswith(_XMP_IN_PNG, at + 8):
            yield "xmp", _text_of_png(content[at + 8 : at + 8 + min(length, _MOST_XMP_BYTES)])
        elif kind == b"IEND":
            return
        at += length + 12


def _text_of_png(chunk: bytes) -> bytes:
    """The text of an iTXt chunk, which may be packed."""
    flags = chunk[len(_XMP_IN_PNG) : len(_XMP_IN_PNG) + 2]
    text = chunk[len(_XMP_IN_PNG) + 2 :].split(b"\x00", 2)[-1]
    if flags[:1] != b"\x01":
        return text
    try:
        return zlib.decompressobj().decompress(text, _MOST_XMP_BYTES)
    except zlib.error:
        return b""


def _parts_of_jpeg(content: bytes) -> Iterator[tuple[str, bytes]]:
    at = 2
    for _ in range(_MOST_PARTS):
        if at + 4 > len(content) or content[at] != 0xFF:
            return
        marker = content[at + 1]
        if marker == 0xFF:  # a byte to fill up
            at += 1
            continue
        if marker in (_START_OF_SCAN, _END_OF_IMAGE):
            return
        if marker in _ALONE:
            at += 2
            continue
        length = struct.unpack_from(">H", content, at + 2)[0]
        part = content[at + 4 : at + 2 + length]
        if at + 2 + length > len(content):
            return
        if marker == _APP1 and part.startswith(_XMP_IN_JPEG):
            yield "xmp", part
        elif marker == _APP11 and part.startswith(b"JP"):
            yield "manifest", part[_HEAD_OF_BOX_SEGMENT:]
        at += 2 + length


def _parts_of_webp(content: bytes) -> Iterator[tuple[str, bytes]]:
    at = 12
    for _ in range(_MOST_PARTS):
        if at + 8 > len(content):
            return
        kind, length = struct.unpack_from("<4sI", content, at)
        if at + 8 + length > len(content):
            return
        if kind == b"C2PA":
            yield "manifest", content[at + 8 : at + 8 + length]
        elif kind == b"XMP ":
            yield "xmp", content[at + 8 : at + 8 + min(length, _MOST_XMP_BYTES)]
        at += 8 + length + length % 2


def _is_manifest(part: bytes) -> bool:
    """Whether a part begins with the box of a manifest store: its description box names the type."""
    return part[4:8] == b"jumb" and part[12:16] == b"jumd" and part[16:20] == b"c2pa"
