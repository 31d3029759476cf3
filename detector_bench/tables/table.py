"""A finished table: text and numbers in rows and columns, before it becomes Markdown, LaTeX or anything else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from detector_bench.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

from detector_bench.vocabulary import ATTRIBUTES

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumn:
    """A column declared by its metric; one of `recall_<class>` stands for a column of every class."""

    metric: str
    """The metric whose numbers it holds, a name in `METRICS`."""
    heading: str = ""
    """Empty: the metric's name in words, or the class."""
    group: str = ""
    """A heading that it shares with its neighbours."""
    full_heading: str = ""
    """Where there is no room for the group's; empty: the heading says enough."""
    deviation: str = ""
    """The metric that stands behind the number, in parentheses, and decides which one is best."""
    decimals: int | None = None
    """Of a score; None: as the paper prints it."""
    full_shade: float = 0
    """The number at which a cell has its full colour, see `Column.full_shade`."""


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
    full_shade: float = 0
    """The number (of a column with deviations: the deviation) at which a shaded cell has its full colour, orange
    above 0 and blue below, as in the paper's Table 7; 0: the best cell is green and the worst one red, as in its
    Table 2."""

    @staticmethod
    def of(metric: str, **words: Any) -> MetricColumn:
        """Declare a column by its metric; the fields of `MetricColumn` say what else there is to declare.

        Args:
            metric: a name in `METRICS`; `recall_<class>` stands for a column of every class.
            words: `heading`, `group` and so on, see `MetricColumn`.
        """
        return MetricColumn(metric=metric, **words)

    @property
    def align(self) -> Literal["left", "right"]:
        """Left for names, and for scores followed by a deviation: so the scores stand below each other."""
        return "left" if self.kind == "name" or self.deviation_key else "right"

    @property
    def csv_names(self) -> list[str]:
        """Its columns in the CSV form: the number, the limits of its interval, the deviation."""
        limits = [f"{self.key}_ci_low", f"{self.key}_ci_high"] if self.has_intervals else []
        return [self.key, *limits, *([self.deviation_key] if self.deviation_key else [])]

    def csv_values(self, cell: Cell) -> list[str] | list[float | None]:
        """What a cell holds in these columns; None or NaN where there is no number."""
        if self.kind == "name":
            return [cell.key or cell.text]
        limits = [cell.ci_low, cell.ci_high] if self.has_intervals else []
        return [cell.value, *limits, *([cell.deviation] if self.deviation_key else [])]


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
    worst: bool = False
    """The worst value of its column; a table shows it if it `marks_worst`."""
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


class Shade(NamedTuple):
    """The colour behind a cell."""

    colour: Literal["orange", "blue", "green", "red"]
    strength: float
    """0 (white) to 1 (the full colour, light enough for black text)."""

    @property
    def hexadecimal(self) -> str:
        """Six digits, as web pages and LaTeX name colours."""
        return "".join(f"{round(255 + self.strength * (part - 255)):02X}" for part in _FULL[self.colour])


_FULL = {"orange": (245, 160, 76), "blue": (112, 168, 220), "green": (183, 225, 161), "red": (244, 176, 166)}
"""Red, green and blue, 0 to 255. Orange and blue differ for colour-blind eyes, too; green cells are bold as well.
"""


def ethics_note(attribute: str) -> str:
    """What numbers about an attribute, or about several in words, are not."""
    known = ATTRIBUTES.get(attribute)
    words = attribute.replace("_", " ") if known is None else known.words
    note = f"Perceived {words}, as seen in synthetic images; not an identity."
    return f"{note} {known.care}" if known is not None and known.care else note


