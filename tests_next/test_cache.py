"""The stage cache: what is kept comes back to the bit, from every shard's file, and nothing else does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from detector_bench_next.cache import StageCache
from detector_bench_next.errors import DetectorBenchError

ARRAYS = {
    "floats": np.arange(6, dtype=np.float64).reshape(2, 3).T,  # Fortran order: memory is not as it reads
    "view": np.arange(10, dtype=np.int64)[::3],
    "none": np.zeros((0, 4), np.float32),
    "flag": np.array([True, False]),
    "text": np.frombuffer("Grüße".encode(), np.uint8),
}


def test_results_come_back_to_the_bit(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("stage", {"image": ARRAYS, "nothing": {}})
    cache.close()
    found = StageCache(tmp_path).get("stage", ["image", "nothing", "other"])
    assert found.keys() == {"image", "nothing"}
    assert found["nothing"] == {}, "nothing to see is a result"
    for name, array in ARRAYS.items():
        assert found["image"][name].dtype == array.dtype
        assert np.array_equal(found["image"][name], array)
    assert StageCache(tmp_path).get("other", ["image"]) == {}


def test_many_images_are_asked_for_at_once(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    names = [f"image{n}" for n in range(1300)]
    cache.put("stage", {name: {"n": np.array([n])} for n, name in enumerate(names)})
    assert {name: int(own["n"][0]) for name, own in cache.get("stage", names).items()} == dict(
        zip(names, range(1300), strict=True)
    )


def test_all_shards_are_read_and_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_bench_next.cache._MOST_OPEN", 2)
    writers = ["", "00001-of-00002", "00002-of-00002", "00002-of-00003", "00003-of-00003"]
    for n, writer in enumerate(writers):
        cache = StageCache(tmp_path, writer)
        cache.put("stage", {f"image{n}": {"n": np.array([n])}})
        cache.close()
    assert len(list(tmp_path.glob("stages*.sqlite"))) == len(writers)
    reader = StageCache(tmp_path, "00002-of-00002")
    for _ in range(2):
        assert len(reader.get("stage", [f"image{n}" for n in range(len(writers))])) == len(writers)


def test_a_damaged_result_is_missing(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache.put("stage", {name: {"n": np.array([7])} for name in "abc"})
    cache.close()
    file = sqlite3.connect(tmp_path / "stages.sqlite")
    file.execute("UPDATE results SET arrays = substr(arrays, 1, 60) WHERE image = 'a'")
    file.execute("UPDATE results SET arrays = (SELECT arrays FROM results WHERE image = 'c') WHERE image = 'b'")
    file.commit()
    file.close()
    again = StageCache(tmp_path)
    assert again.get("stage", list("abc")).keys() == {"c"}, "cut, and another image's"
    assert again.damaged == 2


def test_contents_are_known_while_the_mark_holds(tmp_path: Path) -> None:
    cache = StageCache(tmp_path, "00001-of-00002")
    sha256 = "a" * 64
    cache.remember({"x.png\n": ("1 2 3", sha256), "x.png\nleft": ("1 2 3", "b" * 64), "new.png\n": ("", sha256)})
    places = ["x.png\n", "x.png\nleft", "new.png\n", "y.png\n"]
    other = StageCache(tmp_path, "00002-of-00002")
    assert other.known_sha256(places, ["1 2 3"] * 4) == {"x.png\n": sha256, "x.png\nleft": "b" * 64}
    assert other.known_sha256(places, ["1 2 4"] * 4) == {}
    assert other.known_sha256(places, [None] * 4) == {}


def test_threads_and_processes_share_a_file(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np; from pathlib import Path; from detector_bench_next.cache import StageCache\n"
        "cache = StageCache(Path(sys.argv[1]))\n"
        "for n in range(40): cache.put('stage', {f'{sys.argv[2]}{n}': {'n': np.array([n])}})"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    cache = StageCache(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: cache.put("stage", {f"c{n}": {"n": np.array([n])}}), range(40)))
    assert [other.wait() for other in others] == [0, 0]
    assert len(StageCache(tmp_path).get("stage", [f"{name}{n}" for name in "abc" for n in range(40)])) == 120


def test_another_shards_damage_costs_nothing_ones_own_is_told(tmp_path: Path) -> None:
    (tmp_path / "stages-00002-of-00002.sqlite").write_bytes(b"no database at all" * 100)
    cache = StageCache(tmp_path, "00001-of-00002")
    assert cache.get("stage", ["image"]) == {}
    assert cache.known_sha256(["x\n"], ["1"]) == {}
    with pytest.raises(DetectorBenchError, match=r"cannot be used: .*--cache-dir, or use --no-cache"):
        StageCache(tmp_path, "00002-of-00002")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DetectorBenchError, match="--cache-dir"):
        StageCache(tmp_path / "file")


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    cache = StageCache(tmp_path)
    cache._own.execute("PRAGMA max_page_count = 8")
    with pytest.raises(DetectorBenchError, match="is full"):
        cache.put("stage", {"large": {"n": np.zeros(100_000)}})
    assert cache.get("stage", ["large"]) == {}
    cache.put("stage", {"small": {"n": np.zeros(1)}})
    assert cache.get("stage", ["small"]).keys() == {"small"}
