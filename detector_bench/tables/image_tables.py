"""The tables that count images: the paper's Tables 3 and 5, and the errors of measured values, for any study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from detector_bench.metrics import METRICS, MetricInfo
from detector_bench.metrics.catalogue import CLASS
from detector_bench.tables.metric_lookup import (
    DEFAULT_MAX_ERROR_SHARE,
    NOT_EVALUATED,
    MetricLookup,
    Number,
    best_of,
)
from detector_bench.tables.table import DASH, Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    count_cell,
    in_words,
    measurement_cell,
    per_cent_cell,
    score_cell,
    whole,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH, LOW_QUALITY, OTHERS, attribute_named

_IN_BRACKETS = " In brackets: confidence interval."

_NO_VALUE = "no image has a value by both the humans and the detector"
_WHY_UNDEFINED = {
    "precision": "the detector kept no image",
    "recall": "no image is clear",
    "f1": "no image is clear to the humans or the detector",
    "filter_rate": "no image is low-quality",
    "accuracy": "no image is clear to both the humans and the detector",
    "balanced_accuracy": "no image is clear to both the humans and the detector",
    "mean_absolute_error": _NO_VALUE,
    "mean_error": _NO_VALUE,
    "cumulative_score_5": _NO_VALUE,
}
_TWO_CLASSES = 2
_FILTER = "Filter"


def filtering_and_accuracy(
    metrics: pd.DataFrame,
    *,
    attribute: str = "gender",
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    per_t2i_model: bool = False,
    intervals: bool = False,
) -> Table:
    """The paper's Table 3: how well each detector filters low-quality images and names the class of clear ones.

    In per cent. Filtering has clear images as the positive class; the filter rate is the share of low-quality
    images filtered out. Accuracy is over images that humans and detector both call clear. Recall for each class is
    an addition to the paper; so is, for attributes of three or more classes, balanced accuracy, the mean of the
    classes' accuracies. Higher is better everywhere; bold: the best of a column, ties included. A detector
    that could not run on some T2I model was judged on other images than the rest, so it is not in that
    competition.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        max_error_share: a detector that fails on a larger share of a T2I model's images could not run on it.
        per_t2i_model: one block of rows for each T2I model in place of one row over all images.
        intervals: also show each number's confidence interval, where the metric table has one.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    columns = _metric_columns(lookup, intervals=intervals)
    models: tuple[str, ...] = lookup.t2i_models if per_t2i_model else (ALL,)
    rows = [row for model in models for row in _detector_rows(lookup, columns, model)]
    names = [Column("detector", "Detector", kind="name")]
    if per_t2i_model:
        names.insert(0, Column("t2i_model", "T2I model", kind="name"))
    return Table(
        name="filtering_and_accuracy",
        caption=(
            f"Filtering of low-quality images, and accuracy of perceived {attribute_in_words(attribute)} on clear "
            f"images, in per cent"
            f"{', for each T2I model' if per_t2i_model else ''}. Recall for each class is an addition to the "
            f"paper. Bold: best value.{_IN_BRACKETS if intervals else ''}"
        ),
        attribute=attribute,
        columns=(*names, *columns),
        rows=tuple(rows),
        notes=(*lookup.notes, *_definitions(lookup)),
        grouped=per_t2i_model,
    )


