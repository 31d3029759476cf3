"""The tables of detectors' bias scores: the paper's Tables 1 and 2, for any study."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from detector_bench.metrics import NClear
from detector_bench.tables.metric_lookup import (
    DEFAULT_MAX_ERROR_SHARE,
    NOT_EVALUATED,
    MetricLookup,
    Number,
    best_of,
)
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    deviating_score_cell,
    score_cell,
    whole,
    with_interval,
)
from detector_bench.vocabulary import GROUND_TRUTH

_DETECTOR = Column("detector", "Detector", kind="name")
_N_CLEAR_IN_WORDS: dict[NClear, str] = {
    "detector": "the images that the detector keeps",
    "human": "the images that the humans call clear",
}


def model_bias_scores(
    metrics: pd.DataFrame,
    *,
    attribute: str = "gender",
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> Table:
    """The paper's Table 1: each T2I model's bias by the human labels, and as each detector reports it.

    A detector's cell holds the score (0 to 1) and its deviation from the ground truth in per cent of it, with an
    arrow: up, the detector overestimates the bias. Bold: the smallest deviation of a T2I model, ties included. A
    dash stands where the detector could not run on the T2I model, or has no score; notes tell which and why.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets a dash there.
        intervals: also show each score's confidence interval, where the metric table has one.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    rows = [_ground_truth_row(lookup, intervals=intervals), *_detector_rows(lookup, intervals=intervals)]
    return Table(
        name="model_bias_scores",
        caption=(
            f"Model bias scores of perceived {attribute_in_words(attribute)}"
            ". In parentheses: deviation from the ground truth; ↑ the "
            "detector overestimates the bias, ↓ it underestimates it. Bold: smallest deviation."
            f"{' In brackets: confidence interval.' if intervals else ''}"
        ),
        attribute=attribute,
        columns=(
            _DETECTOR,
            *(
                Column(model, model, deviation_key=f"{model}_deviation", has_intervals=intervals)
                for model in lookup.t2i_models
            ),
        ),
        rows=tuple(rows),
        notes=lookup.notes,
    )


def prompt_bias_score_difference(
    metrics: pd.DataFrame,
    *,
    attribute: str = "gender",
    n_clear: NClear | None = None,
    max_error_share: float = DEFAULT_MAX_ERROR_SHARE,
    intervals: bool = False,
) -> Table:
    """The paper's Table 2: how far a detector's prompt bias scores lie from the actual ones, on average.

    0 is best; bold: the smallest of a T2I model, ties included. Dashes and notes as in `model_bias_scores`.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        attribute: one of the vocabulary's, such as gender.
        n_clear: whose count of clear images divides a detector's prompt bias score. The paper leaves it open;
            its own table fits "human" better. None: the one that the metric table holds, "detector" if both.
        max_error_share: a detector that fails on a larger share of a T2I model's images gets a dash there.
        intervals: also show each number's confidence interval, where the metric table has one.

    Raises:
        ConfigError: no metrics of this attribute, or `max_error_share` is no fraction.
    """
    metric = "prompt_bias_score_difference"
    lookup = MetricLookup.of_table(metrics, attribute=attribute, max_error_share=max_error_share)
    n_clear = n_clear or lookup.n_clear
    shown = _shown_numbers(lookup, metric, n_clear=n_clear)
    best = _best_by_model(lookup, shown, metric=metric)
    rows = []
    for detector in lookup.detectors:
        numbers = {model: shown[detector, model] for model in lookup.t2i_models}
        cells = [
            _with_interval(score_cell(number.value, bold=detector in best[model]), number, shown=intervals)
            for model, number in numbers.items()
        ]
        notes = _notes(lookup, detector, numbers, reason="no clear image by the detector or the humans")
        rows.append(Row(detector, (Cell(detector), *cells), tuple(notes)))
    return Table(
        name=metric,
        caption=(
            f"Prompt bias score difference of perceived {attribute_in_words(attribute)}"
            ": mean distance between a detector's and the "
            f"actual prompt bias score. A detector's score is divided by {_N_CLEAR_IN_WORDS[n_clear]} "
            f"(n_clear: {n_clear}). Bold: smallest difference."
            f"{' In brackets: confidence interval.' if intervals else ''}"
        ),
        attribute=attribute,
        columns=(_DETECTOR, *(Column(model, model, has_intervals=intervals) for model in lookup.t2i_models)),
        rows=tuple(rows),
        notes=lookup.notes,
    )


