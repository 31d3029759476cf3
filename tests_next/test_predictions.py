"""Prediction files: parts, joining, what counts of repeated rows, damage, foreign files, how a folder is cut."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detector_bench_next.errors import ConfigError, DataError, DetectorBenchError
from detector_bench_next.predictions import (
    SCHEMA,
    Plan,
    Predictions,
    Shard,
    ShardStore,
    digest_of,
    ranges,
    shard_count,
    shard_number,
)

SHARD = Shard(3, 16)
IDS = ["b", "a", "c"]
HASHES: dict[str, str | None] = {"a": "sha-a", "b": "sha-b", "c": "sha-c"}


def store(folder: Path, fingerprint: str = "f1", attributes: Sequence[str] = ("gender",)) -> ShardStore:
    return ShardStore(
        folder, "clip", SHARD, fingerprint=fingerprint, identity={"kind": "clip"}, attributes=attributes
    )


def row(image: str, label: str | None = "male", attribute: str = "gender", **cells: Any) -> dict[str, Any]:
    made = {"image_id": image, "attribute": attribute, "label": label, "image_sha256": HASHES[image]}
    made |= {"status": "clear", "reason": None} if label else {"status": "error", "reason": "damaged"}
    return made | ({"image_sha256": cells.pop("sha256")} if "sha256" in cells else {}) | cells


def written(folder: Path, *parts: Sequence[dict[str, Any]], fingerprint: str = "f1") -> ShardStore:
    """A store that was flushed behind each of these parts."""
    made = store(folder, fingerprint)
    for part in parts:
        made.add(part)
        made.flush()
    return made


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "clip").iterdir())


def labels(folder: Path) -> list[tuple[str, str | None]]:
    rows = pq.read_table(folder / "clip" / "00003-of-00016.parquet", partitioning=None).to_pylist()
    return [(r["image_id"], r["label"]) for r in rows]


def test_shards_of_ids_are_those_of_every_machine(shared: Path) -> None:
    compare = shared / "design" / "golden" / "run" / "compare.py"
    command = [sys.executable, str(compare), "shards", "detector_bench_next"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", ""])
def test_a_shard_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="expected NUMBER/SHARDS"):
        Shard.parse(text)


def test_names_and_ranges() -> None:
    assert Shard.parse(" 3/16 ").name == "00003-of-00016"
    assert ranges([9, 3, 8, 7, 3]) == "3,7-9"
    assert digest_of(["a", "b"]) == digest_of(iter(["a", "b"])) != digest_of(["b", "a"])
    assert {shard_number(str(n), 7) for n in range(200)} == set(range(1, 8))


CUTS = """
384 0 1 1
2000 0 1 1
2001 0 1 2
384 0 2 8
5 0 4 5
0 0 1 1
9000000 0 1 1000
384 3 2 3
"""


@pytest.mark.parametrize("case", CUTS.strip().splitlines())
def test_a_new_folder_is_cut_by_size_and_workers(tmp_path: Path, case: str) -> None:
    images, asked, workers, count = map(int, case.split())
    assert shard_count(tmp_path, images, asked=asked, workers=workers) == count


def test_a_folder_stays_cut_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "predictions"
    Plan(16, {"clip": "f1"}).write(folder)
    assert Plan.read(folder) == Plan(16, {"clip": "f1"})
    assert shard_count(folder, 384, workers=8) == 16
    with pytest.raises(ConfigError, match="'results' is cut into 16 shards, not 4: name another --out"):
        shard_count(folder, 384, asked=4)
    (folder / "_plan.json").unlink()
    assert Plan.read(folder) is None
    written(folder, [row("a")])
    assert shard_count(folder, 384) == 16
    (folder / "_plan.json").write_text("{")
    with pytest.raises(DataError, match=r"_plan.json"):
        Plan.read(folder)


def test_parts_are_joined_in_the_image_sets_order_then_by_attribute(tmp_path: Path) -> None:
    made = store(tmp_path, attributes=("gender", "age"))
    made.add([row("a"), row("a", "young", "age", score=0.5, value=30.25, raw="x")])
    made.flush()
    made.flush()
    made.add([row("b", "female")])
    made.flush()
    assert files(tmp_path) == [f"00003-of-00016.part-00000{n}.parquet" for n in (1, 2)]
    assert made.finished() == {"a": "sha-a"}  # half an answer is none
    made.add([row("c"), row("b", "old", "age")])
    assert not made.complete(IDS)
    made.join(IDS, HASHES)
    assert files(tmp_path) == ["00003-of-00016.parquet"]
    table = pq.read_table(made.target, partitioning=None)
    assert table.schema.equals(SCHEMA)
    found = [f"{r['image_id']} {r['attribute']} {r['label']}" for r in table.to_pylist()]
    assert found == ["b age old", "b gender female", "a age young", "a gender male", "c gender male"]
    values = table.slice(2, 1).to_pylist()[0].values()
    assert list(values) == ["a", "clip", "age", "clear", None, "young", 0.5, 30.25, "x", "sha-a"]
    facts = table.schema.metadata
    assert facts[b"fingerprint"] == b"f1"
    assert facts[b"images"] == digest_of(IDS).encode()
    assert set(facts) == {b"fingerprint", b"identity", b"images"}
    assert store(tmp_path).complete(IDS)
    assert not store(tmp_path).complete(IDS[:2])
    assert not store(tmp_path, "f2").complete(IDS)


def test_joining_again_without_a_change_leaves_the_file_alone(tmp_path: Path) -> None:
    written(tmp_path, [row("a"), row("b")]).join(IDS, HASHES)
    before = store(tmp_path).target.stat()
    store(tmp_path).join(IDS, HASHES)
    after = store(tmp_path).target.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    store(tmp_path).join([*IDS, "d"], HASHES)  # new images: the shard is open no more only by this
    assert store(tmp_path).complete([*IDS, "d"])


REPEATS = {
    "the newest prediction": ([row("a", "male")], [row("a", "female")], "female"),
    "a prediction before a newer error": ([row("a", "male")], [row("a", None)], "male"),
    "a prediction before an older error": ([row("a", None)], [row("a", "male")], "male"),
    "the newer error": ([row("a", None, raw="old")], [row("a", None, raw="new")], None),
    "an error about this content": ([row("a", "male", sha256="other")], [row("a", None)], None),
    "an error without content": ([row("a", "male", sha256="other")], [row("a", None, sha256=None)], None),
}


@pytest.mark.parametrize("join_between", [False, True])
@pytest.mark.parametrize("case", REPEATS)
def test_of_repeated_rows_one_counts(tmp_path: Path, case: str, join_between: bool) -> None:
    first, second, label = REPEATS[case]
    made = written(tmp_path, first)
    if join_between:
        made.join(IDS, {"a": first[0]["image_sha256"]})
    written(tmp_path, second).join(IDS, HASHES)
    [kept] = pq.read_table(made.target, partitioning=None).to_pylist()
    assert kept["label"] == label
    assert kept["raw"] != "old"


def test_part_ten_is_newer_than_part_nine(tmp_path: Path) -> None:
    made = written(tmp_path, *([row("a", "male")] for _ in range(9)), [row("a", "female")])
    assert "00003-of-00016.part-000010.parquet" in files(tmp_path)
    made.join(IDS, HASHES)
    assert labels(tmp_path) == [("a", "female")]


def test_errors_are_open_but_for_images_that_are_not_at_hand(tmp_path: Path) -> None:
    made = written(
        tmp_path,
        [row("a"), row("b", None), row("c", None, sha256=None) | {"reason": "not_at_hand"}],
    )
    assert made.finished() == {"a": "sha-a", "c": None}


def test_rows_of_other_images_and_other_content_go(tmp_path: Path) -> None:
    made = written(tmp_path, [row("a"), row("b", sha256="before"), row("c")])
    made.join(["a", "b"], {"a": "sha-a", "b": "now"})
    assert labels(tmp_path) == [("a", "male")]


def test_rows_of_another_version_stay_until_the_first_row_is_written(tmp_path: Path) -> None:
    written(tmp_path, [row("a")]).join(IDS, HASHES)
    other = store(tmp_path, "f2")
    assert other.finished() == {}
    assert labels(tmp_path) == [("a", "male")]
    other.add([row("b", "female")])
    other.join(IDS, HASHES)
    assert labels(tmp_path) == [("b", "female")]


@pytest.mark.parametrize("survive", [1, 2, 3])
def test_a_kill_between_joining_and_removing_parts_changes_nothing(
    tmp_path: Path, survive: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [[row("a", "male"), row("b", None)], [row("a", "female")], [row("b", "male")]]
    whole = written(tmp_path / "whole", *parts)
    whole.join(IDS, HASHES)
    made, unlink, removed = written(tmp_path, *parts), Path.unlink, 0

    def stop(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        if ".part-" in path.name and path.suffix == ".parquet":
            removed += 1
            if removed == survive:
                raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            made.join(IDS, HASHES)
    assert len(files(tmp_path)) > 1
    store(tmp_path).join(IDS, HASHES)
    assert made.target.read_bytes() == whole.target.read_bytes()
    assert files(tmp_path) == [made.target.name]


def test_text_that_cannot_be_stored_and_long_reasons(tmp_path: Path) -> None:
    reason = "stage_failed: line\none " + "x" * 600
    written(tmp_path, [row("a", raw="half \ud800"), row("b", None) | {"reason": reason}]).join(IDS, HASHES)
    b, a = pq.read_table(store(tmp_path).target, partitioning=None).to_pylist()
    assert a["raw"] == "half ?"
    assert b["reason"].startswith("stage_failed: line one xxx")
    assert len(b["reason"]) == 500


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_a_damaged_file_is_removed_and_named(tmp_path: Path, damage: str) -> None:
    made = written(tmp_path, [row("a")], [row("b")])
    path = tmp_path / "clip" / "00003-of-00016.part-000001.parquet"
    content = bytearray(path.read_bytes())
    within_a_page = pq.read_metadata(path).row_group(0).column(0).data_page_offset - 2
    content[within_a_page] ^= 0xFF
    path.write_bytes({"flipped": bytes(content), "cut": content[:-20], "empty": b""}[damage])
    with pytest.raises(DataError, match=r"predictions/clip/00003-of-00016.part-000001.*run the study again"):
        Predictions(tmp_path).table("clip")
    again = store(tmp_path)
    assert again.finished() == {"b": "sha-b"}
    assert again.damaged == ["clip/00003-of-00016.part-000001.parquet"]
    made.target.write_bytes(bytes(content))
    assert not made.complete(IDS)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_full_disk_is_one_line_loses_no_row_and_leaves_nothing_behind(tmp_path: Path) -> None:
    made = written(tmp_path, [row("a")])
    made.add([row("b", raw=os.urandom(40_000).hex())])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        with pytest.raises(DetectorBenchError, match="File too large"):
            made.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files(tmp_path) == ["00003-of-00016.part-000001.parquet"]
    made.join(IDS, HASHES)
    assert [image for image, _ in labels(tmp_path)] == ["b", "a"]


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / "clip").mkdir()
    own, other = (tmp_path / "clip" / f".{name}.parquet.host-1.tmp" for name in (SHARD.name, "00004-of-00016"))
    own.write_bytes(b"half")
    other.write_bytes(b"half of another shard, which may be in work")
    written(tmp_path, [row("a")])
    assert (own.exists(), other.exists()) == (False, True)


def test_the_reader_gives_a_table_for_each_shard_and_takes_foreign_files(tmp_path: Path) -> None:
    written(tmp_path, [row("a", "male")], [row("a", "female"), row("b")])  # unfinished: the newest counts
    for name in ("log", "locks", "_log", ".hidden"):
        (tmp_path / name).mkdir()
    columns = {
        "image_id": ["x"],
        "detector": ["log"],
        "attribute": ["gender"],
        "status": ["clear"],
        "label": ["male"],
    }
    pq.write_table(pa.table(columns), tmp_path / "log" / "theirs.parquet")
    reader = Predictions(tmp_path)
    assert reader.detectors == ["clip", "log"]
    [shard] = reader.shards("clip", ["image_id", "label"])
    assert dict(zip(*shard.to_pydict().values(), strict=True)) == {"a": "female", "b": "male"}
    assert reader.table("log").schema.equals(SCHEMA)
    assert reader.table("log")["score"].to_pylist() == [None]
    assert reader.maker("clip") == ("f1", {"kind": "clip"})
    assert reader.maker("log") is None
    assert list(reader.files("log")) == ["theirs.parquet"]


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    written(tmp_path / "a=1", [row("a")]).join(IDS, HASHES)
    assert Predictions(tmp_path / "a=1").table("clip").column_names == SCHEMA.names
    assert store(tmp_path / "a=1").finished() == {"a": "sha-a"}


def test_rows_of_another_detector_two_versions_and_lacking_columns_are_mistakes(tmp_path: Path) -> None:
    cells = {"image_id": "a", "detector": "other", "attribute": "g", "status": "clear", "label": "m"}
    rows = pa.table({name: [cell] for name, cell in cells.items()})
    (tmp_path / "clip").mkdir()
    pq.write_table(rows, tmp_path / "clip" / "x.parquet")
    with pytest.raises(DataError, match=r"clip/x.parquet.*rows of another detector: 'other'"):
        Predictions(tmp_path).table("clip")
    pq.write_table(rows.drop_columns("label"), tmp_path / "clip" / "x.parquet")
    with pytest.raises(DataError, match="column label is missing"):
        Predictions(tmp_path).table("clip")
    (tmp_path / "clip" / "x.parquet").unlink()
    written(tmp_path, [row("a")])
    table = pq.read_table(tmp_path / "clip" / "00003-of-00016.part-000001.parquet", partitioning=None)
    facts = {**table.schema.metadata, b"fingerprint": b"f2"}
    pq.write_table(table.replace_schema_metadata(facts), tmp_path / "clip" / "00004-of-00016.parquet")
    with pytest.raises(DataError, match="two versions of the detector"):
        Predictions(tmp_path).maker("clip")
