"""Tasks of an array job and local workers that are killed again and again end with the bytes of one process."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from small_parts import write_image_set

COUNT = 90
HERE = Path(__file__).parent
STUDY = """\
image_set: images
batch_size: 4
detectors:
  - {kind: test-colour, seconds: 0.15}
  - test-brightness
  - test-age-and-gender
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    images = write_image_set(folder / "images", COUNT)
    (images / "images" / "image_011.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "study.yaml").write_text(STUDY)
    sbatch = folder / "sbatch"
    sbatch.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {HERE / "stand_in_sbatch.py"} "$@"\n')
    sbatch.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, bytes]:
    """The numbers of one process that was left in peace."""
    run(folder, *command_line("whole"))
    return files_of(folder / "whole")


def files_of(out: Path) -> dict[str, bytes]:
    paths = [out / "metrics.csv", *(out / "tables").iterdir()]
    return {path.name: path.read_bytes() for path in paths}


def command_line(out: str, *options: str) -> list[str]:
    command = [sys.executable, "-m", "detector_bench", "run", "study.yaml", "--out", out]
    return [*command, "--plugin", str(HERE / "small_parts.py"), "--cache-dir", f"{out}-cache", *options]


def run(folder: Path, *command: str, **environment: str) -> str:
    own = {**os.environ, "TEST_FLUSH_EVERY_BATCH": "1", "PATH": f"{folder}:{os.environ['PATH']}", **environment}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tasks_of_an_array_job_are_killed_and_submitted_again(folder: Path, expected: dict[str, bytes]) -> None:
    run(folder, *command_line("tasks", "--slurm-script", "job.sbatch", "--shards", "6"))
    line, killed = "sbatch job.sbatch", 0
    for seed in range(30):
        kills = max(0, 12 - killed)
        ended = run(folder, "bash", "-c", line, STAND_IN_KILLS=str(kills), STAND_IN_SEED=str(seed))
        found = [int(status) for status in re.findall(r"^task \d+ ended with (.+)$", ended, re.MULTILINE)]
        assert set(found) <= {0, 130, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM}, (
            found,
            logs(folder / "tasks"),
        )
        killed += sum(status != 0 for status in found)
        told = run(folder, sys.executable, "-m", "detector_bench", "shards", "tasks")
        if "the numbers stand in" in told:
            break
        if "this writes the results: " in told:  # killed while it did
            words = shlex.split(told.partition("this writes the results: ")[2])
            run(folder, sys.executable, "-m", "detector_bench", *words[1:])
            break
        line = told.partition("array job: ")[2].splitlines()[0]
    assert killed >= 8
    assert files_of(folder / "tasks") == expected


def logs(out: Path) -> str:
    return "\n".join(path.read_text() for path in (out / "logs").iterdir())


def test_local_workers_and_their_parent_are_killed(folder: Path, expected: dict[str, bytes]) -> None:
    randomness = np.random.default_rng(7)
    killed = 0
    for _ in range(40):
        parent = subprocess.Popen(
            command_line("workers", "--workers", "2", "--shards", "8"),
            cwd=folder,
            env={**os.environ, "TEST_FLUSH_EVERY_BATCH": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while parent.poll() is None and killed < 14:
            time.sleep(randomness.uniform(0.5, 2.0))
            try:
                alive = [psutil.Process(parent.pid), *psutil.Process(parent.pid).children()]
                chosen = alive[int(randomness.integers(len(alive)))]
                chosen.send_signal((signal.SIGKILL, signal.SIGTERM)[killed % 2])
                killed += 1
            except psutil.NoSuchProcess:
                continue
        _, errors = parent.communicate(timeout=120)
        assert "Traceback" not in errors
        if parent.returncode == 0:
            break
    assert killed >= 12
    assert files_of(folder / "workers") == expected
