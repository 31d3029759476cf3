"""What can go wrong where many processes share a folder: one line, nothing lost, nothing counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_parts import (
    LABELS,
    forget_calls,
    image_name,
    images_of,
    picture,
    small_run,
    write_image_set,
    write_tables,
)

from detector_bench.dataset import ImageSet
from detector_bench.detectors import build_detector
from detector_bench.detectors.base import Prediction
from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import Frame
from detector_bench.runner.prediction_store import PredictionStore
from detector_bench.runner.run import RunSession
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger, ShardState, ShardTakenError
from detector_bench.runner.shards import Shard, shard_numbers
from detector_bench.study import Results, Study
from detector_bench.weights import WeightsLocator

pytestmark = pytest.mark.slow

COUNT = 30
PLUGIN = Path(__file__).with_name("small_parts.py")
SECOND = Shard(count=3, number=2)


@pytest.fixture
def image_set(tmp_path: Path) -> Path:
    forget_calls()
    return write_image_set(tmp_path / "images", COUNT)


@pytest.fixture
def study(image_set: Path, tmp_path: Path) -> Study:
    (tmp_path / "study.yaml").write_text("image_set: images\nbatch_size: 4\ndetectors: [test-colour]\n")
    return Study.from_yaml(tmp_path / "study.yaml")


@pytest.fixture
def expected(study: Study, tmp_path: Path) -> bytes:
    """The numbers of one process that was left in peace."""
    return (study.run(tmp_path / "whole", use_cache=False).folder / "metrics.csv").read_bytes()


def test_two_runs_of_one_shard_at_once_are_one_and_a_line(study: Study, tmp_path: Path) -> None:
    ledger = ShardLedger(tmp_path / "out" / "predictions")
    study.run_shard(tmp_path / "out", "1/3")
    told = r"another process judges shard 2/3 of '.*' right now"
    with ledger.running(SECOND), pytest.raises(ShardTakenError, match=told) as refused:
        study.run_shard(tmp_path / "out", "2/3")
    assert "\n" not in str(refused.value)
    assert [each.state for each in ledger.states()] == [ShardState.DONE, ShardState.OPEN, ShardState.OPEN]


def test_a_folder_that_was_cut_anew_a_moment_ago_is_not_judged_by_the_old_cut(
    image_set: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predictions"
    small_run(image_set, out, "test-colour", shards=3)
    session = RunSession(
        ImageSet.load(image_set), [build_detector("test-colour")], out, weights=WeightsLocator(folders=())
    )
    ShardLedger(out).write_layout(ShardLayout(shards=2))
    with pytest.raises(ShardTakenError, match="has just been cut into 2 shards, not 3"):
        session.run_shard(SECOND, state=None)  # type: ignore[arg-type]


def test_who_ends_last_sees_to_what_others_left_behind(image_set: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions"
    small_run(image_set, out, "test-colour", shards=3)
    ledger = ShardLedger(out)
    for shard in Shard.all(3):
        ledger.begin(shard)
    held, last = threading.Event(), Shard(count=3, number=3)

    def other_process_that_dies() -> None:
        with ledger.running(SECOND):
            held.set()
            while ledger.manifest(last) is None:
                time.sleep(0.01)

    other = threading.Thread(target=other_process_that_dies)
    other.start()
    held.wait()
    small_run(image_set, out, "test-colour")
    other.join()
    assert {each.state for each in ledger.states()} == {ShardState.DONE}


def test_images_that_were_added_make_shards_unfinished_not_results_wrong(
    study: Study, image_set: Path, tmp_path: Path
) -> None:
    write_tables(image_set, range(COUNT - 9))
    study.run(tmp_path / "out", shards=3)
    write_tables(image_set, range(COUNT))
    added = shard_numbers([image_name(number) for number in range(COUNT - 9, COUNT)], 3)
    assert set(added.tolist()) == {1, 2, 3}
    for number in (1, 2):
        found = study.run_shard(tmp_path / "out", f"{number}/3")
        assert isinstance(found, list)
        assert [each.number for each in found] == list(range(number + 1, 4))
    found = study.run_shard(tmp_path / "out", "3/3")
    assert isinstance(found, Results)
    assert found.counts["test-colour"]["gender"]["clear"] == sum(number % 3 < 2 for number in range(COUNT))


def test_a_finished_shard_that_another_finds_damaged_is_judged_again(
    study: Study, expected: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for number in (1, 2):
        study.run_shard(out, f"{number}/3")
    path = out / "predictions" / "test-colour" / SECOND.joined_name
    # Readable still, and another verdict than was written.
    table = pq.read_table(path)
    other = pa.array([LABELS[0]] * table.num_rows, pa.string())
    pq.write_table(
        table.set_column(table.schema.get_field_index("label"), table.schema.field("label"), other), path
    )

    with pytest.raises(DetectorBenchError, match=r"is not as it was written: .* judge shard 2/3 anew"):
        study.run_shard(out, "3/3")
    ledger = ShardLedger(out / "predictions")
    state = ledger.states()[1]
    assert (state.state, "is not as it was written" in state.reason) == (ShardState.FAILED, True)
    assert isinstance(study.run_shard(out, "2/3"), Results)
    assert (out / "metrics.csv").read_bytes() == expected


def test_a_flipped_byte_in_a_part_is_noticed_or_without_meaning(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path / "d", detector="d", fingerprint="f" * 64, identity={}, shard=SECOND)
    frames = [Frame(image_name(number), pixels=np.zeros((1, 1, 3), np.uint8)) for number in range(40)]
    verdicts = [Prediction.clear(each, "gender", LABELS[number % 2]) for number, each in enumerate(frames)]
    store.add(verdicts, sha256={each.image_id: "0" * 64 for each in frames})
    store.flush()
    (path,) = (tmp_path / "d").glob("*.parquet")
    content, known = path.read_bytes(), store.finished()
    randomness = np.random.default_rng(5)
    noticed = 0
    for place in randomness.integers(4, len(content), 300):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(randomness.integers(8))
        path.write_bytes(damaged)
        if store.drop_unreadable():
            noticed += 1
        else:
            rows = store.finished()
            assert rows.num_rows == 0 or rows.equals(known), f"byte {place}"
    assert noticed > 100


@pytest.mark.parametrize("clock", [0, 2**62])
def test_a_clock_that_jumps_hides_no_change_of_an_image(
    image_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: int
) -> None:
    path = image_set / "images" / f"{image_name(0)}.png"

    def write(number: int) -> None:
        picture(number).save(path)
        # Another size or time would be noticed anyhow.
        path.write_bytes(path.read_bytes().ljust(4096, b"\0"))
        os.utime(path, (4_000_000_000, 4_000_000_000))

    write(0)
    monkeypatch.setattr("time.time_ns", lambda: clock)
    monkeypatch.setattr("time.time", lambda: clock / 1e9)
    small_run(image_set, tmp_path / "predictions", "test-colour", shards=3)
    write(1)
    forget_calls()
    assert small_run(image_set, tmp_path / "predictions", "test-colour").images_judged == 1
    assert images_of("test_mean_colour") == [image_name(0)]


def command_line(folder: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "detector_bench", "run", str(folder / "study.yaml")]
    return [*command, "--out", str(folder / "out"), "--plugin", str(PLUGIN), "--no-cache", *options]


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_disk_that_fills_up_costs_a_line_and_no_number(study: Study, expected: bytes, tmp_path: Path) -> None:
    study.run_shard(tmp_path / "out", "1/3", use_cache=False)
    limited = ["bash", "-c", 'ulimit -f 2; exec "$0" "$@"', *command_line(tmp_path, "--shard", "2/3")]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot write" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").rglob("*.tmp")), "half a file"
    states = [each.state for each in ShardLedger(tmp_path / "out" / "predictions").states()]
    assert states == [ShardState.DONE, ShardState.FAILED, ShardState.OPEN]
    study.run_shard(tmp_path / "out", "3/3", use_cache=False)
    study.run_shard(tmp_path / "out", "2/3", use_cache=False)
    assert (tmp_path / "out" / "metrics.csv").read_bytes() == expected


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_schedulers_stop_of_every_process_stores_what_workers_have(study: Study, tmp_path: Path) -> None:
    text = (tmp_path / "study.yaml").read_text()
    (tmp_path / "study.yaml").write_text(text.replace("test-colour", "{kind: test-colour, seconds: 0.3}"))
    started = subprocess.Popen(
        command_line(tmp_path, "--workers", "2", "--shards", "2"), stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 30
    while time.monotonic() < end and len(list((tmp_path / "out" / "predictions" / "shards").glob("0*.lock"))) < 2:
        time.sleep(0.05)
    time.sleep(2.5)
    assert not list((tmp_path / "out").rglob("*part-*.parquet")), "nothing is stored yet"
    process = psutil.Process(started.pid)
    workers = process.children(recursive=True)
    for each in (*workers, process, *workers):
        each.send_signal(signal.SIGTERM)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == 130, errors
    assert "Traceback" not in errors
    told = int(errors.rpartition("stopped after ")[2].split(" ")[0])
    parts = list((tmp_path / "out").rglob("*part-*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in parts) >= max(told, 4)
