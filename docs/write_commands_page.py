"""Writes the commands of docs/commands.md, which their functions describe.

python docs/write_commands_page.py docs/commands.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from detector_bench.cli.app import app

BEGIN = "<!-- From here on written by docs/write_commands_page.py: change the command, not the page. -->\n"
COMMON = "Common options"


def page(text: str) -> str:
    """The page with fresh commands behind what was written by hand."""
    before, marker, _ = text.partition(BEGIN)
    return before + marker + "".join(_written())


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, and every group of them, by name, in the order of `--help`."""
    yield from _below(typer.main.get_command(app), [])


def _below(group: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        yield " ".join([*path, name]), found
        if hasattr(found, "list_commands"):
            yield from _below(found, [*path, name])


def _written() -> Iterator[str]:
    for number, (name, command) in enumerate(commands()):
        if number == 0:
            yield f"\n## {COMMON}\n\nOf every command.\n\n{_table(_rows(command, common=True))}"
        if hasattr(command, "list_commands"):
            about, _, _ = command.help.partition("\n\nExample")
            yield f"\n## `{name}`\n\n{_text(about)}\n"
        else:
            yield f"\n{'#' * (2 + name.count(' '))} `{name}`\n\n{_text(command.help)}\n"
            rows = [*_rows(command, common=False)]
            yield f"\n{_table(rows)}" if rows else ""


def _text(about: str) -> str:
    """Each paragraph in a line."""
    return "\n\n".join(" ".join(part.split()) for part in about.split("\n\n"))


def _table(rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> str:
    lines = [("argument or option", "meaning"), ("---", "---"), *rows]
    return "".join(f"| {left} | {right} |\n" for left, right in lines)


def _rows(command: Any, *, common: bool) -> Iterator[tuple[str, str]]:
    for option in command.params:
        is_common = getattr(option, "rich_help_panel", None) == COMMON
        if getattr(option, "hidden", False) or is_common != common:
            continue
        about = option.help or ""
        if option.param_type_name == "argument":
            name = (option.metavar or option.name.upper()).replace("|", "\\|")
            yield f"`{name}`", f"{about}{'' if option.required else ' May be left out.'}"
            continue
        flags = "/".join([*option.opts, *option.secondary_opts])
        value = "" if option.is_flag else f" {option.metavar or 'VALUE'}"
        default = option.default
        shown = (
            default if isinstance(default, str | int | float | Path) and not isinstance(default, bool) else None
        )
        again = " May be repeated." if option.multiple and "repeated" not in about else ""
        needed = " Needed." if option.required else f" [{shown}]" if shown not in (None, "") else ""
        yield f"`{flags}{value}`".replace("|", "\\|"), f"{about}{again}{needed}".replace("|", "\\|")


if __name__ == "__main__":
    written = Path(sys.argv[1])
    written.write_text(page(written.read_text(encoding="utf-8")), encoding="utf-8")
