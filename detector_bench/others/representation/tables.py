"""The tables of representation: T2I models against each reference, and prompts, the most surely off first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from detector_bench.others.failed_images import FailedImages
from detector_bench.others.representation.names import (
    CLEAR_SHARE,
    DIFFERING,
    FALSE_DISCOVERY_RATE,
    KL_DIVERGENCE,
    MEAN_ABSOLUTE_DEVIATION,
    P_VALUE,
    POOLED,
    SHARES_FILE,
    TOTAL_VARIATION,
    if_reference,
)
from detector_bench.others.study_scores import TableSources
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    attributes_in_words,
    count_cell,
    fixed,
    number_cell,
    per_cent_cell,
    whole,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_HEADINGS = {
    TOTAL_VARIATION: "Total variation",
    KL_DIVERGENCE: "KL divergence (nats)",
    MEAN_ABSOLUTE_DEVIATION: "Mean absolute deviation",
    POOLED: "Total variation, prompts pooled",
}
_REFERENCES = {"uniform": "equal shares", "stated": "the stated shares"}
_INFINITE = "infinite"
_LIMITS_OF_P = 0.001

_Place = tuple[str, str, str, str]
"""Attribute, T2I model, judge, prompt."""


def representation_tables(sources: TableSources) -> dict[str, Table]:
    """Two tables for each reference of the metric table, by name; none without representation scores."""
    chosen = sources.metrics["metric"].astype(str).str.startswith("representation_")
    rows = sources.metrics[chosen & (sources.metrics["category"] == ALL)]
    of_prompts = sources.metrics[chosen & (sources.metrics["prompt_id"] != ALL)]
    failed = FailedImages.of_table(sources.metrics, max_error_share=sources.max_error_share)
    shares = sources.files.get(SHARES_FILE)
    tables = []
    for variant in dict.fromkeys(rows["variant"].astype(str)):
        numbers = _numbers(rows[rows["variant"] == variant], failed)
        tables.append(_of_models(numbers, variant, failed, sources))
        if shares is not None and not shares[shares["variant"] == variant].empty:
            of_variant = _numbers(of_prompts[of_prompts["variant"] == variant], failed)
            tables.append(_of_prompts(of_variant, shares[shares["variant"] == variant], variant, sources))
    return {table.name: table for table in tables}


def _numbers(rows: pd.DataFrame, failed: FailedImages) -> dict[str, dict[_Place, Number]]:
    """By metric and place; nothing of detectors that could not run."""
    is_share = rows["metric"] == CLEAR_SHARE
    rows = pd.concat([failed.left_out(rows[~is_share]), rows[is_share]])
    words = (rows[name].astype(str) for name in ("metric", "attribute", "t2i_model", "detector", "prompt_id"))
    values = (rows[name].astype(float) for name in ("value", "n", "n_left_out", "ci_low", "ci_high"))
    found: dict[str, dict[_Place, Number]] = {}
    for metric, attribute, model, judge, prompt_id, *number in zip(*words, *values, strict=True):
        found.setdefault(metric, {})[attribute, model, judge, prompt_id] = Number(*number)
    return found


def _of_models(
    numbers: Mapping[str, Mapping[_Place, Number]], variant: str, failed: FailedImages, sources: TableSources
) -> Table:
    places = list(numbers[TOTAL_VARIATION])
    models = [model for model in dict.fromkeys(place[1] for place in places) if model != ALL]
    shown = models if len(models) == 1 else [*models, ALL]
    attributes = list(dict.fromkeys(place[0] for place in places))
    columns = _columns(intervals=sources.intervals)
    rows = [
        _model_row(numbers, place, columns, failed)
        for attribute in attributes
        for model in shown
        for place in places
        if place[:2] == (attribute, model)
    ]
    return Table(
        name=f"representation_{variant}",
        caption=(
            f"Shares of the classes among clear images, against {_REFERENCES.get(variant, variant)}. By chance: "
            "what a T2I model that shows exactly these shares would give on average with as many clear images. "
            "Prompts that differ: beyond chance, with a false discovery rate of "
            f"{100 * FALSE_DISCOVERY_RATE:g} % over all that the human labels say, and all that detectors say."
        ),
        attribute=attributes_in_words([_in_words(name) for name in attributes]),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            "Total variation: the part of the images that would have to show another class. KL divergence: of the "
            "shares shown from the reference, in nats. Means over prompts, but for the pooled images.",
            *sources.notes.get(variant, ()),
        ),
        grouped=True,
    )


def _columns(*, intervals: bool) -> list[Column]:
    columns = [
        Column("attribute", "Perceived", kind="name"),
        Column("t2i_model", "T2I model", kind="name"),
        Column("detector", "Judge", kind="name"),
    ]
    for metric, heading in _HEADINGS.items():
        own = Column(metric, "Shown", heading, full_heading=heading, has_intervals=intervals)
        by_chance = f"{heading}, by chance"
        columns += [own, Column(if_reference(metric), "By chance", heading, full_heading=by_chance)]
    return [*columns, Column(DIFFERING, "Prompts that differ (%)")]


def _model_row(
    numbers: Mapping[str, Mapping[_Place, Number]],
    place: _Place,
    columns: Sequence[Column],
    failed: FailedImages,
) -> Row:
    attribute, model, judge, _ = place
    where = "all T2I models" if model == ALL else model
    name = f"{_in_words(attribute)}, {_judge(judge)} ({where})"
    cells = [
        Cell(_in_words(attribute), key=attribute),
        Cell("All" if model == ALL else model, key=model),
        Cell(_judge(judge), key=judge),
    ]
    for column in columns[len(cells) :]:
        number = numbers[column.key].get(place, NOT_EVALUATED)
        if column.key == DIFFERING:
            cells.append(per_cent_cell(number.value))
            continue
        cell = _score_cell(number.value)
        cells.append(with_interval(cell, number.ci_low, number.ci_high) if column.has_intervals else cell)
    notes = [*failed.notes([attribute], judge, model)] if model != ALL else []
    return Row(name, tuple(cells), (*notes, *_left_out(numbers, place)))


def _left_out(numbers: Mapping[str, Mapping[_Place, Number]], place: _Place) -> list[str]:
    notes = []
    of_prompts = numbers[TOTAL_VARIATION][place]
    if of_prompts.n_left_out > 0:
        counted = f"{whole(of_prompts.n_left_out)} of {whole(of_prompts.n + of_prompts.n_left_out)}"
        notes.append(f"prompts left out, no clear image, no reference, or the attribute stated: {counted}")
    clear = numbers[CLEAR_SHARE].get(place, NOT_EVALUATED)
    if clear.value < 1:
        unclear = round((1 - clear.value) * clear.n)
        notes.append(f"images left out, not clear: {unclear} of {whole(clear.n)}")
    if clear.n_left_out > 0:
        of_all = whole(clear.n + clear.n_left_out)
        notes.append(f"images left out, no verdict: {whole(clear.n_left_out)} of {of_all}")
    if math.isinf(numbers[KL_DIVERGENCE][place].value):
        notes.append("the KL divergence is infinite: a class is shown whose reference share is 0")
    return notes


def _of_prompts(
    numbers: Mapping[str, Mapping[_Place, Number]], shares: pd.DataFrame, variant: str, sources: TableSources
) -> Table:
    """A row for each prompt by the human labels, or by each detector where there are none."""
    prompts = sources.prompts
    words = {} if prompts is None else dict(zip(prompts["prompt_id"], prompts["word"], strict=True))
    has_truth = set(shares.loc[shares["detector"] == GROUND_TRUTH, "attribute"])
    of_judges = (shares["detector"] == GROUND_TRUTH) | ~shares["attribute"].isin(has_truth)
    places = shares[of_judges].groupby(["attribute", "t2i_model", "detector", "prompt_id"], sort=False)
    rows: list[tuple[tuple[float, ...], Row]] = []
    orders: dict[str, int] = {}
    for (attribute, model, judge, prompt_id), classes in places:
        place = (str(attribute), str(model), str(judge), str(prompt_id))
        order = orders.setdefault(place[0], len(orders))
        distance = numbers[TOTAL_VARIATION].get(place, NOT_EVALUATED)
        probability = numbers[P_VALUE].get(place, NOT_EVALUATED).value
        key = (order, math.isnan(probability), probability, -distance.value)
        rows.append((key, _prompt_row(numbers, place, classes, words.get(prompt_id) or str(prompt_id))))
    rows.sort(key=lambda each: each[0])
    attributes = [_in_words(name) for name in orders]
    return Table(
        name=f"representation_prompts_{variant}",
        caption=(
            f"Prompts against {_REFERENCES.get(variant, variant)}, those that differ most surely first. p: how "
            "probable shares as far off are by chance, adjusted for all prompts; bold: at most "
            f"{FALSE_DISCOVERY_RATE:g}."
        ),
        attribute=attributes_in_words(attributes),
        columns=(
            Column("attribute", "Perceived", kind="name"),
            Column("t2i_model", "T2I model", kind="name"),
            Column("detector", "Judge", kind="name"),
            Column("prompt_id", "Prompt", kind="name"),
            Column("n", "Clear images"),
            Column("class", "Class that is furthest off", kind="name"),
            Column("share", "Shown (%)", "Its share"),
            Column("reference", "Reference (%)", "Its share"),
            Column(TOTAL_VARIATION, "Shown", "Total variation"),
            Column(if_reference(TOTAL_VARIATION), "By chance", "Total variation"),
            Column(P_VALUE, "p"),
        ),
        rows=tuple(row for _, row in rows),
        grouped=True,
    )


def _prompt_row(
    numbers: Mapping[str, Mapping[_Place, Number]], place: _Place, classes: pd.DataFrame, word: str
) -> Row:
    attribute, model, judge, prompt_id = place
    n = int(classes["n"].iloc[0])
    distances = (classes["share"] - classes["reference"]).abs().to_numpy()
    furthest = classes.iloc[int(np.argmax(distances)) if n else 0]
    label = str(furthest["class"])
    cells = (
        Cell(_in_words(attribute), key=attribute),
        Cell(model),
        Cell(_judge(judge), key=judge),
        Cell(word, key=prompt_id),
        count_cell(n),
        Cell(_in_words(label), key=label) if n else Cell(DASH),
        per_cent_cell(float(furthest["share"])),
        per_cent_cell(float(furthest["reference"]) if n else math.nan),
        *(
            _score_cell(numbers[metric].get(place, NOT_EVALUATED).value)
            for metric in (TOTAL_VARIATION, if_reference(TOTAL_VARIATION))
        ),
        _p_cell(numbers[P_VALUE].get(place, NOT_EVALUATED).value),
    )
    notes = () if n else ("no clear image",)
    return Row(f"{_in_words(attribute)}, {word} ({model})", cells, notes)


def _p_cell(value: float) -> Cell:
    text = f"< {_LIMITS_OF_P}" if value < _LIMITS_OF_P else fixed(value, decimals=3)
    return Cell(text, value, bold=value <= FALSE_DISCOVERY_RATE)


def _score_cell(value: float) -> Cell:
    return Cell(_INFINITE, value) if math.isinf(value) else number_cell(value, kind="score")


def _judge(name: str) -> str:
    return "Ground truth" if name == GROUND_TRUTH else name


def _in_words(name: str) -> str:
    """An attribute, a class, or a pair of them, for people."""
    return " x ".join(attribute_in_words(part) for part in name.split(" x "))
