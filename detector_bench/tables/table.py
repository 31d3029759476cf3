"""A finished table: text and numbers in rows and columns, before it becomes Markdown, LaTeX or anything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

DASH = "-"
"""Printed where there is no number; a note below the table says why."""


_NO_INTERVAL = (
    "A number without brackets has no interval: its method gives none (McNemar's test), its resamples are all "
    "alike or too often undefined, or so few images or prompts cannot say how far it is off "
    "(docs/uncertainty.md, Where there is no interval)."
)


class Arrow(StrEnum):
    """Which way a detector's score lies from the ground truth."""

    UP = "up"
    DOWN = "down"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    key: str
    """Its name in the CSV form: a metric's name or a T2I model's name."""
    heading: str
    """Its name for people."""
    group: str = ""
    """A heading that it shares with its neighbours; empty: none."""
    full_heading: str = ""
    """Its name where there is no room for the group's; empty: `heading` says enough."""
    kind: Literal["name", "number"] = "number"
    """Names are repeated when a wide table is broken up; numbers are not."""
    deviation_key: str = ""
    """Name of the extra CSV column that holds `Cell.deviation`; empty: the column has no deviations."""
    has_intervals: bool = False
    """The CSV form has two more columns, `<key>_ci_low` and `<key>_ci_high`, after that of the value."""

    @property
    def align(self) -> Literal["left", "right"]:
        """Left for names, and for scores followed by a deviation: so the scores stand below each other."""
        return "left" if self.kind == "name" or self.deviation_key else "right"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what people read, and the number behind it at full precision."""

    text: str
    """Not escaped; rounded as the paper rounds."""
    value: float | None = None
    """A fraction, score or count, never a percentage; NaN where there is no number, None in a column of names."""
    deviation: float | None = None
    """Deviation from the ground truth as a fraction of it, signed; NaN where it is undefined, None: not shown."""
    deviation_text: str = ""
    """The deviation's size for people, without its sign."""
    arrow: Arrow = Arrow.NONE
    bold: bool = False
    """The best value of its column."""
    key: str = ""
    """In the CSV form, the name that the cell stands for where `text` is not that name itself."""
    ci_low: float | None = None
    """Lower confidence limit, in the unit of `value`; NaN where there is no interval, None: not shown."""
    ci_high: float | None = None
    interval_text: str = ""
    """The interval for people, such as `[88.2, 94.0]`; empty: not shown."""

    def written(self, *, escape: Callable[[str], str] = str, up: str = "↑", down: str = "↓") -> str:
        """Put text, interval, deviation and arrow together: `0.686 [0.67, 0.70] (8.78 % ↓)`; boldness is the
        caller's.

        Args:
            escape: makes text safe for the target format.
            up: the arrow for an overestimate, in the target format.
            down: the arrow for an underestimate, in the target format.
        """
        text = escape(f"{self.text} {self.interval_text}" if self.interval_text else self.text)
        if not self.deviation_text:
            return text
        arrow = {Arrow.UP: f" {up}", Arrow.DOWN: f" {down}", Arrow.NONE: ""}[self.arrow]
        return f"{text} ({escape(self.deviation_text)}{arrow})"


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and what has to be said about it."""

    name: str
    """How notes speak of the row."""
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    """Why a cell is a dash, or what a number leaves out; without the row's name."""


def ethics_note(attribute: str) -> str:
    """What numbers about an attribute, or about several in words, are not."""
    return f"Perceived {attribute.replace('_', ' ')}, as seen in synthetic images; not an identity."


@dataclass(frozen=True)
class Table:
    """A table ready to be written in any format. It shows itself in a notebook and in a Rich console."""

    name: str
    """File name without its ending, and LaTeX label."""
    caption: str
    attribute: str
    """What annotators and detectors perceived: an attribute, or several in words."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """Notes on the table as a whole; `all_notes` adds those of the rows."""
    grouped: bool = False
    """Neighbouring rows with the same first cell belong together."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"table {self.name}, row {row.name!r}: {len(row.cells)} cells for {len(self.columns)} columns"
                )

    @property
    def ethics_note(self) -> str:
        """What the numbers are not; every rendered table carries it."""
        return ethics_note(self.attribute)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes on the table, then on rows (equal ones as one, naming all their rows), then the ethics note."""
        names_of_note: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                names_of_note.setdefault(note, []).append(row.name)
        about_rows = [f"{_listing(names)}: {note}" for note, names in names_of_note.items()]
        about_intervals = (_NO_INTERVAL,) if self._lacks_intervals else ()
        return (*self.notes, *about_rows, *about_intervals, self.ethics_note)

    @property
    def _lacks_intervals(self) -> bool:
        """Whether some numbers have an interval, and others have none."""
        shown = [
            math.isnan(cell.ci_low)
            for row in self.rows
            for cell in row.cells
            if cell.ci_low is not None and cell.value is not None and not math.isnan(cell.value)
        ]
        return any(shown) and not all(shown)

    @cached_property
    def cell_widths(self) -> tuple[int, ...]:
        """Length of the longest text in each column, its heading left out; 0 in a table without rows."""
        texts = [[len(printable(cell.written())) for cell in row.cells] for row in self.rows]
        return tuple(max(column) for column in zip(*texts, strict=True)) or (0,) * len(self.columns)

    def opens_group(self, index: int) -> bool:
        """Whether the row begins a new group of rows; always true in a table without groups."""
        if not self.grouped or index == 0:
            return True
        return self.rows[index].cells[0].text != self.rows[index - 1].cells[0].text

    def to_pandas(self) -> pd.DataFrame:
        """The numbers behind the table: the columns of its CSV form, at full precision.

        Fractions, scores and counts, never percentages; NaN where there is no number, and the last column, `note`,
        says why.
        """
        import io

        import pandas as pd

        from detector_bench.tables.render_csv import to_csv

        words = [column.key for column in self.columns if column.kind == "name"] + ["note"]
        text = to_csv(self)
        header = pd.read_csv(io.StringIO(text), nrows=0).columns
        # A T2I model may be called "null" or "NA".
        return pd.read_csv(
            io.StringIO(text),
            dtype=dict.fromkeys(words, "str"),
            keep_default_na=False,
            na_values={name: [""] for name in header if name not in words},
            float_precision="round_trip",
        )

    def _repr_html_(self) -> str:
        from detector_bench.tables.render_html import to_html

        return to_html(self)

    def __rich__(self) -> object:
        from detector_bench.tables.render_terminal import to_rich

        return to_rich(self)


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of the upper header row: `span` neighbouring columns share it. Empty text: none of them do."""

    text: str
    start: int
    span: int


def group_headings(columns: Sequence[Column]) -> tuple[Heading, ...]:
    """The upper header row of a table; empty where no column has a group."""
    if not any(column.group for column in columns):
        return ()
    headings: list[Heading] = []
    for index, column in enumerate(columns):
        if headings and headings[-1].text == column.group:
            headings[-1] = Heading(column.group, headings[-1].start, headings[-1].span + 1)
        else:
            headings.append(Heading(column.group, index, 1))
    return tuple(headings)


def is_missing(value: float | None) -> bool:
    """Whether there is no number: None or NaN."""
    return value is None or math.isnan(value)


def printable(text: str) -> str:
    """Put a space for every line break and control character, so that no name can break a row."""
    return "".join(character if character.isprintable() else " " for character in text)


def _listing(names: Sequence[str], *, shown: int = 8) -> str:
    if len(names) <= shown:
        return ", ".join(names)
    return ", ".join(names[:shown]) + f" and {len(names) - shown} others"
