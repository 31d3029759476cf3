"""`run.json`: what judged the images, and what each session of a run did."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from small_parts import write_tables
from study_files import COUNT, NET, manifest, run_record, with_network, write_network, write_study_file

from detector_bench.results.run_record import environment, git_commit
from detector_bench.study import Study
from detector_bench.weights.files import sha256_of

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_study_file(tmp_path)


def test_the_run_record_says_what_the_result_rests_on(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    record = run_record(folder / "out")

    evaluated = manifest(folder / "out")

    assert evaluated["study"] == "nets"
    assert record["environment"] == evaluated["environment"] == environment()
    assert record["environment"]["packages"]["onnxruntime"]
    assert record["environment"]["machine"]["cores"] == os.cpu_count()
    assert evaluated["image_set"]["name"] == "images"
    assert re.fullmatch("[0-9a-f]{64}", evaluated["image_set"]["fingerprint"])
    assert evaluated["image_set"]["images"] == COUNT
    # No fact stands in both files.
    assert set(record) & set(evaluated) == {"environment"}
    for name, rows in evaluated["files"].items():
        read = pd.read_parquet if name.endswith(".parquet") else pd.read_csv
        assert len(read(folder / "out" / name)) == rows
    assert record["weights"] == {
        "net.onnx": {
            "sha256": sha256_of(folder / "nets" / "net.onnx"),
            "licence": "not stated",
            "source": "not stated",
        }
    }
    assert record["detectors"]["net"]["identity"]["kind"] == "onnx"
    assert evaluated["counts"]["net"] == {"gender": {"clear": 12, "filtered": 0, "error": 0}}
    assert all(re.fullmatch("[0-9a-f]{64}", found["fingerprint"]) for found in record["detectors"].values())
    assert evaluated["seeds"] == {
        "intervals": {"method": "score", "level": 0.95, "unit": "image", "seed": 0, "resamples": 2000}
    }
    assert evaluated["settings"]["detectors"] == ["net", "test-colour"]
    assert (evaluated["settings"]["n_clear"], evaluated["settings"]["max_error_share"]) == ("detector", 0.1)
    [session] = record["sessions"]
    assert datetime.fromisoformat(session["began"]).tzinfo is not None
    stages = sorted(name.rsplit("-", 1)[0] for name in record["stages"])
    assert stages == ["onnx_outputs", "test_mean_colour"]
    assert set(session["images_per_stage"]) == set(record["stages"])
    assert set(session["device_per_stage"]) == set(record["stages"])
    of_kind = {name.rsplit("-", 1)[0]: found for name, found in record["stages"].items()}
    assert of_kind["onnx_outputs"]["precision"] == "as in the network's file"
    assert of_kind["onnx_outputs"]["devices"][0] in ("cpu", "cuda")
    assert (of_kind["test_mean_colour"]["precision"], of_kind["test_mean_colour"]["devices"]) == (
        "not stated",
        ["not stated"],
    )
    assert all(re.fullmatch("[0-9a-f]{64}", found["fingerprint"]) for found in record["stages"].values())
    assert set(session["seconds_per_stage"]) == {
        label for name in record["stages"] for label in (name, f"{name} (loading)")
    }
    assert sum(session["seconds_per_stage"].values()) > 0
    # Stages run beside each other; what was waited for adds up.
    assert sum(session["waited_for"].values()) == pytest.approx(session["seconds"], rel=0.01, abs=0.01)
    assert session["peak_memory_mib"] > 10


def test_the_run_record_names_neither_user_nor_host_nor_folder(folder: Path) -> None:
    with_network(folder).run(folder / "out")
    text = "".join((folder / "out" / name).read_text() for name in ("run.json", "results.json", "study.yaml"))
    private = [str(folder), str(Path.home()), socket.gethostname()]
    private += [getpass.getuser()] if getpass.getuser() != "root" else []
    assert [word for word in private if len(word) > 3 and word in text] == []


def test_every_session_is_kept(folder: Path) -> None:
    study = Study.from_yaml(folder / "study.yaml")
    write_tables(folder / "images", [0, 1, 2])
    study.run(folder / "out")
    write_tables(folder / "images", range(COUNT))
    study.run(folder / "out")
    study.run(folder / "out")
    record = run_record(folder / "out")
    assert [session["images_judged"] for session in record["sessions"]] == [3, 9, 0]
    assert manifest(folder / "out")["counts"]["test-colour"]["gender"]["clear"] == 8


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sessions": 3}'])
def test_a_damaged_run_record_is_replaced(folder: Path, content: str) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "run.json").write_text(content)
    Study.from_yaml(folder / "study.yaml").run(folder / "out")
    assert len(run_record(folder / "out")["sessions"]) == 1


def test_weights_of_one_name_and_two_contents_are_both_named(folder: Path) -> None:
    write_network(folder / "a" / "net.onnx", red=0.1)
    write_network(folder / "b" / "net.onnx", red=0.2)
    (folder / "net.yaml").write_text(NET)
    entries = ", ".join(f"{{name: {name}, extends: net.yaml, network: {name}/net.onnx}}" for name in "ab")
    (folder / "study.yaml").write_text(f"image_set: images\ndetectors: [{entries}]\n")
    Study.from_yaml(folder / "study.yaml").run(folder / "out")

    weights = run_record(folder / "out")["weights"]
    assert {entry["sha256"] for entry in weights.values()} == {
        sha256_of(folder / name / "net.onnx") for name in "ab"
    }
    assert all(name.startswith("net.onnx") for name in weights)


def test_the_commit_is_that_of_this_checkout() -> None:
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        assert git_commit() is None
        return
    head = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert (git_commit() or "").removesuffix("-dirty") == head.stdout.strip()