def _shown_numbers(
    lookup: MetricLookup, metric: str, *, n_clear: NClear | None = None
) -> dict[tuple[str, str], Number]:
    """By detector and T2I model; no number where the detector could not run."""
    return {
        (detector, model): NOT_EVALUATED
        if lookup.could_not_run(detector, model)
        else lookup.number(metric, detector=detector, t2i_model=model, n_clear=n_clear or "")
        for detector in lookup.detectors
        for model in lookup.t2i_models
    }


def _with_interval(cell: Cell, number: Number, *, shown: bool) -> Cell:
    return with_interval(cell, number.ci_low, number.ci_high) if shown else cell


def _ground_truth_row(lookup: MetricLookup, *, intervals: bool) -> Row:
    numbers = {
        model: lookup.number("model_bias_score", detector=GROUND_TRUTH, t2i_model=model)
        for model in lookup.t2i_models
    }
    notes = _left_out_notes(lookup, numbers, reason="no clear image")
    cells = [_with_interval(score_cell(number.value), number, shown=intervals) for number in numbers.values()]
    return Row("Ground truth", (Cell("Ground truth", key=GROUND_TRUTH), *cells), tuple(notes))


def _detector_rows(lookup: MetricLookup, *, intervals: bool) -> list[Row]:
    scores = _shown_numbers(lookup, "model_bias_score")
    deviations = _shown_numbers(lookup, "model_bias_score_deviation")
    best = _best_by_model(lookup, deviations, metric="model_bias_score_deviation")
    rows = []
    for detector in lookup.detectors:
        numbers = {model: scores[detector, model] for model in lookup.t2i_models}
        of_truth = {model: deviations[detector, model].value for model in lookup.t2i_models}
        cells = [
            _with_interval(
                deviating_score_cell(number.value, of_truth[model], bold=detector in best[model]),
                number,
                shown=intervals,
            )
            for model, number in numbers.items()
        ]
        notes = _notes(lookup, detector, numbers, reason="no image kept")
        undefined = [
            model for model, number in numbers.items() if not number.missing and math.isnan(of_truth[model])
        ]
        if undefined:
            notes.append(f"no deviation from a ground truth of 0 or without a score ({', '.join(undefined)})")
        rows.append(Row(detector, (Cell(detector), *cells), tuple(notes)))
    return rows


def _best_by_model(
    lookup: MetricLookup, shown: Mapping[tuple[str, str], Number], *, metric: str
) -> dict[str, frozenset[str]]:
    return {
        model: best_of({name: shown[name, model].value for name in lookup.detectors}, metric=metric)
        for model in lookup.t2i_models
    }


def _notes(lookup: MetricLookup, detector: str, numbers: Mapping[str, Number], *, reason: str) -> list[str]:
    judged = {model: number for model, number in numbers.items() if not lookup.could_not_run(detector, model)}
    notes = lookup.no_verdict_notes(detector, lookup.t2i_models)
    return notes + _left_out_notes(lookup, judged, reason=reason)


def _left_out_notes(lookup: MetricLookup, numbers: Mapping[str, Number], *, reason: str) -> list[str]:
    """Say of how many prompts there is no score; one note for all T2I models."""
    left_out = [
        f"{whole(number.n_left_out)} of {whole(number.n + number.n_left_out)}"
        + ("" if len(lookup.t2i_models) == 1 else f" ({model})")
        for model, number in numbers.items()
        if number.n_left_out > 0
    ]
    notes = [f"prompts left out, {reason}: {', '.join(left_out)}"] if left_out else []
    empty = [model for model, number in numbers.items() if number.missing and number.n_left_out == 0]
    if empty:
        notes.append(f"not evaluated on {', '.join(empty)}")
    return notes
