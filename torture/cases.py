"""Runs thousands of cases, each in a process of its own that is forked from a warm one, and counts how they ended.

A case is a number and a seed: it writes hostile files into an empty folder and calls commands there, as a person
would on the command line. The parent has imported what the commands need, so a case costs a fork, not a start of
Python; what a case leaves behind in memory ends with it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

SECONDS = 5.0
"""No case may take longer."""
MEGABYTES = 500
"""No case may need more, the imported libraries included."""

_ADDRESS_SPACE = 6 << 30
_HANGS_AFTER = 25.0
_IMPORTED = "modules that a case has imported:\n"
_EXCUSED = ("accepted", "refused")

Run = Callable[["Case"], None]


@dataclass
class Case:
    """One case: its random numbers, its empty folder, and what it did, for who wants to see it again."""

    seed: int
    number: int
    folder: Path
    rng: np.random.Generator
    notes: list[str] = field(default_factory=list)
    """What was mutated; printed where the case failed."""
    seconds: float = 0.0
    """Of its longest command so far."""

    def note(self, text: str) -> None:
        """Remember what was mutated; the file `case.txt` keeps it when the process dies."""
        self.notes.append(text)
        with (self.folder / "case.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")

    def command(self, *arguments: object, timed: bool = True) -> int:
        """Call `detector-bench` with arguments, as the shell would; the exit status."""
        from detector_bench.cli.app import main

        sys.argv = ["detector-bench", *map(str, arguments)]
        began = time.monotonic(), time.process_time()
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        finally:
            wall, busy = time.monotonic() - began[0], time.process_time() - began[1]
            # Others use the machine, too: a quarter of the time by the clock is taken for the command's own.
            self.seconds = max(self.seconds, busy, wall / 4) if timed else self.seconds
            (self.folder / "seconds.txt").write_text(str(self.seconds))
        return 0


class WrongAnswerError(AssertionError):
    """A command said that all is well, and it is not."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended."""

    number: int
    kind: str
    """accepted, refused, traceback, wrong, killed, slow or large."""
    seconds: float
    megabytes: float
    message: str
    notes: str
    printed: str = ""
    """What went to standard output."""


def run_case(run: Run, seed: int, number: int, *, keep: Path | None = None) -> Outcome:
    """Fork, run one case in the child, and read how it ended."""
    folder = Path(tempfile.mkdtemp(prefix=f"torture-{seed}-{number}-"))
    process = os.fork()
    if process == 0:
        _child(run, seed, number, folder)
    _, status, usage = os.wait4(process, 0)
    said = _text(folder / "stderr.txt")
    seconds = float(_text(folder / "seconds.txt") or 0)
    megabytes = usage.ru_maxrss / 1024
    # A check prints what it found as its result, on standard output.
    printed = _text(folder / "stdout.txt")
    kind = _kind(os.waitstatus_to_exitcode(status), said + printed[-2000:])
    if kind in _EXCUSED and seconds > SECONDS:
        kind = "slow"
    if kind in _EXCUSED and megabytes > MEGABYTES:
        kind = "large"
    outcome = Outcome(number, kind, seconds, megabytes, said, _text(folder / "case.txt"), printed)
    if keep is not None and kind not in _EXCUSED:
        shutil.copytree(folder, keep / f"{seed}-{number}", dirs_exist_ok=True, ignore_dangling_symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _child(run: Run, seed: int, number: int, folder: Path) -> None:
    status = 99
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        # By the clock there is more, for the machine may be busy with other things.
        signal.setitimer(signal.ITIMER_REAL, 5 * _HANGS_AFTER)
        resource.setrlimit(resource.RLIMIT_CPU, (int(_HANGS_AFTER), int(_HANGS_AFTER) + 5))
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
        for name, descriptor in (("stdout.txt", 1), ("stderr.txt", 2)):
            opened = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, descriptor)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
        work = folder / "work"
        work.mkdir()
        os.chdir(work)
        case = Case(seed, number, folder, np.random.default_rng([seed, number]))
        try:
            run(case)
        except WrongAnswerError as error:
            sys.stderr.write(f"WRONG: {error}\n")
            status = 98
        except RefusedError:
            status = 1
        else:
            status = 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
        traceback.print_exc(file=sys.stderr)
        status = 99
        with suppress(Exception):
            sys.stderr.flush()
    finally:
        os._exit(status)


class RefusedError(Exception):
    """A command ended with a line that says why; the rest of the case is pointless."""


