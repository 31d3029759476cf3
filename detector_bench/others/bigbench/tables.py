"""BIGbench's Table 3, for any study: T2I models' scores by the human labels and as each detector reports them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.bigbench.names import EXPLICIT, IMPLICIT, KNOWN_SHARE, MANIFESTATION, OUTSIDE_SHARE
from detector_bench.others.failed_images import FailedImages
from detector_bench.others.study_scores import TableSources
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import attributes_in_words, fixed, per_cent_cell, whole, with_interval
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_GROUPS = {IMPLICIT: "Implicit bias score (%)", EXPLICIT: "Explicit bias score (%)"}
_HIGH_MEANS = {
    "as_code": "as BIGbench's program has it: HIGH where the advantageous and the disadvantageous prompt show "
    "the same people (the reverse of the paper's text)",
    "as_code_squared": "as BIGbench's program has it, with squared deviations: HIGH where the advantageous and "
    "the disadvantageous prompt show the same people (the reverse of the paper's text)",
    "as_paper": "as BIGbench's text has it: LOW where the advantageous and the disadvantageous prompt show "
    "the same people (ignorance), HIGH where they show others (discrimination); the reverse of its program",
}

_Key = tuple[str, str, str, str]
"""Detector, T2I model, metric, attribute."""


def bigbench_scores(
    metrics: pd.DataFrame,
    *,
    variant: str,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
    notes: tuple[str, ...] = (),
) -> Table:
    """BIGbench's scores in per cent: per T2I model a row for the ground truth and one for each detector.

    Implicit bias score per attribute and over all; explicit bias score and manifestation factor over all
    attributes, where the study has them. Bold: of each T2I model, the detector closest to the ground truth.

    Args:
        metrics: a metric table (`vocabulary.columns.METRIC_COLUMNS`) with BIGbench's metrics.
        variant: the preset.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets dashes there.
        intervals: also show each number's confidence interval.
        notes: what else has to be said, such as mistakes in the reference files.

    Raises:
        ConfigError: no BIGbench scores of this variant, or `max_error_share` is no fraction.
    """
    failed = FailedImages.of_table(metrics, max_error_share=max_error_share)
    numbers = _numbers(metrics, variant=variant, failed=failed)
    columns = _columns(numbers, intervals=intervals)
    models = [model for model in dict.fromkeys(key[1] for key in numbers) if model != ALL]
    judges = list(dict.fromkeys(key[0] for key in numbers))
    attributes = list(dict.fromkeys(key[3] for key in numbers if key[3] != ALL))
    has_factor = any(key[2] == MANIFESTATION for key in numbers)
    return Table(
        name=f"bigbench_scores_{variant}",
        caption=(
            "BIGbench's scores of T2I models, in per cent, by the human labels and by each detector. Implicit "
            "bias score: 50 (nothing in common with the reference shares) to 100 (equal to them). "
            + (f"Manifestation factor {variant}, {_HIGH_MEANS[variant]}. " if has_factor else "")
            + "Bold: closest to the ground truth."
            + (" In brackets: confidence interval." if intervals else "")
        ),
        attribute=attributes_in_words(attributes),
        columns=tuple(columns.values()),
        rows=tuple(
            _row(numbers, model, judge, columns, intervals=intervals, failed=failed)
            for model in models
            for judge in judges
        ),
        notes=notes,
        grouped=True,
    )


def _numbers(metrics: pd.DataFrame, *, variant: str, failed: FailedImages) -> dict[_Key, Number]:
    chosen = metrics["metric"].astype(str).str.startswith("bigbench_") & (metrics["variant"] == variant)
    rows = metrics[chosen & (metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)]
    if rows.empty:
        raise ConfigError(f"no BIGbench scores of the variant {variant!r} in this metric table")
    is_score = ~rows["metric"].isin([OUTSIDE_SHARE, KNOWN_SHARE])
    rows = pd.concat([failed.left_out(rows[is_score]), rows[~is_score]])
    words = (rows[name].astype(str) for name in ("detector", "t2i_model", "metric", "attribute"))
    values = (rows[name].astype(float) for name in ("value", "n", "n_left_out", "ci_low", "ci_high"))
    found = {}
    for *key, value, n, left_out, low, high in zip(*words, *values, strict=True):
        found[key[0], key[1], key[2], key[3]] = Number(value, n, left_out, low, high)
    return found


def _columns(numbers: Mapping[_Key, Number], *, intervals: bool) -> dict[tuple[str, str], Column]:
    """By metric and attribute; the first two are names."""
    columns = {
        ("", "t2i_model"): Column("t2i_model", "T2I model", kind="name"),
        ("", "detector"): Column("detector", "Detector", kind="name"),
    }
    there = {(key[2], key[3]) for key in numbers}
    attributes = [name for name in dict.fromkeys(key[3] for key in numbers) if name != ALL]
    for metric, group in _GROUPS.items():
        for name in (*attributes, ALL):
            if (metric, name) in there:
                heading = "All" if name == ALL else name.capitalize()
                full = f"{group}, {heading.lower()}"
                columns[metric, name] = Column(
                    f"{metric}_{name}", heading, group, full_heading=full, has_intervals=intervals
                )
    if (MANIFESTATION, ALL) in there:
        columns[MANIFESTATION, ALL] = Column(MANIFESTATION, "Manifestation factor (%)", has_intervals=intervals)
    return columns


def _row(
    numbers: Mapping[_Key, Number],
    model: str,
    judge: str,
    columns: Mapping[tuple[str, str], Column],
    *,
    intervals: bool,
    failed: FailedImages,
) -> Row:
    name = "Ground truth" if judge == GROUND_TRUTH else judge
    cells = [Cell(model), Cell(name, key=judge)]
    found = {place: numbers.get((judge, model, *place), NOT_EVALUATED) for place in columns if place[0]}
    for place, number in found.items():
        cell = per_cent_cell(number.value, bold=_is_closest(numbers, model, judge, *place))
        if intervals:
            cell = with_interval(cell, number.ci_low, number.ci_high, per_cent=True)
        cells.append(cell)
    judged = [key[3] for key in numbers if key[:3] == (judge, model, KNOWN_SHARE)]
    notes = (*failed.notes(judged, judge, model), *_notes(numbers, model, judge, found, failed=failed))
    return Row(f"{name} ({model})", tuple(cells), notes)


def _is_closest(numbers: Mapping[_Key, Number], model: str, judge: str, metric: str, attribute: str) -> bool:
    """Whether no detector deviates less; with fewer than two there is nothing to be closest of."""
    distances = {
        key[0]: abs(number.value)
        for key, number in numbers.items()
        if key[1:] == (model, f"{metric}_deviation", attribute) and not number.missing
    }
    return len(distances) > 1 and distances.get(judge) == min(distances.values())


def _notes(
    numbers: Mapping[_Key, Number],
    model: str,
    judge: str,
    found: Mapping[tuple[str, str], Number],
    *,
    failed: FailedImages,
) -> tuple[str, ...]:
    notes = []
    for (metric, attribute), number in found.items():
        what = "pairs" if metric == MANIFESTATION else "prompts"
        if number.n_left_out > 0 and attribute == ALL:
            label = metric.removeprefix("bigbench_").replace("_", " ")
            total = whole(number.n + number.n_left_out)
            reason = "no reference, or an attribute without a known answer"
            notes.append(f"{label}: {what} left out, {reason}: {whole(number.n_left_out)} of {total}")
    for (detector, of_model, metric, attribute), number in numbers.items():
        if (detector, of_model) != (judge, model) or failed.could_not_run(attribute, judge, model):
            continue
        if metric == OUTSIDE_SHARE and number.value > 0:
            share = fixed(100 * number.value, decimals=1)
            notes.append(f"{share} % of the images left out, {attribute} outside BIGbench's classes")
        if metric == KNOWN_SHARE and number.n_left_out > 0:
            of_how_many = whole(number.n + number.n_left_out)
            notes.append(f"images without a verdict on {attribute}: {whole(number.n_left_out)} of {of_how_many}")
        if metric == KNOWN_SHARE and math.isnan(number.value):
            notes.append(f"no verdict on {attribute} at all")
    return tuple(notes)


def bigbench_tables(sources: TableSources) -> dict[str, Table]:
    """The tables of every preset that the metric table has, by name."""
    from detector_bench.others.bigbench.level_tables import bigbench_levels, bigbench_side_effects

    of_bigbench = sources.metrics.loc[sources.metrics["metric"].astype(str).str.startswith("bigbench_"), "variant"]
    tables: list[Table | None] = []
    for variant in dict.fromkeys(str(each) for each in of_bigbench):
        scores = bigbench_scores(
            sources.metrics,
            variant=variant,
            max_error_share=sources.max_error_share,
            intervals=sources.intervals,
            notes=sources.notes.get(variant, ()),
        )
        tables += [
            scores,
            bigbench_levels(sources, variant=variant),
            bigbench_side_effects(sources, variant=variant),
        ]
    return {table.name: table for table in tables if table is not None}
