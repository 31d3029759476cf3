"""A table for a paper: LaTeX with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from detector_bench.tables.layout import column_blocks, heading_lines
from detector_bench.tables.table import DASH, Cell, Column, Row, Table, group_headings, is_missing, printable

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # In LaTeX's default font encoding these are other characters.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # After the end of a row these would be read as arguments of it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\N{MINUS SIGN}": "$-$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}
_SPECIAL_PATTERN = re.compile("|".join(re.escape(character) for character in _SPECIAL))

_MINUS_IN_INTERVAL = re.compile(r"(?<=[} ])-(?=[0-9])")

_TEXT_WIDTH = 345.0
"""Points: LaTeX's own article class. Other one-column papers have up to 480, a two-column page 505."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A font size, and in points how much room characters and the gap between columns take in it."""

    command: str
    character: float
    gap: float


# Mean widths of digits, points and lower-case letters of Computer Modern, the default font, at 9 and 8 points.
_SIZES = (_Size(r"\small", character=4.45, gap=8.0), _Size(r"\footnotesize", character=4.0, gap=6.0))

_ROWS_PER_FLOAT = 40
"""As many as fit on a page with caption and notes."""

_ROWS_OF_A_HEADER = 6
"""How many rows the headings of a tabular, and its distance to the next one, take."""

_FLOATS_PER_FLUSH = 10
"""LaTeX holds a limited number of unplaced floats."""


def to_latex(table: Table, *, text_width: float = _TEXT_WIDTH) -> str:
    """Write a table as LaTeX that a paper can `\\input`; it needs the package booktabs and nothing else.

    Rows that do not fit on a page go into further floats, marked as continued; columns that do not fit beside each
    other go below each other with the row names repeated. Characters beyond LaTeX's own input encoding (Chinese
    names, say) need a Unicode engine such as LuaLaTeX.

    Args:
        table: what to write.
        text_width: how many points wide the text is, to choose the font size and where to break the columns.
    """
    size, blocks = _size_and_blocks(table, text_width=text_width)
    pieces = [
        _Piece(block, range(start, min(start + _ROWS_PER_FLOAT, len(table.rows))))
        for start in range(0, max(len(table.rows), 1), _ROWS_PER_FLOAT)
        for block in blocks
    ]
    floats = []
    packed = _packed(pieces)
    for number, together in enumerate(packed, start=1):
        tabulars = [_tabular(table, piece) for piece in together]
        last = number == len(packed)
        floats.append(_float(table, tabulars, size=size, continued=number > 1, with_notes=last))
        if number % _FLOATS_PER_FLUSH == 0 and not last:
            floats.append("\\clearpage\n")
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(floats)


def escape_latex(text: str) -> str:
    """Make text mean itself in LaTeX, inside a table too."""
    escaped = _SPECIAL_PATTERN.sub(lambda found: _SPECIAL[found[0]], printable(text))
    # Two hyphens in a row would be joined into a dash.
    return re.sub("-(?=-)", "-{}", escaped)


class _Piece(NamedTuple):
    """Columns and rows that become one tabular."""

    columns: tuple[int, ...]
    rows: range