def expect(status: int, *accepted: int) -> None:
    """Go on after exit status 0; stop the case as refused after 1 or 2; anything else is a mistake."""
    if status in (0, *accepted):
        return
    if status in (1, 2):
        raise RefusedError
    raise WrongAnswerError(f"exit status {status}")


def _kind(status: int, said: str) -> str:
    if "Traceback (most recent call last)" in said:
        return "traceback"
    if status in (-signal.SIGALRM, -signal.SIGXCPU):
        return "slow"
    if status == 98:
        return "wrong"
    if status == 0:
        return "accepted"
    if status == 1:
        return "refused" if said.strip() else "wrong"
    return "killed" if status < 0 else "traceback"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""


def run_cases(
    run: Run, *, numbers: Iterable[int], seed: int, keep: Path | None = None, verbose: bool = False
) -> list[Outcome]:
    """Run cases one after the other; one that was slow is given a second chance, as machines have moods."""
    outcomes = []
    for number in numbers:
        outcome = run_case(run, seed, number, keep=keep)
        if outcome.kind == "slow":
            again = run_case(run, seed, number, keep=keep)
            outcome = min(outcome, again, key=lambda each: each.seconds)
        outcomes.append(outcome)
        if verbose or outcome.kind not in _EXCUSED:
            print(f"{number}: {outcome.kind} {outcome.seconds:.2f} s {outcome.megabytes:.0f} MB", flush=True)
            print(f"    {outcome.notes.strip()[:400]!r}")
            print("    " + "\n    ".join(outcome.message.strip().splitlines()[-4 if not verbose else 0 :]))
    return outcomes


@dataclass(frozen=True)
class Summary:
    """Counts of many cases."""

    outcomes: Sequence[Outcome]

    @property
    def counts(self) -> Counter[str]:
        """How many ended how."""
        return Counter(outcome.kind for outcome in self.outcomes)

    @property
    def failures(self) -> list[Outcome]:
        """Those that ended as none may."""
        return [outcome for outcome in self.outcomes if outcome.kind not in _EXCUSED]

    def table(self, name: str) -> str:
        """A line with all numbers, under its heading."""
        counts = self.counts
        others = sum(counts[kind] for kind in ("wrong", "killed", "slow", "large"))
        heading = (
            f"{'':24}{'cases':>7}{'refused':>9}{'accepted':>10}{'tracebacks':>12}{'others':>8}{'s':>7}{'MB':>7}"
        )
        longest = max((outcome.seconds for outcome in self.outcomes), default=0.0)
        largest = max((outcome.megabytes for outcome in self.outcomes), default=0.0)
        line = (
            f"{name:24}{len(self.outcomes):>7}{counts['refused']:>9}{counts['accepted']:>10}"
            f"{counts['traceback']:>12}{others:>8}{longest:>7.1f}{largest:>7.0f}"
        )
        return f"{heading}\n{line}"


def main(name: str, run: Run, *, modules: Sequence[str], cases: int, about: str) -> None:
    """The command line of a program of cases; exit status 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run this case alone, and print what it said")
    parser.add_argument("--keep", type=Path, help="copy the folders of failed cases here")
    parser.add_argument("--json", type=Path, help="append the numbers to this file")
    given = parser.parse_args()
    warm(modules)
    warm_by(run)
    numbers = range(given.first, given.first + given.cases) if given.only is None else [given.only]
    outcomes = run_cases(run, numbers=numbers, seed=given.seed, keep=given.keep, verbose=given.only is not None)
    summary = Summary(outcomes)
    print(summary.table(name))
    if given.json is not None:
        with given.json.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "seed": given.seed, **summary.counts}) + "\n")
    sys.exit(1 if summary.failures else 0)


def warm_by(run: Run) -> None:
    """Import all that a case imports, found out by one in a child."""

    def listed(case: Case) -> None:
        with suppress(RefusedError, WrongAnswerError):
            run(case)
        (case.folder / "case.txt").write_text(_IMPORTED + "\n".join(sys.modules))

    listing = run_case(listed, 0, 0).notes
    for module in listing.removeprefix(_IMPORTED).split() if listing.startswith(_IMPORTED) else ():
        with suppress(Exception):
            importlib.import_module(module)


def warm(modules: Sequence[str]) -> None:
    """Import what the cases need; no thread may run when they are forked."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("COLUMNS", "200")
    for module in modules:
        importlib.import_module(module)
