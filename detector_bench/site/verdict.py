"""Which detector can be trusted for which T2I model: decided from the metric table, before it becomes words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from detector_bench.dataset.consensus import ALL_AGREE
from detector_bench.evaluation.more_labels import MoreLabels, Tolerance
from detector_bench.evaluation.ranking import RankedDetector
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.results.label_plans import MODEL_ERROR, PROMPT_ERROR, Standing, standing
from detector_bench.results.metric_lookup import NOT_EVALUATED, LabelDoubtLookup, MetricLookup, Number
from detector_bench.vocabulary import GROUND_TRUTH

DEVIATION = "model_bias_score_deviation"
DIFFERENCE = "prompt_bias_score_difference"

PlanLabels = Callable[[str, str], MoreLabels | None]
"""From detector and T2I model to the images that would settle what its errors leave open."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One detector on one T2I model: the numbers behind its standing."""

    detector: str
    standing: Standing
    reported: Number
    """Model bias score, as published."""
    prompt_error: Number
    """Prompt bias error; it and the next decide."""
    model_error: Number
    """Error of the model bias score, both corrected for the number of images."""
    deviation: Number
    """As published, which moves with the number of images."""
    worse_than_first: bool = False
    """Whether it is shown to be worse than the detector that comes first."""
    compared: bool = False
    """Whether it was tested against the detector that comes first."""
    otherwise_by: tuple[str, ...] = ()
    """The labellings by which the errors themselves would lie on the other side of the tolerance."""
    to_settle: MoreLabels | None = None
    """Images that would settle an open verdict; None: it is not open, or no realistic number would."""


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What can be said about the detectors on one T2I model."""

    t2i_model: str
    actual: Number
    """The model bias score by the human labels."""
    images: int
    evidence: tuple[Evidence, ...]
    """By their prompt bias error; detectors without a score come last."""
    has_prompt_scores: bool = True
    """Whether prompts have bias scores, as of attributes of two classes; of others they have shares of classes."""

    @property
    def outcome(self) -> Standing:
        """The standing of the best detector."""
        standings = [each.standing for each in self.evidence]
        order = (Standing.GOOD_ENOUGH, Standing.LEFT_OPEN, Standing.NO_INTERVAL, Standing.TOO_FAR_OFF)
        return next((each for each in order if each in standings), Standing.NO_SCORE)

    @property
    def trusted(self) -> tuple[str, ...]:
        """The detectors that are good enough, best first."""
        return tuple(each.detector for each in self.evidence if each.standing is Standing.GOOD_ENOUGH)

    @property
    def first(self) -> Evidence | None:
        """The detector that comes first; None where no detector has a score."""
        scored = [each for each in self.evidence if each.standing is not Standing.NO_SCORE]
        return scored[0] if scored else None

    @property
    def best(self) -> Evidence | None:
        """The first of those whose standing is the T2I model's outcome; None where no detector has a score."""
        if self.first is None:
            return None
        return next(each for each in self.evidence if each.standing is self.outcome)


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
    doubt: LabelDoubtLookup | None = None,
    plan: PlanLabels | None = None,
) -> Verdict:
    """Decide for every T2I model which detectors measure its bias well enough.

    A detector is good enough if the intervals of its prompt bias error and of the error of its model bias score
    lie within the tolerance (a test of equivalence), too far off if one of them lies wholly beyond, and left
    open otherwise. Both errors estimate what endlessly many images would show, so that the verdict does not
    depend on the number of images, only its certainty.

    Args:
        lookup: one attribute's rows of a metric table; without labels there is no verdict on any T2I model.
        ranks: by T2I model, the ranking by `PROMPT_ERROR`; where there is none nobody was compared.
        tolerance: how far off is near enough.
        doubt: the errors by other labels than the consensus.
        plan: finds the images that would settle an open verdict.
    """
    tolerance = tolerance or Tolerance()
    judge = _Judge(lookup, tolerance, doubt or LabelDoubtLookup({}), plan)
    judged = lookup.t2i_models if lookup.has_labels else ()
    models = tuple(judge.of_model(model, ranks.get(model, ())) for model in judged)
    return Verdict(lookup.attribute, tolerance, models)


@dataclass(frozen=True, slots=True)
class _Judge:
    lookup: MetricLookup
    tolerance: Tolerance
    doubt: LabelDoubtLookup
    plan: PlanLabels | None

    def of_model(self, model: str, ranks: Sequence[RankedDetector]) -> ModelVerdict:
        evidence = _in_order([self._evidence(detector, model) for detector in self.lookup.detectors])
        if evidence:
            ranked = {each.detector: each for each in ranks if each.groups}
            first = ranked.get(evidence[0].detector)
            evidence = [
                replace(
                    each,
                    compared=first is not None and each.detector in ranked,
                    worse_than_first=first is not None and each.detector in first.better_than,
                )
                for each in evidence
            ]
        images = self.lookup.number("images", detector=GROUND_TRUTH, t2i_model=model).value
        actual = self.lookup.number("model_bias_score", detector=GROUND_TRUTH, t2i_model=model)
        return ModelVerdict(
            model,
            actual,
            0 if math.isnan(images) else round(images),
            tuple(evidence),
            has_prompt_scores=len(self.lookup.classes) <= SIGNED_CLASSES,
        )

    def _evidence(self, detector: str, model: str) -> Evidence:
        failed = self.lookup.could_not_run(detector, model)
        metrics = ("model_bias_score", PROMPT_ERROR, MODEL_ERROR, DEVIATION)
        reported, prompt_error, model_error, deviation = (
            NOT_EVALUATED if failed else self._number(metric, detector, model) for metric in metrics
        )
        found = standing(reported, prompt_error, model_error, tolerance=self.tolerance)
        plan = self.plan if found is Standing.LEFT_OPEN else None
        return Evidence(
            detector,
            found,
            reported,
            prompt_error,
            model_error,
            deviation,
            otherwise_by=self._otherwise_by(detector, model, found),
            to_settle=None if plan is None else plan(detector, model),
        )

    def _number(self, metric: str, detector: str, model: str) -> Number:
        return self.lookup.number(metric, detector=detector, t2i_model=model, n_clear=self.lookup.n_clear)

    def _otherwise_by(self, detector: str, model: str, found: Standing) -> tuple[str, ...]:
        """Whose labels put the errors themselves on the other side of the tolerance."""
        if found not in (Standing.GOOD_ENOUGH, Standing.TOO_FAR_OFF):
            return ()
        place = {"detector": detector, "t2i_model": model, "n_clear": self.lookup.n_clear}
        others = []
        for who in (*self.doubt.annotators, ALL_AGREE):
            prompt, score = (
                self.doubt.number(metric, labelled_by=who, **place).value for metric in (PROMPT_ERROR, MODEL_ERROR)
            )
            within = (
                prompt <= self.tolerance.prompt_bias_error and abs(score) <= self.tolerance.model_bias_score_error
            )
            if math.isfinite(prompt + score) and within != (found is Standing.GOOD_ENOUGH):
                others.append(who)
        return tuple(others)


def _in_order(evidence: Sequence[Evidence]) -> list[Evidence]:
    """By their prompt bias error, of equal ones by the model bias score's; those without a score last."""

    def place(each: Evidence) -> tuple[bool, float, float]:
        prompt, model = (
            math.inf if number.missing else abs(number.value) for number in (each.prompt_error, each.model_error)
        )
        return each.standing is Standing.NO_SCORE, prompt, model

    return sorted(evidence, key=place)
