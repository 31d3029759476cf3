"""Kills every command that writes, at random moments, runs it again, and compares with a run in peace.

    python -m torture.kills --cases 100 --seed 1

Each case is one SIGKILL to a command and all that it started. What is compared are the bytes of the files that the
command promises: numbers, tables, figures, pages. Records of when something ran are left out. With the judge among
the commands, requests are in flight at the kill: none but those may be asked a second time, and then the ledger of
paid answers must know of both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np

from torture.cases import warm
from torture.recipes import score_recipes
from torture.servers import SERVER_MODULES, judge_study, serving
from torture.small_studies import image_set

KILL_MODULES = (
    *SERVER_MODULES,
    "detector_bench.cli.publishing",
    "detector_bench.cli.sample",
    "detector_bench.cli.labels",
    "detector_bench.cli.prompts",
    "detector_bench.cli.estimate",
    "detector_bench.dataset.importing",
    "detector_bench.labelling.store",
    "matplotlib.figure",
)
_TIME = re.compile(rb"20\d\d-\d\d-\d\d[ T]\d\d:\d\d(?: UTC|:\d\d[.\d]*(?:Z|\+00:00))")
"""When a page was written, which it says."""
_SEALS = ("report.json",)
"""Holds the sha256 of the page, with its time."""
_ON_THE_WIRE = 0.3
"""Seconds: an answer that left the server so shortly before the kill may not have arrived."""


@dataclass(frozen=True)
class Job:
    """A command, what it needs, and which of its files must be the same after a kill and a second run."""

    name: str
    command: tuple[str, ...]
    promised: tuple[str, ...]
    """Patterns of files, from the working folder."""
    prepare: Callable[[Path], None] = lambda _: None
    needs: tuple[str, ...] = ()
    """Jobs that run in peace before it, in the same folder."""
    again: tuple[str, ...] = ()
    """What is added to the command when it runs again."""
    then: tuple[str, ...] = ()
    """A command that shows what is in a store; its files are compared."""
    judged: bool = False


def _study(folder: Path) -> None:
    (folder / "study.yaml").write_text(
        f"image_set: {image_set()}\nbatch_size: 2\n"
        "detectors: [{kind: test-colour, seconds: 0.05}, test-brightness, test-age-and-gender]\n"
    )


def _tree(folder: Path) -> None:
    for number, path in enumerate(sorted((image_set() / "images").iterdir())):
        for copy in range(12):
            target = folder / "tree" / f"model_{number % 2}" / f"prompt {number % 3}" / f"{copy}_{path.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _labels(folder: Path) -> None:
    shutil.copytree(image_set(), folder / "set")
    rows = (folder / "set" / "labels.csv").read_text()
    (folder / "theirs.csv").write_text(
        rows + "".join(line.replace("ann", f"b{n}") + "\n" for n in range(40) for line in rows.splitlines()[1:])
    )
    (folder / "set" / "labels.csv").unlink()


def _own_set(folder: Path) -> None:
    shutil.copytree(image_set(), folder / "set")


def _score_files(folder: Path) -> None:
    for recipe in score_recipes():
        if recipe.name in ("sheets", "own references", "words and templates"):
            for name, content in recipe.files.items():
                (folder / name).write_bytes(content)


_NUMBERS = ("out/*.csv", "out/tables/*", "out/study.yaml")
JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        Job("run", ("run", "study.yaml", "--out", "out", "--cache-dir", "cache"), _NUMBERS, _study),
        Job(
            "run in shards",
            ("run", "study.yaml", "--out", "out", "--cache-dir", "cache", "--shards", "3"),
            _NUMBERS,
            _study,
        ),
        Job("judge", ("run", "study.yaml", "--out", "out", "--cache-dir", "cache"), _NUMBERS[:2], judged=True),
        Job("evaluate", ("evaluate", "out"), _NUMBERS, needs=("run",)),
        Job(
            "evaluate elsewhere",
            ("evaluate", "out", "--out", "other", "--n-clear", "human"),
            ("other/*.csv", "other/tables/*"),
            needs=("run",),
        ),
        Job(
            "figures",
            ("figures", "out", "--format", "png", "--only", "model_bias_scores", "--only", "confusion"),
            ("out/figures/*",),
            needs=("run",),
        ),
        Job("report", ("report", "out"), ("out/report/**/*",), needs=("run",)),
        Job("estimate", ("estimate", "out", "--json", "--log", "log.txt"), (), needs=("run",)),
        Job("import", ("import", "tree", "set"), ("set/**/*",), _tree, again=("--overwrite",)),
        Job("sample", ("sample", "set", "--labels", "6"), ("set/sample.csv",), _own_set, again=("--overwrite",)),
        Job(
            "labels import",
            ("labels", "import", "theirs.csv", "set"),
            ("exported/*",),
            _labels,
            then=("labels", "export", "set", "--out", "exported", "--overwrite"),
        ),
        Job(
            "labels export",
            ("labels", "export", "set", "--out", "exported"),
            ("exported/*",),
            needs=("labels import",),
            again=("--overwrite",),
        ),
        Job(
            "prompts",
            ("prompts", "words.csv", "--templates", "templates.csv", "--out", "made"),
            ("made/*",),
            _score_files,
            again=("--overwrite",),
        ),
        Job(
            "sheets",
            ("biaspainter", "sheets", "activity.csv", "--seed-genders", "seeds.csv", "--out", "made"),
            ("made/*",),
            _score_files,
        ),
        Job("convert", ("bigbench", "convert", "references.csv", "--out", "made"), ("made/*",), _score_files),
    )
}


@dataclass
class Found:
    """What a case found out."""

    job: str
    killed: bool
    mistakes: list[str] = field(default_factory=list)
    asked_twice: int = 0


def command(
    arguments: tuple[str, ...], folder: Path, *, kill_after: float | None = None, log: Path | None = None
) -> tuple[int, float]:
    """Run a command in a process of its own, in a folder; its status (negative: the signal) and seconds."""
    from detector_bench.cli.app import main as call

    began = time.monotonic()
    process = os.fork()
    if process == 0:
        status = 99
        try:
            os.setpgid(0, 0)
            os.chdir(folder)
            opened = os.open(log or "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, 1)
            os.dup2(opened, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace")
            os.environ["NO_PROXY"] = "127.0.0.1"
            sys.argv = ["detector-bench", *arguments]
            call()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        except BaseException:  # noqa: BLE001 - shown by who waits
            import traceback

            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    with suppress(OSError):  # the child may have done it, or be gone
        os.setpgid(process, process)
    if kill_after is not None:
        while time.monotonic() - began < kill_after:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), time.monotonic() - began
            time.sleep(0.002)
        os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), time.monotonic() - began


def contents(folder: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """The sha256 of every promised file; of pages and tables with times in them, without those."""
    found = {}
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and path.name not in _SEALS:
                content = _TIME.sub(b"", path.read_bytes())
                found[str(path.relative_to(folder))] = sha256(content).hexdigest()
    return found


class Kills:
    """The jobs, each with a folder that is prepared once and what it leaves when nobody disturbs it."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._seed = seed
        self._ready: dict[str, tuple[Path, dict[str, str], float]] = {}

    def case(self, number: int) -> Found:
        """Kill one command once, at a moment that seed and number decide, and run it again."""
        job = list(JOBS.values())[number % len(JOBS)]
        prepared, expected, seconds = self._prepared(job)
        rng = np.random.default_rng([self._seed, number])
        folder = self._root / f"case-{number}"
        shutil.copytree(prepared, folder, symlinks=True)
        found = Found(job.name, killed=False)
        with ExitStack() as stack:
            if job.judged:
                self._with_judge(stack, folder)
            status, _ = command(job.command, folder, kill_after=float(rng.uniform(0.02, 1.0)) * seconds)
            found.killed, killed_at = status == -signal.SIGKILL, time.monotonic()
            status, _ = (
                command((*job.command, *(job.again if found.killed else ())), folder)
                if found.killed
                else (status, 0)
            )
            if status != 0:
                said = (folder / "said.txt").read_text(errors="replace").strip().splitlines()[-3:]
                found.mistakes.append(f"exit status {status} when run again: {' / '.join(said)[:400]}")
            if job.then:
                command(job.then, folder)
            if job.judged:
                found.asked_twice = self._check_requests(folder, killed_at, found)
        for name in sorted({*expected, *(there := contents(folder, job.promised))}):
            if expected.get(name) != there.get(name):
                state = (
                    "missing" if name not in there else "not expected" if name not in expected else "other bytes"
                )
                found.mistakes.append(f"{name}: {state}")
        if "Traceback" in (folder / "said.txt").read_text(errors="replace"):
            found.mistakes.append("a traceback")
        if not found.mistakes:
            shutil.rmtree(folder)
        return found

    def _prepared(self, job: Job) -> tuple[Path, dict[str, str], float]:
        if job.name not in self._ready:
            folder = self._root / job.name.replace(" ", "-")
            folder.mkdir()
            for needed in job.needs:
                JOBS[needed].prepare(folder)
                status, _ = command(JOBS[needed].command, folder)
                assert status == 0, (needed, (folder / "said.txt").read_text())
            job.prepare(folder)
            # In a folder of the same depth, so that relative paths are the same.
            peace = self._root / f"peace-{job.name.replace(' ', '-')}"
            shutil.copytree(folder, peace)
            with ExitStack() as stack:
                if job.judged:
                    self._with_judge(stack, peace)
                status, seconds = command(job.command, peace)
                assert status == 0, (job.name, (peace / "said.txt").read_text())
                if job.then:
                    command(job.then, peace)
            self._ready[job.name] = folder, contents(peace, job.promised), seconds
        return self._ready[job.name]

    def _with_judge(self, stack: ExitStack, folder: Path) -> None:
        port = stack.enter_context(serving(folder / "requests.jsonl", seconds=0.4))
        (folder / "study.yaml").write_text(judge_study(port))

    def _check_requests(self, folder: Path, killed_at: float, found: Found) -> int:
        """Requests that were made twice though the first was answered in good time before the kill."""
        lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
        asked = Counter(line["name"] for line in lines if line["event"] == "received")
        answered = {line["name"]: line["at"] for line in reversed(lines) if line["event"] == "answered"}
        for name, times in asked.items():
            if times > 2 or (times == 2 and answered.get(name, np.inf) < killed_at - _ON_THE_WIRE):
                found.mistakes.append(
                    f"request {name} was made {times} times; its answer was there before the kill"
                )
        twice = sum(times - 1 for times in asked.values())
        command(("spending", "out", "--json"), folder, log=folder / "spending.json")
        rows = json.loads((folder / "spending.json").read_text())["rows"]
        known = sum(int(row.get("perhaps_paid_twice") or 0) for row in rows)
        if twice > known:
            found.mistakes.append(f"{twice} requests were made twice; the ledger knows of {known}")
        return twice


