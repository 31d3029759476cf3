"""From paths to bytes to pixels: decoding, links, rows of Parquet, stamps."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from detector_bench_next.errors import ConfigError, ImageError
from detector_bench_next.images import SOUND_PATH, ImageStore, Place, decode, parse_path, path_problem, shown, size

ROOTS = "DETECTOR_BENCH_IMAGE_ROOTS"


def picture(width: int = 7, height: int = 3, form: str = "PNG", **options: object) -> bytes:
    """Column x is red = 10 x, row y green = 20 y."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width) * 10, np.arange(height)[:, None] * 20
    found = BytesIO()
    Image.fromarray(pixels).save(found, form, **options)
    return found.getvalue()


def reason(call: object, *given: object, **options: object) -> str:
    with pytest.raises(ImageError) as raised:
        call(*given, **options)  # type: ignore[operator]
    return raised.value.reason


def test_odd_files_have_the_golden_pixels_and_damaged_ones_the_golden_reasons(shared: Path) -> None:
    golden = json.loads((shared / "design/golden/ground/pixels.json").read_text())
    for name, case in golden["odd"].items():
        pixels = decode(base64.b64decode(case["data"]))
        assert hashlib.sha256(pixels.tobytes()).hexdigest() == case["sha256"], name
        assert pixels.flags.c_contiguous, name
        assert pixels.flags.writeable, name
    for name, case in golden["damaged"].items():
        wanted = {"truncated": "damaged", "corrupt": "damaged"}.get(case["reason"], case["reason"])
        assert reason(decode, base64.b64decode(case["data"])) == wanted, name


def test_a_region_is_cut_by_the_floor_of_its_parts_from_the_upright_picture() -> None:
    cases = {"": (0, 7, 0, 3), "left": (0, 3, 0, 3), "right": (3, 7, 0, 3), "0,0,0.5,1": (0, 3, 0, 3)}
    cases |= {"0.5,0,1,1": (3, 7, 0, 3), "0.3,0.4,0.99,0.7": (2, 6, 1, 2), "0,0,1,1": (0, 7, 0, 3)}
    for region, (x0, x1, y0, y1) in cases.items():
        pixels = decode(picture(), region)
        np.testing.assert_array_equal(pixels, decode(picture())[y0:y1, x0:x1], region)
        assert pixels.flags.c_contiguous
        assert pixels.flags.owndata
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = picture(8, 4, exif=exif)
    assert (size(turned), decode(turned).shape, decode(turned, "left").shape) == ((4, 8), (8, 4, 3), (8, 2, 3))
    assert reason(decode, picture(), "0,0,0.1,1") == "empty_file"


def test_limits_foreign_content_and_no_warnings() -> None:
    assert reason(decode, picture(), max_pixels=20) == "too_large"
    assert decode(picture(), max_pixels=21).shape == (3, 7, 3)
    assert size(picture(40, 30, "JPEG")) == (40, 30)
    lfs, page = b"version https://git-lfs.github.com/spec/v1\n", b"\n<!DOCTYPE html><html>"
    texts = ((b"not an image, but a sentence", "text"), (lfs, "Git LFS pointer"), (page, "a web page"))
    for data, told in ((b"", "no bytes"), *texts):
        for ask in (decode, size):
            with pytest.raises(ImageError, match=told):
                ask(data)
    data = picture(64, 64, "JPEG")
    broken = data[:2] + b"\xff\xe1\x00\x10Exif\0\0II*\0\xff\xff\xff\xff" + data[2:]
    np.testing.assert_array_equal(decode(broken), decode(data))
    code = f"from detector_bench_next.images import decode; decode({broken!r})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=True)
    assert done.stderr == b""


def test_parts_of_a_path() -> None:
    cases = {"images/a#1.png": Place("images/a#1.png"), "b.parquet#17": Place("b.parquet", "", 17)}
    cases |= {"d/b.PARQUET#picture/07": Place("d/b.PARQUET", "", 7, "picture"), "c:/x": Place("c:/x")}
    cases |= {"S3://k/b.parquet#a/b/7": Place("S3://k/b.parquet", "s3", 7, "a/b")}
    cases |= {"https://x.org/b.parquet?x=1#7": Place("https://x.org/b.parquet?x=1", "https", 7)}
    assert {path: parse_path(path) for path in cases} == cases


