"""The fault suite in its short form; `make torture` is the long one, and docs/torture.md says what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="forks and limits of POSIX")]


@pytest.mark.parametrize(
    "call",
    [
        "study_files --cases 60 --seed 11",
        "score_files --cases 32 --seed 11",
        "label_studio_files --cases 20 --seed 11",
        "onnx_files --cases 20 --seed 11",
        "tables --cases 8 --seed 11",
        "images --cases 6 --seed 11",
        "flips --cases 60 --seed 11",
        "kills --cases 14 --seed 11",
        "servers --cases 20 --seed 11",
        "clocks --cases 3 --seed 11",
        "interruptions --cases 8 --seed 11",
    ],
)
def test_nothing_breaks(call: str) -> None:
    name, *options = call.split()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", f"torture.{name}", *options]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_suite_sees_what_it_looks_for() -> None:
    program = """
import os, time
from torture.cases import WrongAnswerError, expect, run_cases

def case(case):
    kind = ("traceback", "killed", "slow", "large", "wrong", "refused", "accepted", "wrong")[case.number]
    if kind == "traceback":
        raise KeyError(case.number)
    if kind == "killed":
        os.kill(os.getpid(), 9)
    if kind == "slow":
        (case.folder / "seconds.txt").write_text("6.0")
    if kind == "large":
        b"x" * 600_000_000
    if case.number == 4:
        raise WrongAnswerError("another number")
    if kind == "refused":
        expect(case.command("check", "nowhere"))
    if case.number == 7:
        expect(1)

print(*(outcome.kind for outcome in run_cases(case, numbers=range(8), seed=1)))
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    expected = "traceback killed slow large wrong refused accepted wrong"
    assert done.stdout.splitlines()[-1] == expected, done.stdout
