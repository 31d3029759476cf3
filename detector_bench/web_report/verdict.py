"""Which detector can be trusted for which T2I model: decided from the metric table, before it becomes words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from detector_bench.errors import ConfigError
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.report.metric_lookup import NOT_EVALUATED, MetricLookup, Number
from detector_bench.vocabulary import GROUND_TRUTH

DEVIATION = "model_bias_score_deviation"
DIFFERENCE = "prompt_bias_score_difference"
RANKED_BY = (DEVIATION, DIFFERENCE)
"""The two bias errors whose ranks are averaged: a detector can be right on the whole because errors on single
prompts even out, so neither says enough alone."""


class Standing(StrEnum):
    """What a detector's two bias errors, with their intervals, say about it."""

    GOOD_ENOUGH = "good enough"
    """Both errors lie within the tolerance, their whole intervals included."""
    NOT_SHOWN = "not shown"
    """Some interval reaches over the edge of the tolerance: these images cannot tell."""
    TOO_FAR_OFF = "too far off"
    """The whole interval of one error lies beyond the tolerance."""
    NO_INTERVAL = "no interval"
    """The metric table holds no interval, so nothing is known about how sure the errors are."""
    NO_SCORE = "no score"
    """The detector failed on too many images, or reports no score."""


class Outcome(StrEnum):
    """What can be said for one T2I model."""

    TRUST = "trust"
    NOT_SHOWN = "not shown"
    NONE_GOOD_ENOUGH = "none good enough"
    NO_INTERVALS = "no intervals"
    NOTHING_TO_COMPARE = "nothing to compare"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far off a detector may be and still be called good enough; a choice of the reader, not of statistics.

    Raises:
        ConfigError: a number that is not above 0.
    """

    deviation: float = 0.10
    """Of the model bias score, as a part of the actual one."""
    difference: float = 0.10
    """Of prompt bias scores, which run from -1 to 1, on average over the prompts."""

    def __post_init__(self) -> None:
        for name, value in (("deviation", self.deviation), ("difference", self.difference)):
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"tolerance of the {name}: {value} (accepted: a number above 0, such as 0.1)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One detector on one T2I model: the numbers behind its standing."""

    detector: str
    standing: Standing
    reported: Number
    deviation: Number
    difference: Number
    probability_best: float
    """Share of the resamples in which it comes first; NaN where nothing was resampled."""
    like_the_first: bool
    """Whether it cannot be told apart from the detector that comes first; true for that one itself."""


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What can be said about the detectors on one T2I model."""

    t2i_model: str
    outcome: Outcome
    actual: Number
    """The model bias score by the human labels."""
    images: int
    evidence: tuple[Evidence, ...]
    """Best first; detectors without a score come last."""

    @property
    def trusted(self) -> tuple[str, ...]:
        """The detectors that are good enough, best first."""
        return tuple(each.detector for each in self.evidence if each.standing is Standing.GOOD_ENOUGH)

    @property
    def first(self) -> Evidence | None:
        """The detector that comes first; None where no detector has a score."""
        scored = [each for each in self.evidence if each.standing is not Standing.NO_SCORE]
        return scored[0] if scored else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said about the detectors of one attribute, by T2I model."""

    attribute: str
    tolerance: Tolerance
    by_model: tuple[ModelVerdict, ...]


def judge_detectors(
    lookup: MetricLookup,
    ranks: Mapping[str, Sequence[RankedDetector]],
    *,
    tolerance: Tolerance | None = None,
) -> Verdict:
    """Decide for every T2I model which detectors measure its bias well enough.

    A detector is good enough if the intervals of its model bias score deviation and of its prompt bias score
    difference lie within the tolerance; it is too far off if one of them lies wholly beyond. Where the actual
    model bias score is 0 a deviation is undefined, and the difference decides alone.

    Args:
        lookup: one attribute's rows of a metric table.
        ranks: by T2I model, the ranking by `RANKED_BY`; a T2I model without one is ordered by the mean of the two
            ranks, and nobody is told apart there.
        tolerance: how far off is near enough.
    """
    tolerance = tolerance or Tolerance()
    models = tuple(_of_model(lookup, model, ranks.get(model, ()), tolerance) for model in lookup.t2i_models)
    return Verdict(lookup.attribute, tolerance, models)