SOUND = """images/1.png|a b/ü.png|a..b/c.png|.hidden/x.png|a/./b.png|b.parquet#0|b.parquet#picture/3|x#1.png
s3://bucket/a.png|gs://b/c|hf://datasets/u/r/x.png|https://x.org/|https://x.org:8080/a.png?x=1&y=../2
HTTPS://x.org/a.png|http://[::1]/a.png|s3://bucket/b.parquet#7|x.tar""".replace("\n", "|").split("|")


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (
            "/etc/passwd|C:/x.png|c:x.png|a\\b.png|../x.png|a/../../x.png|a/..|s3://b/../x|\\\\h\\x",
            "leaves the folder",
        ),
        ("ftp://x/a.png|file:///etc/passwd|local://x/y|s3://b/a.zip::zip://x", "is an address that is not read"),
        ("a.tar#1.png|a.tar.gz#1.png|https://x.org/a.tgz#b", "is a member of an archive"),
        ("b.parquet#|b.parquet#x|b.parquet#x/-1|b.parquet#1/x|s3://b/c.parquet#x", "is no row of a Parquet file"),
        ("https://u:p@x.org/a.png|https://u@x.org/a|s3://key:secret@bucket/a", "is an address with a login"),
        ("https://|https:///a.png|s3://bucket|s3://bucket/|http://x:y/z", "without a place or a name"),
        ("https://x.org/a#b.png", "with a # that names no row"),
    ],
)
def test_paths_that_are_refused(paths: str, told: str) -> None:
    for path in paths.split("|"):
        problem = path_problem(path) or ""
        assert told in problem, path
        assert "; accepted: " in problem, path
        assert not re.search(SOUND_PATH, path), path


def test_paths_that_are_sound() -> None:
    assert [path for path in SOUND if path_problem(path)] == []
    assert sum(bool(re.search(SOUND_PATH, path)) for path in SOUND) > 6
    assert shown("https://u:p@x.org/a.png?sig=1") == "https://x.org/a.png?(hidden)"
    assert shown("is it?#1.png") == "is it?#1.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    (root / "images").mkdir(parents=True)
    (root / "images" / "a.png").write_bytes(picture())
    return root


def test_files_of_a_folder(folder: Path) -> None:
    store = pickle.loads(pickle.dumps(ImageStore(folder)))  # noqa: S301 - for another process
    assert store.read("images/a.png") == picture()
    (folder / "empty.png").write_bytes(b"")
    os.mkfifo(folder / "pipe.png")
    cases = {"": "not_at_hand", "b.png": "missing_file", "images/a.png/x": "missing_file", "images": "not_a_file"}
    cases |= {"empty.png": "empty_file", "pipe.png": "not_a_file", "\0": "unreadable", "x" * 5000: "unreadable"}
    cases |= {"/etc/passwd": "outside_folder", "../x.png": "missing_file", "ftp://x/y": "unreadable"}
    for path, wanted in cases.items():
        with pytest.raises(ImageError) as raised:
            store.read(path)
        # Named as the set does, not by where it lies.
        assert (raised.value.reason, str(folder) in raised.value.detail) == (wanted, False), path
    assert reason(store.read, "images/a.png", 10) == "too_large"


