"""An array job that anybody can read judges a study's shards; what failed is said, and how to go on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from small_parts import image_name, write_image_set
from stand_in_sbatch import options_of, tasks_of

from detector_bench.cli.app import app
from detector_bench.runner.array_job import ArrayJob, sensible_tasks
from detector_bench.runner.run_settings import available_cores
from detector_bench.runner.shard_ledger import ShardLedger
from detector_bench.runner.shards import Shard, shard_numbers

COUNT = 24
HERE = Path(__file__).parent
PLUGIN = HERE / "small_parts.py"
STUDY = "image_set: images\nbatch_size: 4\ndetectors: [test-colour, test-age-and-gender]\n"

Call = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="array jobs are scripts of bash")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a study in it and a cluster at hand."""
    write_image_set(tmp_path / "images", COUNT)
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {HERE / "stand_in_sbatch.py"} "$@"\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def detector_bench(*arguments: str) -> str:
    """Run the command line in a process of its own, which must end well; its standard output."""
    command = [sys.executable, "-m", "detector_bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shell(line: str) -> list[str]:
    """Run a line that was printed for people."""
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.splitlines()


def write_job(*options: str) -> None:
    detector_bench(
        "run", "study.yaml", "--out", "out", "--plugin", str(PLUGIN), "--slurm-script", "job.sbatch", *options
    )


def test_the_job_says_what_is_run_and_keeps_no_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: Call
) -> None:
    monkeypatch.setenv("DETECTOR_BENCH_WEIGHTS", str(folder / "my weights"))
    monkeypatch.setenv("FACEPP_API_SECRET", "very-secret")
    (folder / "my weights").mkdir()
    (folder / "mine.py").write_text("")
    options = ["--plugin", "mine.py", "--only", "test-colour", "--cache-dir", "cache", "--intervals"]
    script = ["--shards", "4", "--slurm-script", "my job.sh"]
    status, printed, errors = command("run", "study.yaml", "--out", "my out 100%", *options, *script)
    assert status == 0, errors
    assert "my job.sh judges 24 images in 4 tasks" in printed
    text = (folder / "my job.sh").read_text()
    assert subprocess.run(["bash", "-n", "my job.sh"], check=False).returncode == 0
    assert "\nset -euo pipefail\n" in text
    assert f"export DETECTOR_BENCH_WEIGHTS='{folder / 'my weights'}'" in text
    assert "secret" not in text.lower()
    found = options_of(folder / "my job.sh")
    assert tasks_of(found["array"]) == ([1, 2, 3, 4], 3)
    assert found["output"] == "my out 100%%/logs/shard-%a.log"
    assert (folder / "my out 100%" / "logs").is_dir(), "Slurm makes no folder for logs"
    words = shlex.split(text[text.index("exec ") :].replace("\\\n", " "))
    assert words[1:5] == [sys.executable, "-P", "-m", "detector_bench"]
    assert words[5:] == [
        *("run", "study.yaml", "--out", "my out 100%", "--cache-dir", "cache", "--only", "test-colour"),
        *("--intervals", "--plugin", "mine.py", "--shard", "$SLURM_ARRAY_TASK_ID/4"),
    ]
    ledger = ShardLedger(folder / "my out 100%" / "predictions")
    layout = ledger.layout()
    assert layout is not None
    assert (layout.shards, list(layout.detectors)) == (4, ["test-colour"])
    assert not list(folder.rglob("*.parquet")), "nothing is judged"

    status, _, errors = command("run", "study.yaml", "--out", "o", *options, *script)
    assert (status, errors.count("\n")) == (1, 1)
    assert "'my job.sh' exists" in errors


def test_every_option_of_a_run_is_handed_on_to_its_tasks(folder: Path, command: Call) -> None:
    (folder / "mine.py").write_text("")
    run = typer.main.get_command(app).get_command(None, "run")  # type: ignore[attr-defined,arg-type]
    flags = {option.opts[0] for option in run.params if option.param_type_name == "option"}
    of_one_run = {"--workers", "--engine", "--address", "--shards", "--shard", "--slurm-script", "--dry-run"}
    flags -= {*of_one_run, "--json", "--quiet", "--log", "--help"}
    values = {
        "--out": "out",
        "--image-set": "images",
        "--weights-dir": "images",
        "--cache-dir": "cache",
        "--n-clear": "human",
        "--attribute": "gender",
        "--only": "test-colour",
        "--without": "test-age-and-gender",
        "--estimated-labels": "none",
        "--plugin": "mine.py",
        "--allow-root": "images",
        "--allow-key": "MY_KEY=api.example.org",
        "--allow-host": "api.example.org",
        "--budget": "5",
    }
    given = [word for flag in sorted(flags) for word in (flag, *([values[flag]] if flag in values else []))]
    status, _, errors = command("run", "study.yaml", *given, "--slurm-script", "job.sbatch")
    assert status == 0, errors
    text = (folder / "job.sbatch").read_text()
    assert [flag for flag in sorted(flags) if f" {flag}" not in text] == []


