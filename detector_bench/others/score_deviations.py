"""Which detector can be trusted for which score: every bias score, and how far each detector misses it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import pandas as pd

from detector_bench.benchmark import ScoreInfo, benchmarks
from detector_bench.errors import ConfigError
from detector_bench.metrics import DEFAULT_MAX_ERROR_SHARE
from detector_bench.others.failed_images import FailedImages
from detector_bench.results.metric_lookup import NOT_EVALUATED, Number, of_labelled_images
from detector_bench.tables.table import Cell, Column, Row, Table
from detector_bench.tables.wording import (
    attribute_in_words,
    deviating_score_cell,
    per_cent_cell,
    score_cell,
    with_interval,
)
from detector_bench.vocabulary import ALL, GROUND_TRUTH

_MODEL_BIAS_SCORE = ScoreInfo(
    metric="model_bias_score", name="Model bias score", short="Model bias score", more_bias=1
)
_DIRECTIONS = {1: "higher is more biased", -1: "higher is less biased"}

_Place = tuple[str, str, str, str, str]
"""Metric, variant, attribute, judge, T2I model."""


def score_deviations(
    metrics: pd.DataFrame, *, max_error_share: float = DEFAULT_MAX_ERROR_SHARE, intervals: bool = False
) -> Table:
    """Every score of every T2I model by the human labels, and as each detector reports it.

    A column is a score of one attribute; a detector's cell holds the score it reports and the deviation from the
    ground truth in per cent of it, with an arrow: up, the detector reports more. ImageBiTe gives verdicts, not
    scores: its columns hold the share of them that are the ground truth's, per requirement. Bold: of each T2I
    model, the detector that comes closest, ties included. Notes say why there is a dash.

    Args:
        metrics: a metric table (`vocabulary.columns.METRIC_COLUMNS`).
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


def _column(score: ReportedScore, *, intervals: bool) -> Column:
    metric, variant, attribute = score.place
    key = "_".join(word for word in (metric, variant, "" if score.info.is_agreement else attribute) if word)
    group = _group(score) + (" (%)" if score.info.is_agreement else "")
    return Column(
        key,
        score.heading,
        group,
        full_heading=f"{group}, {score.heading}",
        deviation_key="" if score.info.is_agreement else f"{key}_deviation",
        has_intervals=intervals,
    )


def _group(score: ReportedScore) -> str:
    return ", ".join(word for word in (score.info.short, score.definition) if word)


def _ground_truth(lookup: ScoreLookup, model: str, *, intervals: bool) -> Row:
    cells = []
    missing = []
    for score in lookup.scores:
        number = lookup.reported(score, GROUND_TRUTH, model)
        cell = score_cell(number.value)
        cells.append(with_interval(cell, number.ci_low, number.ci_high) if intervals else cell)
        if number.missing and not score.info.is_agreement:
            missing.append(f"{_group(score)}, {score.heading}")
    notes = (f"no score by the human labels: {'; '.join(missing)}",) if missing else ()
    return Row(_row_name("Ground truth", model), (*_names(model, GROUND_TRUTH, "Ground truth"), *cells), notes)


def _detector(lookup: ScoreLookup, model: str, detector: str, *, intervals: bool) -> Row:
    cells = []
    for score in lookup.scores:
        number = lookup.reported(score, detector, model)
        bold = detector in _closest(lookup, score, model)
        if score.info.is_agreement:
            cell = per_cent_cell(number.value, bold=bold)
        else:
            deviation = lookup.deviation(score, detector, model).value
            cell = deviating_score_cell(number.value, deviation, bold=bold)
        if intervals:
            cell = with_interval(cell, number.ci_low, number.ci_high, per_cent=score.info.is_agreement)
        cells.append(cell)
    names = _names(model, detector, detector)
    return Row(_row_name(detector, model), (*names, *cells), tuple(_missing(lookup, model, detector)))


def _names(model: str, judge: str, in_words: str) -> tuple[Cell, Cell]:
    return Cell("All" if model == ALL else model, key=model), Cell(in_words, key=judge)


def _row_name(judge: str, model: str) -> str:
    return f"{judge} ({'all T2I models' if model == ALL else model})"


def _closest(lookup: ScoreLookup, score: ReportedScore, model: str) -> frozenset[str]:
    """Which detectors miss the ground truth by least; with fewer than two there is nothing to be closest of."""
    missed = {}
    for detector in lookup.detectors:
        if score.info.is_agreement:
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
    said: dict[str, list[str]] = {}
    for info in dict.fromkeys(score.info for score in lookup.scores):
        if meaning := _DIRECTIONS.get(info.more_bias, info.meaning):
            said.setdefault(meaning, []).append(info.short)
    return tuple(f"{', '.join(names)}: {meaning}." for meaning, names in said.items())


class ReportedScore(NamedTuple):
    """One score of one attribute, by one definition."""

    info: ScoreInfo
    variant: str
    attribute: str

    @property
    def place(self) -> tuple[str, str, str]:
        """Metric, variant and attribute, as in the metric table."""
        return self.info.metric, self.variant, self.attribute

    @property
    def definition(self) -> str:
        """The variant; nothing of an agreement, whose variant is what its verdicts are about."""
        return "" if self.info.is_agreement else self.variant

    @property
    def heading(self) -> str:
        """What tells it from its neighbours: the attribute, or what an agreement's verdicts are about."""
        return self.variant if self.info.is_agreement else attribute_in_words(self.attribute)


