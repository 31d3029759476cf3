"""Checks that all lists of words and templates share; every mistake is reported at its place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from detector_bench.dataset.findings import Findings, shorten
from detector_bench.errors import Problem


class Cell(NamedTuple):
    """A text and where it stands; `row` is None in a JSON file, where `column` is the path of keys."""

    file: str
    row: int | None
    column: str
    text: str

    def problem(self, message: str, *, accepted: str, value: str | None = None) -> Problem:
        """A mistake in this cell; `value` is the bad part where the whole would say less."""
        shown = shorten(self.text if value is None else value)
        return Problem(self.file, message, self.row, self.column, shown, accepted)


def check_text(cell: Cell, findings: Findings) -> bool:
    """Report an empty text, blanks around it, and control characters; True if it is fine."""
    if not cell.text.strip():
        findings.add(cell.problem("empty text", accepted="some text"))
    elif not cell.text.isprintable():
        findings.add(cell.problem("control character", accepted="text without line breaks, tabs or NUL"))
    elif cell.text != cell.text.strip():
        findings.add(cell.problem("blanks around the text", accepted=repr(cell.text.strip())))
    else:
        return True
    return False


def report_repeats(cells: Iterable[tuple[Hashable, Cell]], findings: Findings, *, what: str) -> None:
    """Report every cell whose key an earlier one has."""
    first: dict[Hashable, Cell] = {}
    repeats = []
    for key, cell in cells:
        if key in first:
            place = f"row {first[key].row}" if first[key].row is not None else first[key].column
            repeats.append(cell.problem(f"duplicate {what}", accepted=f"each once; {place} has it"))
        first.setdefault(key, cell)
    findings.add_kind(repeats)