def test_a_link_leads_out_only_to_an_allowed_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed, other = folder.parent / "allowed", folder.parent / "allowed-not"
    for place in (allowed, other):
        (place / "deep").mkdir(parents=True)
        (place / "deep/a.png").write_bytes(picture())
        pq.write_table(pa.table({"p": [picture()]}), place / "b.parquet")
        (folder / place.name).symlink_to(place)
        (folder / f"{place.name}.png").symlink_to(place / "deep/a.png")
    (folder / "inside.png").symlink_to(folder / "images/a.png")
    (folder / "dangling.png").symlink_to(folder.parent / "nowhere.png")
    paths = {"allowed/deep/a.png", "allowed.png", "allowed/b.parquet#0"}
    paths |= {path.replace("allowed", "allowed-not") for path in paths}

    for value, word in (("", "allowed"), (f"{allowed}{os.pathsep}", "not")):
        monkeypatch.setenv(ROOTS, value)
        for path in paths:
            if word in path:
                with pytest.raises(ImageError, match=f"outside_folder: .*{ROOTS}"):
                    ImageStore(folder).read(path)
            else:
                assert ImageStore(folder).read(path) == picture()
    assert ImageStore(folder).read("inside.png") == picture()
    assert reason(ImageStore(folder).read, "dangling.png") == "missing_file"
    for value in ("relative", str(folder / "nowhere")):
        monkeypatch.setenv(ROOTS, value)
        with pytest.raises(ConfigError, match="absolute paths of folders"):
            ImageStore(folder)


def test_stamps_tell_a_change_and_nothing_of_what_changed_just_now(folder: Path) -> None:
    store, file = ImageStore(folder), folder / "images/a.png"
    assert store.stamps(["images/a.png"]) == [None]
    while file.stat().st_ctime > time.time() - 2.1:
        time.sleep(0.1)
    first = store.stamps(["images/a.png", "b.png", "", "images/a.png", "\0", "ftp://x/y"])
    assert first[0] == first[3]
    assert [bool(stamp) for stamp in first] == [True, False, False, True, False, False]
    file.write_bytes(picture(8, 3))
    assert store.stamps(["images/a.png"]) != [first[0]]


def test_pictures_in_parquet(folder: Path) -> None:
    pictures = [picture(width, 2) for width in range(1, 41)]
    struct = [{"bytes": data, "path": f"{n}.png"} for n, data in enumerate(pictures)]
    struct[3], struct[4] = None, {"bytes": None, "path": "x"}  # type: ignore[assignment]
    table = pa.table({"image": struct, "plain": pictures, "label": ["x"] * 40})
    pq.write_table(table, folder / "two.parquet", row_group_size=7)
    pq.write_table(table.select(["plain", "label"]), folder / "one.parquet", row_group_size=100)
    pq.write_table(table.select(["label"]), folder / "none.parquet")
    store = ImageStore(folder)
    for row in (0, 39, 5, 6, 7, 8, 38, 0, 20):
        assert store.read(f"two.parquet#image/{row}") == store.read(f"one.parquet#{row}") == pictures[row]
        assert store.read(f"two.parquet#plain/{row:04}") == pictures[row]
    cases = {"two.parquet#0": "image, plain", "two.parquet#label/0": "image, plain", "none.parquet#0": "none"}
    cases |= {"one.parquet#40": "40 rows", "two.parquet#image/3": "no pic", "two.parquet#image/4": "no pic"}
    for path, told in cases.items():
        with pytest.raises(ImageError, match=told) as raised:
            store.read(path)
        assert raised.value.reason == "missing_file"
    assert reason(store.read, "one.parquet#39", 10) == "too_large"
    cut = (folder / "one.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(cut[:-20])
    (folder / "bad.parquet").write_bytes(cut[:400] + bytes(200) + cut[600:])
    assert reason(store.read, "cut.parquet#1") == "damaged"
    assert reason(store.read, "bad.parquet#1") == "damaged"


def test_rows_of_a_large_group_are_read_by_many_threads(folder: Path) -> None:
    drawn = np.random.default_rng(0).bytes(30_000_000)
    pictures = [drawn[at : at + 100_000] for at in range(0, len(drawn), 100_000)]
    pq.write_table(pa.table({"image": pictures}), folder / "big.parquet", row_group_size=300)
    store, wrong = ImageStore(folder), []

    def read(start: int) -> None:
        wrong.extend(row for row in range(start, 300, 4) if store.read(f"big.parquet#{row}") != pictures[row])

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
