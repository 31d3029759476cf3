"""Pages under docs_next run as they stand: their files are written, their commands end well."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests_next.lyu import write_image_set

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
MOST_LINES = 40
"""Of a file that adds something."""


def run(command: str, folder: Path) -> str:
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DETECTOR_BENCH_CACHE": str(folder / "kept")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_page_on_metrics_tables_and_figures_runs_as_it_stands(tmp_path: Path) -> None:
    text = (ROOT / "docs_next/add-a-metric.md").read_text(encoding="utf-8")
    printed = ""
    for language, content in BLOCK.findall(text):
        if found := re.match(r"# file: (\S+)\n", content):
            (tmp_path / found[1]).write_text(content, encoding="utf-8")
            assert content.count("\n") <= MOST_LINES + 1, found[1]
        elif language == "sh":
            for command in content.strip().splitlines():
                printed += run(command, tmp_path)
    assert "Clear filtered (%)" in printed
    assert "Low quality filtered" in printed
    assert (tmp_path / "drawn/recalls_double.png").is_file()


@pytest.mark.slow
def test_the_page_on_the_paper_shows_what_the_study_prints(shared: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs_next/lyu2025.md").read_text(encoding="utf-8")
    write_image_set(shared, tmp_path / "SD3", "sd3")
    study = ROOT / "configs_next/lyu2025_authors_sd3.yaml"
    printed = run(f"python -m detector_bench_next run {study} --image-set SD3 --out sd3", tmp_path)
    answer = re.search(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert answer is not None
    assert answer[1] in printed
    for name in re.findall(r"<!-- (\w+) -->", text):
        assert run(f"python -m detector_bench_next show sd3 {name} --format md", tmp_path).strip() in text, name
