"""A table for notebooks and web pages."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from detector_bench.tables.table import Cell, Table, group_headings, printable

_UP = '<span title="overestimates the bias">↑</span>'
_DOWN = '<span title="underestimates the bias">↓</span>'


def to_html(table: Table) -> str:
    """Write a table as an HTML `<figure>` without scripts or links; every text is escaped."""
    return (
        _environment()
        .get_template("table.html")
        .render(table=table, groups=group_headings(table.columns), caption_id=f"caption-{table.name}")
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
    environment.filters["written"] = _written
    return environment


def _written(cell: Cell) -> Markup:
    # The arrows are markup; everything else in a cell is escaped here, before it is declared safe.
    text = cell.written(escape=lambda part: str(escape(printable(part))), up=_UP, down=_DOWN)
    return Markup(text)  # noqa: S704
