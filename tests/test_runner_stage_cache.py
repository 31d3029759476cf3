"""Stage results on disk: exact, shared, and one message when the file is no good."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from numpy.testing import assert_array_equal
from safetensors.numpy import save
from small_parts import forget_calls, images_of, small_run, write_image_set

from detector_bench.dataset.image_sources import marks_of
from detector_bench.dataset.image_sources.local_files import mark_of_file
from detector_bench.errors import DetectorBenchError
from detector_bench.runner.image_reading import hash_files
from detector_bench.runner.stage_cache import CACHE_VARIABLE, StageCache, default_cache_folder

ARRAYS = {
    "no boxes": np.zeros((0, 4), np.float32),
    "one number": np.array(3.5),
    "every second row": np.arange(24.0).reshape(6, 4)[::2],
    "some columns": np.arange(24, dtype=np.float32).reshape(6, 4)[:, 1:3],
    "reversed": np.arange(5, dtype=np.uint8)[::-1],
    "transposed": np.arange(6).reshape(2, 3).T,
    "column by column": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big-endian": np.arange(3, dtype=">f4"),
    "yes and no": np.array([True, False]),
    "half": np.array([0.5, -2.0], np.float16),
    "special": np.array([np.nan, np.inf, -0.0]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    array = ARRAYS[name]
    cache = StageCache(tmp_path)
    cache.put("stage", {"image": {"boxes": array, "other": np.ones(2)}})
    found = cache.get("stage", ["image"])["image"]["boxes"]

    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape
    assert_array_equal(found, array)
    assert found.flags.writeable


def test_a_result_may_have_no_array_at_all(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("stage", {"image": {}})
    assert cache.get("stage", ["image"]) == {"image": {}}


def test_stages_and_images_are_kept_apart(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("s1", {"a": {"x": np.array([1])}, "b": {"x": np.array([2])}})
    cache.put("s2", {"a": {"x": np.array([3])}})

    assert {image: int(found["x"][0]) for image, found in cache.get("s1", ["a", "b", "c"]).items()} == {
        "a": 1,
        "b": 2,
    }
    assert list(cache.get("s2", ["a", "b"])) == ["a"]
    assert cache.get("s3", ["a"]) == {}
    assert cache.get("s1", []) == {}


def test_many_images_are_asked_for_at_once(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    names = [f"{number:05d}" for number in range(3001)]
    cache.put("s", {name: {"x": np.array([int(name)])} for name in names})
    found = cache.get("s", names[::-1])
    assert [int(found[name]["x"][0]) for name in names] == list(range(3001))


def test_results_survive_the_process(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, numpy as np; from detector_bench.runner.stage_cache import StageCache;"
        "StageCache(pathlib.Path(sys.argv[1])).put('stage', {'image': {'x': np.arange(4.0)[::2]}})"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert_array_equal(StageCache(tmp_path).get("stage", ["image"])["image"]["x"], [0.0, 2.0])


@pytest.mark.slow
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    program = """
import pathlib, sys, time
import numpy as np
from detector_bench.runner.stage_cache import StageCache
while time.time() < float(sys.argv[3]): pass  # start together, so that both find no file
cache = StageCache(pathlib.Path(sys.argv[1]))
for number in range(60):
    cache.put("stage", {f"{sys.argv[2]}-{number}": {"x": np.full(3, number)}, "same": {"x": np.zeros(3)}})
