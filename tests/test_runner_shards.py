"""A run that is cut into shards: equal verdicts however it is cut, each judged once; who ends last evaluates."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_parts import forget_calls, image_name, images_of, picture, small_run, write_image_set, write_tables

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger, ShardState, ShardTakenError
from detector_bench.runner.shards import Shard, ranges, sensible_count, shard_numbers, shard_of_file
from detector_bench.runner.stored_predictions import read_predictions
from detector_bench.study import Results, Study

COUNT = 30
ALL = [image_name(number) for number in range(COUNT)]
PLUGIN = Path(__file__).with_name("small_parts.py")


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    forget_calls()
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions"


def rows_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def shard_files(out: Path, detector: str = "test-colour") -> list[Path]:
    return sorted((out / detector).glob("*.parquet"))


def verdicts(out: Path, detector: str = "test-colour") -> dict[str, tuple[str, str | None]]:
    rows = [row for path in shard_files(out, detector) for row in rows_of(path)]
    assert sorted(row["image_id"] for row in rows) == ALL, "each image once"
    return {row["image_id"]: (row["status"], row["label"]) for row in rows}


def test_an_images_shard_follows_from_its_id_alone() -> None:
    numbers = shard_numbers(ALL, 7)
    for image_id, number in zip(ALL, numbers.tolist(), strict=True):
        head = hashlib.sha256(image_id.encode()).digest()[:8]
        assert number == int.from_bytes(head, "big") % 7 + 1
    assert set(shard_numbers(ALL, 1).tolist()) == {1}
    assert shard_numbers(["ä", "1"], 3).tolist() == [shard_numbers([each], 3).item() for each in ("ä", "1")]


def test_names_of_shards_and_their_files() -> None:
    third = Shard.parse(" 3/16")
    assert (str(third), third.name, third.joined_name) == (
        "3/16",
        "00003-of-00016",
        "shard-00003-of-00016.parquet",
    )
    for shard in (third, Shard()):
        assert shard_of_file(shard.joined_name) == shard_of_file(shard.part_name(12)) == shard
    assert shard_of_file("theirs.parquet") is None
    for wrong in ("0/4", "5/4", "1", "a/b", "1/0"):
        with pytest.raises(ConfigError, match="expected NUMBER/SHARDS"):
            Shard.parse(wrong)
    assert ranges([7, 1, 2, 3, 9, 10]) == "1-3,7,9-10"
    assert [sensible_count(images) for images in (1, 20_000, 20_001, 1_000_000)] == [1, 1, 2, 50]
    assert sensible_count(100, workers=3) == 12


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 5, 40])
def test_a_set_that_is_cut_gives_the_verdicts_of_one_that_is_not(image_set: Path, out: Path, shards: int) -> None:
    small_run(image_set, out / "whole", "test-colour", "test-age-and-gender")
    record = small_run(image_set, out / "cut", "test-colour", "test-age-and-gender", shards=shards)
    assert (record.images, record.images_judged) == (COUNT, COUNT)
    assert verdicts(out / "cut") == verdicts(out / "whole")
    numbers = dict(zip(ALL, shard_numbers(ALL, shards).tolist(), strict=True))
    for number, path in enumerate(shard_files(out / "cut", "test-age-and-gender"), start=1):
        expected = [(each, kind) for each in ALL if numbers[each] == number for kind in ("age", "gender")]
        assert [(row["image_id"], row["attribute"]) for row in rows_of(path)] == expected

    before = {path: path.read_bytes() for path in (out / "cut").rglob("*") if path.suffix in (".parquet", ".json")}
    for _ in range(2):
        forget_calls()
        assert small_run(image_set, out / "cut", "test-colour", "test-age-and-gender").images_judged == 0
        assert images_of("test_mean_colour") == []
    assert {path: path.read_bytes() for path in before} == before


def test_what_is_new_or_changed_is_judged_in_its_shard(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour", shards=4)
    before = {path.name: path.read_bytes() for path in shard_files(out)}
    picture(1, seed=5).save(image_set / "images" / f"{image_name(0)}.png")
    assert small_run(image_set, out, "test-colour").images_judged == 1
    changed = {path.name for path in shard_files(out) if path.read_bytes() != before[path.name]}
    assert changed == {Shard(count=4, number=shard_numbers([ALL[0]], 4).item()).joined_name}
    assert verdicts(out)[ALL[0]] == ("clear", "female")

    write_tables(image_set, range(1, COUNT))
    assert small_run(image_set, out, "test-colour").images_judged == 0
    assert ALL[0] not in {row["image_id"] for path in shard_files(out) for row in rows_of(path)}


def test_a_folder_is_cut_anew_without_judging_anew(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour", "test-brightness", cache_folder=None)
    expected = verdicts(out)
    for shards in (4, 3, 1):
        forget_calls()
        record = small_run(image_set, out, "test-colour", "test-brightness", cache_folder=None, shards=shards)
        assert record.images_judged == 0, "verdicts are taken over"
        assert images_of("test_mean_colour") == []
        assert verdicts(out) == expected
        assert [path.name for path in shard_files(out)] == [each.joined_name for each in Shard.all(shards)]
        assert len(list((out / "shards").glob("0*.json"))) == shards


def test_a_new_cut_that_was_cut_short_counts_each_verdict_once(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour", cache_folder=None)
    whole = (out / "test-colour" / "predictions.parquet").read_bytes()
    small_run(image_set, out, "test-colour", shards=3, cache_folder=None)
    parts = {path.name: path.read_bytes() for path in shard_files(out)}

    # Killed before the new layout was named: the old files count.
    (out / "test-colour" / "predictions.parquet").write_bytes(whole)
    ShardLedger(out).write_layout(ShardLayout(shards=1))
    assert sorted(read_predictions(out)["test-colour"]["image_id"].to_pylist()) == ALL
    # Killed behind it: the new ones do.
    ShardLedger(out).write_layout(ShardLayout(shards=3))
    small_run(image_set, out, "test-colour", cache_folder=None)
    assert sorted(read_predictions(out)["test-colour"]["image_id"].to_pylist()) == ALL
    assert {path.name: path.read_bytes() for path in shard_files(out) if path.name in parts} == parts


def test_a_copy_without_its_ledger_is_read_by_its_names(image_set: Path, out: Path, tmp_path: Path) -> None:
    small_run(image_set, out, "test-colour", shards=3)
    copy = tmp_path / "copy" / "test-colour"
    copy.mkdir(parents=True)
    for path in shard_files(out):
        (copy / path.name).write_bytes(path.read_bytes())
    assert sorted(read_predictions(copy.parent)["test-colour"]["image_id"].to_pylist()) == ALL
    (copy / "shard-00001-of-00002.parquet").write_bytes(shard_files(out)[0].read_bytes())
    with pytest.raises(ConfigError, match=r"layout.json' is missing, .* runs with 2 and 3 shards"):
        read_predictions(copy.parent)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_shard_is_judged_again_and_no_other(image_set: Path, out: Path, damage: str) -> None:
    small_run(image_set, out, "test-colour", shards=4)
    expected = {path.name: path.read_bytes() for path in shard_files(out)}
    path = shard_files(out)[2]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    {
        "flipped": lambda: path.write_bytes(content),
        "cut": lambda: path.write_bytes(content[:-7]),
        "gone": path.unlink,
    }[damage]()
    assert ShardLedger(out).damaged(Shard(count=4, number=3)) == [path]

    record = small_run(image_set, out, "test-colour")
    assert record.images_judged == len(rows_of(path))
    assert {path.name: path.read_bytes() for path in shard_files(out)} == expected


def test_stage_results_of_another_cut_are_found(image_set: Path, tmp_path: Path) -> None:
    small_run(image_set, tmp_path / "one", "test-colour", shards=3)
    forget_calls()
    for folder, settings in (("two", {"shards": 2}), ("three", {})):
        small_run(
            image_set, tmp_path / folder, build_detector("test-colour", parameters={"green": 99.0}), **settings
        )
        assert images_of("test_mean_colour") == []
    assert len(list((tmp_path / "cache").glob("stages-*-of-00003.sqlite"))) == 3


@pytest.mark.slow
def test_a_shard_of_another_cut_or_version_is_refused_in_a_line(
    image_set: Path, out: Path, tmp_path: Path
) -> None:
    study = write_study(tmp_path, "test-colour")
    study.run_shard(out.parent / "out", "2/3")
    with pytest.raises(ConfigError, match="cut into 3 shards, not 4: ask for one of those, --shard 1/3 to 3/3"):
        study.run_shard(out.parent / "out", "2/4")
    other = write_study(tmp_path, "{kind: test-colour, green: 99}")
    with pytest.raises(ConfigError, match="detector 'test-colour' is another version here") as refused:
        other.run_shard(out.parent / "out", "3/3")
    assert len(str(refused.value).splitlines()) == 1
    assert len(shard_files(out.parent / "out" / "predictions")) == 1, "nothing was judged by the other version"

    assert isinstance(other.run(out.parent / "out"), Results), "who looks after all shards may begin anew"
    assert other.run_shard(out.parent / "out", "3/3")


@pytest.mark.slow
def test_a_shard_is_judged_by_one_process_at_a_time(image_set: Path, out: Path) -> None:
    small_run(image_set, out, "test-colour", shards=3)
    ledger, taken = ShardLedger(out), Shard(count=3, number=2)
    write_tables(image_set, range(COUNT - 1))
    with ledger.running(taken):
        assert [each.state for each in ledger.states()] == [ShardState.DONE, ShardState.RUNNING, ShardState.DONE]
        with pytest.raises(ShardTakenError, match=r"1 of 3 shards .* are judged by other processes right now"):
            small_run(image_set, out, "test-colour")
        with pytest.raises(ShardTakenError, match="is cut into 3 shards, and 2/3 is being judged right now"):
            small_run(image_set, out, "test-colour", shards=2)
    assert {each.state for each in ledger.states()} == {ShardState.DONE}


def write_study(folder: Path, *detectors: str, images: str = "images") -> Study:
    path = folder / "study.yaml"
    path.write_text(f"image_set: {images}\nbatch_size: 4\ndetectors: [{', '.join(detectors)}]\n")
    return Study.from_yaml(path)


@pytest.mark.slow
def test_who_ends_last_writes_the_results(image_set: Path, tmp_path: Path) -> None:
    study = write_study(tmp_path, "test-colour", "test-brightness")
    whole = study.run(tmp_path / "whole").folder / "metrics.csv"
    out = tmp_path / "out"
    for number, left in ((2, [1, 3]), (3, [1]), (3, [1])):
        found = study.run_shard(out, f"{number}/3")
        assert isinstance(found, list)
        assert [each.number for each in found] == left
        assert not (out / "metrics.csv").exists()
    assert isinstance(study.run_shard(out, "1/3"), Results)
    assert (out / "metrics.csv").read_bytes() == whole.read_bytes()
    sessions = json.loads((out / "run.json").read_text())["sessions"]
    assert sorted(each["shard"] for each in sessions) == ["1/3", "2/3", "3/3"]
    assert sum(each["images_judged"] for each in sessions) == COUNT


@pytest.mark.slow
def test_workers_share_the_shards_and_give_the_same_numbers(image_set: Path, tmp_path: Path) -> None:
    write_study(tmp_path, "{kind: test-colour, seconds: 0.01}", "test-brightness")
    (image_set / "images" / f"{image_name(4)}.png").write_bytes(b"no image")
    for out, *options in (("one",), ("two", "--workers", "2")):
        command = [sys.executable, "-m", "detector_bench", "run", "study.yaml", "--out", out]
        options += ["--plugin", str(PLUGIN), "--cache-dir", f"{out}-cache"]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "30 of 30 images" in done.stderr
    assert (tmp_path / "two" / "metrics.csv").read_bytes() == (tmp_path / "one" / "metrics.csv").read_bytes()
    assert len(shard_files(tmp_path / "two" / "predictions")) == 8
    sessions = json.loads((tmp_path / "two" / "run.json").read_text())["sessions"]
    assert sum(each["images_judged"] for each in sessions) == COUNT


@pytest.mark.slow
def test_what_a_worker_meets_is_one_message(image_set: Path, tmp_path: Path) -> None:
    write_study(tmp_path, "{kind: test-weighted, factor: factor.txt}")
    (tmp_path / "factor.txt").write_text("one")
    command = [sys.executable, "-m", "detector_bench", "run", "study.yaml", "--out", "out", "--workers", "2"]
    done = subprocess.run(
        [*command, "--plugin", str(PLUGIN)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "could not convert string to float: 'one'" in done.stderr
