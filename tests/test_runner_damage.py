"""A folder of damaged images: each becomes an error row with its reason, and the study goes on to its numbers."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from small_parts import image_name, picture, write_image_set, write_tables

from detector_bench.study import Study

SOUND = 9
MAX_PIXELS = 100_000


def encoded(image_format: str, image: Image.Image | None = None) -> bytes:
    file = io.BytesIO()
    (image or picture(0, size=(200, 150))).save(file, image_format)
    return file.getvalue()


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def half(image_format: str) -> Callable[[Path], object]:
    data = encoded(image_format)
    return content(data[: len(data) // 2])


def damaged_middle(path: Path) -> None:
    data = bytearray(encoded("PNG"))
    middle = len(data) // 2
    data[middle : middle + 20] = bytes(20)
    path.write_bytes(data)


def damaged_header(path: Path) -> None:
    data = bytearray(encoded("PNG"))
    data[18] ^= 0xFF  # the width, so that its check sum is wrong
    path.write_bytes(data)


def bomb(path: Path) -> None:
    """A PNG of some hundred bytes that claims 60,000 x 60,000 pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""))


def too_large(path: Path) -> None:
    picture(0, size=(400, 300)).save(path, "PNG")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere.png")


def bound_socket(path: Path) -> None:
    # The name of a socket may not be long, so it is made elsewhere and moved.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{folder}/s")
        Path(f"{folder}/s").rename(path)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "missing_file"),
    "dangling link": (dangling, "missing_file"),
    "link to itself": (loop, "unreadable"),
    "folder": (lambda path: path.mkdir(), "not_a_file"),
    "named pipe": (os.mkfifo, "not_a_file"),
    "socket": (bound_socket, "not_a_file"),
    "empty": (content(b""), "empty_file"),
    "text": (content(b"404 Not Found, sorry. Please try again."), "not_an_image"),
    "web page": (content(b"<!DOCTYPE html><html><body>Sign in</body></html>"), "not_an_image"),
    "Git LFS pointer": (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:0"), "not_an_image"),
    "ZIP archive": (content(b"PK\x03\x04" + bytes(40)), "not_an_image"),
    "random bytes": (content(np.random.default_rng(1).bytes(500)), "not_an_image"),
    "half a PNG": (half("PNG"), "truncated"),
    "half a JPEG": (half("JPEG"), "truncated"),
    "half a WebP": (half("WEBP"), "truncated"),
    "half a GIF": (half("GIF"), "truncated"),
    "head of a PNG": (content(encoded("PNG")[:20]), "truncated"),
    "damaged middle": (damaged_middle, "corrupt"),
    "damaged header": (damaged_header, "corrupt"),
    "too many pixels": (too_large, "too_large"),
    "decompression bomb": (bomb, "too_large"),
    "numbers with a fraction": (
        content(encoded("TIFF", Image.fromarray(np.full((4, 4), 0.5, np.float32)))),
        "unsupported_mode",
    ),
}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, sockets and links of POSIX")


def folder_name(kind: str) -> str:
    return kind.replace(" ", "_")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study over sound images among damaged ones; the folder with `images` and `out`."""
    root = tmp_path_factory.mktemp("damage")
    images = write_image_set(root / "images", SOUND)
    for kind, (damage, _) in DAMAGE.items():
        damage(images / "images" / f"{folder_name(kind)}.png")
    write_tables(images, range(SOUND), extra=[(kind, f"images/{folder_name(kind)}.png") for kind in DAMAGE])
    (root / "study.yaml").write_text(
        f"image_set: images\nmax_pixels: {MAX_PIXELS}\nbatch_size: 5\ndetectors: [test-colour, test-brightness]\n"
    )
    Study.from_yaml(root / "study.yaml").run(root / "out", cache_dir=root / "cache")
    return root


def rows(root: Path, detector: str) -> dict[str, tuple[str, str | None]]:
    table = pq.read_table(root / "out" / "predictions" / detector / "predictions.parquet")
    return {row["image_id"]: (row["status"], row["reason"]) for row in table.to_pylist()}


def test_there_are_at_least_twelve_kinds_of_damage() -> None:
    assert len(DAMAGE) >= 12
    assert len({reason for _, reason in DAMAGE.values()}) >= 7


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("detector", ["test-colour", "test-brightness"])
def test_each_kind_is_an_error_row_with_its_reason(finished: Path, detector: str, kind: str) -> None:
    status, reason = rows(finished, detector)[kind]
    assert status == "error"
    assert reason is not None
    assert reason.split(":")[0] == DAMAGE[kind][1]


def test_sound_images_between_damaged_ones_are_judged(finished: Path) -> None:
    found = rows(finished, "test-colour")
    expected = ["clear", "clear", "filtered"]
    assert [found[image_name(number)][0] for number in range(SOUND)] == [expected[n % 3] for n in range(SOUND)]
    assert len(found) == SOUND + len(DAMAGE)


def test_no_row_names_a_folder_of_this_machine(finished: Path) -> None:
    reasons = [reason for _, reason in rows(finished, "test-colour").values() if reason]
    assert all(str(finished) not in reason and tempfile.gettempdir() not in reason for reason in reasons)
    assert "missing_file: images/missing.png: no such file" in reasons
    assert all("\n" not in reason and len(reason) < 300 for reason in reasons)


def test_the_counts_are_in_the_records(finished: Path) -> None:
    counted = json.loads((finished / "out" / "results.json").read_text())["counts"]
    counts = {name: found["gender"] for name, found in counted.items()}
    assert counts == {
        "test-colour": {"clear": 6, "filtered": 3, "error": len(DAMAGE)},
        "test-brightness": {"clear": 9, "filtered": 0, "error": len(DAMAGE)},
    }
    record = json.loads((finished / "out" / "run.json").read_text())
    assert record["sessions"][0]["images_judged"] == SOUND + len(DAMAGE)
    # Every decodable image went through the stage, and no other one.
    assert set(record["sessions"][0]["images_per_stage"].values()) == {SOUND}


def test_errors_are_left_out_of_the_numbers_and_counted(finished: Path) -> None:
    table = pq.read_table(finished / "out" / "metrics.parquet").to_pandas()
    everything = (table[["t2i_model", "category", "prompt_id"]] == "all").all(axis=1)
    recall = table[everything & (table["detector"] == "test-colour") & (table["metric"] == "recall")].iloc[0]
    # Of the sound images 6 are labelled male or female, and the damaged ones are all labelled male.
    assert (recall["value"], recall["n"], recall["n_left_out"]) == (1.0, 6, len(DAMAGE))
