"""Tables as CSV, Markdown and HTML, and the files that they are written to."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from detector_bench.atomic_files import remove, write_text
from detector_bench.tables.layout import group_headings
from detector_bench.tables.render_latex import to_latex
from detector_bench.tables.table import Cell, Column, Shade, Table, is_missing, printable

_UP = '<span title="overestimates the bias">↑</span>'
_DOWN = '<span title="underestimates the bias">↓</span>'

# An underscore between letters or digits cannot begin emphasis, so that `clip_prob` stays readable in the source.
_MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]~$|]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def to_csv(table: Table) -> str:
    """Write a table as CSV (RFC 4180, `\\n` line ends), for programs: full precision, no bold, no arrows.

    Numbers are fractions, scores and counts, never percentages. Without a number the cell is empty, and the last
    column, `note`, says why. Tables of model bias scores hold a column `<t2i_model>_deviation` after each score: a
    signed fraction of the actual score. Tables with confidence intervals hold `<column>_ci_low` and
    `<column>_ci_high` after each number.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(name for column in table.columns for name in column.csv_names), "note"])
    for row in table.csv_rows():
        writer.writerow([value if isinstance(value, str) else _csv_number(value) for value in row])
    return text.getvalue()


def _csv_number(value: float | None) -> str:
    if value is None or is_missing(value):
        return ""
    # Python's shortest text that reads back as the same number; counts without a decimal point.
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def to_markdown(table: Table) -> str:
    """Write a table as GitHub-flavoured Markdown: caption, table, notes as a list.

    Markdown knows one header row, so there is no line of groups.
    """
    head = [escaped_markdown(column.full_heading or column.heading) for column in table.columns]
    rule = [{"left": "---", "right": "---:"}[column.align] for column in table.columns]
    body = [[_markdown_cell(table, cell) for cell in row.cells] for row in table.rows]
    lines = [" | ".join(cells).join(("| ", " |")) for cells in (head, rule, *body)]
    notes = [f"- {escaped_markdown(note)}" for note in table.all_notes]
    return "\n".join([escaped_markdown(table.caption), "", *lines, "", *notes, ""])


def escaped_markdown(text: str) -> str:
    """Make text mean itself inside a Markdown table, HTML included."""
    return _MARKDOWN_SPECIAL.sub(lambda found: "\\" + found[0], html.escape(printable(text), quote=False))


def _markdown_cell(table: Table, cell: Cell) -> str:
    text = cell.written(escape=escaped_markdown)
    return f"**{text}**" if cell.bold else f"*{text}*" if table.is_italic(cell) else text


def to_html(table: Table) -> str:
    """Write a table for notebooks and web pages: an HTML `<figure>` without scripts or links; every text is
    escaped."""
    return (
        _environment()
        .get_template("table.html")
        .render(
            table=table,
            groups=group_headings(table.columns),
            caption_id=f"caption-{table.name}",
            background=lambda column, cell: _background(table, column, cell),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("detector_bench.tables"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.globals.update(zip=zip)
    environment.filters["written"] = _html_cell
    return environment


def _html_cell(cell: Cell) -> Markup:
    # The arrows are markup; everything else in a cell is escaped here, before it is declared safe.
    text = cell.written(escape=lambda part: str(escape(printable(part))), up=_UP, down=_DOWN)
    return Markup(text)  # noqa: S704


def _background(table: Table, column: Column, cell: Cell) -> str:
    """The cell's further style; black on the colour, whatever the page's own colours are."""
    shade: Shade | None = table.shade(column, cell)
    return "" if shade is None else f"; background: #{shade.hexadecimal}; color: #000000"


_FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def remove_tables(names: Iterable[str], folder: Path) -> None:
    """Remove the files of tables that `write_tables` wrote earlier."""
    for name in names:
        for ending in _FORMATS:
            remove(folder / f"{name}.{ending}")


def write_tables(tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Write `folder/<name>.{csv,md,tex}` for every table; equal tables give equal bytes.

    Each file appears whole or not at all.

    Args:
        tables: by file name without its ending, as `study_tables` gives them.
        folder: created if need be; `tables` in a study's output folder.

    Returns:
        The files written, in order.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    written = []
    for name, table in tables.items():
        for ending, render in _FORMATS.items():
            path = folder / f"{name}.{ending}"
            write_text(path, render(table))
            written.append(path)
    return written
