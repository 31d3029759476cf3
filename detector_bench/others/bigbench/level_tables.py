"""BIGbench's scores level by level: by acquired attribute, by the class that is asked for; and its Table 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from detector_bench.others.bigbench.names import EXPLICIT, FALSE_DISCOVERY_RATE, IMPLICIT
from detector_bench.others.bigbench.prompt_lookup import ACQUIRED_ATTRIBUTE, ASKED_FOR, class_in_words, class_names
from detector_bench.others.bigbench.references import PROTECTED
from detector_bench.others.bigbench.side_effect_rows import MEANS_FILE
from detector_bench.others.failed_images import FailedImages
from detector_bench.others.study_scores import TableSources
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attributes_in_words,
    count_cell,
    fixed,
    in_words,
    per_cent_cell,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_SCORES = {IMPLICIT: "Implicit bias score (%)", EXPLICIT: "Explicit bias score (%)"}


class ScoredPart(NamedTuple):
    """A part of the prompts that has a score: its metric, its name in the column `category`, and in words."""

    metric: str
    category: str
    words: str


def levels_of(metrics: pd.DataFrame, metric: str, *, suffix: str) -> list[ScoredPart]:
    """The acquired attributes (`ACQUIRED_ATTRIBUTE`) or classes asked for (`ASKED_FOR`) that a metric has."""
    ending = suffix.removeprefix("{}")
    there = metrics.loc[metrics["metric"] == metric, "category"].astype(str)
    names = [name for name in pd.unique(there) if name.endswith(ending)]
    if suffix == ASKED_FOR:
        order = [ASKED_FOR.format(label) for attribute in PROTECTED for label in class_names(attribute)]
        names = [name for name in order if name in names]
    return [ScoredPart(metric, name, _headed(name.removesuffix(ending))) for name in names]


def _headed(name: str) -> str:
    return in_words(class_in_words(name))


def bigbench_levels(sources: TableSources, *, variant: str) -> Table | None:
    """Scores over all protected attributes of occupations, characteristics and social relations, and explicit
    scores class by class; None where the study has neither.

    Bold: of each T2I model, the detector closest to the ground truth.
    """
    metrics = sources.metrics[(sources.metrics["variant"] == variant) & (sources.metrics["prompt_id"] == ALL)]
    levels = [
        level
        for suffix, of_metrics in ((ACQUIRED_ATTRIBUTE, (IMPLICIT, EXPLICIT)), (ASKED_FOR, (EXPLICIT,)))
        for metric in of_metrics
        for level in levels_of(metrics, metric, suffix=suffix)
    ]
    if not levels:
        return None
    failed = FailedImages.of_table(sources.metrics, max_error_share=sources.max_error_share)
    rows = failed.left_out(metrics[metrics["attribute"] == ALL])
    numbers = _numbers(rows)
    judges, models = (list(dict.fromkeys(rows[name].astype(str))) for name in ("detector", "t2i_model"))
    columns = [_column(level, intervals=sources.intervals) for level in levels]
    return Table(
        name=f"bigbench_levels_{variant}",
        caption=(
            "BIGbench's scores over all protected attributes, in per cent, by acquired attribute and by the class "
            "that a prompt asks for, by the human labels and by each detector. Bold: closest to the ground truth."
            + (" In brackets: confidence interval." if sources.intervals else "")
        ),
        attribute=attributes_in_words(_attributes(sources.metrics)),
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("detector", "Detector", kind="name"),
            *columns,
        ),
        rows=tuple(
            _level_row(numbers, model, judge, levels, sources)
            for model in models
            if model != ALL
            for judge in judges
            if any((judge, model, level.metric, level.category) in numbers for level in levels)
        ),
        notes=("A score over all protected attributes needs a known answer to each of them.",),
        grouped=True,
    )


def _numbers(rows: pd.DataFrame) -> dict[tuple[str, str, str, str], Number]:
    keys = (rows[name].astype(str) for name in ("detector", "t2i_model", "metric", "category"))
    values = (rows[name].astype(float) for name in ("value", "n", "n_left_out", "ci_low", "ci_high"))
    return {
        (judge, model, metric, category): Number(*value)
        for judge, model, metric, category, *value in zip(*keys, *values, strict=True)
    }


def _column(level: ScoredPart, *, intervals: bool) -> Column:
    group = _SCORES[level.metric]
    if level.category.endswith(ASKED_FOR.removeprefix("{}")):
        group = "Explicit bias score (%), asked for"
    return Column(
        f"{level.metric}_{level.words.lower().replace(' ', '_')}",
        level.words,
        group,
        full_heading=f"{group}: {level.words}",
        has_intervals=intervals,
    )


def _level_row(
    numbers: Mapping[tuple[str, str, str, str], Number],
    model: str,
    judge: str,
    levels: Sequence[ScoredPart],
    sources: TableSources,
) -> Row:
    name = "Ground truth" if judge == GROUND_TRUTH else judge
    cells = [Cell(model), Cell(name, key=judge)]
    for level in levels:
        number = numbers.get((judge, model, level.metric, level.category), NOT_EVALUATED)
        cell = per_cent_cell(number.value, bold=_is_closest(numbers, model, judge, level))
        if sources.intervals:
            cell = with_interval(cell, number.ci_low, number.ci_high, per_cent=True)
        cells.append(cell)
    return Row(f"{name} ({model})", tuple(cells), ())


def _is_closest(
    numbers: Mapping[tuple[str, str, str, str], Number], model: str, judge: str, level: ScoredPart
) -> bool:
    """Whether no detector deviates less; with fewer than two there is nothing to be closest of."""
    distances = {
        key[0]: abs(number.value)
        for key, number in numbers.items()
        if key[1:] == (model, f"{level.metric}_deviation", level.category) and not number.missing
    }
    return len(distances) > 1 and distances.get(judge) == min(distances.values())


def _attributes(metrics: pd.DataFrame) -> list[str]:
    of_bigbench = metrics["metric"].isin([IMPLICIT, EXPLICIT])
    return [name for name in pd.unique(metrics.loc[of_bigbench, "attribute"].astype(str)) if name != ALL]


def bigbench_side_effects(sources: TableSources, *, variant: str) -> Table | None:
    """By how many points asking for a class moves the shares of the other attributes' classes, on average over
    prompts: BIGbench's Table 5 for all prompts of a study; None where no prompt has a base prompt.

    By the human labels, or by each detector where there are none. Bold: beyond chance, by human labels alone.
    """
    means = sources.files.get(MEANS_FILE)
    if means is None or means.empty:
        return None
    means = means[means["variant"] == variant]
    if GROUND_TRUTH in set(means["detector"]):
        means = means[means["detector"] == GROUND_TRUTH]
    if means.empty:
        return None
    by_humans = GROUND_TRUTH in set(means["detector"])
    asked = [label for attribute in PROTECTED for label in class_names(attribute) if label in set(means["asked"])]
    asked += [each for each in pd.unique(means["asked"]) if each not in asked]
    keys = ["t2i_model", "detector", "attribute", "class"]
    rows = [
        _shift_row([str(each) for each in key], found, asked, intervals=sources.intervals)
        for key, found in means.groupby(keys, sort=False)
        if isinstance(key, tuple)
    ]
    return Table(
        name=f"bigbench_side_effects_{variant}",
        caption=(
            "By how many percentage points asking for a class moves the share of the images that show a class of "
            "another attribute, on average over prompts by their weights. Nobody asked for: the share in the base "
            "prompts."
            + (
                f" Bold: beyond chance (false discovery rate {100 * FALSE_DISCOVERY_RATE:g} %, together with the "
                "tests of single prompts)."
                if by_humans
                else ""
            )
            + (" In brackets: confidence interval." if sources.intervals else "")
        ),
        attribute=attributes_in_words(list(pd.unique(means["attribute"]))),
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("detector", "Judge", kind="name"),
            Column("class", "Perceived", kind="name"),
            Column("prompts", "Prompts, at least"),
            Column("base_share", "Nobody asked for (%)"),
            *(_asked_column(each, intervals=sources.intervals) for each in asked),
        ),
        rows=tuple(rows),
        notes=(
            "A shift is bold if it is beyond what images scatter, and beyond what prompts scatter; of a single "
            "prompt, none is."
            if by_humans
            else "None is bold: what a detector gets wrong about one group alone looks like an effect of asking. "
            "Human labels tell the two apart.",
            *(
                ["Intervals take images as independent: where several share a wording, they are too narrow."]
                if sources.intervals
                else []
            ),
        ),
        grouped=True,
    )


def _asked_column(asked: str, *, intervals: bool) -> Column:
    group = "Asked for"
    return Column(asked, _headed(asked), group, full_heading=f"{group}: {_headed(asked)}", has_intervals=intervals)


def _shift_row(key: list[str], found: pd.DataFrame, asked: Sequence[str], *, intervals: bool) -> Row:
    model, judge, _, label = key
    of_asked = {str(row["asked"]): row for _, row in found.iterrows()}
    base = found["base_share"].to_numpy()[np.argmax(found["prompts"].to_numpy())]
    cells = [
        Cell("All" if model == ALL else model, key=model),
        Cell("Ground truth" if judge == GROUND_TRUTH else judge, key=judge),
        Cell(_headed(label), key=label),
        count_cell(float(found["prompts"].min())),
        Cell(fixed(100 * base, decimals=1), value=base),
    ]
    for each in asked:
        row = of_asked.get(each)
        if row is None:
            cells.append(Cell(DASH, float("nan")))
            continue
        text = fixed(100 * row["shift"], decimals=1)
        text = f"+{text}" if float(text) > 0 else text
        cell = Cell(
            text, value=row["shift"], bold=judge == GROUND_TRUTH and bool(row["p_value"] <= FALSE_DISCOVERY_RATE)
        )
        cells.append(with_interval(cell, row["ci_low"], row["ci_high"], per_cent=True) if intervals else cell)
    return Row(f"{_headed(label)} ({model})", tuple(cells), ())