def measured_values(
    metrics: pd.DataFrame,
    *,
    attribute: str = "age",
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> Table | None:
    """How far each detector's measured values, such as ages in years, lie from the humans'.

    Mean absolute error (lower is better) and mean error (closest to zero; positive: the detector's values are too
    high) in the attribute's unit; for age also the cumulative score at 5 years, the share of images with an error
    of at most 5 years, in per cent. Over images that have both values; a note counts those without the detector's.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one with a unit.
        max_error_share: a detector that fails on a larger share of a T2I model's images could not run on it.
        intervals: also show each number's confidence interval, where the metric table has one.

    Returns:
        None where the metric table has no errors of measured values.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    unit = attribute_named(attribute).unit
    present = set(metrics.loc[metrics["attribute"] == attribute, "metric"].unique())
    if unit is None or "mean_absolute_error" not in present:
        return None
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    columns = [
        Column("mean_absolute_error", "Mean absolute", group=f"Error ({unit.name})"),
        Column("mean_error", "Mean", group=f"Error ({unit.name})"),
    ]
    if "cumulative_score_5" in present:
        columns.append(Column("cumulative_score_5", f"Within 5 {unit.name} (%)"))
    columns = [
        replace(column, full_heading=f"{column.heading} error ({unit.name})" if column.group else "")
        for column in columns
    ]
    columns = [replace(column, has_intervals=intervals) for column in columns]
    rows = []
    for row in _detector_rows(lookup, columns, ALL):
        number = lookup.number("mean_absolute_error", detector=row.name)
        without = f"images without the detector's value: {whole(number.n_left_out)} of "
        without += whole(number.n + number.n_left_out)
        rows.append(replace(row, notes=(*row.notes, without)) if number.n_left_out else row)
    return Table(
        name="measured_values",
        caption=(
            f"Measured {attribute_in_words(attribute)} against the humans', over images with both values. "
            f"Positive mean errors: the detector's values are too high. Bold: best value."
            f"{_IN_BRACKETS if intervals else ''}"
        ),
        attribute=attribute,
        columns=(Column("detector", "Detector", kind="name"), *columns),
        rows=tuple(rows),
        notes=lookup.notes,
    )


def label_shares(metrics: pd.DataFrame, *, attribute: str = "gender", intervals: bool = False) -> Table:
    """The paper's Table 5: what the humans said about each T2I model's images, in per cent of the labelled ones.

    `others` has a column of its own, even when it is empty. Images without a label are counted, where there are
    any. With more than one T2I model a last row covers them all.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        intervals: also show each share's confidence interval, where the metric table has one.

    Raises:
        ConfigError: no metrics of this attribute.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute)
    labels = (*lookup.classes, LOW_QUALITY, OTHERS)
    models = (*lookup.t2i_models, ALL) if len(lookup.t2i_models) > 1 else lookup.t2i_models

    def of_humans(metric: str, model: str) -> float:
        return lookup.number(metric, detector=GROUND_TRUTH, t2i_model=model).value

    unlabelled = any(of_humans("images_unlabelled", model) > 0 for model in models)
    counted = ("images", "images_unlabelled") if unlabelled else ("images",)
    rows = []
    for model in models:
        name = "Total" if model == ALL else model
        images = of_humans("images", model)
        numbers = [
            lookup.number(f"label_share_{label}", detector=GROUND_TRUTH, t2i_model=model) for label in labels
        ]
        shares = [_per_cent_cell(number, intervals=intervals) for number in numbers]
        counts = [count_cell(of_humans(metric, model)) for metric in counted]
        notes = (f"{DASH}: no labelled image",) if math.isnan(images) or images == 0 else ()
        rows.append(Row(name, (Cell(name, key=model), *shares, *counts), notes))
    headings = {"images": "Labelled", "images_unlabelled": "Unlabelled"} if unlabelled else {"images": "Images"}
    return Table(
        name="label_shares",
        caption=f"Human labels of perceived {attribute_in_words(attribute)}, in per cent of the labelled images."
        f"{_IN_BRACKETS if intervals else ''}",
        attribute=attribute,
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            *(
                Column(f"label_share_{label}", in_words(label), group="Share (%)", has_intervals=intervals)
                for label in labels
            ),
            *(Column(metric, headings[metric], group="Images" if unlabelled else "") for metric in counted),
        ),
        rows=tuple(rows),
    )


def _per_cent_cell(number: Number, *, intervals: bool, bold: bool = False) -> Cell:
    cell = per_cent_cell(number.value, bold=bold)
    return with_interval(cell, number.ci_low, number.ci_high, per_cent=True) if intervals else cell


def _number_cell(number: Number, column: Column, *, bold: bool) -> Cell:
    kind = METRICS[column.key].kind if column.key in METRICS else "fraction"
    if kind == "fraction":
        return _per_cent_cell(number, intervals=column.has_intervals, bold=bold)
    cell, decimals = (measurement_cell, 2) if kind == "measurement" else (score_cell, 3)
    found = cell(number.value, bold=bold)
    return (
        with_interval(found, number.ci_low, number.ci_high, decimals=decimals) if column.has_intervals else found
    )


