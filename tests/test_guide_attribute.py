"""The guide `docs/add-an-attribute.md`, followed word by word."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pandas as pd
import pytest

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "add-an-attribute.md"
PORT = "8123"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"<!-- {kind} -->\n```\w*\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def files() -> dict[str, str]:
    names = re.findall(r"<!-- file: (.*?) -->", GUIDE.read_text(encoding="utf-8"))
    return dict(zip(names, blocks("file: .*?"), strict=True))


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


@contextmanager
def running(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield program
    finally:
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], list[str]]:
    """The folder, what the desk asks, and what each command printed."""
    for package in ("skimage", "sklearn", "matplotlib", "fastapi", "uvicorn", "jinja2"):
        pytest.importorskip(package)
    folder, port = tmp_path_factory.mktemp("guide"), free_port()
    environment = {**os.environ, "DETECTOR_BENCH_CACHE": str(folder / "cache"), "COLUMNS": "200"}

    def do(command: list[str]) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def detector_bench(command: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "detector_bench", *shlex.split(command)[1:], *more]

    do([sys.executable, "-c", *blocks("python: images")])
    for name, content in files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content.replace(PORT, port), encoding="utf-8")
    (desk,) = blocks("desk")
    with running(detector_bench(desk, "--no-browser", "--port", "0"), folder, environment) as program:
        assert program.stdout is not None
        address = next(found[1] for line in program.stdout if (found := re.search(r"ann +(http\S+)/label/", line)))
        with urlopen(f"{address}/api/ann/session", timeout=30) as answer:  # noqa: S310 - of this machine
            asked = json.load(answer)["questions"][0]
    do([sys.executable, "-c", *blocks("python: labels")])
    printed = [do(detector_bench("detector-bench check images"))]
    (model,) = blocks("server")
    with running([sys.executable, *shlex.split(model)[1:]], folder, environment):
        printed += [do(detector_bench(command)) for command in blocks("command")]
    return folder, asked, printed


def test_all_code_of_the_guide_is_followed() -> None:
    marked = re.findall(r"^<!-- ", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(marked) == len(blocks(".*?")) == GUIDE.read_text(encoding="utf-8").count("```") / 2


@pytest.mark.slow
def test_the_desk_of_the_guide_asks_as_the_file_says(followed: tuple[Path, dict[str, str], list[str]]) -> None:
    _, asked, _ = followed
    assert asked["text"] == "Is the head covered?"
    assert asked["care"].startswith("A covered head says nothing about a faith")
    assert [choice["key"] for choice in asked["choices"]] == ["c", "b"]  # type: ignore[index]


@pytest.mark.slow
def test_the_guide_ends_with_ranks_of_the_judges(followed: tuple[Path, dict[str, str], list[str]]) -> None:
    folder, _, (checked, tables, _, ranks) = followed
    assert "prompts that state an attribute: head_cover 1" in checked
    assert "consensus: covered 6 (16.7%), uncovered 19 (52.8%), low_quality 11 (30.6%)" in checked
    metrics = pd.read_csv(folder / "results" / "metrics.csv").query(
        "t2i_model == 'all' and category == 'all' and prompt_id == 'all' and metric == 'accuracy'"
    )
    accuracy = dict(zip(metrics["detector"], metrics["value"], strict=True))
    assert accuracy.keys() == {"light-and-dark", "bare"}
    assert accuracy["bare"] == pytest.approx(19 / 25)
    assert "says nothing about a faith" in tables
    assert "light-and-dark" in ranks
    assert "says nothing about a faith" in (folder / "results" / "report" / "index.html").read_text(
        encoding="utf-8"
    )