def main() -> None:
    """Run the cases, print a line for each command, end with 1 if one of them left something else."""
    parser = argparse.ArgumentParser(description="Kills of every command that writes.")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where cases lie; those with mistakes stay there")
    given = parser.parse_args()
    warm(KILL_MODULES)
    image_set()
    root = given.folder or Path(tempfile.mkdtemp(prefix="torture-kills-"))
    root.mkdir(parents=True, exist_ok=True)
    kills = Kills(root, given.seed)
    by_job: dict[str, list[Found]] = {}
    for number in range(given.first, given.first + given.cases):
        found = kills.case(number)
        by_job.setdefault(found.job, []).append(found)
        for mistake in found.mistakes:
            print(f"{number}: {found.job}: {mistake}", flush=True)
    print(f"{'':22}{'cases':>7}{'killed':>8}{'mistakes':>10}{'asked twice':>13}")
    for name, cases in [*by_job.items(), ("all", [each for every in by_job.values() for each in every])]:
        wrong = sum(bool(each.mistakes) for each in cases)
        twice = sum(each.asked_twice for each in cases)
        print(f"{name:22}{len(cases):>7}{sum(each.killed for each in cases):>8}{wrong:>10}{twice:>13}")
    failed = any(each.mistakes for cases in by_job.values() for each in cases)
    if not failed and given.folder is None:
        shutil.rmtree(root)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
