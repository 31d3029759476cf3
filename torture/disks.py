"""Every command that writes, on a full disk, under a limit on file sizes, and in read-only folders.

    python -m torture.disks --seed 1

A full disk is a small tmpfs where one can be mounted; elsewhere only the limit on file sizes stands in for it. A
command must end with one line that says why; once there is room, the same command must leave the same bytes as if
nothing had happened.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from torture.cases import warm
from torture.kills import JOBS, KILL_MODULES, Job, Kills, command, contents
from torture.small_studies import image_set


@contextmanager
def small_disk(kilobytes: int) -> Iterator[Path | None]:
    """A file system of so many kilobytes; None where none can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="torture-disk-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    try:
        yield folder if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        folder.rmdir()


def _mounted(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


class Disks(Kills):
    """The jobs of `kills`, each on a disk without room."""

    refused = False
    """Whether the last command could not do it at first."""

    def full(self, job: Job, share: float) -> list[str]:
        """On a tmpfs that has room for a share of what the command writes; then with room enough."""
        prepared, expected, _ = self._prepared(job)
        used = sum(path.stat().st_size for path in prepared.rglob("*") if path.is_file())
        peace = self._root / f"peace-{job.name.replace(' ', '-')}"
        after = sum(path.stat().st_size for path in peace.rglob("*") if path.is_file())
        # Files take whole pages there.
        files = sum(1 for path in prepared.rglob("*"))
        room = int((used + files * 4096 + 200_000 + share * max(after - used, 50_000)) / 1024)
        with small_disk(room) as disk:
            if disk is None:
                return []
            folder = disk / "case"
            shutil.copytree(prepared, folder)
            return self._twice(job, folder, expected, lambda: _mounted(disk, "size=200m"))

    def limited(self, job: Job, kilobytes: float) -> list[str]:
        """With a limit on the size of each file that is written."""
        prepared, expected, _ = self._prepared(job)
        folder = self._root / f"limited-{job.name.replace(' ', '-')}"
        shutil.copytree(prepared, folder)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = int(kilobytes * 1024)
        before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # noqa: E731
        return self._twice(
            job, folder, expected, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)), before=before
        )

    def read_only(self, job: Job) -> list[str]:
        """Into a folder that may not be written; as root, a read-only mount stands in for missing rights."""
        prepared, expected, _ = self._prepared(job)
        with small_disk(200_000) as disk:
            if disk is None:
                return []
            folder = disk / "case"
            shutil.copytree(prepared, folder)
            _mounted(disk, "ro")
            return self._twice(job, folder, expected, lambda: _mounted(disk, "rw"))

    def _twice(
        self,
        job: Job,
        folder: Path,
        expected: dict[str, str],
        mend: Callable[[], object],
        before: Callable[[], object] = lambda: None,
    ) -> list[str]:
        """The command under bad conditions, and again under good ones."""
        mistakes = []
        log = Path(tempfile.mkdtemp(dir=self._root)) / "said.txt"
        status, said = self._said(job.command, folder, log, before)
        mend()
        self.refused = status != 0
        if "Traceback" in said:
            mistakes.append(f"a traceback: {said.strip().splitlines()[-1][:200]}")
        if status not in (0, 1):
            mistakes.append(f"exit status {status}: {said[-300:]}")
        if status == 1 and "error:" not in said:
            mistakes.append("no line says why")
        if self.refused:
            status, said = self._said((*job.command, *job.again), folder, log)
            if status != 0:
                mistakes.append(f"exit status {status} with room enough: {said.strip().splitlines()[-1][:300]}")
        if job.then:
            self._said(job.then, folder, log)
        there = contents(folder, job.promised)
        mistakes += [
            f"{name}: {'other bytes' if name in there else 'missing'}"
            for name in sorted({*expected, *there})
            if expected.get(name) != there.get(name)
        ]
        return mistakes

    @staticmethod
    def _said(
        arguments: tuple[str, ...], folder: Path, log: Path, before: Callable[[], object] = lambda: None
    ) -> tuple[int, str]:
        """A command's status and what it printed, through a pipe: a limit on files is none on that."""
        pipe = log.with_suffix(".pipe")
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        with log.open("wb") as file, subprocess.Popen(["cat", str(pipe)], stdout=file) as reader:
            before()
            status, _ = command(arguments, folder, log=pipe)
            reader.wait()
        return status, log.read_text(errors="replace")


def main() -> None:
    """Each job with each kind of disk; a line for each that was wrong, and a table."""
    warm(KILL_MODULES)
    image_set()
    root = Path(tempfile.mkdtemp(prefix="torture-disks-"))
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    disks = Disks(root, seed)
    rng = np.random.default_rng(seed)
    counts: dict[str, list[int]] = {}
    for job in JOBS.values():
        if job.judged:
            continue
        ways = {
            "full": lambda job=job: disks.full(job, float(rng.uniform(0, 0.9))),
            "file sizes": lambda job=job: disks.limited(job, float(rng.uniform(0.2, 6))),
            "read-only": lambda job=job: disks.read_only(job),
        }
        for way, run in ways.items():
            disks.refused = False
            mistakes = run()
            count = counts.setdefault(way, [0, 0, 0])
            for position, value in enumerate((1, disks.refused, bool(mistakes))):
                count[position] += value
            for mistake in mistakes[:4]:
                print(f"{job.name}, {way}: {mistake}", flush=True)
    print(f"{'':12}{'cases':>7}{'refused':>9}{'mistakes':>10}")
    for way, (cases, refused, wrong) in counts.items():
        print(f"{way:12}{cases:>7}{refused:>9}{wrong:>10}")
    shutil.rmtree(root, ignore_errors=True)
    sys.exit(1 if any(count[2] for count in counts.values()) else 0)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "200")
    main()
