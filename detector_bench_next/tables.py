"""Tables for papers and people, made of finished rows alone: CSV, Markdown, LaTeX, HTML, terminal.

`declare` makes a table of metrics: a row for each detector, T2I model or prompt, a column for each metric.
`register("table", NAME, function, about=...)` adds a function (results, attribute, **choice) -> Table | None for
what no declaration can say. Ours are declared in `built_in/tables.yaml`. `of` makes tables by name. A detector
that could not run on a T2I model has a dash there, the best of a column is bold, notes say what is left out.
Fractions are in per cent; CSV holds them as they are.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, partial
from itertools import groupby, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from detector_bench_next import registry
from detector_bench_next.attributes import ALL, GROUND_TRUTH, LOW_QUALITY, OTHERS, Attribute
from detector_bench_next.cells import GRID
from detector_bench_next.dataset import ImageSet
from detector_bench_next.errors import ConfigError, nearest_hint
from detector_bench_next.evaluate import DETECTOR_ONLY, FILTERED, HEADLINES, NO_ANSWER, Settings, told_below_chance
from detector_bench_next.files import read_yaml, write_text
from detector_bench_next.inference import inference
from detector_bench_next.metrics import Metric, could_not_run, declared, fact, withheld
from detector_bench_next.registry import register
from detector_bench_next.results import Results, csv_text

DASH = "-"
_DECIMALS = {"fraction": 2, "score": 3, "count": 0, "measurement": 2}
_MANY_ROWS, _MANY_COLUMNS, _MOST_NAMES = 40, 9, 8
_HERE = Path(__file__).parent


class Col(NamedTuple):
    """A column: of a declared table its metric, of a finished one its name in the CSV form."""

    metric: str
    """`recall_<class>` stands for a column of every class, `label_share_<label>` for one of every label."""
    heading: str = ""
    """Empty: the class, or the metric in words."""
    group: str = ""
    """A heading that it shares with its neighbours."""
    deviation: str = ""
    """Metric that stands behind the number in parentheses and decides which one is best."""
    decimals: int | None = None
    interval: bool = False
    """Show confidence intervals."""
    full: str = ""
    """Heading where there is one row of headings alone."""


class Cell(NamedTuple):
    """What people read, and the number behind it."""

    text: str
    value: float | None = None
    """Fraction, score or count; NaN: there is no number; None: a name."""
    limits: tuple[float, float] | None = None
    deviation: float | None = None
    bold: bool = False
    key: str = ""
    """Name in the CSV form where it is another."""

    def written(self, escape: Callable[[str], str] = str, up: str = "↑", down: str = "↓") -> str:
        """The text with its deviation: `0.686 (8.78 % ↓)`."""
        if self.deviation is None or self.value is None or math.isnan(self.value):
            return escape(self.text)
        size = DASH if math.isnan(self.deviation) else fixed(100 * abs(self.deviation), 2) + " %"
        arrow = f" {up}" if self.deviation > 0 else f" {down}" if self.deviation < 0 else ""
        return f"{escape(self.text)} ({escape(size)}{arrow})"


def fixed(value: float, decimals: int) -> str:
    """A number with fixed decimals, ties away from zero as papers print them; minus zero loses its sign."""
    if math.isnan(value):
        return DASH
    step = Decimal(1).scaleb(-decimals)
    text = f"{Decimal(f'{value:.12g}').quantize(step, ROUND_HALF_UP):,f}"
    text = text if decimals == 0 else text.replace(",", "")
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def number_cell(
    value: float, kind: str, decimals: int | None = None, limits: tuple[float, float] | None = None
) -> Cell:
    """A number as its kind is printed; per cent have 2 decimals, beside an interval 1."""
    factor, digits = (100 if kind == "fraction" else 1), _DECIMALS[kind] if decimals is None else decimals
    digits = 1 if limits is not None and kind == "fraction" else digits
    text = fixed(factor * value, digits)
    if limits is not None and not np.isnan([value, *limits]).any():
        text += f" [{', '.join(fixed(factor * x, digits) for x in limits)}]"
    return Cell(text, value, limits)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other names for people; whole words alone, so that `clip` leaves `clip_prob` as it is."""
    longest = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.+-])({longest})(?![\w+-])", lambda found: names[found[1]], text)