def _packed(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Put as many pieces into each float as a page has room for."""
    floats: list[list[_Piece]] = []
    filled = 0
    for piece in pieces:
        if not floats or filled + len(piece.rows) > _ROWS_PER_FLOAT:
            floats.append([])
            filled = 0
        floats[-1].append(piece)
        filled += len(piece.rows) + _ROWS_OF_A_HEADER
    return floats


def _float(table: Table, tabulars: Sequence[str], *, size: _Size, continued: bool, with_notes: bool) -> str:
    caption = "(continued)" if continued else escape_latex(table.caption)
    same_number = "  \\addtocounter{table}{-1}\n" if continued else ""
    label = "" if continued else f"  \\label{{tab:{re.sub(r'[^0-9A-Za-z_-]', '-', table.name)}}}\n"
    notes = [f"  {escape_latex(note)}" for note in table.all_notes]
    below = (
        "\n\n  \\smallskip\n  \\begin{minipage}{\\linewidth}\n  \\footnotesize\\raggedright\n"
        + "\\par\n".join(notes)
        + "\n  \\end{minipage}\n"
        if with_notes
        else "\n"
    )
    return (
        "\\begin{table}[tbp]\n  \\centering\n"
        f"{same_number}  \\caption{{{caption}}}\n{label}"
        f"  \\medskip\n  {size.command}\n  \\setlength{{\\tabcolsep}}{{{size.gap / 2:g}pt}}\n"
        + "\n\n  \\medskip\n".join(tabulars)
        + below
        + "\\end{table}\n"
    )


def _tabular(table: Table, piece: _Piece) -> str:
    columns, rows = piece
    shown = [table.columns[index] for index in columns]
    alignment = "".join(column.align[0] for column in shown)
    lines = [f"\\begin{{tabular}}{{@{{}}{alignment}@{{}}}}", "  \\toprule"]
    lines += [f"  {line}" for line in _group_lines(shown)]
    lines += [f"  {_line([_heading(table, index) for index in columns])}", "  \\midrule"]
    for index in rows:
        opens = table.opens_group(index) or index == rows.start
        if table.grouped and opens and index > rows.start:
            lines.append("  \\addlinespace")
        lines.append(f"  {_line(_cells(table.rows[index], columns, hide_group=not opens))}")
    lines += ["  \\bottomrule", "\\end{tabular}"]
    return "\n".join(f"  {line}" for line in lines)


def _group_lines(columns: Sequence[Column]) -> list[str]:
    headings = group_headings(columns)
    if not headings:
        return []
    cells = [
        f"\\multicolumn{{{group.span}}}{{c}}{{{escape_latex(group.text)}}}"
        if group.text
        else " & " * (group.span - 1)
        for group in headings
    ]
    rules = [f"\\cmidrule(lr){{{group.start + 1}-{group.start + group.span}}}" for group in headings if group.text]
    return [_line(cells), " ".join(rules)]


def _heading(table: Table, index: int) -> str:
    lines = [escape_latex(line) for line in _heading_lines(table, index)]
    stacked = r"\\".join(lines)
    return stacked if len(lines) == 1 else f"\\shortstack[{table.columns[index].align[0]}]{{{stacked}}}"


def _heading_lines(table: Table, index: int) -> list[str]:
    column = table.columns[index]
    if column.kind == "name":
        return [column.heading]
    return heading_lines(printable(column.heading), width=table.cell_widths[index])


def _cells(row: Row, columns: Sequence[int], *, hide_group: bool) -> list[str]:
    return ["" if hide_group and index == 0 else _cell(row.cells[index]) for index in columns]


def _cell(cell: Cell) -> str:
    text = cell.written(escape=escape_latex, up=r"$\uparrow$", down=r"$\downarrow$")
    if not is_missing(cell.value) and text.startswith("-"):
        text = f"$-${text[1:]}"
    if cell.interval_text:
        text = _MINUS_IN_INTERVAL.sub("$-$", text)
    if cell.value is not None and text == DASH:
        text = "--"
    return f"\\textbf{{{text}}}" if cell.bold else text


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _size_and_blocks(table: Table, *, text_width: float) -> tuple[_Size, tuple[tuple[int, ...], ...]]:
    """The largest font in which the columns fit side by side; else the smallest, in several blocks."""
    by_size = {
        size: column_blocks(table, width_of=partial(_width_with_gap, table, size), available=text_width + size.gap)
        for size in _SIZES
    }
    size = next((size for size, blocks in by_size.items() if len(blocks) == 1), _SIZES[-1])
    return size, by_size[size]


def _width_with_gap(table: Table, size: _Size, index: int) -> float:
    heading = max(map(len, _heading_lines(table, index)))
    return size.character * max(heading, table.cell_widths[index]) + size.gap