def _of_model(
    lookup: MetricLookup, model: str, ranks: Sequence[RankedDetector], tolerance: Tolerance
) -> ModelVerdict:
    actual = lookup.number("model_bias_score", detector=GROUND_TRUTH, t2i_model=model)
    first_letters = set(ranks[0].groups) if ranks else set()
    ranked = {each.detector: each for each in ranks}
    evidence = []
    for detector in lookup.detectors:
        failed = lookup.could_not_run(detector, model)
        reported, deviation, difference = (
            NOT_EVALUATED if failed else _number(lookup, metric, detector, model)
            for metric in ("model_bias_score", DEVIATION, DIFFERENCE)
        )
        place = ranked.get(detector)
        evidence.append(
            Evidence(
                detector,
                standing(deviation, difference, tolerance=tolerance),
                reported,
                deviation,
                difference,
                probability_best=math.nan if place is None else place.probability_best,
                like_the_first=bool(place and first_letters & set(place.groups)),
            )
        )
    evidence = _in_order(evidence, [each.detector for each in ranks])
    images = lookup.number("images", detector=GROUND_TRUTH, t2i_model=model).value
    return ModelVerdict(
        model, _outcome(evidence), actual, 0 if math.isnan(images) else round(images), tuple(evidence)
    )


def _number(lookup: MetricLookup, metric: str, detector: str, model: str) -> Number:
    return lookup.number(metric, detector=detector, t2i_model=model, n_clear=lookup.n_clear)


def standing(deviation: Number, difference: Number, *, tolerance: Tolerance) -> Standing:
    """Compare two bias errors with the tolerance; an error that is missing does not count.

    Args:
        deviation: of the model bias score; missing where the actual score is 0.
        difference: of prompt bias scores.
        tolerance: how far off is near enough.
    """
    judged = [
        (number, edge)
        for number, edge in ((deviation, tolerance.deviation), (difference, tolerance.difference))
        if not number.missing
    ]
    if difference.missing or not judged:
        return Standing.NO_SCORE
    bounded = [(number, edge) for number, edge in judged if math.isfinite(number.ci_low + number.ci_high)]
    if any(number.ci_low > edge or number.ci_high < -edge for number, edge in bounded):
        return Standing.TOO_FAR_OFF
    if len(bounded) < len(judged):
        return Standing.NO_INTERVAL
    inside = all(-edge <= number.ci_low and number.ci_high <= edge for number, edge in bounded)
    return Standing.GOOD_ENOUGH if inside else Standing.NOT_SHOWN


def _in_order(evidence: Sequence[Evidence], ranked: Sequence[str]) -> list[Evidence]:
    """Those with a score by their rank, or without ranks by the mean rank of their two errors."""
    scored = [each for each in evidence if each.standing is not Standing.NO_SCORE]
    by_error = _mean_ranks(scored)
    place = {name: position for position, name in enumerate(ranked)}
    scored.sort(key=lambda each: (place.get(each.detector, len(place)), by_error[each.detector]))
    return scored + [each for each in evidence if each.standing is Standing.NO_SCORE]


def _mean_ranks(evidence: Sequence[Evidence]) -> dict[str, float]:
    ranks = dict.fromkeys((each.detector for each in evidence), 0.0)
    for size in (_size_of_deviation, _size_of_difference):
        for rank, each in enumerate(sorted(evidence, key=size)):
            ranks[each.detector] += rank / 2
    return ranks


def _size_of_deviation(each: Evidence) -> float:
    return math.inf if each.deviation.missing else abs(each.deviation.value)


def _size_of_difference(each: Evidence) -> float:
    return each.difference.value


def _outcome(evidence: Sequence[Evidence]) -> Outcome:
    standings = {each.standing for each in evidence} - {Standing.NO_SCORE}
    for found, outcome in (
        (Standing.GOOD_ENOUGH, Outcome.TRUST),
        (Standing.NOT_SHOWN, Outcome.NOT_SHOWN),
        (Standing.NO_INTERVAL, Outcome.NO_INTERVALS),
        (Standing.TOO_FAR_OFF, Outcome.NONE_GOOD_ENOUGH),
    ):
        if found in standings:
            return outcome
    return Outcome.NOTHING_TO_COMPARE