@dataclass(frozen=True)
class Table:
    """A finished table; it shows itself in a notebook and in a Rich console."""

    caption: str
    columns: list[Col]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    name: str = ""
    """File name without its ending, and LaTeX label."""
    names: int = 1
    """Number of the first columns, those that hold names."""
    of_rows: list[list[str]] = field(default_factory=list)
    """Notes on each row; the CSV form has them in its last column."""

    def csv(self) -> str:
        """As CSV: full precision, fractions never in per cent; an empty cell where there is no number."""
        text, frame = io.StringIO(), self.to_pandas()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(frame.columns)
        for row in frame.itertuples(index=False, name=None):
            writer.writerow([x if isinstance(x, str) else _plain(x) for x in row])
        return text.getvalue()

    def to_pandas(self) -> pd.DataFrame:
        """The numbers behind the table; the last column says why one is missing."""
        columns: dict[str, list[Any]] = {}
        for i, c in enumerate(self.columns):
            cells, none = [row[i] for row in self.rows], math.nan
            if i < self.names:
                columns[c.metric] = [cell.key or cell.text for cell in cells]
                continue
            columns[c.metric] = [x.key or x.text if x.value is None else x.value for x in cells]
            for side, end in enumerate(("low", "high") if c.interval else ()):
                columns[f"{c.metric}_ci_{end}"] = [x.limits[side] if x.limits else none for x in cells]
            if c.deviation:
                columns[f"{c.metric}_deviation"] = [none if x.deviation is None else x.deviation for x in cells]
        return pd.DataFrame({**columns, "note": ["; ".join(notes) for notes in self._of_rows()]})

    def _of_rows(self) -> list[list[str]]:
        return self.of_rows or [[] for _ in self.rows]

    def all_notes(self) -> list[str]:
        """Notes on rows (equal ones once, with all their rows), then on the table."""
        rows: dict[str, list[str]] = {}
        for cells, notes in zip(self.rows, self._of_rows(), strict=True):
            for note in notes:
                rows.setdefault(note, []).append(" on ".join(c.text for c in reversed(cells[: self.names])))
        return [*(f"{_listed(names)}: {note}" for note, names in rows.items()), *self.notes]

    def md(self) -> str:
        """As GitHub-flavoured Markdown."""
        head = [escape_markdown(c.full or c.heading) for c in self.columns]
        rule = ["---" if self.left(i) else "---:" for i in range(len(self.columns))]
        body = [[_marked(cell, cell.written(escape_markdown), "**{}**") for cell in row] for row in self.rows]
        lines = ["| " + " | ".join(cells) + " |" for cells in (head, rule, *body)]
        notes = [f"- {escape_markdown(note)}" for note in self.all_notes()]
        return "\n".join([escape_markdown(self.caption), "", *lines, "", *notes, ""])

    def html(self) -> str:
        """As an HTML figure without scripts or links."""
        return self._templated("table.html")

    _repr_html_ = html

    def tex(self) -> str:
        """As LaTeX for `\\input`: booktabs; longtable beyond 40 rows; `table*` over 9 columns."""
        return self._templated("table.tex")

    def _templated(self, name: str) -> str:
        groups = [(text, len(list(same))) for text, same in groupby(c.group for c in self.columns)]
        ends = np.cumsum([n for _, n in groups]).tolist()
        facts = {
            "grouped": any(text for text, _ in groups),
            "rules": [(end - n + 1, end) for (text, n), end in zip(groups, ends, strict=True) if text],
            "align": "".join("l" if self.left(i) else "r" for i in range(len(self.columns))),
            "label": re.sub(r"[^0-9A-Za-z_-]", "-", self.name),
            "long": len(self.rows) > _MANY_ROWS,
            "star": "*" if len(self.columns) > _MANY_COLUMNS else "",
        }
        text: str = _environment().get_template(name).render(table=self, groups=groups, **facts)
        return text.strip() + "\n"

    def rich(self) -> Table:
        """For a Rich console: as many blocks of columns below each other as its width asks for."""
        return self

    def __rich_console__(self, _: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text(self.caption + "\n", style="bold")
        for line in self._lines(options.max_width):
            yield Text.assemble(*((text, "bold" if bold else "") for text, bold in line), no_wrap=True)
        yield from (Text(f"  {note}", style="dim") for note in self.all_notes())

    def plain(self, width: int = 120) -> str:
        """As plain text of some width."""
        lines = ["".join(text for text, _ in line).rstrip() for line in self._lines(width)]
        notes = [f"  {line}" for note in self.all_notes() for line in textwrap.wrap(note, width - 2)]
        return "\n".join([*textwrap.wrap(self.caption, width), "", *lines, *notes])

    def _lines(self, width: int) -> Iterator[list[tuple[str, bool]]]:
        """Lines in parts that are bold or not; every block of columns begins with the names."""
        columns: list[list[tuple[str, bool]]] = []
        for i, c in enumerate(self.columns):
            most = max(8, width // (2 * self.names)) if i < self.names else width
            texts = [row[i].written() for row in self.rows]
            texts = [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
            head = heading_lines(c.full or c.heading, max(map(len, texts), default=1))
            size = max(map(len, (*head, *texts)))
            body = [(text, row[i].bold) for text, row in zip(texts, self.rows, strict=True)]
            padded = [*((line, True) for line in [*[""] * (5 - len(head)), *head][-5:]), *body]
            columns.append([(f"{t:<{size}}  " if self.left(i) else f"{t:>{size}}  ", b) for t, b in padded])
        sizes = [len(column[0][0]) for column in columns]
        blocks: list[list[int]] = [[]]
        for i in range(self.names, len(columns)):
            if blocks[-1] and sum(sizes[j] for j in (*range(self.names), *blocks[-1], i)) > width + 2:
                blocks.append([])
            blocks[-1].append(i)
        for block in blocks:
            whole = [columns[i] for i in (*range(self.names), *block)]
            lines = [list(line) for line in zip(*whole, strict=True)]
            yield from (line for line in lines if any(text.strip() for text, _ in line))
            yield [("", False)]

    def left(self, i: int) -> bool:
        """Is a column set to the left? Names, and scores followed by a deviation, which stand below each other."""
        return i < self.names or bool(self.columns[i].deviation)

    def with_names(self, names: Mapping[str, str]) -> Table:
        """The same with other names for people, whole words alone; the CSV form keeps the plain ones."""
        if not names:
            return self
        said = partial(renamed, names=names)

        def shown(cell: Cell) -> Cell:
            return cell._replace(text=names.get(cell.text, cell.text), key=cell.key or cell.text)

        return replace(
            self,
            caption=said(self.caption),
            columns=[
                c._replace(heading=said(c.heading), group=said(c.group), full=said(c.full)) for c in self.columns
            ],
            rows=[[shown(cell) if cell.value is None else cell for cell in row] for row in self.rows],
            notes=[said(note) for note in self.notes],
            of_rows=[[said(note) for note in notes] for notes in self.of_rows],
        )


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    escaped = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        comment_start_string="((#",  # {# is LaTeX
        comment_end_string="#))",
    )
    escaped.filters |= {"tex": escape_latex, "texcell": _latex_cell}
    return escaped


def _plain(value: Any) -> str:
    """Shortest text that reads back as the same number; whole ones without a point; NaN is empty."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def _marked(cell: Cell, text: str, bold: str) -> str:
    return bold.format(text) if cell.bold else text


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} others" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def heading_lines(heading: str, width: int) -> list[str]:
    """A heading broken after blanks, hyphens, underscores and slashes, so that it fits above narrow numbers."""
    lines = [""]
    for part in re.findall(r"[^-_/ ]*[-_/ ]*", heading):
        if lines[-1] and len((lines[-1] + part).rstrip()) > max(width, 8):
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines if line.strip()] or [""]


# An underscore between letters or digits cannot begin emphasis, so `clip_prob` stays readable in the source.
_MARKDOWN = re.compile(r"[\\`*\[\]~$|]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_LATEX = {c: f"\\{c}" for c in "{}$&#%_"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # other letters by default
_LATEX |= {"[": "{[}", "]": "{]}", "*": "{*}"}  # after the end of a row these would be read as its arguments
_LATEX |= {"\N{MINUS SIGN}": "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}


def escape_markdown(text: str) -> str:
    """Text that means itself inside a Markdown table, HTML included."""
    return _MARKDOWN.sub(lambda found: "\\" + found[0], html.escape(" ".join(text.split("\n")), quote=False))


def escape_latex(text: str) -> str:
    """Text that means itself in LaTeX; two hyphens in a row would be joined."""
    escaped = re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)
    return re.sub("-(?=-)", "-{}", escaped)


def _latex_cell(cell: Cell) -> str:
    text = cell.written(escape_latex, r"$\uparrow$", r"$\downarrow$")
    if cell.value is not None:
        text = "--" if text == DASH else re.sub(r"(?<![0-9.])-(?=[0-9])", "$-$", text)
    return _marked(cell, text, "\\textbf{{{}}}")


# ---------------------------------------------------------------- words


def care(attribute: Attribute) -> str:
    """What the numbers are not; every table and caption ends with it."""
    return f"Perceived {attribute.words}, as seen in synthetic images; not an identity. {attribute.care}".strip()


def table_name(results: Results, name: str, attribute: Attribute) -> str:
    """Name of an attribute's table: of the study's first one plain, of the others with `_ATTRIBUTE`."""
    return name if attribute.name == next(iter(results.attributes)) else f"{name}_{attribute.name}"


def known_fact(metric: str) -> Metric:
    """A metric's facts; of one that only its paper knows, those of a score without a direction."""
    with suppress(ConfigError):
        return fact(metric)
    return Metric(metric, lambda: None, "images", kind="fraction" if metric.endswith("_deviation") else "score")


def in_words(name: str, own: Metric | None = None) -> str:
    """A name for people: `filter_rate` becomes Filter rate."""
    if own is not None and own.column and "<" not in own.name:
        return own.column
    words = "low-quality" if name == LOW_QUALITY else name.replace("_", " ").replace("t2i", "T2I")
    return words[:1].upper() + words[1:]


def lower(words: str) -> str:
    """Words inside a sentence; names of groups of people keep their capitals."""
    named = any(part[:1].isupper() for part in words.split()[1:]) or words == "F1"
    return words if named else words[:1].lower() + words[1:]


def label_words(attribute: Attribute, label: str) -> str:
    """A label, answer or reason for people; a class by its attribute's text."""
    texts = {c.name: c.text for c in (*attribute.classes, *attribute.reasons)} | {NO_ANSWER: "No answer"}
    return texts.get(label) or in_words(label)


# ---------------------------------------------------------------- declared tables

Columns = Sequence[Col] | Callable[[Results, Attribute], Sequence[Col]]
_NAMES = {
    "detector": [Col("detector", "Detector")],
    "rater": [Col("detector", "Detector")],
    "t2i_model": [Col("t2i_model", "T2I model")],
    "prompt": [Col("category", "Category"), Col("word", "Word")],
}
_NO_CONTEST = "so it does not compete for the best value"
_DENOMINATORS = {
    "detector": "the images that the detector keeps",
    "human": "the images that people call clear",
    "images": "all images of the prompt, and so is the actual one",
}


@dataclass(frozen=True)
class Declared:
    """A table of metrics; called with results and an attribute's name it makes the table."""

    name: str
    """File name without its ending: letters, digits and underscores."""
    caption: str
    """`{attribute}`, `{n_clear}` and `{denominator}` stand for words of the study."""
    columns: Columns
    """One for each metric, or a function of results and attribute."""
    rows: str
    """detector, rater (the labels, too), t2i_model, prompt; several with blanks between, the outermost first."""
    across: str = ""
    """t2i_model or category: the columns are repeated for each."""
    total: bool = False
    """A last row, or last columns, for all together where there are several."""
    best: bool = False
    """The best of a column is bold, ties at 12 digits included, among detectors that ran on all of it."""
    needs_labels: bool = True
    """Left out where no image has a label."""
    when: Callable[[Results, Attribute], bool] | None = None
    """Does a study have this table?"""
    finish: Callable[[Table, Results, Attribute], Table | None] | None = None
    """Changes the finished table."""
    variant: str = ""
    """Variant of the metric table's rows."""

    def __call__(self, results: Results, attribute: str, **choice: str) -> Table | None:
        """Make the table of one attribute; None: it has none."""
        own = results.attributes[attribute]
        if self.needs_labels and not len(results.cells(attribute).labelled().n):
            return None
        if self.when is not None and not self.when(results, own):
            return None
        table = _Building(self, results, own, choice).table()
        return table if self.finish is None else self.finish(table, results, own)


def declare(name: str, caption: str, columns: Columns, rows: str, **facts: Any) -> None:
    """Add a table of metrics to every study's; the arguments are the fields of `Declared`.

    Raises:
        ConfigError: a name that is taken, or words that are none.
    """
    own = Declared(name, caption, columns, rows, **facts)
    wrong = next((word for word in rows.split() if word not in _NAMES), None)
    if wrong or own.across not in ("", "t2i_model", "category") or not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        accepted = f"rows {', '.join(_NAMES)}; across t2i_model, category; a name of letters, digits, _"
        raise ConfigError(f"table {name!r}: {wrong or own.across or name!r}; accepted: {accepted}")
    register("table", name, own, about=caption.partition(". ")[0].removesuffix("."))


class _Shown(NamedTuple):
    """A finished column, and where its numbers are found."""

    col: Col
    metric: str
    fact: Metric
    place: dict[str, str]
    where: str


class _Number(NamedTuple):
    """A number at its place; NaN where there is none."""

    row: Mapping[str, Any]
    """Row of the metric table; empty: withheld, or there is none."""
    away: float
    """Its deviation."""
    failed: bool
    """Its detector could not run on some T2I model of the place."""
    withheld: bool

    @property
    def value(self) -> float:
        return float(self.row.get("value", math.nan))


class _Building:
    """A declared table on its way."""

    def __init__(
        self, declared: Declared, results: Results, attribute: Attribute, choice: Mapping[str, str]
    ) -> None:
        self.d, self.results, self.attribute = declared, results, attribute
        cells, chosen = results.cells(attribute.name), {key: [value] for key, value in choice.items() if value}
        self.pairs = cells.pairs
        self.detectors = [x for x in cells.raters[: cells.detectors] if x in chosen.get("detector", [x])]
        self.every = list(dict.fromkeys(self.pairs["t2i_model"].astype("str")))
        self.models = [x for x in self.every if x in chosen.get("t2i_model", [x])]
        there = set(self.pairs["category"].astype("str"))
        self.categories = [x for x in self.pairs["category"].astype("category").cat.categories if x in there]
        failed = could_not_run(cells, float(results.settings.get("max_error_share", 0.1)))
        self.failed = dict(zip(cells.raters, failed, strict=True))

    def table(self) -> Table:
        """The table before `finish`."""
        d, places, shown = self.d, list(self._places()), list(self._columns())
        found = [[self._number(s, place) for s in shown] for place in places]
        best = [self._best(s, places, column) for s, column in zip(shown, zip(*found, strict=True), strict=False)]
        rows, of_rows = [], []
        for r, (place, own) in enumerate(zip(places, found, strict=True)):
            cells = [
                self._cell(s, x, place)._replace(bold=r in b) for s, x, b in zip(shown, own, best, strict=True)
            ]
            rows.append([*self._name_cells(place), *cells])
            of_rows.append(list(self._notes(place, shown, own)))
        n_clear = str(self.results.settings.get("n_clear", "detector"))
        caption = d.caption.format(
            attribute=self.attribute.words, n_clear=n_clear, denominator=_DENOMINATORS[n_clear]
        )
        if any(s.col.interval for s in shown):
            caption += f" In brackets: {100 * self.results.settings.get('level', 0.95):g} % intervals."
        names = [c for word in d.rows.split() for c in _NAMES[word]]
        notes = [*(self._labelled() if d.needs_labels else []), care(self.attribute)]
        name = table_name(self.results, d.name, self.attribute)
        return Table(caption, [*names, *(s.col for s in shown)], rows, notes, name, len(names), of_rows)

    def _places(self) -> Iterator[dict[str, str]]:
        """Words of each row."""
        words, levels = self.d.rows.split(), list[list[dict[str, str]]]()
        for word in words:
            if word == "prompt":
                own = self.pairs.drop_duplicates("prompt_id").astype("str")
                own = own if "word" in own else own.assign(word="")
                own = own.sort_values("category", key=lambda c: c.map(self.categories.index), kind="stable")
                rows = own[["category", "prompt_id", "word"]].itertuples(index=False, name=None)
                levels.append([{"category": c, "prompt_id": p, "word": w} for c, p, w in rows])
            elif word == "t2i_model":
                total = self.d.total and not self.d.across and word == words[-1] and len(self.models) > 1
                levels.append([{"t2i_model": m} for m in [*self.models, *([ALL] if total else [])]])
            else:
                labels = [GROUND_TRUTH] if word == "rater" else []
                levels.append([{"detector": x} for x in [*labels, *self.detectors]])
        for parts in product(*levels):
            yield {key: value for part in parts for key, value in part.items()}

    def _columns(self) -> Iterator[_Shown]:
        said = self.d.columns(self.results, self.attribute) if callable(self.d.columns) else self.d.columns
        classes = list(self.attribute.class_names)
        labels = [*classes, LOW_QUALITY, *([] if self.d.variant == DETECTOR_ONLY else [OTHERS])]
        of = {"<class>": classes, "<label>": labels}
        parts = [(c, word) for c in said for word in of.get(c.metric[c.metric.find("<") :], [""])]
        values = {"": [""], "t2i_model": self.models, "category": self.categories}[self.d.across]
        for value in [*values, *([ALL] if self.d.across and self.d.total and len(values) > 1 else [])]:
            for c, word in parts:
                yield self._column(c, word, value, alone=len(parts) == 1)

    def _column(self, said: Col, word: str, value: str, *, alone: bool) -> _Shown:
        own, metric = known_fact(said.metric), re.sub("<(class|label)>", word, said.metric)
        stem, label = in_words(said.metric.partition("_<")[0], own), label_words(self.attribute, word)
        unit = {"fraction": " (%)", "measurement": f" ({getattr(self.attribute.unit, 'name', '')})"}.get(
            own.kind, ""
        )
        heading = said.heading or label or (stem if said.group else stem + unit)
        full = said.full or (f"{stem} {lower(label)}" if "<class>" in said.metric else heading)
        col, where = said._replace(metric=metric, heading=heading, full=full), "All" if value == ALL else value
        if value and alone:
            col = col._replace(metric=value, heading=where, full=where)
        elif value:
            col = col._replace(metric=f"{value}_{metric}", group=where, full=f"{where}, {lower(full)}")
        return _Shown(col, metric, own, {self.d.across: value} if value else {}, where)

    def _number(self, shown: _Shown, place: Mapping[str, str]) -> _Number:
        at = {k: v for k, v in {**place, **shown.place}.items() if k != "word"}
        failed, said = self._failed(at), {"attribute": self.attribute.name, "variant": self.d.variant}
        if withheld(shown.fact, failed):
            return _Number({}, math.nan, failed=True, withheld=True)
        away = self.results.row(shown.col.deviation, **said, **at) if shown.col.deviation else None
        row = self.results.row(shown.metric, **said, **at) or {}
        return _Number(row, float((away or {}).get("value", math.nan)), failed=bool(failed.any()), withheld=False)

    def _failed(self, at: Mapping[str, str]) -> Any:
        """T2I models of a place on which its detector could not run."""
        failed = self.failed.get(at.get("detector", GROUND_TRUTH), np.zeros(len(self.every), np.bool_))
        model = at.get("t2i_model", ALL)
        return failed if model == ALL else failed[[self.every.index(model)]]

    def _cell(self, shown: _Shown, x: _Number, place: Mapping[str, str]) -> Cell:
        limits = None
        if shown.col.interval:
            low, high = (float(x.row.get(end, math.nan)) for end in ("ci_low", "ci_high"))
            limits = (max(low, shown.fact.lowest), min(high, shown.fact.highest))
        cell = number_cell(x.value, shown.fact.kind, shown.col.decimals, limits)
        compared = shown.col.deviation and place.get("detector") != GROUND_TRUTH
        return cell._replace(deviation=x.away if compared else None)

    def _best(self, shown: _Shown, places: Sequence[Mapping[str, str]], column: Sequence[_Number]) -> set[int]:
        """Rows with the best number of a column, among detectors of one block that ran on all of it."""
        better = "zero" if shown.col.deviation else shown.fact.better
        blocks: dict[str, dict[int, float]] = {}
        for r, (place, x) in enumerate(zip(places, column, strict=True)):
            value = x.away if shown.col.deviation else x.value
            if place.get("detector", GROUND_TRUTH) != GROUND_TRUTH and not x.failed and not math.isnan(value):
                loss = {"higher": -value, "zero": abs(value)}.get(better, value)
                blocks.setdefault(place.get("t2i_model", ""), {})[r] = float(f"{loss:.12g}")
        contests = [own for own in blocks.values() if len(own) > 1 and self.d.best and better != "none"]
        return {r for own in contests for r, loss in own.items() if loss == min(own.values())}

    def _name_cells(self, place: Mapping[str, str]) -> list[Cell]:
        found = []
        for word in self.d.rows.split():
            if word == "prompt":
                found += [Cell(place["category"]), Cell(place["word"] or place["prompt_id"])]
            else:
                key = place["t2i_model" if word == "t2i_model" else "detector"]
                found.append(Cell({ALL: "Total", GROUND_TRUTH: "Ground truth"}.get(key, key), key=key))
        return found

    def _images(self, metric: str, **place: str) -> int:
        row = self.results.row(metric, attribute=self.attribute.name, **place)
        return int(row["value"]) if row else 0

    def _labelled(self) -> list[str]:
        """Over how many images a comparison with people is, where not all have a label."""

        def said(model: str) -> str:
            labelled = self._images("images", t2i_model=model)
            return f"{labelled:,} of {labelled + self._images('images_unlabelled', t2i_model=model):,}"

        if not self._images("images_unlabelled"):
            return []
        by = ", ".join(f"{m} {said(m)}" for m in self.every) if 1 < len(self.every) <= 6 else ""
        return [
            f"Over the {said(ALL)} images that have a label of {self.attribute.words}{f' ({by})' if by else ''}."
        ]

    def _notes(self, place: Mapping[str, str], shown: Sequence[_Shown], row: Sequence[_Number]) -> Iterator[str]:
        """Why a number is missing, and what the others leave out."""
        detector, model = place.get("detector", GROUND_TRUTH), place.get("t2i_model", ALL)
        failed, silent = [], []
        for name in self.every if model == ALL else [model]:
            at = {"detector": detector, "t2i_model": name, "variant": self.d.variant}
            lost = self._images("images_error", **at) + self._images("images_not_run", **at)
            many = f"{lost:,} of {self._images('images', **at):,}"
            if detector != GROUND_TRUTH and self._failed(at).any():
                failed.append(name)
                yield f"no number on {name}: no answer for {many} images"
            elif detector != GROUND_TRUTH and lost:
                silent.append(f"{many} ({name})" if model == ALL and len(self.every) > 1 else many)
        if silent:
            yield f"images left out, no answer: {', '.join(silent)}"
        if failed and model == ALL and self.d.across != "t2i_model" and any(x.row for x in row):
            yield f"ran on fewer images of {', '.join(failed)}, {_NO_CONTEST}"
        left: dict[str, list[str]] = {}
        for s, x in zip(shown, row, strict=True):
            where = f" ({s.where})" if s.where else ""
            told = s.fact.left_out if s.fact.over in ("prompts", "values") else ""
            if not x.row and not x.withheld:
                left.setdefault("no image", []).append(s.where or s.col.full)
            elif x.row and math.isnan(x.value):
                left.setdefault(told or "nothing to count", []).append(f"all ({s.where or lower(s.col.full)})")
            elif x.row and told and x.row["n_left_out"]:
                many = f"{int(x.row['n_left_out']):,} of {int(x.row['n'] + x.row['n_left_out']):,}{where}"
                left[told] = list(dict.fromkeys([*left.get(told, []), many]))
            elif x.row and s.col.deviation and detector != GROUND_TRUTH and math.isnan(x.away):
                left.setdefault("no deviation from a ground truth of 0 or without a score", []).append(s.where)
        yield from (f"{why}: {', '.join(parts)}" for why, parts in left.items())


# ---------------------------------------------------------------- what tables.yaml names


def filter_and_class(_: Results, attribute: Attribute) -> list[Col]:
    """Lyu 2025's Table 3, recall of each class, and own metrics that ask for a column."""
    balanced = [Col("balanced_accuracy", "Balanced", "Accuracy (%)", full="Balanced accuracy")]
    return [
        *(Col(name, group="Filtering (%)") for name in ("precision", "recall", "f1", "filter_rate")),
        Col("recall_<class>", group="Recall (%)"),
        Col("accuracy_<class>", group="Accuracy (%)"),
        Col("accuracy", "Overall", "Accuracy (%)", full="Accuracy"),
        *(balanced if len(attribute.classes) > 2 else []),
        *(Col(m.name) for m in declared() if m.column and not m.ours),
    ]


def of_labels(results: Results, attribute: Attribute) -> list[Col]:
    """Shares of labels; images without one are counted where there are any."""
    row = results.row("images_unlabelled", attribute=attribute.name)
    images = [Col("images", "Labelled", "Images"), Col("images_unlabelled", "Unlabelled", "Images")]
    return [Col("label_share_<label>", group="Share (%)"), *(images if row and row["value"] else [Col("images")])]


def of_values(_: Results, attribute: Attribute) -> list[Col]:
    """Errors of measured values."""
    unit = attribute.unit.name if attribute.unit else ""
    errors = (("mean_absolute_error", "Mean absolute"), ("mean_error", "Mean"))
    found = [Col(m, said, f"Error ({unit})", full=f"{said} error ({unit})") for m, said in errors]
    return [*found, *([Col("cumulative_score_5", f"Within 5 {unit} (%)")] if unit == "years" else [])]


def of_bias(_: Results, attribute: Attribute) -> list[Col]:
    """Errors of bias scores; the shift exists for two classes."""
    shift = [Col("prompt_bias_score_shift", "Shift", interval=True)] if len(attribute.classes) == 2 else []
    return [*shift, Col("model_bias_score_difference", "Model bias score", interval=True)]


def of_papers(results: Results, _: Attribute) -> list[Col]:
    """Deviations of other papers' scores, a column of each that these results have."""
    there = set(results.metrics["metric"].astype("str"))
    infos = [i for name in registry.names("score") for i in registry.find("score", name).facts.get("scores", ())]
    return [Col(f"{i.metric}_deviation", i.short, full=i.name) for i in infos if f"{i.metric}_deviation" in there]


def with_chance(table: Table, results: Results, attribute: Attribute) -> Table:
    """Tell of detectors below chance."""
    return replace(table, notes=[*told_below_chance(results.metrics, attribute).values(), *table.notes])


def with_average(table: Table, _: Results, attribute: Attribute) -> Table:
    """Table 7's last column and its order: within a category by falling average, then by word without case."""
    if len(attribute.classes) != 2:
        notes = ["Only attributes of two classes have a signed score.", *table.notes]
        return replace(table, rows=[], of_rows=[], notes=notes)
    several, rows = len(table.columns) > 3, []
    order = {name: i for i, name in enumerate(dict.fromkeys(row[0].text for row in table.rows))}
    for at, (row, notes) in enumerate(zip(table.rows, table.of_rows, strict=True)):
        some = [c.value for c in row[2:] if c.value is not None and not math.isnan(c.value)]
        average = math.fsum(some) / len(some) if some else math.nan
        place = (order[row[0].text], not some, -average if some else 0.0, row[1].text.casefold(), at)
        rows.append((place, [*row, *([number_cell(average, "score", 2)] if several else [])], notes))
    rows.sort(key=lambda row: row[0])
    first, second = (lower(label_words(attribute, c)) for c in attribute.class_names)
    caption = (
        f"{table.caption.removesuffix('.')}: 1, all clear images are {first}; \N{MINUS SIGN}1, all are {second}."
    )
    columns = [*table.columns, *([Col("average", "Average", full="Average")] if several else [])]
    return replace(
        table, caption=caption, columns=columns, rows=[r[1] for r in rows], of_rows=[r[2] for r in rows]
    )


def _has(column: str, word: str, results: Results, attribute: Attribute) -> bool:
    own = results.metrics
    return bool(((own[column] == word) & (own["attribute"] == attribute.name)).any())


def _several(column: str, results: Results, attribute: Attribute) -> bool:
    return len(set(results.cells(attribute.name).pairs[column])) > 1


_FUNCTIONS: dict[str, Any] = {
    "filter_and_class": filter_and_class,
    "of_labels": of_labels,
    "of_values": of_values,
    "of_bias": of_bias,
    "of_papers": of_papers,
    "with_chance": with_chance,
    "with_average": with_average,
    "several_models": partial(_several, "t2i_model"),
    "several_categories": partial(_several, "category"),
    "measured": partial(_has, "metric", "mean_absolute_error"),
    "unlabelled": partial(_has, "variant", DETECTOR_ONLY),
    "papers": lambda results, attribute: bool(of_papers(results, attribute)),
    "": None,
}


def alignment_accuracy(results: Results, attribute: str, **choice: str) -> Table | None:
    """BIGbench's Table 2: one column for each attribute, and their mean where a detector has all."""
    made = {n: own for n in results.attributes if (own := _ALIGNMENT(results, n, **choice)) is not None}
    if attribute != next(iter(results.attributes)) or not made:
        return None
    rows, of_rows, words = [], [], {name: results.attributes[name].words for name in made}
    for detector in dict.fromkeys(row[0].text for table in made.values() for row in table.rows):
        cells, notes = [Cell(detector)], []
        for name, table in made.items():
            at = next((i for i, row in enumerate(table.rows) if row[0].text == detector), None)
            cells.append(number_cell(math.nan, "fraction") if at is None else table.rows[at][1])
            told = ["not predicted"] if at is None else table.of_rows[at]
            notes += [f"{words[name]}: {note}" for note in told]
        rows.append([*cells, number_cell(sum(c.value or 0.0 for c in cells[1:]) / len(made), "fraction")])
        of_rows.append(notes)
    means = [
        math.nan if any(_NO_CONTEST in n for n in of_rows[i]) else row[-1].value for i, row in enumerate(rows)
    ]
    best = max((x for x in means if x is not None and not math.isnan(x)), default=math.inf)
    for row, x in zip(rows, means, strict=True):
        row[-1] = row[-1]._replace(bold=x is not None and math.isclose(x, best, rel_tol=1e-12))
    columns = [Col(n, in_words(said), full=in_words(said)) for n, said in words.items()]
    columns = [*_NAMES["detector"], *columns, Col("mean", "Mean", full="Mean")]
    notes = [note for table in made.values() for note in table.notes]
    return Table(_ALIGNMENT.caption, columns, rows, notes, "alignment_accuracy", 1, of_rows)


# ---------------------------------------------------------------- of long tables

Frame = tuple[pd.DataFrame, list[str]]


def confusion(_: Results, __: Attribute, frame: pd.DataFrame) -> Frame:
    """Images by label and answer, over everything."""
    shown = frame[(frame["category"] == ALL) & (frame["t2i_model"] == ALL)]
    return _wide(shown, ["detector", "human_label"], "predicted", "images"), []


def label_doubt(results: Results, attribute: Attribute, frame: pd.DataFrame) -> Frame:
    """Headline numbers by the consensus, by each annotator, where all agree; and their range."""
    own = results.metrics
    own = own[(own["category"] == ALL) & (own["prompt_id"] == ALL) & (own["attribute"] == attribute.name)]
    frame = pd.concat([own.assign(labelled_by="consensus"), frame])
    frame = frame[frame["metric"].isin(HEADLINES) & (frame["variant"] == "") & (frame["detector"] != GROUND_TRUTH)]
    alone = frame["metric"].map(lambda m: known_fact(m).over == "images") == (frame["t2i_model"] == ALL)
    wide = _wide(frame[alone], ["metric", "detector", "t2i_model"], "labelled_by", "value")
    wide = wide.assign(lowest=wide.iloc[:, 3:].min(axis=1), highest=wide.iloc[:, 3:].max(axis=1))
    wide = wide.sort_values("metric", key=lambda m: m.map(HEADLINES.index), kind="stable")
    return wide, ["Nobody's labels are the truth; images on which all agree are the easy ones."]


def filter_errors(_: Results, attribute: Attribute, frame: pd.DataFrame) -> Frame:
    """Clear images that were filtered and low-quality ones that were kept, by reason."""
    lost = frame["human_label"].isin(attribute.class_names) & (frame["status"] == FILTERED)
    kept = (frame["human_label"] == LOW_QUALITY) & (frame["status"] == "clear")
    frame = frame.assign(mistake=np.where(lost, "clear image filtered", "low-quality image kept"))
    frame = frame.assign(reason=frame["detector_reason"].where(lost, frame["human_reason"]))[lost | kept]
    summed = (
        frame.groupby(["detector", "mistake", "reason"], sort=False, observed=True)["images"].sum().reset_index()
    )
    return summed, ["The reason is the detector's where it filtered, and people's where it kept."]


def sweeps(results: Results, attribute: Attribute, frame: pd.DataFrame) -> Frame:
    """Every tenth threshold, and what there is to say against choosing one of them."""
    steps = np.round(np.linspace(0, 1, 21), 9)
    shown = frame[np.isin(frame["threshold"].round(9), steps) & (frame["t2i_model"] == ALL)]
    wide = _wide(shown, ["detector", "threshold"], "metric", "value").drop(columns="images_clear")
    notes = ["The best threshold of these images is no better on other images: `search` judges that."]
    if not shown["known"].all():
        notes.append("Thresholds below the run's own keep too few images: it stored no class of what it filtered.")
    scores = results.counted[attribute.name].scores
    scores = scores[(scores["status"] == "clear") & (scores["reached"] <= len(GRID))]
    for detector, own in scores.groupby("rater", sort=False):
        ends, every = own.loc[own["reached"].isin([1, len(GRID)]), "n"].sum(), own["n"].sum()
        if 2 * ends > every:
            notes.append(
                f"{detector}: {ends:,} of {every:,} scores are 0 or 1: is its input scaled as in training?"
            )
    return wide, notes


_MADE = {f.__name__: f for f in (confusion, label_doubt, filter_errors, sweeps)}
_BOTH = "Intervals are about other images of these prompts, p-values about other prompts: they may disagree."


@dataclass(frozen=True)
class _Long:
    """A table of a long table."""

    name: str
    caption: str
    columns: str = ""
    only: str = ""
    of: str = ""
    made: str = ""

    def __call__(self, results: Results, attribute: str, **choice: str) -> Table | None:
        own, notes = results.attributes[attribute], list[str]()
        frame = _rows(results, self.of or self.name, attribute, choice)
        if "attribute" not in frame and attribute != next(iter(results.attributes)):
            return None  # shown once
        if len(frame) and self.made:
            frame, notes = _MADE[self.made](results, own, frame)
        elif len(frame):
            frame = frame[frame[self.only] == ALL] if self.only else frame
            frame = frame[[c for c in self.columns.split() if c in frame]]
        if {"ci_low", "p_value"} <= {*frame.columns}:
            notes.append(_BOTH)
        return (
            _of_frame(results, own, self.name, frame, self.caption.format(own.words), notes)
            if len(frame)
            else None
        )


def _wide(frame: pd.DataFrame, keys: list[str], columns: str, value: str) -> pd.DataFrame:
    """One column for each word of a column; rows and columns in the order of their first appearance."""
    order = list(dict.fromkeys(frame[columns]))
    made = frame.set_index([*keys, columns])[value].unstack()[order].reset_index()  # noqa: PD010 - no aggregation
    made.columns.name = None
    whole: pd.DataFrame = frame[keys].drop_duplicates().merge(made, on=keys, how="left")
    return whole


def _rows(results: Results, name: str, attribute: str, choice: Mapping[str, str]) -> pd.DataFrame:
    """Rows of a long table about an attribute, narrowed by the words chosen; none where there is no such table."""
    if name not in results.tables():
        return pd.DataFrame()
    frame = results.table(name)
    for column, word in {"attribute": attribute, **choice}.items():
        own = {"image": "image_id"}.get(column, column)
        if word and own in frame:
            frame = frame[frame[own] == word]
    return frame.reset_index(drop=True)


_LABELLED, _METRICS_IN = ("truth", "predicted", "human_label", "label"), ("metric", "error_metric")
_LAST = ("word", "why", "groups", "told_apart", "reason", "truth", "predicted")
_ENDS = {"value": "ci", "error": "ci", "difference": "ci", "shift": "shift"}


def _of_frame(  # noqa: PLR0917 - what a table is made of
    results: Results, attribute: Attribute, name: str, frame: pd.DataFrame, caption: str, notes: Sequence[str]
) -> Table:
    """A long table as it stands: names, then numbers with their interval, then words about them."""
    ends = [c for c in frame if str(c).endswith(("_low", "_high")) and not str(c).startswith("rank")]
    words = [str(c) for c in frame if not pd.api.types.is_numeric_dtype(frame[c]) or frame[c].dtype == bool]
    names, last = [c for c in words if c not in _LAST], [c for c in words if c in _LAST]
    values = [str(c) for c in frame if c not in {*words, *ends}]
    limited = [c for c in values if f"{_ENDS.get(c)}_low" in ends]

    def said(column: str, row: Mapping[Any, Any]) -> Cell:
        word = "" if pd.isna(row[column]) else str(row[column])
        if column in _METRICS_IN:
            own = known_fact(word)
            return Cell(in_words(word, own) + (" (%)" if own.kind == "fraction" else ""), key=word)
        return Cell(label_words(attribute, word) if column in _LABELLED and word else word, key=word)

    def number(column: str, row: Mapping[Any, Any]) -> Cell:
        kind = known_fact(next((str(row[c]) for c in _METRICS_IN if c in row), column)).kind
        kind = "count" if pd.api.types.is_integer_dtype(frame[column]) else kind
        kind = (
            "score"
            if column in ("p_value", "rank", "threshold") or (kind == "count" and column == "value")
            else kind
        )
        side = _ENDS.get(column, "")
        limits = (float(row[f"{side}_low"]), float(row[f"{side}_high"])) if column in limited else None
        value = float(row[column])
        return number_cell(value, kind, 0 if column == "rank" and value.is_integer() else None, limits)

    rows = [
        [*(said(c, row) for c in names), *(number(c, row) for c in values), *(said(c, row) for c in last)]
        for row in frame.to_dict("records")
    ]
    columns = [Col(c, label_words(attribute, c), interval=c in limited) for c in (*names, *values, *last)]
    whole = [*notes, care(attribute)]
    return Table(caption, columns, rows, whole, table_name(results, name, attribute), len(names))


def _declare_ours() -> Declared:
    """Register what `built_in/tables.yaml` says; gives the table of alignment accuracy of one attribute."""
    said = read_yaml(_HERE / "built_in" / "tables.yaml")
    for name, facts in said["declared"].items():
        columns = facts.pop("columns")
        facts["columns"] = _FUNCTIONS[columns] if isinstance(columns, str) else [Col(**c) for c in columns]
        facts |= {key: _FUNCTIONS[facts[key]] for key in ("when", "finish") if key in facts}
        if name == "alignment_accuracy":
            alignment = Declared(name, **facts)
            register("table", name, alignment_accuracy, about=facts["caption"].partition(":")[0])
        else:
            declare(name, **facts)
    for name, facts in said["long"].items():
        about = facts["caption"].format("attributes").partition(". ")[0].removesuffix(".")
        register("table", name, _Long(name, **facts), about=about)
    return alignment


_ALIGNMENT = _declare_ours()


# ---------------------------------------------------------------- all tables by name


def names(what: Results | ImageSet) -> dict[str, str]:
    """Names of the tables of results or of an image set, with what each shows."""
    kind = "image_set" if isinstance(what, ImageSet) else "results"
    found = [registry.find("table", name) for name in registry.names("table")]
    return {
        e.name: str(e.facts.get("about", "")).replace("{attribute}", "attributes")
        for e in found
        if e.facts.get("of", "results") == kind
    }


def of(what: Results | ImageSet, name: str, **choice: str) -> list[Table]:
    """Tables of a name, one for each attribute that has it.

    Args:
        what: results, or an image set.
        name: one of `names`.
        choice: attribute, t2i_model, detector, image: what the rows are narrowed to.

    Raises:
        ConfigError: no such table or attribute, or nothing to show.
    """
    if name not in (known := names(what)):
        raise ConfigError(f"no table {name!r}: {nearest_hint(name, known)}")
    attribute = choice.pop("attribute", "")
    if attribute and attribute not in what.attributes:
        raise ConfigError(f"no attribute {attribute!r} here: {nearest_hint(attribute, what.attributes)}")
    make = registry.find("table", name).thing
    found = [make(what, a, **choice) for a in ([attribute] if attribute else what.attributes)]
    display = what.manifest.get("study", {}).get("display_names", {}) if isinstance(what, Results) else {}
    tables = [table.with_names(display) for table in found if table is not None]
    if not tables:
        raise ConfigError(f"nothing to show in the table {name!r}: no labels, no scores, or no such rows")
    return tables


def contest(
    results: Results,
    name: Literal["ranks", "comparisons"],
    *,
    metrics: Sequence[str] = (),
    attribute: str = "",
    detectors: Sequence[str] = (),
) -> list[Table]:
    """Ranks, or comparisons of pairs, by any metrics; those that are not stored are drawn with the study's seed.

    Args:
        results: a study's.
        name: which of both tables.
        metrics: none: those that are stored.
        attribute: one alone.
        detectors: of comparisons: one whose pairs are shown, or both of one pair.

    Raises:
        ConfigError: an unknown metric, attribute or detector.
    """
    for detector in detectors:
        if detector not in results.detectors:
            raise ConfigError(f"no detector {detector!r} here: {nearest_hint(detector, results.detectors)}")
    frame = results.table(name)
    for metric in metrics:
        if not (frame["metric"] == metric).any():
            settings = Settings(**{key: results.settings[key] for key in Settings._fields})
            drawn = [
                inference(own, **settings._replace(primary=metric)._asdict()) for own in results.counted.values()
            ]
            rows = pd.concat([own.tables[name] for own in drawn], ignore_index=True)
            if not (rows["metric"] == metric).any():
                known = [m.name for m in declared() if m.better != "none"]
                raise ConfigError(f"detectors cannot be compared by {metric!r}: {nearest_hint(metric, known)}")
            frame = pd.concat([frame, rows[rows["metric"] == metric]], ignore_index=True)
    if metrics:
        frame = frame[frame["metric"].isin(metrics)]
    if detectors:
        frame = frame[np.logical_and.reduce([(frame[["first", "second"]] == d).any(axis=1) for d in detectors])]
    return of(results.with_table(name, frame.reset_index(drop=True)), name, attribute=attribute)


def texts(results: Results) -> dict[str, str]:
    """Files below `tables/`: the declared tables as CSV, Markdown and LaTeX, content by name."""
    found: dict[str, str] = {}
    for name in names(results):
        if isinstance(registry.find("table", name).thing, Declared) or name in ("alignment_accuracy", "confusion"):
            with suppress(ConfigError):
                for table in of(results, name):
                    found |= {f"{table.name}.{end}": getattr(table, end)() for end in ("csv", "md", "tex")}
    return found


def show(
    what: Results | ImageSet,
    name: str = "",
    *,
    form: str = "terminal",
    out: Path | None = None,
    every: bool = False,
    **choice: str,
) -> Any:
    """What `show` prints or writes: names of all tables, one table, or every one.

    Args:
        what: results, or an image set.
        name: of a table; empty: the names of all.
        form: terminal (a list of tables), csv, md, tex, html (their text). A long table is whole in CSV.
        out: file to write; with `every` a folder.
        every: all tables; those with nothing to show are left out.
        choice: as in `of`.

    Raises:
        ConfigError: as `of`, or an unknown form.
    """
    if form not in (forms := ("terminal", "csv", "md", "tex", "html")):
        raise ConfigError(f"--format {form!r}; accepted: {', '.join(forms)}")
    if not name and not every:
        return pd.DataFrame(list(names(what).items()), columns=["table", "shows"])
    shown, texts = list[Table](), dict[str, str]()
    whole = what.tables() if form == "csv" and isinstance(what, Results) else []
    for own in dict.fromkeys([*whole, *names(what)]) if every else [name]:
        with suppress(*([ConfigError] if every else [])):
            if isinstance(what, Results) and own in whole:
                texts[own] = csv_text(_rows(what, own, choice.get("attribute", ""), choice))
                continue
            tables = of(what, own, **choice)
            shown += tables
            texts |= {t.name: t.plain() if form == "terminal" else getattr(t, form)() for t in tables}
    if every and out is not None:
        for own, text in texts.items():
            write_text(out / f"{own}.{'txt' if form == 'terminal' else form}", text)
        return f"{len(texts)} tables are in {out}"
    if out is not None:
        write_text(out, "\n".join(texts.values()))
        return f"{name} is in {out}"
    return shown if form == "terminal" else "\n".join(texts.values()).removesuffix("\n")
