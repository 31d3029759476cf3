"""One attribute's numbers about T2I models, gathered from the rows of a result folder; none is computed here."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import pandas as pd

from detector_bench.metrics import LABEL_SHARE
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
        settings = part.results.settings
        return cls(
            attribute=part.attribute,
            labels=labels,
            level=settings.estimates.level if labels is HumanLabels.SOME else settings.intervals.level,
            classes=part.classes,
            detectors=part.detectors,
            t2i_models=tuple(_of_model(part, name, labels, estimated, biases) for name in part.t2i_models),
            differences=tuple(part.rows("t2i_model_comparisons").to_dict("records")),
            explained={
                str(row["detector"]): float(row["value"])
                for row in estimated.to_dict("records")
                if row["metric"] == "explained_variance"
            },
            notes=notes,
        )


def _of_model(
    part: FinishedStudy,
    name: str,
    labels: HumanLabels,
    estimated: pd.DataFrame,
    biases: list[dict[Hashable, Any]],
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
        biases={str(row["metric"]): row for row in biases if row["t2i_model"] == name},
        by_detectors=_by_detectors(part, name, labels),
    )


def _by_detectors(part: FinishedStudy, t2i_model: str, labels: HumanLabels) -> dict[str, float]:
    study = part if labels is HumanLabels.ALL else part.by_detectors_alone()
    found = {name: study.estimate(SCORE, detector=name, t2i_model=t2i_model) for name in study.detectors}
    return {name: number.value for name, number in found.items() if not number.missing}


def _of_scopes(metrics: pd.DataFrame, variant: str) -> pd.DataFrame:
    """An estimator's rows that cover all prompts of a T2I model, or of all."""
    whole = (metrics["category"] == ALL) & (metrics["prompt_id"] == ALL)
    return metrics[whole & (metrics["variant"] == variant)]
