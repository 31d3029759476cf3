"""A stand-in for Slurm: takes an array job as sbatch does, and runs its tasks as processes of this machine.

    python stand_in_sbatch.py [--array=3,7-9] SCRIPT

It reads the lines `#SBATCH` of the script up to its first command, sets what Slurm sets for a task, runs some
tasks at the same time, and ends when all have ended. STAND_IN_KILLS=5 and STAND_IN_SEED=1 have it kill so many
tasks at random moments, every second one with a warning (SIGTERM). It prints a line for each task that ends.
"""

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

AT_ONCE = 3
"""Tasks at the same time: so many nodes does this cluster have."""

KNOWN = {"job-name", "array", "cpus-per-task", "mem", "output", "open-mode", "requeue", "signal", "chdir"}


def options_of(script: Path) -> dict[str, str]:
    """The options that stand in the script, as Slurm reads them: up to its first command."""
    found = {}
    for line in script.read_text().splitlines():
        if line.startswith("#SBATCH "):
            (word,) = shlex.split(line.removeprefix("#SBATCH "))
            name, _, value = word.removeprefix("--").partition("=")
            assert name in KNOWN, f"sbatch: unrecognized option '--{name}'"
            found[name] = value
        elif line and not line.startswith("#"):
            break
    return found


def tasks_of(array: str) -> tuple[list[int], int]:
    """`1-3,7%2` as the numbers of tasks, and how many may run at once."""
    numbers, _, most = array.partition("%")
    found = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        found += list(range(int(first), int(last or first) + 1))
    return found, min(AT_ONCE, int(most or AT_ONCE))


def log_file(pattern: str, *, job: int, task: int) -> Path:
    values = {"%%": "%", "%a": str(task), "%A": str(job)}
    return Path(re.sub("%[%aA]", lambda match: values[match[0]], pattern))


def start(script: Path, options: dict[str, str], *, job: int, task: int) -> subprocess.Popen[bytes]:
    folder = Path(options.get("chdir") or Path.cwd())
    log = folder / log_file(options["output"], job=job, task=task)
    # Slurm makes no folder either: a task whose log cannot be opened fails without a word.
    with log.open("ab" if options.get("open-mode") == "append" else "wb") as stream:
        own = {
            "SLURM_JOB_ID": str(job + task),
            "SLURM_ARRAY_JOB_ID": str(job),
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
        }
        return subprocess.Popen(
            ["bash", str(script)], stdout=stream, stderr=stream, cwd=folder, env={**os.environ, **own}
        )


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    arguments = sys.argv[1:]
    script = Path(arguments.pop())
    options = options_of(script)
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        options[name] = value
    waiting, at_once = tasks_of(options["array"])
    randomness = np.random.default_rng(int(os.environ.get("STAND_IN_SEED", "0")))
    kills = int(os.environ.get("STAND_IN_KILLS", "0"))
    tell(f"Submitted batch job {os.getpid()}")
    running: dict[int, subprocess.Popen[bytes]] = {}
    due: dict[int, float] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            task = waiting.pop(0)
            running[task] = start(script, options, job=os.getpid(), task=task)
            if kills:
                kills -= 1
                due[task] = time.monotonic() + randomness.uniform(0.3, 2.5)
        for task, process in list(running.items()):
            if process.poll() is None and time.monotonic() > due.get(task, float("inf")):
                process.send_signal(signal.SIGTERM if len(due) % 2 else signal.SIGKILL)
                due[task] = time.monotonic() + 5
            if process.poll() is not None:
                tell(f"task {task} ended with {process.returncode}")
                del running[task]
        time.sleep(0.01)


if __name__ == "__main__":
    main()
