"""One attribute's numbers about T2I models, gathered from the rows of a result folder; none is computed here."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

import pandas as pd

from detector_bench.metrics import LABEL_SHARE
from detector_bench.metrics.refusals import GENERATION_ERROR_RATE, IF_REFUSED_HIGH, IF_REFUSED_LOW, REFUSAL_RATE
from detector_bench.results.finished_study import FinishedStudy
from detector_bench.results.metric_lookup import Number, number_of
from detector_bench.tables.wording import attribute_in_words
from detector_bench.vocabulary import ALL, GROUND_TRUTH
from detector_bench.vocabulary.columns import PREDICTION_POWERED

SCORE = "model_bias_score"
BALANCE = "mean_prompt_bias_score"
_NO_ROW = Number()


class HumanLabels(StrEnum):
    """How many images of an attribute have a human label."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True)
class T2IModelAudit:
    """What a study says about one T2I model."""

    t2i_model: str
    images: int
    labels: int
    """So many images have a human label that counts."""
    score: Number
    """Model bias score over all images; without an estimate NaN."""
    shares: dict[str, Number]
    """By label, among all images."""
    biases: dict[str, dict[Hashable, Any]]
    """By metric, the row of `t2i_model_biases`: whether the T2I model is biased beyond chance."""
    by_detectors: dict[str, float]
    """The model bias score that each detector by itself reports, of all images."""
    refusals: Number = _NO_ROW
    """Refusal rate of its requests; without any known request NaN."""
    errors: Number = _NO_ROW
    """Error rate of its requests."""
    if_refused: tuple[float, float] | None = None
    """How low and how high `score` could be, whatever the refused images would have shown; None: none was
    refused, or nobody knows."""
    effects: dict[str, dict[Hashable, Any]] = field(default_factory=dict)
    """By metric, the row of `refusal_effects`: what the refused images could have made of a row of `biases`."""

    @property
    def refused(self) -> int:
        """Refused requests."""
        return 0 if self.refusals.missing else round(self.refusals.value * self.refusals.n)


@dataclass(frozen=True)
class AttributeAudit:
    """What a study says about the T2I models, of one attribute."""

    attribute: str
    labels: HumanLabels
    """SOME: numbers are estimates. ALL: they are those of the human labels. NONE: only detectors say something."""
    level: float
    """Of the intervals of SOME; ALL: of the study's."""
    classes: tuple[str, ...]
    detectors: tuple[str, ...]
    t2i_models: tuple[T2IModelAudit, ...]
    differences: tuple[dict[Hashable, Any], ...]
    """Rows of `t2i_model_comparisons`."""
    explained: dict[str, float]
    """By detector, how much of the labels' variance its verdicts explain."""
    notes: tuple[str, ...]
    """What the estimates rest on and leave out."""
    effects: dict[tuple[str, str, str], dict[Hashable, Any]] = field(default_factory=dict)
    """By metric and both T2I models, the row of `refusal_effects`."""
    without_images: tuple[str, ...] = ()
    """Of each T2I model that was asked and has no image, a sentence that says what became of its requests."""

    @property
    def words(self) -> str:
        """The attribute, inside a sentence: `perceived gender`."""
        return f"perceived {attribute_in_words(self.attribute)}"

    @classmethod
    def of(cls, part: FinishedStudy) -> Self:
        """Gather what a result folder says about one attribute."""
        notes = part.results.manifest.estimate_notes.get(part.attribute, ())
        estimated = _of_scopes(part.metrics, PREDICTION_POWERED)
        if len(estimated):
            labels = HumanLabels.SOME
        else:
            has_all = part.lookup.has_labels and not part.lookup.images_unlabelled
            labels = HumanLabels.ALL if has_all else HumanLabels.NONE
        biases = part.rows("t2i_model_biases").to_dict("records")
        effects = part.rows("refusal_effects").to_dict("records")
        settings = part.results.settings
        return cls(
            attribute=part.attribute,
            labels=labels,
            level=settings.estimates.level if labels is HumanLabels.SOME else settings.intervals.level,
            classes=part.classes,
            detectors=part.detectors,
            t2i_models=tuple(
                _of_model(part, name, labels, estimated, _Tests(biases, effects)) for name in part.t2i_models
            ),
            differences=tuple(part.rows("t2i_model_comparisons").to_dict("records")),
            explained={
                str(row["detector"]): float(row["value"])
                for row in estimated.to_dict("records")
                if row["metric"] == "explained_variance"
            },
            notes=notes,
            without_images=_without_images(part),
            effects={(str(row["metric"]), str(row["first"]), str(row["second"])): row for row in effects},
        )


