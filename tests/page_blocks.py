"""Every block of code of every page: which it is, and the command lines in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from detector_bench.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "labels").rglob("*.md"),
        ROOT / "paper_figures" / "README.md",
    )
)
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<kind>\w+): (?P<name>[^\n]+) -->\n)?^(?P<indent> *)(?P<fence>```+)(?P<language>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.DOTALL | re.MULTILINE,
)
_ACT_AT_ONCE = ("--help", "-h", "--version", "--install-completion", "--show-completion")
"""Options that do something while they are read, one of them to the shell of whoever runs the tests."""
PROGRAM = re.compile(r"(?:\.venv/bin/)?detector-bench ")


class PageBlock(NamedTuple):
    """A block of code and where it stands."""

    page: str
    kind: str
    """Of the comment above it (`tests/guides.py`); empty: there is none."""
    name: str
    language: str
    text: str


def page_blocks() -> Iterator[PageBlock]:
    """All blocks of all pages; lists of pages, cards and the like are none."""
    for page in PAGES:
        for each in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
            language = each["language"].strip()
            if not language.startswith("{") or language.startswith("{code-cell}"):
                yield PageBlock(page, each["kind"] or "", each["name"] or "", language, each["text"])


def command_lines(text: str) -> Iterator[str]:
    """The lines of a block that call the program; a line may go on behind a backslash."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if PROGRAM.match(line.strip()):
            yield line.strip()


@cache
def _program() -> Any:
    return typer.main.get_command(app)


def parsed(line: str) -> str:
    """Let the program's own parser read a command line: the command that it calls.

    Raises:
        Exception: of click: an unknown command or option, or a value that is none.
    """
    _, *arguments = (each for each in shlex.split(line, comments=True) if each not in _ACT_AT_ONCE)
    command = _program()
    context, path = None, ["detector-bench"]
    while arguments or path[1:]:
        context = command.make_context(path[-1], list(arguments), parent=context)
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not hasattr(command, "list_commands") or not rest:
            return " ".join(path[1:])
        name, command, arguments = command.resolve_command(context, rest)
        path.append(name)
    return ""


def inline_commands() -> Iterator[tuple[str, str]]:
    """Commands in the running text, which may leave out what is needed: page and line."""
    for page in PAGES:
        text = _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for line in re.findall(r"`(detector-bench [^`]+)`", text):
            yield page, " ".join(line.split())
