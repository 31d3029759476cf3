"""Which detector can be trusted for which score: every bias score, and how far each detector misses it."""

from __future__ import annotations

import math

import pandas as pd

from detector_bench.errors import ConfigError
from detector_bench.others.score_lookup import AGREEMENT, DEVIATION, SCORES, Score, ScoreLookup
from detector_bench.results.metric_lookup import DEFAULT_MAX_ERROR_SHARE
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    deviating_score_cell,
    per_cent_cell,
    score_cell,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH


def score_deviations(
    metrics: pd.DataFrame, *, max_error_share: float = DEFAULT_MAX_ERROR_SHARE, intervals: bool = False
) -> Table:
    """Every score of every T2I model by the human labels, and as each detector reports it.

    A column is a score of one attribute; a detector's cell holds the score it reports and the deviation from the
    ground truth in per cent of it, with an arrow: up, the detector reports more. ImageBiTe gives verdicts, not
    scores: its columns hold the share of them that are the ground truth's, per requirement. Bold: of each T2I
    model, the detector that comes closest, ties included. Notes say why there is a dash.

    Args:
        metrics: a metric table (`schema.METRIC_COLUMNS`).
        max_error_share: a detector that fails on a larger share of a T2I model's images gets a dash there.
        intervals: also show each score's confidence interval, where the metric table has one.

    Raises:
        ConfigError: no detector reports a score, or `max_error_share` is no fraction.
    """
    lookup = ScoreLookup.of_table(metrics, max_error_share=max_error_share)
    if not lookup.scores:
        raise ConfigError("no detector reports a score in this metric table")
    models = lookup.t2i_models if len(lookup.t2i_models) == 1 else (*lookup.t2i_models, ALL)
    attributes = dict.fromkeys(score.attribute for score in lookup.scores if score.attribute != ALL)
    return Table(
        name="score_deviations",
        caption=(
            "Every bias score by the human labels, and as each detector reports it. In parentheses: deviation "
            "from the ground truth; ↑ the detector reports more, ↓ less. Bold: closest to the ground truth."
            f"{' In brackets: confidence interval.' if intervals else ''}"
        ),
        attribute=", ".join(attribute_in_words(name) for name in attributes),
        columns=(
            Column("t2i_model", "T2I model", kind="name"),
            Column("detector", "Detector", kind="name"),
            *(_column(score, intervals=intervals) for score in lookup.scores),
        ),
        rows=tuple(
            row
            for model in models
            for row in (
                _ground_truth(lookup, model, intervals=intervals),
                *(_detector(lookup, model, name, intervals=intervals) for name in lookup.detectors),
            )
        ),
        notes=_notes(lookup),
        grouped=True,
    )


def _column(score: Score, *, intervals: bool) -> Column:
    words = (score.metric, score.variant) if score.is_agreement else score
    key = "_".join(word for word in words if word)
    group = _group(score) + (" (%)" if score.is_agreement else "")
    return Column(
        key,
        score.heading,
        group,
        full_heading=f"{group}, {score.heading}",
        deviation_key="" if score.is_agreement else key + DEVIATION,
        has_intervals=intervals,
    )


def _group(score: Score) -> str:
    return ", ".join(word for word in (SCORES[score.metric].short, score.definition) if word)


def _ground_truth(lookup: ScoreLookup, model: str, *, intervals: bool) -> Row:
    cells = []
    missing = []
    for score in lookup.scores:
        number = lookup.reported(score, GROUND_TRUTH, model)
        cell = score_cell(number.value)
        cells.append(with_interval(cell, number.ci_low, number.ci_high) if intervals else cell)
        if number.missing and not score.is_agreement:
            missing.append(f"{_group(score)}, {score.heading}")
    notes = (f"no score by the human labels: {'; '.join(missing)}",) if missing else ()
    return Row(_row_name("Ground truth", model), (*_names(model, GROUND_TRUTH, "Ground truth"), *cells), notes)


def _detector(lookup: ScoreLookup, model: str, detector: str, *, intervals: bool) -> Row:
    cells = []
    for score in lookup.scores:
        number = lookup.reported(score, detector, model)
        bold = detector in _closest(lookup, score, model)
        if score.is_agreement:
            cell = per_cent_cell(number.value, bold=bold)
        else:
            deviation = lookup.deviation(score, detector, model).value
            cell = deviating_score_cell(number.value, deviation, bold=bold)
        if intervals:
            cell = with_interval(cell, number.ci_low, number.ci_high, per_cent=score.is_agreement)
        cells.append(cell)
    names = _names(model, detector, detector)
    return Row(_row_name(detector, model), (*names, *cells), tuple(_missing(lookup, model, detector)))


def _names(model: str, judge: str, in_words: str) -> tuple[Cell, Cell]:
    return Cell("All" if model == ALL else model, key=model), Cell(in_words, key=judge)


def _row_name(judge: str, model: str) -> str:
    return f"{judge} ({'all T2I models' if model == ALL else model})"


def _closest(lookup: ScoreLookup, score: Score, model: str) -> frozenset[str]:
    """Which detectors miss the ground truth by least; with fewer than two there is nothing to be closest of."""
    missed = {}
    for detector in lookup.detectors:
        if score.is_agreement:
            missed[detector] = -lookup.reported(score, detector, model).value
        else:
            missed[detector] = abs(lookup.deviation(score, detector, model).value)
    known = {name: distance for name, distance in missed.items() if not math.isnan(distance)}
    least = min(known.values(), default=math.nan)
    return frozenset(name for name, distance in known.items() if distance == least and len(known) > 1)


def _missing(lookup: ScoreLookup, model: str, detector: str) -> list[str]:
    """Why there are dashes, and which images are left out of the scores that there are."""
    places: dict[str, list[str]] = {}
    for score in lookup.scores:
        reason = lookup.why_missing(score, detector, model)
        if reason == "not judged":
            places.setdefault(reason, []).append(attribute_in_words(score.attribute))
        elif reason and reason != "no score by the human labels":
            places.setdefault(reason, []).append(f"{_group(score)}, {score.heading}")
    notes = [f"{reason}: {'; '.join(dict.fromkeys(where))}" for reason, where in places.items()]
    if model == ALL:
        return notes
    of_attributes = [
        f"{attribute_in_words(name)}: {note}"
        for name, known in lookup.failed.evaluated.items()
        for note in known.no_verdict_notes(detector, [model])
    ]
    return notes + of_attributes


def _notes(lookup: ScoreLookup) -> tuple[str, ...]:
    means = {1: "higher is more biased", -1: "higher is less biased", 0: "its variant says which way it points"}
    directions: dict[str, list[str]] = {}
    for metric in dict.fromkeys(score.metric for score in lookup.scores):
        if metric != AGREEMENT:
            info = SCORES[metric]
            directions.setdefault(means[info.more_bias], []).append(info.short)
    notes = [f"{', '.join(names)}: {meaning}." for meaning, names in directions.items()]
    if any(score.is_agreement for score in lookup.scores):
        notes.append("ImageBiTe agreement: share of a requirement's verdicts that are the ground truth's.")
    return tuple(notes)