def _metric_columns(lookup: MetricLookup, *, intervals: bool) -> list[Column]:
    filtering = [each for each in METRICS.values() if each.column and each.section == _FILTER]
    columns = [
        *(Column(each.name, each.column, group="Filtering (%)") for each in filtering),
        *_class_columns("recall", lookup.classes),
        *_class_columns("accuracy", lookup.classes),
        Column("accuracy", "Overall", group="Accuracy (%)", full_heading="Accuracy"),
    ]
    if len(lookup.classes) > _TWO_CLASSES:
        columns.append(
            Column("balanced_accuracy", "Balanced", group="Accuracy (%)", full_heading="Balanced accuracy")
        )
    for each in _own_metrics(lookup):
        unit = " (%)" if each.kind == "fraction" else ""
        columns.append(Column(each.name, f"{each.column}{unit}", full_heading=each.column))
    return [replace(column, has_intervals=intervals) for column in columns]


def _own_metrics(lookup: MetricLookup) -> list[MetricInfo]:
    """Metrics of somebody else's that ask for a column and have numbers."""
    return [
        each
        for each in METRICS.values()
        if each.column
        and each.section != _FILTER
        and any(lookup.number(each.name, detector=name) != NOT_EVALUATED for name in lookup.detectors)
    ]


def _definitions(lookup: MetricLookup) -> list[str]:
    said = [f"{each.column}: {each.meaning}; {each.definition}." for each in _own_metrics(lookup)]
    return [each.replace("`", "") for each in said]


def _class_columns(metric: str, classes: Sequence[str]) -> list[Column]:
    return [
        Column(
            f"{metric}_{name}",
            in_words(name),
            group=f"{in_words(metric)} (%)",
            full_heading=f"{in_words(metric)} {in_words(name).lower()}",
        )
        for name in classes
    ]


def _detector_rows(lookup: MetricLookup, columns: Sequence[Column], model: str) -> list[Row]:
    covered = lookup.t2i_models if model == ALL else (model,)
    failed = {
        detector: [name for name in covered if lookup.could_not_run(detector, name)]
        for detector in lookup.detectors
    }
    numbers = {
        detector: [
            NOT_EVALUATED
            if len(failed[detector]) == len(covered)
            else lookup.number(column.key, detector=detector, t2i_model=model)
            for column in columns
        ]
        for detector in lookup.detectors
    }
    best = [
        best_of(
            {detector: numbers[detector][index].value for detector in lookup.detectors if not failed[detector]},
            metric=_pattern(column.key, lookup.classes),
        )
        for index, column in enumerate(columns)
    ]
    rows = []
    for detector in lookup.detectors:
        cells = [
            _number_cell(number, columns[index], bold=detector in best[index])
            for index, number in enumerate(numbers[detector])
        ]
        notes = _verdict_notes(lookup, detector, covered, failed[detector])
        if len(failed[detector]) < len(covered):
            notes += _undefined_notes(columns, numbers[detector], lookup.classes)
        if model == ALL:
            rows.append(Row(detector, (Cell(detector), *cells), tuple(notes)))
        else:
            rows.append(Row(f"{detector} on {model}", (Cell(model), Cell(detector), *cells), tuple(notes)))
    return rows


def _pattern(metric: str, classes: Sequence[str]) -> str:
    """The name under which the metric catalogue knows a metric: `recall_female` is `recall_<class>` there."""
    stem, _, name = metric.partition("_")
    return metric if metric in METRICS or name not in classes else f"{stem}_{CLASS}"


def _verdict_notes(
    lookup: MetricLookup, detector: str, covered: Sequence[str], failed: Sequence[str]
) -> list[str]:
    notes = lookup.no_verdict_notes(detector, covered)
    if failed and len(failed) < len(covered):
        notes.append("judged on the other T2I models only, so it does not compete for the best value")
    return notes


def _undefined_notes(columns: Sequence[Column], numbers: Sequence[Number], classes: Sequence[str]) -> list[str]:
    notes = []
    for column, number in zip(columns, numbers, strict=True):
        if not number.missing:
            continue
        stem, _, name = column.key.partition("_")
        if number == NOT_EVALUATED:
            reason = "not evaluated"
        elif name in classes:
            clear = "is clear to the detector and" if stem == "accuracy" else "is"
            reason = f"no image {clear} {in_words(name).lower()} by the human labels"
        else:
            reason = _WHY_UNDEFINED.get(column.key, "its denominator is empty")
        heading = (column.full_heading or column.heading).lower()
        if name in classes:
            heading = f"{stem} ({in_words(name).lower()})"
        notes.append(f"{DASH} for {heading}: {reason}")
    return notes