_BECAME = {
    "made": "made an image that is not in the set",
    "blocked": "were refused",
    "error": "failed",
    "waiting": "wait",
}


class _Tests(NamedTuple):
    """Rows of `t2i_model_biases` and `refusal_effects`."""

    biases: list[dict[Hashable, Any]]
    effects: list[dict[Hashable, Any]]


def _of_model(
    part: FinishedStudy,
    name: str,
    labels: HumanLabels,
    estimated: pd.DataFrame,
    tests: _Tests,
) -> T2IModelAudit:
    labelled = part.lookup.number("images", detector=GROUND_TRUTH, t2i_model=name).value
    unlabelled = part.lookup.number("images_unlabelled", detector=GROUND_TRUTH, t2i_model=name).value
    if labels is HumanLabels.SOME:
        own = estimated[(estimated["t2i_model"] == name) & (estimated["detector"] == GROUND_TRUTH)]
        numbers = {str(row["metric"]): number_of(row) for _, row in own.iterrows()}
    elif labels is HumanLabels.ALL:
        names = [SCORE, *(f"{LABEL_SHARE}{label}" for label in part.lookup.labels)]
        numbers = {each: part.lookup.number(each, detector=GROUND_TRUTH, t2i_model=name) for each in names}
    else:
        numbers = {}
    shares = {each.removeprefix(LABEL_SHARE): numbers[each] for each in numbers if each.startswith(LABEL_SHARE)}
    # A label that no chance is known for does not count.
    counted = max((number.n for number in shares.values()), default=0)
    return T2IModelAudit(
        t2i_model=name,
        images=round(labelled + (unlabelled if unlabelled > 0 else 0)),
        labels=round(counted),
        score=numbers.get(SCORE, _NO_ROW),
        shares=shares,
        biases={str(row["metric"]): row for row in tests.biases if row["t2i_model"] == name},
        by_detectors=_by_detectors(part, name, labels),
        refusals=_of_requests(part, REFUSAL_RATE, name),
        errors=_of_requests(part, GENERATION_ERROR_RATE, name),
        if_refused=_if_refused(part, name, labels),
        effects={
            str(row["metric"]): row
            for row in tests.effects
            if row["first"] == name and not _is_pair(row["second"])
        },
    )


def _without_images(part: FinishedStudy) -> tuple[str, ...]:
    """What became of the requests to T2I models of which there is no image."""
    lookup = part.results.requests
    if lookup is None:
        return ()
    said = []
    for name in lookup.t2i_models:
        if name in part.t2i_models:
            continue
        became = []
        for status, word in _BECAME.items():
            number = lookup.number(f"requests_{status}", detector=GROUND_TRUTH, t2i_model=name)
            if number.value > 0:
                became.append(f"{number.value:,.0f} of {number.n:,.0f} requests {word}")
        said.append(
            f"There is no image of {name}, so that nothing is said of its bias"
            f"{': ' if became else ''}{', '.join(became)}."
        )
    return tuple(said)


def _is_pair(second: Any) -> bool:
    return isinstance(second, str) and second != ""


def _of_requests(part: FinishedStudy, metric: str, t2i_model: str) -> Number:
    lookup = part.results.requests
    return _NO_ROW if lookup is None else lookup.number(metric, detector=GROUND_TRUTH, t2i_model=t2i_model)


def _if_refused(part: FinishedStudy, t2i_model: str, labels: HumanLabels) -> tuple[float, float] | None:
    """The bounds of the model bias score that the audit says."""
    if labels is HumanLabels.NONE:
        return None
    rows = part.metrics[(part.metrics["t2i_model"] == t2i_model) & (part.metrics["detector"] == GROUND_TRUTH)]
    rows = rows[(rows["category"] == ALL) & (rows["prompt_id"] == ALL)]
    known = {str(row["metric"]): float(row["value"]) for row in rows.to_dict("records")}
    low, high = (known.get(f"{SCORE}{ending}") for ending in (IF_REFUSED_LOW, IF_REFUSED_HIGH))
    return None if low is None or high is None or math.isnan(low + high) else (low, high)


def _by_detectors(part: FinishedStudy, t2i_model: str, labels: HumanLabels) -> dict[str, float]:
    study = part if labels is HumanLabels.ALL else part.by_detectors_alone()
    found = {name: study.estimate(SCORE, detector=name, t2i_model=t2i_model) for name in study.detectors}
    return {name: number.value for name, number in found.items() if not number.missing}


def _of_scopes(metrics: pd.DataFrame, variant: str) -> pd.DataFrame:
    """An estimator's rows that cover all prompts of a T2I model, or of all."""
    whole = (metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)
    return metrics[whole & (metrics["variant"] == variant)]
