"""A table for GitHub, and for everything else that reads Markdown with pipes."""

from __future__ import annotations

import html
import re

from detector_bench.tables.table import Cell, Table, printable

# An underscore between letters or digits cannot begin emphasis, so that `clip_prob` stays readable in the source.
_SPECIAL = re.compile(r"[\\`*\[\]~$|]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def to_markdown(table: Table) -> str:
    """Write a table as GitHub-flavoured Markdown: caption, table, notes as a list.

    Markdown knows one header row, so there is no line of groups.
    """
    head = [escape_markdown(column.full_heading or column.heading) for column in table.columns]
    rule = [{"left": "---", "right": "---:"}[column.align] for column in table.columns]
    body = [[_cell(cell) for cell in row.cells] for row in table.rows]
    lines = [" | ".join(cells).join(("| ", " |")) for cells in (head, rule, *body)]
    notes = [f"- {escape_markdown(note)}" for note in table.all_notes]
    return "\n".join([escape_markdown(table.caption), "", *lines, "", *notes, ""])


def escape_markdown(text: str) -> str:
    """Make text mean itself inside a Markdown table, HTML included."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], html.escape(printable(text), quote=False))


def _cell(cell: Cell) -> str:
    text = cell.written(escape=escape_markdown)
    return f"**{text}**" if cell.bold else text
