"""The tables of a detector's threshold sweep, and of what a threshold chosen in it is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import pandas as pd

from detector_bench.metrics import METRICS
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    fixed,
    in_words,
    per_cent_cell,
    score_cell,
    with_interval,
)
from detector_bench.vocabulary import ALL

_FILTERING = ("filter_rate", "recall", "precision", "f1")
_FIRST = "images_clear"
_NOT_SHOWN = ("model_bias_score", "model_bias_score_actual")
_BEST_IS = {"higher": "highest", "lower": "lowest", "closest to zero": "closest to 0"}
_SIGNED = "closest to zero"


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
        cells += [_cell(number[metric], metric, bold=bold.get(metric) == threshold) for metric in shown]
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
        others = with_interval(
            _cell(choice.other_prompts, metric), choice.ci_low, choice.ci_high, per_cent=_in_per_cent(metric)
        )
        between = f"{fixed(choice.lowest_chosen, decimals=3)} to {fixed(choice.highest_chosen, decimals=3)}"
        cells = (
            Cell(_heading(metric), key=metric),
            Cell(fixed(choice.threshold, decimals=3), value=choice.threshold),
            Cell(DASH if math.isnan(choice.lowest_chosen) else between),
            _cell(choice.value, metric),
            others,
            _cell(choice.unchosen, metric),
        )
        rows.append(Row(_heading(metric), cells, (choice.reason,) if choice.reason else ()))
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


def _in_per_cent(metric: str) -> bool:
    return METRICS[metric].kind == "fraction"


def _name(metric: str) -> str:
    return "F1" if metric == "f1" else in_words(metric)


def _heading(metric: str) -> str:
    return f"{_name(metric)} (%)" if _in_per_cent(metric) else _name(metric)


def _column(metric: str) -> Column:
    if metric in _FILTERING:
        return Column(metric, _name(metric), group="Filtering (%)")
    return Column(metric, _heading(metric))


def _cell(value: float, metric: str, *, bold: bool = False) -> Cell:
    return per_cent_cell(value, bold=bold) if _in_per_cent(metric) else score_cell(value, bold=bold)


def _sentence(choice: Any) -> str:
    """What is chosen, what it gives here, and what a threshold so chosen gives on other prompts."""
    metric = choice.chosen_by
    direction = METRICS[metric].better
    if math.isnan(choice.threshold):
        return f"No threshold is chosen by {_name(metric)}: {choice.reason}."
    unchosen = f"the lowest threshold, which nobody chose, {_written(choice.unchosen, metric)}"
    best = f"{_name(metric)} is {_BEST_IS[direction]} at {fixed(choice.threshold, decimals=3)}"
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
    return f"{fixed(100 * value, decimals=1)} %" if _in_per_cent(metric) else fixed(value, decimals=3)


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