@dataclass(frozen=True)
class Table:
    """A table ready to be written in any format. It shows itself in a notebook and in a Rich console."""

    name: str
    """File name without its ending, and LaTeX label."""
    caption: str
    attribute: str
    """What annotators and detectors perceived: an attribute, or several in words; empty: nothing that anybody
    perceives, such as requests."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """Notes on the table as a whole; `all_notes` adds those of the rows."""
    grouped: bool = False
    """Neighbouring rows with the same first cell belong together."""
    marks_worst: bool = False
    """Show the worst value of a column in italics, beside the best one in bold."""
    shaded: bool = False
    """Colour the cells of the HTML and LaTeX forms, as the paper does; see `Column.full_shade`."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"table {self.name}, row {row.name!r}: {len(row.cells)} cells for {len(self.columns)} columns"
                )

    @property
    def ethics_note(self) -> str:
        """What the numbers are not; every rendered table of something perceived carries it."""
        return ethics_note(self.attribute) if self.attribute else ""

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes on the table, then on rows (equal ones as one, naming all their rows), then the ethics note."""
        names_of_note: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                names_of_note.setdefault(note, []).append(row.name)
        about_rows = [f"{_listing(names)}: {note}" for note, names in names_of_note.items()]
        about_intervals = (_NO_INTERVAL,) if self._lacks_intervals else ()
        about_worst = ("Italic: worst value of the column.",) if self._shows_worst else ()
        notes = (*self.notes, *about_worst, *about_rows, *about_intervals, self.ethics_note)
        return tuple(note for note in notes if note)

    @property
    def _shows_worst(self) -> bool:
        return self.marks_worst and any(cell.worst for row in self.rows for cell in row.cells)

    @property
    def legend(self) -> tuple[str, ...]:
        """What the colours of the HTML and LaTeX forms mean; empty without any."""
        seen = {
            shade.colour
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
            if (shade := self.shade(column, cell)) is not None
        }
        meanings = {"orange": "above 0", "blue": "below 0", "green": "best", "red": "worst of the column"}
        said = [f"{colour}: {meaning}" for colour, meaning in meanings.items() if colour in seen]
        return (f"Shades: {', '.join(said)}.",) if said else ()

    def shade(self, column: Column, cell: Cell) -> Shade | None:
        """The colour behind a cell; None: it has none."""
        if not self.shaded or column.kind == "name" or is_missing(cell.value):
            return None
        if column.full_shade:
            size = cell.deviation if column.deviation_key else cell.value
            if size is None or math.isnan(size) or size == 0:
                return None
            return Shade("orange" if size > 0 else "blue", min(1.0, abs(size) / column.full_shade))
        return Shade("green", 1.0) if cell.bold else Shade("red", 1.0) if cell.worst else None

    def is_italic(self, cell: Cell) -> bool:
        """Whether the cell is to be marked as the worst of its column."""
        return self.marks_worst and cell.worst

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
        """The numbers behind the table at full precision: the columns of its CSV form.

        Fractions, scores and counts, never percentages; NaN where there is no number, and the last column, `note`,
        says why.
        """
        import pandas as pd

        names = [name for column in self.columns for name in column.csv_names]
        kinds = {column.key: "str" for column in self.columns if column.kind == "name"}
        frame = pd.DataFrame(self.csv_rows(), columns=[*names, "note"])
        return frame.astype({name: kinds.get(name, "float64") for name in names})

    def csv_rows(self) -> list[list[str | float | None]]:
        """The rows of the CSV form, the note last."""
        return [
            [
                *(
                    value
                    for column, cell in zip(self.columns, row.cells, strict=True)
                    for value in column.csv_values(cell)
                ),
                "; ".join(row.notes),
            ]
            for row in self.rows
        ]

    def with_display_names(self, names: Mapping[str, str]) -> Table:
        """The same table with other names for detectors and T2I models, for people; its CSV form keeps the plain
        ones.

        A name is replaced where it is a cell or a heading, and where it is a word in the caption or in a note.

        Args:
            names: what to write, by plain name.
        """
        if not names:
            return self
        said = partial(with_names, names=names)

        def shown(cell: Cell) -> Cell:
            if cell.value is not None or cell.text not in names:
                return cell
            return replace(cell, text=names[cell.text], key=cell.key or cell.text)

        return replace(
            self,
            caption=said(self.caption),
            columns=tuple(
                replace(
                    each, heading=said(each.heading), group=said(each.group), full_heading=said(each.full_heading)
                )
                for each in self.columns
            ),
            rows=tuple(
                Row(said(row.name), tuple(map(shown, row.cells)), tuple(map(said, row.notes))) for row in self.rows
            ),
            notes=tuple(map(said, self.notes)),
        )

    def _repr_html_(self) -> str:
        return str(_FORMS.get("html")(self))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 (as IPython calls it)
        printer.text(_FORMS.get("text")(self))

    def __rich__(self) -> object:
        return _FORMS.get("terminal")(self)


_FORMS: Registry[Callable[[Table], object]] = Registry("form of a table")
_FORMS.register("html", "detector_bench.tables.renderers:to_html")
_FORMS.register("text", "detector_bench.tables.render_terminal:to_text")
_FORMS.register("terminal", "detector_bench.tables.render_terminal:to_rich")


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Put display names where plain names stand as words: `clip`, but not `clip_prob` or `clip-like`."""
    if not names:
        return text
    return _any_of(tuple(names)).sub(lambda found: names[found[0]], text)


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names where it stands as a word, the longest first; asked for at every word of a figure."""
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w.-])(?:{longest_first})(?![\w-]|\.\w)")


def is_missing(value: float | None) -> bool:
    """Whether there is no number: None or NaN."""
    return value is None or math.isnan(value)


def printable(text: str) -> str:
    """Put a space for every line break and control character, so that no name can break a row."""
    if text.isprintable():  # nearly all are, and a report asks it of a million cells
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def _listing(names: Sequence[str], *, shown: int = 8) -> str:
    if len(names) <= shown:
        return ", ".join(names)
    return ", ".join(names[:shown]) + f" and {len(names) - shown} others"
