"""A table for the terminal, drawn by Rich to fit its width."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from shutil import get_terminal_size
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from detector_bench.tables.layout import Heading, column_blocks, group_headings, heading_lines
from detector_bench.tables.table import Cell, Table, printable

_WIDEST_NAME = 30


class _Spacing(NamedTuple):
    """How roomy a table is drawn: the distance between columns, and how wide headings and names may be."""

    gap: int
    heading: int
    name: int = _WIDEST_NAME

    def width(self, table: Table, index: int) -> int:
        """Width of a column, without the distance to the next one."""
        cells = _cells_width(table, index)
        heading = max(cell_len(line) for line in self.heading_lines(table, index))
        if table.columns[index].kind == "name":
            return min(max(heading, cells), self.name)
        return max(min(heading, max(self.heading, _NARROW_HEADING)), cells, 1)

    def heading_lines(self, table: Table, index: int) -> list[str]:
        """A column's heading, broken where it is wider than allowed and than the column's cells."""
        column = table.columns[index]
        heading = printable(column.heading)
        if column.kind == "name":
            return [heading]
        return heading_lines(heading, width=max(self.heading, _cells_width(table, index)))


_NARROW_HEADING = 14
_BROKEN_UP = _Spacing(gap=2, heading=0)
_SPACINGS = (
    _Spacing(gap=2, heading=24, name=sys.maxsize),
    _Spacing(gap=2, heading=24),
    _BROKEN_UP,
    _Spacing(gap=1, heading=0),
)
"""From roomy to tight: the first that needs no second block of columns is taken, else `_BROKEN_UP`."""


@dataclass(frozen=True, slots=True)
class TerminalTable:
    """Draws a table in as many blocks of columns as the console's width asks for."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield Text(printable(self.table.caption), style="bold")
        yield ""
        spacing, blocks = self._laid_out(options.max_width)
        for block in blocks:
            yield from _block(self.table, block, spacing=spacing)
            yield ""
        for note in self.table.all_notes:
            yield Padding(Text(printable(note), style="dim"), (0, 0, 0, 2), expand=False)

    def _laid_out(self, width: int) -> tuple[_Spacing, tuple[tuple[int, ...], ...]]:
        by_spacing = {spacing: self._blocks(spacing, width) for spacing in _SPACINGS}
        fitting = (spacing for spacing, blocks in by_spacing.items() if len(blocks) == 1)
        spacing = next(fitting, _BROKEN_UP)
        return spacing, by_spacing[spacing]

    def _blocks(self, spacing: _Spacing, width: int) -> tuple[tuple[int, ...], ...]:
        return column_blocks(
            self.table,
            width_of=lambda index: spacing.width(self.table, index) + spacing.gap,
            available=width + spacing.gap,
        )


def to_rich(table: Table) -> TerminalTable:
    """Prepare a table for `rich.console.Console.print`; names are shown as they are, never read as markup."""
    return TerminalTable(table)


def _cells_width(table: Table, index: int) -> int:
    return max((cell_len(printable(row.cells[index].written())) for row in table.rows), default=0)


def _block(table: Table, columns: Sequence[int], *, spacing: _Spacing) -> Iterator[RenderableType]:
    widths = [spacing.width(table, index) for index in columns]
    shown = [table.columns[index] for index in columns]
    groups = group_headings(shown)
    if any(group.text for group in groups):
        yield _group_line(groups, widths, gap=spacing.gap)
    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, spacing.gap - 1, 0, 0))
    for index, column, width in zip(columns, shown, widths, strict=True):
        heading = Text("\n".join(spacing.heading_lines(table, index)))
        drawn.add_column(heading, justify=column.align, overflow="fold", width=width)
    for position, row in enumerate(table.rows):
        repeated = not table.opens_group(position)
        cells = [_cell(table, row.cells[index], hidden=repeated and index == 0) for index in columns]
        drawn.add_row(*cells, end_section=_ends_group(table, position))
    yield drawn


def _group_line(groups: Sequence[Heading], widths: Sequence[int], *, gap: int) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    for group in groups:
        room = sum(widths[group.start : group.start + group.span]) + gap * (group.span - 1)
        ruled = 0 < len(group.text) <= room - 4
        title = f" {group.text} ".center(room, "─") if ruled else group.text[:room].center(room)
        line.append(title + " " * gap, style="bold")
    return line


def _cell(table: Table, cell: Cell, *, hidden: bool) -> Text:
    style = "bold green" if cell.bold else "italic red" if table.is_italic(cell) else ""
    return Text("" if hidden else printable(cell.written()), style=style)


def _ends_group(table: Table, position: int) -> bool:
    return table.grouped and position + 1 < len(table.rows) and table.opens_group(position + 1)


def to_text(table: Table) -> str:
    """A table as text without colours, as wide as the terminal; where there is none, 120 characters."""
    width = get_terminal_size(fallback=(120, 25)).columns
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        console.print(TerminalTable(table))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")
