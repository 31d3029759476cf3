"""Tables of `compare`, `rank` and `sweep`: detectors against each other, and one at several thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import pandas as pd

from detector_bench.evaluation.comparison import (
    CLASSIFICATION_RIGHT,
    FILTERING_RIGHT,
    PairedImages,
    PairedTest,
)
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.metrics import METRICS
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    fixed,
    in_per_cent,
    metric_cell,
    metric_heading,
    metric_in_words,
    per_cent_cell,
)
from detector_bench.vocabulary import ALL

_JUDGED_RIGHTLY = {FILTERING_RIGHT: "Filtering", CLASSIFICATION_RIGHT: "Class"}
_SMALLEST_PRINTED = 0.001
_FILTERING = ("filter_rate", "recall", "precision", "f1")
_FIRST = "images_clear"
_NOT_SHOWN = ("model_bias_score", "model_bias_score_actual")
_BEST_IS = {"higher": "highest", "lower": "lowest", "closest to zero": "closest to 0"}
_SIGNED = "closest to zero"


def comparison(
    tests: Sequence[PairedTest], first: str, second: str, *, attribute: str, level: float, about: str = ""
) -> Table:
    """Two detectors on the same images, metric by metric.

    Args:
        tests: of an `evaluation.comparison.ComparisonFamily`.
        first: a detector's name.
        second: the other's.
        attribute: whose verdicts these are.
        level: that all intervals of the family hold together.
        about: a further note, such as how many tests the family has.
    """
    return Table(
        name="comparison",
        caption=(
            f"{first} and {second} on the same images, perceived {attribute_in_words(attribute)}. Difference: "
            f"{first} minus {second}, of deviations their sizes; with simultaneous {100 * level:g} % intervals, "
            "and p-values adjusted for all tests named below. Bold: told apart."
        ),
        attribute=attribute,
        columns=(
            Column("metric", "Compared", kind="name"),
            Column("first", first),
            Column("second", second),
            Column("difference", "Difference", has_intervals=True),
            Column("p_value", "p"),
        ),
        rows=tuple(_test_row(test) for test in tests),
        notes=(about,) if about else (),
    )


def images_judged_rightly(images: Sequence[PairedImages], first: str, second: str, *, attribute: str) -> Table:
    """The images that only one of two detectors judges rightly.

    Args:
        images: as `evaluation.comparison.images_judged_differently` gives them.
        first: a detector's name.
        second: the other's.
        attribute: whose verdicts these are.
    """
    return Table(
        name="images_judged_rightly",
        caption=(
            f"Images that only {first} or only {second} judges rightly, perceived "
            f"{attribute_in_words(attribute)}. p: McNemar's exact test, as if it were the only one; no conclusion "
            "rests on it."
        ),
        attribute=attribute,
        columns=(
            Column("share", "Judged rightly", kind="name"),
            Column("first", f"{first} (%)"),
            Column("second", f"{second} (%)"),
            Column("only_first", f"Only {first}"),
            Column("only_second", f"Only {second}"),
            Column("p_value", "p (McNemar)"),
        ),
        rows=tuple(_images_row(each) for each in images),
    )


def ranking_table(
    ranked: Sequence[RankedDetector], *, metric: str, attribute: str, level: float, about: str = ""
) -> Table:
    """All detectors in order by one metric, with the doubt that belongs to it.

    Args:
        ranked: as `evaluation.ranking.ranking` gives them.
        metric: by which they were ranked.
        attribute: whose verdicts these are.
        level: that all sets of ranks hold together.
        about: a further note, such as how many tests were made.
    """
    heading = metric_heading(metric)
    return Table(
        name=f"ranking_{metric}",
        caption=(
            f"Detectors of perceived {attribute_in_words(attribute)} by {metric_in_words(metric)}. In "
            f"brackets: the ranks that the images leave open, all of them together at {100 * level:g} %. "
            "Detectors with a letter in common cannot be told apart."
        ),
        attribute=attribute,
        columns=(
            Column("detector", "Detector", kind="name"),
            Column("rank", "Rank", has_intervals=True),
            Column("score", heading),
            Column("groups", "Group", kind="name"),
        ),
        rows=tuple(_rank_row(each, metric=metric) for each in ranked),
        notes=(about,) if about else (),
    )


def _test_row(test: PairedTest) -> Row:
    heading = metric_heading(test.metric)
    cells = (
        Cell(heading, key=test.metric),
        metric_cell(test.first, test.metric),
        metric_cell(test.second, test.metric),
        metric_cell(test.difference, test.metric, limits=(test.ci_low, test.ci_high)),
        _p_cell(test.p_value, bold=test.told_apart),
    )
    return Row(heading, cells, ("no test: one of the two has no value",) if math.isnan(test.p_value) else ())


def _images_row(images: PairedImages) -> Row:
    heading = _JUDGED_RIGHTLY[images.share]
    cells = (
        Cell(heading, key=images.share),
        per_cent_cell(images.first),
        per_cent_cell(images.second),
        count_cell(images.only_first),
        count_cell(images.only_second),
        _p_cell(images.p_value),
    )
    return Row(heading, cells, ("no image to judge",) if math.isnan(images.p_value) else ())


def _rank_row(ranked: RankedDetector, *, metric: str) -> Row:
    rank = Cell(
        f"{ranked.rank:g}",
        value=ranked.rank,
        ci_low=ranked.rank_low,
        ci_high=ranked.rank_high,
        interval_text=f"[{ranked.rank_low}, {ranked.rank_high}]",
    )
    cells = (Cell(ranked.detector), rank, metric_cell(ranked.score, metric), Cell(ranked.groups))
    return Row(ranked.detector, cells, ("no value, so it comes last",) if math.isnan(ranked.score) else ())


def _p_cell(p_value: float, *, bold: bool = False) -> Cell:
    if math.isnan(p_value):
        return Cell(DASH, value=p_value)
    text = f"< {_SMALLEST_PRINTED}" if p_value < _SMALLEST_PRINTED else fixed(p_value, decimals=3)
    return Cell(text, value=p_value, bold=bold)


def threshold_sweep(
    sweep: pd.DataFrame,
    choices: pd.DataFrame | None = None,
    *,
    t2i_model: str = ALL,
    thresholds: Sequence[float] | None = None,
) -> Table:
    """One detector at several thresholds: an image is kept if its score reaches the threshold.

    Bold: the best of all thresholds swept, the lowest of equals, where a note can say what a threshold so chosen
    gives on other prompts. A threshold marked with an asterisk lies at or below the one that the run itself used,
    where images that it filtered are missing; none of those is the best.

    Args:
        sweep: columns as in `evaluation.sweeps.SWEEP_COLUMNS`, one detector.
        choices: columns as in `evaluation.out_of_sample.CHOICE_COLUMNS`, the same detector; None: nothing is bold.
        t2i_model: the one to show; "all" for all together.
        thresholds: which ones to show; None for all.
    """
    rows = sweep[sweep["t2i_model"] == t2i_model]
    if thresholds is not None:
        rows = rows[rows["threshold"].isin(list(thresholds))]
    detector, attribute = str(sweep["detector"].iloc[0]), str(sweep["attribute"].iloc[0])
    shown = [name for name in pd.unique(sweep["metric"]) if name not in (_FIRST, *_NOT_SHOWN)]
    numbers = rows.pivot_table(index=["threshold", "known"], columns="metric", values="value", dropna=False)
    numbers = numbers.loc[numbers[_FIRST].notna()]
    chosen = [] if choices is None else _of_model(choices, t2i_model)
    bold = {choice.chosen_by: choice.threshold for choice in chosen if not math.isnan(choice.other_prompts)}
    table_rows = []
    for place, number in numbers.iterrows():
        threshold, known = cast(tuple[float, bool], place)
        mark = "" if known else "*"
        cells = [Cell(f"{fixed(threshold, decimals=3)}{mark}", key=repr(threshold)), count_cell(number[_FIRST])]
        cells += [metric_cell(number[metric], metric, bold=bold.get(metric) == threshold) for metric in shown]
        table_rows.append(Row(f"threshold {cells[0].text}", tuple(cells)))
    return Table(
        name=f"sweep_{detector}",
        caption=(
            f"{detector} at several thresholds, {_about(attribute, t2i_model)}: an image is kept if its score "
            f"reaches the threshold.{' Bold: best on these prompts; see the notes.' * bool(bold)}"
        ),
        attribute=attribute,
        columns=(
            Column("threshold", "Threshold", kind="name"),
            Column(_FIRST, "Kept"),
            *(_column(metric) for metric in shown),
        ),
        rows=tuple(table_rows),
        notes=(*(_sentence(choice) for choice in chosen), *_notes(numbers, rows)),
    )


def chosen_thresholds(choices: pd.DataFrame, *, level: float, t2i_model: str = ALL) -> Table:
    """What the best threshold gives on the prompts that chose it, and what one so chosen gives on others.

    Args:
        choices: columns as in `evaluation.out_of_sample.CHOICE_COLUMNS`, one detector.
        level: of the intervals.
        t2i_model: the one to show; "all" for all together.
    """
    detector, attribute = str(choices["detector"].iloc[0]), str(choices["attribute"].iloc[0])
    rows = []
    for choice in _of_model(choices, t2i_model):
        metric = choice.chosen_by
        others = metric_cell(choice.other_prompts, metric, limits=(choice.ci_low, choice.ci_high))
        between = f"{fixed(choice.lowest_chosen, decimals=3)} to {fixed(choice.highest_chosen, decimals=3)}"
        cells = (
            Cell(metric_heading(metric), key=metric),
            Cell(fixed(choice.threshold, decimals=3), value=choice.threshold),
            Cell(DASH if math.isnan(choice.lowest_chosen) else between),
            metric_cell(choice.value, metric),
            others,
            metric_cell(choice.unchosen, metric),
        )
        rows.append(Row(metric_heading(metric), cells, (choice.reason,) if choice.reason else ()))
    return Table(
        name=f"sweep_{detector}_chosen",
        caption=(
            f"{detector}, {_about(attribute, t2i_model)}: the best threshold on these prompts, and what a "
            "threshold so chosen gives on prompts that did not choose it."
        ),
        attribute=attribute,
        columns=(
            Column("chosen_by", "Chosen by", kind="name"),
            Column("threshold", "Threshold"),
            Column("choices", "90 % of choices"),
            Column("value", "These prompts"),
            Column("other_prompts", "Other prompts", has_intervals=True),
            Column("unchosen", "Lowest threshold"),
        ),
        rows=tuple(rows),
        notes=(
            "Other prompts: chosen on most of the prompts, counted on the rest, each part in turn; of what is "
            "best closest to 0 the root mean square on as many new prompts. Intervals: "
            f"{100 * level:g} %, other prompts of the same categories, chosen anew. Lowest threshold: for "
            "comparison, as nobody chose it.",
        ),
    )


def _of_model(choices: pd.DataFrame, t2i_model: str) -> list[Any]:
    return list(choices[choices["t2i_model"] == t2i_model].itertuples(index=False))


def _about(attribute: str, t2i_model: str) -> str:
    return f"perceived {attribute_in_words(attribute)}{'' if t2i_model == ALL else f', {t2i_model}'}"


def _column(metric: str) -> Column:
    if metric in _FILTERING:
        return Column(metric, metric_in_words(metric), group="Filtering (%)")
    return Column(metric, metric_heading(metric))


def _sentence(choice: Any) -> str:
    """What is chosen, what it gives here, and what a threshold so chosen gives on other prompts."""
    metric = choice.chosen_by
    direction = METRICS[metric].better
    if math.isnan(choice.threshold):
        return f"No threshold is chosen by {metric_in_words(metric)}: {choice.reason}."
    unchosen = f"the lowest threshold, which nobody chose, {_written(choice.unchosen, metric)}"
    best = f"{metric_in_words(metric)} is {_BEST_IS[direction]} at {fixed(choice.threshold, decimals=3)}"
    here = f"{best}: {_written(choice.value, metric)} on these prompts"
    if math.isnan(choice.other_prompts):
        return f"{here}, which chose it. What it would be on others is unknown: {choice.reason}."
    if direction == _SIGNED:
        away = _written(choice.other_prompts, metric)
        return f"{here}; on others a threshold so chosen ends up {away} from 0 (root mean square); {unchosen}."
    interval = ""
    if not math.isnan(choice.ci_low):
        limits = (_written(limit, metric) for limit in (choice.ci_low, choice.ci_high))
        interval = f" [{', '.join(limits)}]"
    others = f"{_written(choice.other_prompts, metric)}{interval}"
    return f"{here}; on others a threshold so chosen gives {others}; {unchosen}."


def _written(value: float, metric: str) -> str:
    return f"{fixed(100 * value, decimals=1)} %" if in_per_cent(metric) else fixed(value, decimals=3)


def _notes(numbers: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, ...]:
    notes = [f"Prompt bias scores are divided by n_clear: {name}." for name in pd.unique(rows["n_clear"]) if name]
    if not all(known for _, known in numbers.index):
        notes.append(
            "*: the run's own threshold was higher; images that it filtered as uncertain have no stored class and "
            "stay filtered here."
        )
    if numbers.drop(columns=_FIRST).isna().any(axis=None):
        notes.append(f"{DASH}: undefined, because no image is kept, clear or low-quality.")
    return tuple(notes)
