"""A table for a paper: LaTeX with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from detector_bench.tables.layout import column_blocks, group_headings, heading_lines
from detector_bench.tables.table import DASH, Cell, Column, Row, Table, is_missing, printable

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
"""As many as fit on a page with caption and notes; longer tables break over pages."""

_ROWS_OF_A_HEADER = 6
"""How many rows the headings of a tabular, and its distance to the next one, take."""


def to_latex(table: Table, *, text_width: float = _TEXT_WIDTH) -> str:
    """Write a table as LaTeX that a paper can `\\input`.

    It needs the package booktabs; with more than 40 rows longtable, too, which breaks it over pages (and wants a
    page of one column: `\\onecolumn` before it in a paper of two); shaded the package xcolor with the option
    table. Its first line names them. Columns that do not fit beside each other go below each other with the row
    names repeated. Characters beyond LaTeX's own input encoding (Chinese names, say) need a Unicode engine such as
    LuaLaTeX.

    Args:
        table: what to write.
        text_width: how many points wide the text is, to choose the font size and where to break the columns.
    """
    size, blocks = _size_and_blocks(table, text_width=text_width)
    packages = ["\\usepackage{booktabs}"]
    if len(table.rows) > _ROWS_PER_FLOAT:
        packages.append("\\usepackage{longtable}")
        pieces = [_long_table(table, block, first=block == blocks[0]) for block in blocks]
        body = "\n".join([*pieces, _notes(table)])
        lengths = "  \\setlength{\\LTcapwidth}{\\linewidth}\n  \\setlength{\\parindent}{0pt}\n"
        parts = [f"\\begingroup\n{_in_size(size)}{lengths}{body}\\endgroup\n"]
    else:
        packed = _packed(blocks, rows=len(table.rows))
        parts = [
            _float(table, together, size=size, continued=number > 1, with_notes=number == len(packed))
            for number, together in enumerate(packed, start=1)
        ]
    if table.shaded:
        packages.append("\\usepackage[table]{xcolor}")
    return f"% Needs {' and '.join(packages)}.\n" + "\n".join(parts)


def escape_latex(text: str) -> str:
    """Make text mean itself in LaTeX, inside a table too."""
    escaped = _SPECIAL_PATTERN.sub(lambda found: _SPECIAL[found[0]], printable(text))
    # Two hyphens in a row would be joined into a dash.
    return re.sub("-(?=-)", "-{}", escaped)


_Columns = tuple[int, ...]


def _packed(blocks: Sequence[_Columns], *, rows: int) -> list[list[_Columns]]:
    """Put as many blocks of columns into each float as a page has room for."""
    floats: list[list[_Columns]] = []
    filled = 0
    for block in blocks:
        if not floats or filled + rows > _ROWS_PER_FLOAT:
            floats.append([])
            filled = 0
        floats[-1].append(block)
        filled += rows + _ROWS_OF_A_HEADER
    return floats


def _float(table: Table, blocks: Sequence[_Columns], *, size: _Size, continued: bool, with_notes: bool) -> str:
    same_number = "  \\addtocounter{table}{-1}\n" if continued else ""
    caption = "  \\caption{(continued)}\n" if continued else f"  {_caption(table)}\n  {_label(table)}\n"
    return (
        "\\begin{table}[tbp]\n  \\centering\n"
        f"{same_number}{caption}  \\medskip\n{_in_size(size)}"
        + "\n\n  \\medskip\n".join(_tabular(table, block) for block in blocks)
        + ("\n\n" + _notes(table) if with_notes else "\n")
        + "\\end{table}\n"
    )


def _in_size(size: _Size) -> str:
    return f"  {size.command}\n  \\setlength{{\\tabcolsep}}{{{size.gap / 2:g}pt}}\n"


def _caption(table: Table) -> str:
    return f"\\caption{{{escape_latex(table.caption)}}}"


def _label(table: Table) -> str:
    return f"\\label{{tab:{re.sub(r'[^0-9A-Za-z_-]', '-', table.name)}}}"


def _notes(table: Table) -> str:
    notes = [f"  {escape_latex(note)}" for note in (*table.legend, *table.all_notes)]
    return (
        "  \\smallskip\n  \\begin{minipage}{\\linewidth}\n  \\footnotesize\\raggedright\n"
        + "\\par\n".join(notes)
        + "\n  \\end{minipage}\n"
    )


def _tabular(table: Table, columns: _Columns) -> str:
    lines = [f"\\begin{{tabular}}{{{_alignment(table, columns)}}}", *_header(table, columns)]
    for index, row in enumerate(table.rows):
        opens = table.opens_group(index)
        lines += _rule_before(table, index)
        lines.append(f"  {_line(_cells(table, row, columns, hide_group=not opens))}")
    lines += ["  \\bottomrule", "\\end{tabular}"]
    return "\n".join(f"  {line}" for line in lines)


def _long_table(table: Table, columns: _Columns, *, first: bool) -> str:
    """Some columns of all rows, over as many pages as they take; the header stands on every one of them."""
    header = _header(table, columns)
    continued = "  \\caption[]{(continued)} \\\\"
    lines = [
        # Each longtable takes a number of its own; all blocks of columns are one table.
        *([] if first else ["\\addtocounter{table}{-1}"]),
        f"\\begin{{longtable}}{{{_alignment(table, columns)}}}",
        f"  {_caption(table)}{_label(table)} \\\\" if first else continued,
        *header,
        "  \\endfirsthead",
        continued,
        *header,
        "  \\endhead",
        "  \\bottomrule",
        "  \\endfoot",
    ]
    for index, row in enumerate(table.rows):
        # A page may begin with any row, so every row bears its group's name.
        lines += [*_rule_before(table, index), f"  {_line(_cells(table, row, columns, hide_group=False))}"]
    return "\n".join(f"  {line}" for line in [*lines, "\\end{longtable}", ""])


def _alignment(table: Table, columns: _Columns) -> str:
    return f"@{{}}{''.join(table.columns[index].align[0] for index in columns)}@{{}}"


def _header(table: Table, columns: _Columns) -> list[str]:
    groups = _group_lines([table.columns[index] for index in columns])
    headings = _line([_heading(table, index) for index in columns])
    return ["  \\toprule", *(f"  {line}" for line in groups), f"  {headings}", "  \\midrule"]


def _rule_before(table: Table, index: int) -> list[str]:
    return ["  \\addlinespace"] if table.grouped and index > 0 and table.opens_group(index) else []


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


def _cells(table: Table, row: Row, columns: _Columns, *, hide_group: bool) -> list[str]:
    return [
        "" if hide_group and index == 0 else _cell(table, table.columns[index], row.cells[index])
        for index in columns
    ]


def _cell(table: Table, column: Column, cell: Cell) -> str:
    text = cell.written(escape=escape_latex, up=r"$\uparrow$", down=r"$\downarrow$")
    if not is_missing(cell.value) and text.startswith("-"):
        text = f"$-${text[1:]}"
    if cell.interval_text:
        text = _MINUS_IN_INTERVAL.sub("$-$", text)
    if cell.value is not None and text == DASH:
        text = "--"
    if cell.bold:
        text = f"\\textbf{{{text}}}"
    elif table.is_italic(cell):
        text = f"\\textit{{{text}}}"
    shade = table.shade(column, cell)
    return text if shade is None else f"\\cellcolor[HTML]{{{shade.hexadecimal}}}{text}"


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
