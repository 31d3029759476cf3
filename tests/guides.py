"""Follows a page of `docs/` word by word: its marked blocks, from top to bottom, in one folder.

Above each block of code stands a comment that says how it is executed, and by which name a test asks for it:

- `<!-- file: NAME -->`: written into the folder under this name;
- `<!-- python: NAME -->`: run by Python in the folder;
- `<!-- command: NAME -->`: run to its end;
- `<!-- background: NAME -->`: started, and stopped when the guide has been followed;
- `<!-- excerpt: NAME -->`: part of a file; the test says what becomes of it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

import pandas as pd
import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
KINDS = ("file", "python", "command", "background", "excerpt")


class Block(NamedTuple):
    """A block of code."""

    kind: str
    """One of `KINDS`; empty: no marker stands above it."""
    name: str
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """All blocks of code of a page of `docs/`, in its order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:^<!-- (\w+): ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(*each) for each in found]


def block(page: str, kind: str, name: str) -> str:
    """The code of the one block of this kind and name."""
    (found,) = [each.text for each in blocks_of(page) if (each.kind, each.name) == (kind, name)]
    return found


def write_files(page: str, folder: Path) -> None:
    """Write all files of a guide."""
    for each in blocks_of(page):
        if each.kind == "file":
            _write(folder / each.name, each.text)


def entry_points(page: str) -> str:
    """What a guide's excerpt of a pyproject.toml declares, as an installed package states it."""
    groups = tomllib.loads(block(page, "excerpt", "entry point"))["project"]["entry-points"]
    return "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in declared.items())
        for group, declared in groups.items()
    )


def python(code: str, folder: Path, **environment: str) -> str:
    """Run Python code in a folder: what it prints."""
    return _printed([sys.executable, "-c", code], folder, environment)


def command(line: str, folder: Path, **environment: str) -> str:
    """Run a command line that begins with `detector-bench` or `python`: what it prints."""
    return _printed(_command(line), folder, environment)


def refused(line: str, folder: Path) -> str:
    """Run a command line that must end with status 1: what it says, in one line."""
    done = subprocess.run(_command(line), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stderr.split())


def overall(results: Path, metric: str) -> dict[str, float]:
    """A metric over all images of a result folder, by detector."""
    metrics = pd.read_csv(results / "metrics.csv", dtype={"value": float}).query(
        f"t2i_model == 'all' and category == 'all' and prompt_id == 'all' and metric == {metric!r}"
    )
    return dict(zip(metrics["detector"], metrics["value"], strict=True))


class Guide:
    """A guide that is being followed; as a context manager it stops what runs in the background at its end.

    Args:
        page: in `docs/`.
        folder: where the reader stands.
        needs: packages without which the test is skipped.
        replaced: texts of the page that are others here, such as a port.
        more: arguments that a background command gets besides, by its name.
    """

    def __init__(
        self,
        page: str,
        folder: Path,
        *,
        needs: Sequence[str] = (),
        replaced: Mapping[str, str] | None = None,
        more: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        for package in needs:
            pytest.importorskip(package)
        self.folder = folder
        self.said: dict[str, str] = {}
        """What each command and each piece of Python printed, by the name of its block."""
        self.background: dict[str, subprocess.Popen[str]] = {}
        self._left = blocks_of(page)
        self._replaced = replaced or {}
        self._more = more or {}
        self._running = ExitStack()
        # Wide tables stay in one piece.
        self.environment = {"DETECTOR_BENCH_CACHE": str(folder / "cache"), "COLUMNS": "200"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def follow(self, until: str = "") -> Self:
        """Do what the page says, from where it was left to the end of the block `until`, or of the page."""
        while self._left:
            each = self._left.pop(0)
            self._do(each)
            if each.name == until:
                return self
        assert not until, f"the page has no block {until!r} here"
        return self

    def _do(self, each: Block) -> None:
        text = each.text
        for here, there in self._replaced.items():
            text = text.replace(here, there)
        if each.kind == "file":
            _write(self.folder / each.name, text)
        elif each.kind == "python":
            self.said[each.name] = python(text, self.folder, **self.environment)
        elif each.kind == "command":
            self.said[each.name] = command(text, self.folder, **self.environment)
        elif each.kind == "background":
            self.background[each.name] = self._started([*_command(text), *self._more.get(each.name, ())])
        else:
            assert each.kind == "excerpt", f"no marker says how this is executed:\n{text}"

    def _started(self, line: list[str]) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            line, cwd=self.folder, env={**os.environ, **self.environment}, stdout=subprocess.PIPE, text=True
        )
        self._running.callback(program.communicate, timeout=30)
        self._running.callback(program.send_signal, signal.SIGINT)
        return program


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    return [sys.executable, *{"detector-bench": ("-m", "detector_bench"), "python": ()}[program], *arguments]


def _printed(line: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        line, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
