"""Where the command line writes: results to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

output = Console()
errors = Console(stderr=True)


def print_record(name: str, facts: Mapping[str, str], *, summary: str = "", good: bool = True) -> None:
    """Print a name and what is known about it, one fact below the other; empty facts are left out."""
    heading = Text(name, style="bold green" if good else "bold yellow")
    if summary:
        heading.append(f"  {summary}", style="not bold default")
    output.print(heading)
    grid = Table.grid(padding=(0, 2))
    for fact, text in facts.items():
        if text:
            grid.add_row(Text(f"  {fact}", style="dim"), Text(text, overflow="fold"))
    output.print(grid)
    output.print()
