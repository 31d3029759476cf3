"""Ctrl-C at random moments of commands, from the start of Python on: one line, exit status 130, no traceback.

    python -m torture.interruptions --cases 60 --seed 1

A command that was done before the signal came ends with 0; anything else is a mistake.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from torture.kills import JOBS
from torture.small_studies import REPOSITORY

COMMANDS = ("import", "labels import", "prompts", "sample")
"""Jobs of `kills` that need no plugin; each is a process of its own, as a person starts it."""


def main() -> None:
    """Run the cases; exit status 1 if one ended in another way."""
    parser = argparse.ArgumentParser(description="Ctrl-C at random moments.")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="torture-interruptions-"))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    seconds: dict[str, float] = {}
    ended = {"done": 0, "interrupted": 0, "before the first line": 0, "mistakes": 0}
    for number in range(given.cases):
        job = JOBS[COMMANDS[number % len(COMMANDS)]]
        rng = np.random.default_rng([given.seed, number])
        folder = root / str(number)
        folder.mkdir()
        job.prepare(folder)
        call = [sys.executable, "-m", "detector_bench", *job.command]
        if job.name not in seconds:
            peace = shutil.copytree(folder, root / f"peace-{number}")
            began = time.monotonic()
            subprocess.run(call, cwd=peace, env=environment, capture_output=True, check=True)
            seconds[job.name] = time.monotonic() - began
        process = subprocess.Popen(
            call, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        waited = float(rng.uniform(0, 1.1)) * seconds[job.name]
        time.sleep(waited)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        text = said.decode(errors="replace")
        if process.returncode == 0 and "Traceback" not in text:
            ended["done"] += 1
        elif process.returncode == 130 and "Traceback" not in text:
            ended["interrupted"] += 1
        elif process.returncode in (-signal.SIGINT, 130, 1) and "detector_bench/cli" not in text:
            ended["before the first line"] += 1  # Python itself was starting
        else:
            ended["mistakes"] += 1
            last = text.strip().splitlines()[-1:]
            print(
                f"{number}: {job.name} after {waited:.2f} s: exit status {process.returncode}, {last}", flush=True
            )
            print("    " + "\n    ".join(text.strip().splitlines()[:12]))
    print("  ".join(f"{name} {count}" for name, count in ended.items()))
    shutil.rmtree(root, ignore_errors=True)
    sys.exit(1 if ended["mistakes"] else 0)


if __name__ == "__main__":
    main()
