"""A table for programs: full precision, no bold, no arrows."""

from __future__ import annotations

import csv
import io
import math

from detector_bench.tables.table import Cell, Column, Table, is_missing


def to_csv(table: Table) -> str:
    """Write a table as CSV (RFC 4180, `\\n` line ends).

    Numbers are fractions, scores and counts at full precision, never percentages. Without a number the cell
    is empty, and the last column, `note`, says why. Tables of model bias scores hold a column
    `<t2i_model>_deviation` after each score: a signed fraction of the actual score. Tables with confidence
    intervals hold `<column>_ci_low` and `<column>_ci_high` after each number.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(name for column in table.columns for name in _names(column)), "note"])
    for row in table.rows:
        values = [
            value for column, cell in zip(table.columns, row.cells, strict=True) for value in _values(column, cell)
        ]
        writer.writerow([*values, "; ".join(row.notes)])
    return text.getvalue()


def _names(column: Column) -> list[str]:
    limits = [f"{column.key}_ci_low", f"{column.key}_ci_high"] if column.has_intervals else []
    return [column.key, *limits, *([column.deviation_key] if column.deviation_key else [])]


def _values(column: Column, cell: Cell) -> list[str]:
    if column.kind == "name":
        return [cell.key or cell.text]
    numbers = [cell.value]
    if column.has_intervals:
        numbers += [cell.ci_low, cell.ci_high]
    if column.deviation_key:
        numbers.append(cell.deviation)
    return [_number(number) for number in numbers]


def _number(value: float | None) -> str:
    if value is None or is_missing(value):
        return ""
    # Python's shortest text that reads back as the same number; counts without a decimal point.
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))