def test_without_a_number_tasks_are_of_middling_length() -> None:
    assert [sensible_tasks(images) for images in (1, 2_000, 2_001, 1_000_000, 9_000_000)] == [1, 1, 2, 500, 1_000]
    job = ArrayJob(words=("run", "s.yaml"), out=Path("out"), script=Path("j"), images=9, shards=1, environment={})
    assert "#SBATCH --array=1-1%1\n" in job.text()
    assert "in 1 task," in job.text()


def test_a_task_takes_no_more_cores_than_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    cores = available_cores()
    for asked, expected in (("1", 1), ("9999", cores), ("", cores), ("many", cores)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", asked)
        assert available_cores() == expected


@pytest.mark.slow
def test_the_tasks_give_the_numbers_of_one_process(folder: Path) -> None:
    detector_bench("run", "study.yaml", "--out", "whole", "--plugin", str(PLUGIN))
    write_job("--shards", "2")
    ended = shell("sbatch job.sbatch")
    assert sorted(ended[1:]) == [f"task {number} ended with 0" for number in (1, 2)]
    for name in ("metrics.csv", "study.yaml"):
        assert (folder / "out" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert "All is judged; the numbers stand in out." in detector_bench("shards", "out")
    logs = sorted((folder / "out" / "logs").iterdir())
    assert [path.name for path in logs] == ["shard-1.log", "shard-2.log"]


@pytest.mark.slow
def test_what_failed_is_said_with_its_reason_and_as_an_array_expression(folder: Path) -> None:
    write_job("--shards", "4")
    lost = int(shard_numbers([image_name(0)], 4)[0])
    # A file where a folder ought to be: this task cannot write.
    log = folder / "out" / "predictions" / "test-colour" / Shard(count=4, number=lost).part_name(1)
    log.mkdir(parents=True)
    shell("sbatch job.sbatch")
    found = json.loads(detector_bench("shards", "out", "--json"))
    states = {row["shard"]: row for row in found["rows"] if row["table"] == "shards"}
    assert {shard: row["state"] for shard, row in states.items()} == {
        f"{number}/4": "failed" if number == lost else "done" for number in range(1, 5)
    }
    assert log.name in states[f"{lost}/4"]["reason"]
    printed = detector_bench("shards", "out")
    assert f"Failed, {lost}: " in printed
    again = next(line for line in printed.splitlines() if "array job: " in line).partition("array job: ")[2]
    assert again == f"sbatch --array={lost} job.sbatch"

    log.rmdir()
    assert shell(again)[1:] == [f"task {lost} ended with 0"]
    assert (folder / "out" / "metrics.csv").is_file()


def test_many_shards_are_shown_in_few_lines(folder: Path, command: Call) -> None:
    command("run", "study.yaml", "--out", "out", "--slurm-script", "job.sbatch", "--shards", "400")
    ledger = ShardLedger(folder / "out" / "predictions")
    for number in range(2, 400, 2):
        ledger.fail(Shard(count=400, number=number), "the same disk is full")
    ledger.fail(Shard(count=400, number=1), "another")
    _, printed, _ = command("shards", "out")
    assert len(printed.splitlines()) < 12
    assert "2,4,6,8" in printed
    assert "1-2,4,6" in printed, "the array expression is whole"


def test_a_folder_without_a_run_is_told_in_a_line(tmp_path: Path, command: Call) -> None:
    (tmp_path / "predictions").mkdir()
    for folder in (tmp_path / "nowhere", tmp_path):
        status, _, errors = command("shards", folder)
        assert (status, errors.count("\n")) == (1, 1)
        assert "no run in" in errors


def test_a_task_with_another_version_is_refused_before_anything_is_judged(folder: Path, command: Call) -> None:
    command("run", "study.yaml", "--out", "out", "--slurm-script", "job.sbatch", "--shards", "4")
    (folder / "study.yaml").write_text(STUDY.replace("test-colour", "{kind: test-colour, green: 99}"))
    status, _, errors = command("run", "study.yaml", "--out", "out", "--shard", "2/4")
    assert (status, errors.count("\n")) == (1, 1)
    assert "detector 'test-colour' is another version here" in errors
    assert not list(folder.rglob("*.parquet"))
    _, printed, _ = command("shards", "out")
    assert "Failed, 2: detector 'test-colour' is another version here" in printed


@pytest.mark.slow
def test_verify_finds_a_flipped_byte(folder: Path, command: Call) -> None:
    run = ["run", "study.yaml", "--out", "out"]
    command(*run, "--shards", "3")
    expected = (folder / "out" / "metrics.csv").read_bytes()
    path = folder / "out" / "predictions" / "test-colour" / "shard-00002-of-00003.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 8
    path.write_bytes(content)
    assert command("shards", "out")[0] == 0
    status, printed, _ = command("shards", "out", "--verify")
    assert status == 1
    assert f"Damaged, shard 2/3: '{path.relative_to(folder)}' is not as it was written." in printed
    assert "--array=2" in printed
    assert command(*run, "--shard", "2/3")[0] == 0
    assert command("shards", "out", "--verify")[0] == 0
    assert (folder / "out" / "metrics.csv").read_bytes() == expected
