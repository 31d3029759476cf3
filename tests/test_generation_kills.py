"""Processes that make images are killed at random moments; what comes out is the set of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import pandas as pd
import pytest
import yaml
from image_service import serving_images

from detector_bench.vocabulary.generations import MEASURED

KILLS = 4
PLUGIN = Path(__file__).with_name("drawing_model.py")


def recipe_of(folder: Path, model: dict[str, object], images: int) -> Path:
    (folder / "prompts.txt").write_text("a nurse\na pilot\na cook\na judge\n")
    content = {"name": "killed", "prompts": "prompts.txt", "images_per_prompt": images // 4, "models": [model]}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def start(recipe: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    call = [sys.executable, "-m", "detector_bench", "generate", str(recipe), "--out", str(out), "-q"]
    call += ["--plugin", str(PLUGIN), *more]
    return subprocess.Popen(call, env={**os.environ}, stderr=subprocess.PIPE, text=True)


def finish(recipe: Path, out: Path, *more: str) -> int:
    process = start(recipe, out, *more)
    process.communicate(timeout=300)
    return process.returncode


def kill_again_and_again(recipe: Path, out: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    for _ in range(KILLS):
        process = start(recipe, out)
        try:
            process.communicate(timeout=chance.uniform(0.5, 2.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def files(folder: Path) -> dict[str, bytes]:
    """What is published of a set, but for the table of requests."""
    found = [path for path in folder.rglob("*") if path.is_file() and "generation" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.suffix != ".parquet"}


def requests(folder: Path) -> pd.DataFrame:
    rows = pd.read_parquet(folder / "generations.parquet").drop(columns=list(MEASURED))
    return rows[rows["in_recipe"]].reset_index(drop=True)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_a_killed_set_is_that_of_an_undisturbed_run(tmp_path: Path, batch: int) -> None:
    log = tmp_path / "log"
    model = {"name": "one", "kind": "drawing", "pause": 0.03 * batch, "images_at_once": batch, "log": str(log)}
    recipe = recipe_of(tmp_path, model, 160)
    assert finish(recipe, tmp_path / "undisturbed") == 0
    log.unlink()
    kill_again_and_again(recipe, tmp_path / "killed")
    assert finish(recipe, tmp_path / "killed") == 0
    assert files(tmp_path / "killed") == files(tmp_path / "undisturbed")
    assert requests(tmp_path / "killed").equals(requests(tmp_path / "undisturbed"))
    drawn = Counter(log.read_text().split())
    # What one process computes while it stores what came before is all that a kill can cost.
    assert sum(drawn.values()) - len(drawn) <= 2 * batch * KILLS


@pytest.mark.slow
def test_nothing_is_paid_for_twice_unasked(tmp_path: Path) -> None:
    with serving_images(latency=0.05) as service:
        address = f"{service.address}/v1"
        model = {"name": "one", "kind": "openai", "model": "tiny", "base_url": address, "key_variable": None}
        model |= {"price": 0.04, "requests_at_once": 3, "requests_per_second": 40}
        recipe = recipe_of(tmp_path, model, 160)
        kill_again_and_again(recipe, tmp_path / "killed")
        status = finish(recipe, tmp_path / "killed")
        found = requests(tmp_path / "killed")
        doubtful = int(found["may_have_been_paid"].sum())
        assert set(found["status"][~found["may_have_been_paid"]]) == {"made"}
        assert status == (1 if doubtful else 0)
        told = httpx.get(f"{service.address}/counts").json()
        assert told["most_paid_of_one"] == 1
        assert finish(recipe, tmp_path / "killed", "--ask-again") == 0
        assert set(requests(tmp_path / "killed")["status"]) == {"made"}