"""
    begin = str(time.time() + 1.5)
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name, begin]) for name in "ab"]
    assert [process.wait(60) for process in processes] == [0, 0]

    names = [f"{name}-{number}" for name in "ab" for number in range(60)]
    found = StageCache(tmp_path).get("stage", [*names, "same"])
    assert len(found) == 121
    assert all(int(found[name]["x"][0]) == int(name[2:]) for name in names)


def test_the_file_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    # SQLite itself gives up at once ("database is locked") when two processes make the same file, once in a while.
    with ThreadPoolExecutor(1) as pool:
        with FileLock(tmp_path / ".opening.lock"):
            opening = pool.submit(StageCache, tmp_path)
            time.sleep(0.3)
            assert not opening.done()
        opening.result(timeout=10).close()
    assert (tmp_path / "stages.sqlite").exists()


def test_without_a_folder_nothing_is_kept() -> None:
    cache = StageCache(None)
    cache.put("stage", {"image": {"x": np.zeros(3)}})
    assert cache.get("stage", ["image"]) == {}


def test_the_folder_comes_from_the_environment_or_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "/somewhere/else")
    assert default_cache_folder() == Path("/somewhere/else")
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/mine")
    if sys.platform == "linux":
        assert default_cache_folder() == Path("/mine/detector_bench/stages")


@pytest.mark.parametrize("damage", ["no sha256", 7, b"\x00\xff", ""])
def test_a_damaged_content_hash_is_no_knowledge(tmp_path: Path, damage: object) -> None:
    images = write_image_set(tmp_path / "set", 3)
    small_run(images, tmp_path / "out", "test-colour")
    paths = sorted((images / "images").iterdir())
    with closing(sqlite3.connect(tmp_path / "cache" / "stages.sqlite", isolation_level=None)) as database:
        for path in paths:
            (mark,) = marks_of([path])
            assert mark is not None
            database.execute("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", (str(path), mark.text, damage))
    assert StageCache(tmp_path / "cache").known_sha256(paths) == [None] * 3
    forget_calls()
    small_run(images, tmp_path / "out", "test-colour")
    assert images_of("test_mean_colour") == [], "read again, they are what was judged"


REMEDY = (
    r"; name another folder with --cache-dir or DETECTOR_BENCH_CACHE, or run with --no-cache; answers that were "
    r"paid for stand in the folder `paid` of their results$"
)


def filled(folder: Path) -> Path:
    """A cache of many pages, all of them in the main file."""
    cache = StageCache(folder)
    cache.put("stage", {f"{number:04d}": {"x": np.full(100, number)} for number in range(500)})
    cache.close()
    return folder / "stages.sqlite"


def test_a_file_that_is_no_database_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "stages.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(
        DetectorBenchError, match=r"stages\.sqlite' cannot be used: file is not a database" + REMEDY
    ):
        StageCache(tmp_path)


def test_a_database_with_damaged_pages_is_one_message(tmp_path: Path) -> None:
    path = filled(tmp_path)
    content = bytearray(path.read_bytes())
    content[4096 * 4 :] = b"\xff" * (len(content) - 4096 * 4)
    path.write_bytes(content)
    with pytest.raises(DetectorBenchError, match="cannot be used: .*malformed" + REMEDY) as caught:
        StageCache(tmp_path).get("stage", [f"{number:04d}" for number in range(500)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [bytes.fromhex("00112233"), 7, "text", b"\xff" * 8 + b"{}"])
def test_a_damaged_result_counts_as_missing(tmp_path: Path, damage: object) -> None:
    connection = sqlite3.connect(filled(tmp_path))
    connection.execute("UPDATE results SET arrays = ? WHERE image = '0001'", (damage,))
    connection.commit()
    connection.close()
    cache = StageCache(tmp_path)
    assert list(cache.get("stage", ["0001", "0002"])) == ["0002"]
    assert cache.damaged == 1


def test_a_result_with_one_other_bit_counts_as_missing(tmp_path: Path) -> None:
    connection = sqlite3.connect(filled(tmp_path))
    (kept,) = connection.execute("SELECT arrays FROM results WHERE image = '0001'").fetchone()
    flipped = bytearray(kept)
    flipped[-1] ^= 1  # of a number: safetensors would read it without a word
    connection.execute("UPDATE results SET arrays = ? WHERE image = '0001'", (bytes(flipped),))
    connection.execute("UPDATE results SET image = 'other' WHERE image = '0003'")
    connection.commit()
    connection.close()
    assert StageCache(tmp_path).get("stage", ["0001", "other"]) == {}


def test_results_of_before_there_were_checksums_are_found(tmp_path: Path) -> None:
    arrays = {"x": np.arange(3)}
    connection = sqlite3.connect(filled(tmp_path))
    connection.execute("UPDATE results SET arrays = ? WHERE image = '0001'", (save(arrays),))
    connection.commit()
    connection.close()
    assert_array_equal(StageCache(tmp_path).get("stage", ["0001"])["0001"]["x"], arrays["x"])


def test_a_folder_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DetectorBenchError, match="cannot be used: .*" + REMEDY):
        StageCache(tmp_path / "file" / "cache")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DetectorBenchError, match="cannot be used: .*" + REMEDY):
            StageCache(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_that_may_only_be_read_is_one_message(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache._own._connection.execute("PRAGMA query_only = ON")  # what a read-only disk does, also to root
    with pytest.raises(DetectorBenchError, match="attempt to write a readonly database" + REMEDY):
        cache.put("stage", {"image": {"x": np.zeros(1)}})


def test_a_full_disk_is_named_and_nothing_is_half_stored(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("stage", {"first": {"x": np.zeros(1)}})
    [[pages]] = cache._own._connection.execute("PRAGMA page_count").fetchall()
    cache._own._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DetectorBenchError, match="database or disk is full" + REMEDY):
        cache.put("stage", {f"{number}": {"x": np.zeros(2000)} for number in range(10)})

    assert list(cache.get("stage", ["first", *map(str, range(10))])) == ["first"]
    cache._own._connection.execute("PRAGMA max_page_count = 100000")
    cache.put("stage", {"second": {"x": np.zeros(1)}})
    assert len(cache.get("stage", ["first", "second"])) == 2


def written(path: Path, content: bytes, *, age: float = 100.0) -> Path:
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_hash_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    cache = StageCache(tmp_path / "cache")
    path = written(tmp_path / "image.png", b"one")
    status = path.stat()
    settled = os.stat_result(
        tuple(status[:10]),
        {"st_mtime_ns": status.st_mtime_ns, "st_ctime_ns": status.st_ctime_ns - 10**10},
    )
    cache.remember_sha256([(path, mark_of_file(settled), "0" * 64)])
    assert cache.known_sha256([path]) == [None], "another time of the last change of status"

    cache.remember_sha256([(path, mark_of_file(status), "0" * 64)])
    assert cache.known_sha256([path]) == [None], "changed so lately that it may change again unseen"


def test_hashes_are_right_and_none_for_what_cannot_be_read(tmp_path: Path) -> None:
    cache = StageCache(tmp_path / "cache")
    path = written(tmp_path / "image.png", b"abc")
    paths = [tmp_path / "missing.png", path, tmp_path, Path("bad\0name")]
    # The printed test vector of sha256 for "abc".
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    assert hash_files(paths, cache=cache, threads=2) == [None, abc, None, None]


def test_a_cached_stage_means_that_no_image_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_set = write_image_set(tmp_path / "images", 6)
    forget_calls()
    small_run(image_set, tmp_path / "one", "test-colour")
    decoded: list[bytes] = []
    real = sys.modules["detector_bench.runner.image_reading"].decode_image

    def counting(data: bytes, *, max_pixels: int) -> object:
        decoded.append(data)
        return real(data, max_pixels=max_pixels)

    monkeypatch.setattr("detector_bench.runner.image_reading.decode_image", counting)
    small_run(image_set, tmp_path / "two", "test-colour", "test-brightness")
    assert decoded == [], "brightness needs the mean colour only"
    assert images_of("test_brightness") == [f"image_00{number}" for number in range(6)]

    small_run(image_set, tmp_path / "three", "test-colour", cache_folder=None)
    assert len(decoded) == 6


def test_without_a_cache_everything_runs_anew(tmp_path: Path) -> None:
    image_set = write_image_set(tmp_path / "images", 4)
    forget_calls()
    for out in ("one", "two"):
        small_run(image_set, tmp_path / out, "test-colour", cache_folder=None)
    assert images_of("test_mean_colour") == sorted([f"image_00{number}" for number in range(4)] * 2)
    assert not (tmp_path / "cache").exists()


def test_copies_of_an_image_share_cached_results(tmp_path: Path) -> None:
    image_set = write_image_set(tmp_path / "images", 4)
    small_run(image_set, tmp_path / "one", "test-colour")
    forget_calls()
    renamed = image_set / "images" / "image_000.png"
    (image_set / "images" / "image_003.png").write_bytes(renamed.read_bytes())
    small_run(image_set, tmp_path / "one", "test-colour")
    assert images_of("test_mean_colour") == []
