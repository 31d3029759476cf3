"""How a run goes about its work."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from detector_bench.dataset.decoding import DEFAULT_MAX_PIXELS


@dataclass(frozen=True)
class RunSettings:
    """How a run goes about its work; nothing here changes a verdict.

    Attributes:
        batch_size: images per batch.
        threads: how many cores this process may use; None takes all that the system gives it.
        max_pixels: larger images become `too_large` errors.
        cache_folder: where stage results are kept; None keeps none.
        shards: into how many shards the image set is cut; None leaves it as the folder is, or follows its size.
        workers: how many processes share the work.
        paid_folder: where requests to paid services and their answers are recorded; None: nowhere.
        session: a name for the run, which the processes that share its work have in common.
        images_may_change: whether an image that has a verdict is judged anew when it is another one now, or cannot
            be read; False: that is refused, for numbers were made of it.
        budget: the most that the answers of `paid_folder` may cost together; None: no limit.
    """

    batch_size: int = 32
    threads: int | None = None
    max_pixels: int = DEFAULT_MAX_PIXELS
    cache_folder: Path | None = None
    shards: int | None = None
    workers: int = 1
    paid_folder: Path | None = None
    session: str | None = None
    images_may_change: bool = True
    budget: float | None = None

    @property
    def cores(self) -> int:
        """How many cores this process uses."""
        return self.threads or available_cores()


def available_cores() -> int:
    """How many cores the system gives this process; in a task of Slurm no more than the task asked for."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")  # not every cluster holds its tasks to them
    return min(found, int(asked)) if asked.isdecimal() and int(asked) else found
