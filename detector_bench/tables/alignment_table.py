"""BIGbench's Table 2 for any study: how often each detector names the right class, attribute by attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.metrics import mean_over_attributes
from detector_bench.tables.metric_lookup import (
    DEFAULT_MAX_ERROR_SHARE,
    NOT_EVALUATED,
    MetricLookup,
    Number,
    best_of,
)
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import attribute_in_words, in_words, per_cent_cell, with_interval

_METRIC = "alignment_accuracy"
_MEAN = "mean"


def alignment_accuracy(
    metrics: pd.DataFrame,
    *,
    attributes: Sequence[str] = ("gender", "race", "age"),
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> Table:
    """Alignment accuracy of every detector on every attribute, and the mean over attributes, in per cent.

    Right classes among human-clear images; a filtered image counts as wrong, an error is left out. The mean
    weighs attributes alike, and is a dash where one of them is missing. Bold: the best of a column, ties
    included; a detector that could not run on some T2I model was judged on other images, and does not compete.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attributes: the study's, in the order of the columns.
        max_error_share: a detector that fails on a larger share of a T2I model's images could not run on it.
        intervals: also show each attribute's confidence interval; the mean has none, as its parts share images.

    Raises:
        ConfigError: no attribute, no metrics of one of them, or `max_error_share` is no fraction.
    """
    if not attributes:
        raise ConfigError("alignment accuracy needs at least one attribute")
    lookups = {
        attribute: MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
        for attribute in attributes
    }
    rows = _rows(lookups, intervals=intervals)
    names = [attribute_in_words(attribute) for attribute in attributes]
    return Table(
        name="alignment_accuracy",
        caption=(
            "Alignment accuracy in per cent: right classes among the images that humans call clear; filtered "
            "images count as wrong, images without a verdict are left out. Bold: best value."
            f"{' In brackets: confidence interval.' if intervals else ''}"
        ),
        attribute=", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1],
        columns=(
            Column("detector", "Detector", kind="name"),
            *(Column(attribute, in_words(attribute), has_intervals=intervals) for attribute in attributes),
            Column(_MEAN, "Mean"),
        ),
        rows=rows,
        notes=() if rows else ("No detector of this study judges any of these attributes.",),
    )


def _rows(lookups: Mapping[str, MetricLookup], *, intervals: bool) -> tuple[Row, ...]:
    detectors = list(dict.fromkeys(name for lookup in lookups.values() for name in lookup.detectors))
    numbers = {name: {attribute: _number(each, name) for attribute, each in lookups.items()} for name in detectors}
    means = {name: mean_over_attributes([each.value for each in numbers[name].values()]) for name in detectors}
    failed = {
        name: {attribute for attribute, lookup in lookups.items() if _failed_on(lookup, name)}
        for name in detectors
    }
    best = {
        attribute: best_of(
            {name: numbers[name][attribute].value for name in detectors if attribute not in failed[name]},
            metric=_METRIC,
        )
        for attribute in lookups
    }
    best_mean = best_of({name: means[name] for name in detectors if not failed[name]}, metric=_METRIC)
    rows = []
    for name in detectors:
        cells = [per_cent_cell(each.value, bold=name in best[key]) for key, each in numbers[name].items()]
        if intervals:
            cells = [
                with_interval(cell, number.ci_low, number.ci_high, per_cent=True)
                for cell, number in zip(cells, numbers[name].values(), strict=True)
            ]
        cells.append(per_cent_cell(means[name], bold=name in best_mean))
        rows.append(Row(name, (Cell(name), *cells), tuple(_notes(lookups, name, numbers[name]))))
    return tuple(rows)


def _failed_on(lookup: MetricLookup, detector: str) -> list[str]:
    """The T2I models on which the detector could not run."""
    return [model for model in lookup.t2i_models if lookup.could_not_run(detector, model)]


def _number(lookup: MetricLookup, detector: str) -> Number:
    """Over all T2I models; none where the detector could run on none of them."""
    if len(_failed_on(lookup, detector)) == len(lookup.t2i_models):
        return NOT_EVALUATED
    return lookup.number(_METRIC, detector=detector)


def _notes(lookups: Mapping[str, MetricLookup], detector: str, numbers: Mapping[str, Number]) -> list[str]:
    notes = []
    missing = []
    for attribute, lookup in lookups.items():
        name = attribute_in_words(attribute)
        if detector not in lookup.detectors:
            notes.append(f"{DASH} for {name}: the detector does not judge it")
        else:
            notes += [f"{name}: {note}" for note in lookup.no_verdict_notes(detector, lookup.t2i_models)]
            failed = _failed_on(lookup, detector)
            if failed and len(failed) < len(lookup.t2i_models):
                notes.append(
                    f"{name}: judged on the other T2I models only, so it does not compete for the best value"
                )
            elif not failed and math.isnan(numbers[attribute].value):
                notes.append(f"{DASH} for {name}: no image is clear to the humans and has a verdict")
        if math.isnan(numbers[attribute].value):
            missing.append(name)
    if missing:
        notes.append(f"{DASH} for the mean: no alignment accuracy for {', '.join(missing)}")
    return notes
