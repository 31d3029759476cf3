"""An array job of Slurm that judges each shard of a study in a task of its own."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from detector_bench.errors import ConfigError
from detector_bench.runner.stage_cache import CACHE_VARIABLE
from detector_bench.trust import TRUST_VARIABLE
from detector_bench.weights.locate import WEIGHTS_VARIABLE

IMAGES_PER_TASK = 2_000
"""Of a task whose number nobody says: minutes on most machines, so that a lost one is soon made up for."""

MOST_TASKS = 1_000
"""Slurm takes array indices up to 1,000 where its administrator has not allowed more (MaxArraySize)."""

TASKS_AT_ONCE = 16

PASSED_ON = (WEIGHTS_VARIABLE, CACHE_VARIABLE, TRUST_VARIABLE)
"""Places that tasks must find where the one who wrote the script has them. No keys of services are among them."""


def sensible_tasks(images: int) -> int:
    """Into how many tasks an image set is cut where nobody says it."""
    return max(1, min(MOST_TASKS, math.ceil(images / IMAGES_PER_TASK)))


@dataclass(frozen=True)
class ArrayJob:
    """What an array job is made of.

    Attributes:
        words: of the command of one task behind the program's name, without `--shard`: `run`, `study.yaml`, ...
        out: the result folder, as the command has it.
        script: the file, as the user named it.
        images: of the image set.
        shards: how many tasks there are.
        folder: the working directory of the tasks, which relative paths start from.
        environment: variables and their values that are written into the script.
    """

    words: tuple[str, ...]
    out: Path
    script: Path
    images: int
    shards: int
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(
        default_factory=lambda: {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    )

    @property
    def logs(self) -> Path:
        """The folder of the tasks' logs; Slurm wants it to be there before a task begins."""
        return self.out / "logs"

    def text(self) -> str:
        """The script.

        Raises:
            ConfigError: a word or a path that a line cannot hold.
        """
        self._require_one_line_each()
        at_once = min(TASKS_AT_ONCE, self.shards)
        count = "1 task" if self.shards == 1 else f"{self.shards:,} tasks"
        script, out = shlex.quote(str(self.script)), shlex.quote(str(self.out))
        exports = [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        first, *options = _in_groups(self.words)
        program = f"exec {shlex.quote(sys.executable)} -P -m detector_bench {first}"
        command = " \\\n    ".join([program, *options, f'--shard "$SLURM_ARRAY_TASK_ID/{self.shards}"'])
        return f"""\
#!/bin/bash
# Judges {self.images:,} images in {count}, each a shard of the image set. Written by detector-bench; change what
# you like, but not the number of shards.
#
#   sbatch {script}
#       submits it. The task that ends last writes the results: nothing else need be submitted.
#   detector-bench shards {out}
#       says what is done, running and failed, and which tasks to submit again:
#   sbatch --array=3,7-9 {script}
#
# A task that was killed, preempted or ran out of time goes on where it was when it is submitted again.

#SBATCH --job-name={_job_name(self.out)}
# Tasks 1 to {self.shards}, at most {at_once} at the same time.
#SBATCH --array=1-{self.shards}%{at_once}
# Of each task. `detector-bench run ... --dry-run` measures what a task needs.
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
# A GPU for each task, and where your cluster wants them a limit of time, a partition, an account: take one # away.
##SBATCH --gpus=1
##SBATCH --time=04:00:00
##SBATCH --partition=NAME
##SBATCH --account=NAME
# A log for each shard; further tries are appended.
#SBATCH --output={_quoted(str(self.logs).replace("%", "%%") + "/shard-%a.log")}
#SBATCH --open-mode=append
# Begin again what was preempted or whose machine failed; tell the task two minutes before its time is over.
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --chdir={_quoted(str(self.folder))}

set -euo pipefail

# Keys of services are not written here: they come from the environment in which you call sbatch.
{"".join(f"{line}{chr(10)}" for line in exports)}
# `exec`: the program itself hears when Slurm stops the task, and stores what is done.
{command}
"""

    def _require_one_line_each(self) -> None:
        # Behind a line break a comment is over, and what follows in a path would be a command.
        for text in (*self.words, *map(str, (self.out, self.script, self.folder)), *self.environment.values()):
            if not text.isprintable():
                raise ConfigError(
                    f"--slurm-script: {text!r} cannot stand in a script (accepted: printable letters)"
                )


def _in_groups(words: tuple[str, ...]) -> list[str]:
    """Each option with its value on a line of its own; what stands before the first one together."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            groups.append([])
        groups[-1].append(shlex.quote(word))
    return [" ".join(group) for group in groups]


def _job_name(out: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"detector-bench-{out.resolve().name}")


def _quoted(path: str) -> str:
    """As Slurm reads an option in a script."""
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return text if re.fullmatch(r"[\w@+=:,./%-]+", text) else f'"{text}"'
