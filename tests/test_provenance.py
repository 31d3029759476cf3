"""What files say about where they come from, whole and damaged."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image
from service_pictures import chunk, manifest, picture

from detector_bench.generation.provenance import provenance_of

URI = b"http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><Iptc4xmpExt:DigitalSourceType>' + URI + b"</x:xmpmeta>"


def saved(image_format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(stream, format=image_format, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def png_with(*chunks: bytes) -> bytes:
    plain = saved("PNG")
    return plain[:33] + b"".join(chunks) + plain[33:]


def jpeg_with(*segments: tuple[int, bytes]) -> bytes:
    plain = saved("JPEG")
    packed = (bytes([0xFF, kind]) + struct.pack(">H", len(data) + 2) + data for kind, data in segments)
    return plain[:2] + b"".join(packed) + plain[2:]


def webp_with(kind: bytes, data: bytes) -> bytes:
    plain = saved("WEBP")
    body = plain[8:] + kind + struct.pack("<I", len(data)) + data + b"\x00" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def text(*, packed: bool) -> bytes:
    said = zlib.compress(XMP) if packed else XMP
    return chunk(b"iTXt", b"XML:com.adobe.xmp\x00" + bytes([packed, 0]) + b"\x00\x00" + said)


SEGMENT = b"JP\x00\x01\x00\x00\x00\x01" + manifest()
CASES = {
    "plain PNG": (saved("PNG"), None),
    "plain JPEG": (saved("JPEG"), None),
    "plain WebP": (saved("WEBP"), None),
    "PNG with a manifest": (png_with(chunk(b"caBX", manifest())), "c2pa"),
    "PNG with something else": (png_with(chunk(b"caBX", b"\x00" * 40)), None),
    "PNG with XMP": (png_with(text(packed=False)), "trainedAlgorithmicMedia"),
    "PNG with packed XMP": (png_with(text(packed=True)), "trainedAlgorithmicMedia"),
    "PNG with both": (png_with(chunk(b"caBX", manifest()), text(packed=True)), "c2pa, trainedAlgorithmicMedia"),
    "JPEG with a manifest": (jpeg_with((0xEB, SEGMENT)), "c2pa"),
    "JPEG with XMP": (jpeg_with((0xE1, b"http://ns.adobe.com/xap/1.0/\x00" + XMP)), "trainedAlgorithmicMedia"),
    "JPEG with another box": (jpeg_with((0xEB, b"JP\x00\x01\x00\x00\x00\x01" + b"\x00" * 30)), None),
    "WebP with a manifest": (webp_with(b"C2PA", manifest()), "c2pa"),
    "WebP with XMP": (webp_with(b"XMP ", XMP), "trainedAlgorithmicMedia"),
    "no image": (b"GIF89a" + manifest(), None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_file_says(case: str) -> None:
    content, said = CASES[case]
    assert provenance_of(content) == said
    if content and said is not None:
        with Image.open(io.BytesIO(content)) as image:
            image.load()


def test_pillow_writes_what_is_read() -> None:
    assert provenance_of(saved("JPEG", xmp=XMP)) == "trainedAlgorithmicMedia"
    assert provenance_of(saved("WEBP", xmp=XMP)) == "trainedAlgorithmicMedia"


@pytest.mark.parametrize("case", [name for name, (_, said) in CASES.items() if said])
def test_damaged_files_say_less_or_the_same(case: str) -> None:
    content, said = CASES[case]
    assert said is not None
    words = set(said.split(", "))
    for end in range(0, len(content), 3):
        assert set((provenance_of(content[:end]) or said).split(", ")) <= words
    for at in range(8, min(len(content), 120)):
        provenance_of(content[:at] + b"\xff" + content[at + 1 :])


def test_bombs_are_left_packed() -> None:
    """A text that unpacks to 8 MiB, and a file of a million chunks."""
    deflate = zlib.compressobj(9)
    packed = b"".join(deflate.compress(b" " * 1024**2) for _ in range(8)) + deflate.compress(XMP) + deflate.flush()
    bomb = png_with(chunk(b"iTXt", b"XML:com.adobe.xmp\x00\x01\x00\x00\x00" + packed))
    assert provenance_of(bomb) is None
    assert provenance_of(picture(b"")[:33] + chunk(b"teSt", b"") * 1_000_000 + chunk(b"caBX", manifest())) is None
