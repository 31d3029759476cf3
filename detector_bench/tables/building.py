"""The one machinery behind declared tables: rows, columns by metric, the best and the worst, the notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, Self

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE, NClear, metric_info
from detector_bench.metrics.catalogue import CLASS, LABEL
from detector_bench.results.metric_lookup import (
    NOT_EVALUATED,
    MetricLookup,
    Number,
    best_of,
    worst_of,
)
from detector_bench.tables.table import DASH, Cell, Column, MetricColumn, Row, Table
from detector_bench.tables.wording import (
    Place,
    PlacedColumn,
    attribute_in_words,
    in_words,
    label_in_words,
    labels_notes,
    left_out_notes,
    metric_heading,
    metric_in_words,
    number_cell,
    undefined_notes,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY, OTHERS
from detector_bench.vocabulary.columns import DETECTOR_ONLY

Dimension = Literal["detector", "judge", "t2i_model", "category", "prompt"]
"""What a table has a row, or a set of columns, for each of; a judge is the ground truth or a detector."""

_NAMES: dict[Dimension, tuple[Column, ...]] = {
    "detector": (Column("detector", "Detector", kind="name"),),
    "judge": (Column("detector", "Detector", kind="name"),),
    "t2i_model": (Column("t2i_model", "T2I model", kind="name"),),
    "category": (Column("category", "Category", kind="name"),),
    "prompt": (Column("category", "Category", kind="name"), Column("word", "Word", kind="name")),
}
_REPEATED = ("t2i_model", "category")
_CAPTION = ("attribute", "n_clear", "denominator")
_IN_BRACKETS = " In brackets: confidence interval."
_ONLY_OTHERS = "judged on the other T2I models only"
_FEW_IMAGES = "judged on fewer images of {}"
_NO_CONTEST = "so it does not compete for the best value"
_DENOMINATORS: dict[NClear, str] = {
    "detector": "the images that the detector keeps",
    "human": "the images that the humans call clear",
}


@dataclass(frozen=True, kw_only=True)
class TableNumbers:
    """What the tables of one attribute are made of."""

    metrics: pd.DataFrame
    """The metric table (`vocabulary.columns.METRIC_COLUMNS`)."""
    lookup: MetricLookup
    """The attribute's numbers in the metric table, by name."""
    n_clear: NClear
    """Whose count of clear images divides a detector's prompt bias score."""
    intervals: bool = False
    """Show confidence intervals, where the metric table has them."""
    words: Mapping[str, str] = field(default_factory=dict)
    """By prompt id; a prompt without a word is shown by its id."""
    confusion: pd.DataFrame | None = None
    """Images by label and verdict, columns as in `vocabulary.columns.CONFUSION_COLUMNS`."""
    label_doubt: pd.DataFrame | None = None
    """Numbers by other labels, columns as in `vocabulary.columns.LABEL_DOUBT_COLUMNS`."""

    @classmethod
    def of_table(
        cls,
        metrics: pd.DataFrame,
        *,
        attribute: str = "gender",
        n_clear: NClear | None = None,
        max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
        prompts: pd.DataFrame | None = None,
        **others: Any,
    ) -> Self:
        """Take one attribute's rows of a metric table.

        Args:
            metrics: columns as in `vocabulary.columns.METRIC_COLUMNS`.
            attribute: one of the study's, such as gender.
            n_clear: whose count of clear images divides a detector's prompt bias score. The paper leaves it open;
                its own table fits "human" better. None: the one that the metric table holds, "detector" if both.
            max_error_share: a detector that fails on a larger share of a T2I model's images could not run on it;
                see `metrics.failing`.
            prompts: columns `prompt_id, word`; where it is missing or a word is empty, the prompt's id is shown.
            others: further fields.

        Raises:
            ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
        """
        lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
        pairs = () if prompts is None else zip(prompts["prompt_id"], prompts["word"], strict=True)
        words = {prompt_id: word for prompt_id, word in pairs if isinstance(word, str) and word}
        return cls(metrics=metrics, lookup=lookup, n_clear=n_clear or lookup.n_clear, words=words, **others)

    @property
    def attribute(self) -> str:
        """What annotators and detectors perceived."""
        return self.lookup.attribute

    @property
    def labels_notes(self) -> tuple[str, ...]:
        """Over how many images a comparison with the humans is, where not all have a label."""
        return labels_notes(self.lookup)


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """Rows and columns of a table of metrics.

    What every such table does: a detector that could not run on a T2I model gets a dash there, and where it was
    judged on other images than the rest it does not compete (`metrics.failing`); the best of a column is bold,
    ties included; notes say why there is a dash, and what is left out.
    """

    name: str
    """File name without its ending, and LaTeX label: letters, digits and underscores."""
    caption: str
    """`{attribute}` stands for the attribute in words, `{n_clear}` and `{denominator}` for the denominator of
    detectors' prompt bias scores."""
    columns: Sequence[MetricColumn] | Callable[[TableNumbers], Sequence[MetricColumn]]
    """Those that the metric table lacks altogether can be left out by a function."""
    rows: Sequence[Dimension] = ("detector",)
    """One row for each, of several dimensions for each combination, the outermost first."""
    columns_for: Literal["t2i_model", "category"] | None = None
    """Repeat the columns for each of these."""
    total: str = ""
    """What all of them together are called, where there are several: all that the columns are repeated for, else
    all of the rows' last dimension. Empty: not shown."""
    best: bool = True
    """Whether the best of a column is bold; metrics without a direction have none."""
    intervals: Literal["asked for", "always", "never"] = "asked for"
    """When confidence intervals are shown, where the metric table has them."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise ConfigError(f"table {self.name!r}: a name of letters, digits and underscores is expected")
        if unknown := [name for name in self.rows if name not in _NAMES]:
            raise ConfigError(f"table {self.name}: rows for each {unknown[0]!r} (accepted: {', '.join(_NAMES)})")
        if self.columns_for not in (None, *_REPEATED) or self.columns_for in self.rows:
            raise ConfigError(
                f"table {self.name}: columns for each {self.columns_for!r} (accepted: {', '.join(_REPEATED)})"
            )
        try:
            self.caption.format(**dict.fromkeys(_CAPTION, ""))
        except (KeyError, IndexError, ValueError) as error:
            said = f"{{{error.args[0]}}}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(
                f"table {self.name}: its caption knows no {said} (accepted: {', '.join(_CAPTION)})"
            ) from error
        if not callable(self.columns):
            if not self.columns:
                raise ConfigError(f"table {self.name}: at least one column is needed")
            for column in self.columns:
                metric_info(column.metric)
                metric_info(column.deviation or column.metric)

    def build(self, numbers: TableNumbers) -> Table:
        """The table of one attribute."""
        return _Building(self, numbers).table()


_EVERYTHING: Place = {"detector": GROUND_TRUTH, "t2i_model": ALL, "category": ALL, "prompt_id": ALL}


class _Building:
    """One declared table on its way."""

    def __init__(self, declared: TableLayout, numbers: TableNumbers) -> None:
        self._declared, self._numbers, self._lookup = declared, numbers, numbers.lookup
        self._intervals = declared.intervals == "always" or (numbers.intervals and declared.intervals != "never")
        self._places = [
            {name: value for part in parts for name, value in part.items()}
            for parts in product(*(self._values(name, in_rows=True) for name in declared.rows))
        ]
        self._shown = list(self._columns())

    def table(self) -> Table:
        declared, numbers = self._declared, self._numbers
        found = [[self._number(shown, place) for shown in self._shown] for place in self._places]
        cells = self._cells(found)
        names = [column for name in declared.rows for column in _NAMES[name]]
        compares = bool({"detector", "judge"} & set(declared.rows))
        caption = declared.caption.format(
            attribute=attribute_in_words(numbers.attribute),
            n_clear=numbers.n_clear,
            denominator=_DENOMINATORS[numbers.n_clear],
        )
        return Table(
            name=declared.name,
            caption=caption + (_IN_BRACKETS if self._intervals else ""),
            attribute=numbers.attribute,
            columns=(*names, *(shown.column for shown in self._shown)),
            rows=tuple(
                Row(self._row_name(place), (*self._name_cells(place), *shown), self._notes(place, row))
                for place, shown, row in zip(self._places, cells, found, strict=True)
            ),
            notes=self._lookup.notes if compares else (),
            grouped=len(names) > 1,
        )

    def _values(self, dimension: Dimension, *, in_rows: bool) -> list[Place]:
        declared, lookup = self._declared, self._lookup
        if dimension == "prompt":
            return [{"category": category, "prompt_id": prompt} for category, prompt in lookup.prompts]
        if dimension in ("detector", "judge"):
            judges = (GROUND_TRUTH, *lookup.detectors) if dimension == "judge" else lookup.detectors
            return [{"detector": name} for name in judges]
        names = lookup.t2i_models if dimension == "t2i_model" else lookup.categories
        last = not in_rows or (declared.columns_for is None and dimension == declared.rows[-1])
        with_all = declared.total and last and len(names) > 1
        return [{dimension: name} for name in (*names, ALL)[: None if with_all else -1]]

    def _columns(self) -> Iterator[PlacedColumn]:
        declared = self._declared
        columns = declared.columns(self._numbers) if callable(declared.columns) else declared.columns
        parts = [(column, label) for column in columns for label in self._labels(column.metric)]
        places: list[Place] = [{}]
        if declared.columns_for is not None:
            places = self._values(declared.columns_for, in_rows=False)
        for place in places:
            for column, label in parts:
                yield self._column(column, label, place, alone=len(parts) == 1)

    def _labels(self, metric: str) -> Sequence[str]:
        classes = self._lookup.classes
        # Of what a detector says alone nothing is outside its classes.
        others = () if self._lookup.variant == DETECTOR_ONLY else (OTHERS,)
        return classes if CLASS in metric else (*classes, LOW_QUALITY, *others) if LABEL in metric else ("",)

    def _column(self, declared: MetricColumn, label: str, place: Place, *, alone: bool) -> PlacedColumn:
        """A column, alone: the only one of its T2I model or category."""
        metric = declared.metric.replace(CLASS, label).replace(LABEL, label)
        info = metric_info(declared.metric)
        stem = in_words(declared.metric.partition("_<")[0])
        in_group = metric_in_words(metric) if declared.group else metric_heading(metric)
        heading = declared.heading or (label_in_words(label) if label else in_group)
        full = declared.full_heading
        if CLASS in declared.metric and not full:
            full = f"{stem} {label_in_words(label, in_sentence=True)}"
        said = (
            f"{stem.lower()} ({label_in_words(label, in_sentence=True)})" if label else (full or heading).lower()
        )
        column = Column(
            metric,
            heading,
            group=declared.group,
            full_heading=full,
            has_intervals=self._intervals and info.kind != "count",
            full_shade=declared.full_shade,
        )
        key = next(iter(place.values()), "")
        where = self._declared.total if key == ALL else key
        if place and alone:
            column, said = replace(column, key=key, heading=where, full_heading=""), where
        elif place:
            full = f"{where}, {(full or heading).lower()}"
            column = replace(column, key=f"{key}_{metric}", group=where, full_heading=full)
            said = f"{said} ({where})"
        if declared.deviation:
            column = replace(column, deviation_key=f"{column.key}_deviation")
        return PlacedColumn(column, declared, info, metric, label, place, where, said)

    def _number(self, shown: PlacedColumn, place: Place, metric: str = "") -> Number:
        at, name = {**_EVERYTHING, **place, **shown.place}, metric or shown.metric
        if self._lookup.is_withheld(name, detector=at["detector"], t2i_model=at["t2i_model"]):
            return NOT_EVALUATED
        return self._lookup.number(name, n_clear=self._numbers.n_clear, **at)

    def _models(self, place: Place) -> Sequence[str]:
        """The T2I models that a row, or a cell, is about."""
        model = place.get("t2i_model", ALL)
        return self._lookup.t2i_models if model == ALL else (model,)

    def _failed(self, place: Place) -> tuple[str, ...]:
        """The T2I models among them on which the detector could not run."""
        return self._lookup.failed_on(place.get("detector", GROUND_TRUTH), place.get("t2i_model", ALL))

    def _cells(self, found: Sequence[Sequence[Number]]) -> list[list[Cell]]:
        """By row and column; the best and the worst are found among the detectors of one block of rows."""
        cells: list[list[Cell]] = [[] for _ in self._places]
        for position, shown in enumerate(self._shown):
            numbers = [row[position] for row in found]
            deviations = None
            if shown.declared.deviation:
                deviations = [self._number(shown, place, shown.declared.deviation).value for place in self._places]
            competing = deviations or [number.value for number in numbers]
            best, worst = self._extremes(shown, competing) if self._declared.best else (set(), set())
            for row, (place, number) in enumerate(zip(self._places, numbers, strict=True)):
                compared = deviations is not None and place.get("detector", GROUND_TRUTH) != GROUND_TRUTH
                cells[row].append(
                    number_cell(
                        number.value,
                        kind=shown.info.kind,
                        decimals=shown.declared.decimals,
                        limits=(number.ci_low, number.ci_high) if shown.column.has_intervals else None,
                        deviation=deviations[row] if deviations is not None and compared else None,
                        bold=row in best,
                        worst=row in worst,
                    )
                )
        return cells

    def _extremes(self, shown: PlacedColumn, values: Sequence[float]) -> tuple[set[int], set[int]]:
        blocks: dict[tuple[str, ...], dict[int, float]] = {}
        for row, place in enumerate(self._places):
            at = {**place, **shown.place}
            if at.get("detector", GROUND_TRUTH) != GROUND_TRUTH and not self._failed(at):
                block = tuple(value for name, value in place.items() if name != "detector")
                blocks.setdefault(block, {})[row] = values[row]
        metric = shown.declared.deviation or shown.declared.metric
        best = {row for block in blocks.values() for row in best_of(block, metric=metric)}
        return best, {row for block in blocks.values() for row in worst_of(block, metric=metric)}

    def _name_cells(self, place: Place) -> list[Cell]:
        cells = []
        for name in self._declared.rows:
            if name == "prompt":
                cells += [Cell(place["category"]), Cell(self._word(place))]
            else:
                key = place["detector" if name == "judge" else name]
                cells.append(Cell(self._shown_name(key), key=key))
        return cells

    def _shown_name(self, name: str) -> str:
        if name == ALL:
            return self._declared.total
        return "Ground truth" if name == GROUND_TRUTH else name

    def _word(self, place: Place) -> str:
        return self._numbers.words.get(place["prompt_id"], place["prompt_id"])

    def _row_name(self, place: Place) -> str:
        key = "detector" if self._declared.rows[-1] == "judge" else self._declared.rows[-1]
        name = self._word(place) if key == "prompt" else self._shown_name(place[key])
        if key != "t2i_model" and "t2i_model" in place:
            name += f" on {self._shown_name(place['t2i_model'])}"
        if key == "detector" and "category" in place:
            name += f", {self._word(place) if 'prompt_id' in place else place['category']}"
        return name

    def _notes(self, place: Place, numbers: Sequence[Number]) -> tuple[str, ...]:
        detector = place.get("detector", GROUND_TRUTH)
        models, failed = self._models(place), self._failed(place)
        notes = [] if detector == GROUND_TRUTH else self._lookup.no_verdict_notes(detector, models)
        if self._declared.columns_for != "t2i_model":
            if failed and all(number is NOT_EVALUATED for number in numbers):
                return tuple(notes)
            if failed:
                notes += self._why_it_does_not_compete(detector, failed, numbers)
        judged = [
            (shown, number)
            for shown, number in zip(self._shown, numbers, strict=True)
            if not (number is NOT_EVALUATED and self._failed({**place, **shown.place}))
        ]
        notes += undefined_notes(judged)
        several = len({shown.where for shown in self._shown}) > 1
        notes += left_out_notes(judged, by_humans=detector == GROUND_TRUTH, several=several)
        if detector != GROUND_TRUTH:
            notes += self._without_deviation(place, judged)
        return tuple(notes)

    def _why_it_does_not_compete(
        self, detector: str, failed: Sequence[str], numbers: Sequence[Number]
    ) -> Iterator[str]:
        judged_some = [name for name in failed if self._lookup.has_verdicts(detector, name)]
        yield f"{_FEW_IMAGES.format(', '.join(judged_some)) if judged_some else _ONLY_OTHERS}, {_NO_CONTEST}"
        withheld = [
            shown.said
            for shown, number in zip(self._shown, numbers, strict=True)
            if number is NOT_EVALUATED and self._lookup.is_withheld(shown.metric, detector=detector)
        ]
        if withheld:
            yield f"{DASH} for {', '.join(withheld)}: only of detectors that could run on all T2I models"

    def _without_deviation(self, place: Place, judged: Sequence[tuple[PlacedColumn, Number]]) -> list[str]:
        without = [
            shown.said
            for shown, number in judged
            if shown.declared.deviation
            and not number.missing
            and self._number(shown, place, shown.declared.deviation).missing
        ]
        where = ", ".join(without)
        return [f"no deviation from a ground truth of 0 or without a score ({where})"] if without else []