@dataclass(frozen=True)
class ScoreLookup:
    """The scores of a metric table that cover all categories and prompts, by judge and T2I model."""

    scores: tuple[ReportedScore, ...]
    """Grouped by score system; attributes in one order in every group, all of them together last."""
    detectors: tuple[str, ...]
    t2i_models: tuple[str, ...]
    """Names of the T2I models, without "all"."""
    failed: FailedImages
    """Where a detector left too many images without a verdict."""
    _numbers: Mapping[_Place, Number]

    @classmethod
    def of_table(cls, metrics: pd.DataFrame, *, max_error_share: float = DEFAULT_MAX_ERROR_SHARE) -> Self:
        """Read a metric table (`vocabulary.columns.METRIC_COLUMNS`); scores that no detector reports are left out.

        Raises:
            ConfigError: the share is no fraction.
        """
        known = (_MODEL_BIAS_SCORE, *(score for each in benchmarks() for score in each.scores))
        infos = {info.metric: info for info in known}
        metrics = of_labelled_images(metrics)
        rows = metrics[(metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)]
        rows = rows[rows["metric"].isin([*infos, *(f"{name}_deviation" for name in infos)])]
        numbers = _numbers(rows)
        judges = list(pd.unique(rows["detector"]))
        reported = dict.fromkeys(
            ReportedScore(infos[metric], variant, attribute)
            for metric, variant, attribute, judge, _ in numbers
            if judge != GROUND_TRUTH and metric in infos
        )
        attributes = [*dict.fromkeys(score.attribute for score in reported if score.attribute != ALL), ALL]
        order = list(infos.values())
        return cls(
            scores=tuple(
                sorted(
                    reported,
                    key=lambda score: (
                        order.index(score.info),
                        score.definition,
                        attributes.index(score.attribute),
                    ),
                )
            ),
            detectors=tuple(str(name) for name in judges if name != GROUND_TRUTH),
            t2i_models=tuple(str(name) for name in pd.unique(rows["t2i_model"]) if name != ALL),
            failed=FailedImages.of_table(metrics, max_error_share=max_error_share),
            _numbers=numbers,
        )

    def reported(self, score: ReportedScore, judge: str, t2i_model: str = ALL) -> Number:
        """What a judge reports; `NOT_EVALUATED` without a row, or where a detector could not run."""
        if judge != GROUND_TRUTH and self.could_not_run(score, judge, t2i_model):
            return NOT_EVALUATED
        return self._numbers.get((*score.place, judge, t2i_model), NOT_EVALUATED)

    def deviation(self, score: ReportedScore, detector: str, t2i_model: str = ALL) -> Number:
        """The detector's deviation from the ground truth, as a fraction of it; likewise."""
        if self.could_not_run(score, detector, t2i_model):
            return NOT_EVALUATED
        metric, variant, attribute = score.place
        place = (f"{metric}_deviation", variant, attribute, detector, t2i_model)
        return self._numbers.get(place, NOT_EVALUATED)

    def has_truth(self, score: ReportedScore) -> bool:
        """Whether the score can be compared with the human labels."""
        return score.info.is_agreement or (*score.place, GROUND_TRUTH, ALL) in self._numbers

    def could_not_run(self, score: ReportedScore, detector: str, t2i_model: str = ALL) -> bool:
        """Whether the detector could not run on the T2I model, or on one of all; see `metrics.failing`."""
        attributes = {score.attribute}
        if score.attribute == ALL:
            attributes = {
                attribute
                for metric, variant, attribute, judge, _ in self._numbers
                if (metric, variant, judge) == (score.info.metric, score.variant, detector)
            } - {ALL}
        return any(self.failed.could_not_run(name, detector, t2i_model) for name in attributes)

    def why_missing(self, score: ReportedScore, detector: str, t2i_model: str = ALL) -> str:
        """Why there is no deviation or agreement, in words; empty where there is one."""
        if self.could_not_run(score, detector, t2i_model):
            return "too many images without a verdict"
        number = self._numbers.get((*score.place, detector, t2i_model))
        if number is None:
            return "not judged"
        if number.missing:
            return "not all attributes judged" if score.attribute == ALL else "nothing known to score"
        if score.info.is_agreement:
            return ""
        actual = self.reported(score, GROUND_TRUTH, t2i_model).value
        if math.isnan(actual):
            return "no score by the human labels"
        return "the actual score is 0" if actual == 0 else ""


def _numbers(rows: pd.DataFrame) -> dict[_Place, Number]:
    words = rows[["metric", "variant", "attribute", "detector", "t2i_model"]].astype(object).fillna("")
    values = rows[["value", "n", "n_left_out", "ci_low", "ci_high"]].astype(float)
    numbers = (Number(*number) for number in values.itertuples(index=False))
    return dict(zip(words.itertuples(index=False, name=None), numbers, strict=True))
