"""Several processes write to one labelling store, and one is killed: nothing promised is lost, nothing doubled."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from labelling_sets import numbered, write_image_set

from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, LabelStore

IMAGES = 60

# Answers every image in the annotator's order, the label told by its number, and says what it was promised.
_WRITER = """
import sys
from detector_bench.dataset import ImageSet
from detector_bench.labelling import Answer, Choice, LabelStore
path, folder, name, rounds = sys.argv[1:5]
image_set = ImageSet.load(folder, require_labels=False)
sys.stdin.readline()
with LabelStore.open(path, image_set) as store:
    for number in range(int(rounds)):
        for item in store.items(name, 0, 1000):
            label = ("male", "female")[(int(item.item_id[1:]) + number) % 2]
            answer = Answer(f"{name}-{number}-{item.item_id}", item.item_id, {"gender": Choice(label)})
            store.record(name, answer)
            print(answer.answer_id, flush=True)
"""


def writer(path: Path, folder: Path, name: str, *, rounds: int = 1) -> subprocess.Popen[str]:
    """A process that answers every image `rounds` times; it begins when it gets a line."""
    command = [sys.executable, "-c", _WRITER, str(path), str(folder), name, str(rounds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begin(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def log_ids(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("SELECT entry_id FROM log ORDER BY sequence")]


@pytest.mark.slow
def test_three_processes_make_and_fill_a_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    image_set = write_image_set(tmp_path, numbered(IMAGES))
    names = ("ann", "ben", "ben")  # ben has two tabs, each with a server
    processes = [writer(path, tmp_path, name) for name in names]
    begin(processes)
    promised = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert [len(ids) for ids in promised] == [IMAGES] * 3
    assert sorted(log_ids(path)) == sorted({answer for ids in promised for answer in ids})
    with LabelStore.open(path, image_set) as store:
        # They also agree on what there is to label, and in which order.
        assert sum(item.in_calibration for item in store.items("ann", 0, 1000)) == 6
        labels = store.labels()
        assert labels.groupby("annotator").size().to_dict() == {"ann": IMAGES, "ben": IMAGES}
        assert labels["label"].value_counts().to_dict() == {"male": IMAGES, "female": IMAGES}


@pytest.mark.slow
def test_a_killed_process_loses_no_promise_and_its_client_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    image_set = write_image_set(tmp_path, numbered(IMAGES))
    LabelStore.open(path, image_set).close()
    killed, other = writer(path, tmp_path, "ann", rounds=50), writer(path, tmp_path, "ben", rounds=3)
    begin([killed, other])
    assert killed.stdout is not None
    promised = [killed.stdout.readline().strip() for _ in range(75)]
    killed.send_signal(signal.SIGKILL)
    promised += killed.communicate(timeout=60)[0].split()
    assert killed.returncode == -signal.SIGKILL
    also_promised = other.communicate(timeout=60)[0].split()
    assert other.returncode == 0
    assert len(also_promised) == 3 * IMAGES

    stored = log_ids(path)
    assert len(set(stored)) == len(stored)
    assert set(also_promised) < set(stored)
    of_killed = [answer for answer in stored if answer.startswith("ann")]
    # At most one answer was on the disk before its promise came through.
    assert of_killed[: len(promised)] == promised
    assert len(of_killed) - len(promised) in (0, 1)

    # The client does not know which of its answers arrived, and sends the last ones again.
    with LabelStore.open(path, ImageSet.load(tmp_path, require_labels=False)) as store:
        for answer_id in of_killed[-3:]:
            number, item = answer_id.split("-")[1:]
            label = ("male", "female")[(int(item[1:]) + int(number)) % 2]
            assert store.record("ann", Answer(answer_id, item, {"gender": Choice(label)})).repeated
        assert log_ids(path) == stored
        assert store.progress("ann").done == IMAGES
        of_ben = store.labels().query("annotator == 'ben'")
        expected = {item: ("male", "female")[int(item[1:]) % 2] for item in numbered(IMAGES)}
        assert dict(zip(of_ben["image_id"], of_ben["label"], strict=True)) == expected


@pytest.mark.slow
def test_a_process_sees_what_another_wrote_and_what_that_one_saw(tmp_path: Path) -> None:
    image_set = write_image_set(tmp_path, numbered(IMAGES))
    path = tmp_path / "s.sqlite"
    with LabelStore.open(path, image_set) as store:
        (tmp_path / "images" / "i007.png").write_bytes(b"drawn anew while this process looks away")
        process = writer(path, tmp_path, "ben")
        begin([process])
        process.communicate(timeout=60)
        assert store.progress("ben").done == IMAGES
        assert len(store.labels()) == IMAGES
        assert not store.item("ben", "i007").image_changed
        with sqlite3.connect(path) as connection:
            query = "SELECT seen FROM log WHERE item_id = 'i007'"
            seen = json.loads(connection.execute(query).fetchone()[0])
        assert seen["sha256"] == {"i007": store.image_sha256("i007")}
