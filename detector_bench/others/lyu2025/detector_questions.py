"""What the claims of Lyu 2025 about detectors ask of a study; the claims themselves: `claims_on_detectors`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detector_bench.others.lyu2025.claim_numbers import RATES
from detector_bench.others.lyu2025.claim_quantities import (
    Quantity,
    actual,
    below,
    deviation,
    distance,
    filtering_minus_classification,
    mean,
    minus,
    over,
    prompt_difference,
    rate,
    score,
)
from detector_bench.others.lyu2025.claim_statements import Above, AllOf, AnyOf, Near, Statement
from detector_bench.others.lyu2025.claims import (
    DEVIATION_TOLERANCE,
    SCORE_TOLERANCE,
    SHARE_TOLERANCE,
    AskedClaim,
    NotAsked,
    Question,
    StudyAsked,
)
from detector_bench.others.lyu2025.published import T2I_MODELS

SEVEN = ("clip", "clip_prob", "clip_uncertain", "blip2", "facepp", "mivolo", "fairface")
"""The detectors of the empirical study; CLIP-Enhance comes after it."""

ENHANCED = "clip_enhance"
VISION_LANGUAGE = ("clip", "clip_prob", "clip_uncertain", "blip2")
FACES = ("fairface", "facepp")

_ACCURATE = 0.0123
"""Deviation of CLIP-Enhance on SD3, the largest that the paper calls accurate."""
_FIFTH = 0.2
_LOW_RECALL = 0.67
_HALF = 0.5
RIGHT = 0.95


def _models(study: StudyAsked) -> tuple[str, ...]:
    """The paper's T2I models if the study has them all, else its own."""
    return T2I_MODELS if study.has_paper_models else study.t2i_models


def _own_models(study: StudyAsked) -> str:
    return "" if study.has_paper_models else "for the study's own T2I models"


def sign_of_deviation(study: StudyAsked, *, detector: str, up: bool, everywhere: bool) -> Question:
    """Over- or underestimates of one detector, on every T2I model or on their mean."""
    if lacking := study.lacks(detector):
        return NotAsked(lacking)
    models, word = _models(study), "over" if up else "under"
    size = [over(detector, model) if up else below(over(detector, model), 0) for model in models]
    if everywhere:
        parts = tuple(
            Above(f"{detector} {word}estimates the model bias score, {model}", each)
            for model, each in zip(models, size, strict=True)
        )
        return AskedClaim(AllOf(parts), _own_models(study))
    return AskedClaim(
        Above(f"{detector} {word}estimates the model bias score, mean over T2I models", mean(size)),
        _own_models(study),
    )


def smallest_or_largest(
    study: StudyAsked, *, detector: str, rivals: Sequence[str], of: str, most: bool, models: Sequence[str] = ()
) -> Question:
    """Whether a detector has the smallest (or largest) of something among those that the study has."""
    if lacking := study.lacks(detector):
        return NotAsked(lacking)
    others = [each for each in rivals if each != detector and each in study.detectors]
    if not others:
        return NotAsked(f"the study has no other of the paper's detectors to compare {detector} with")
    if models and not study.has_paper_models:
        models = study.t2i_models
    asked = tuple(models) or ("",)
    parts = []
    for model in asked:
        for other in others:
            ours, theirs = (_compared(of, each, model, _models(study)) for each in (detector, other))
            difference = minus(ours, theirs) if most else minus(theirs, ours)
            words = f"{detector} minus {other}" if most else f"{other} minus {detector}"
            unit = "" if of == "prompt difference" else "%"
            parts.append(
                Above(f"{_WORDS.get(of, of)}, {words}{f', {model}' if model else ''}", difference, unit=unit)
            )
    missing = [each for each in rivals if each not in study.detectors]
    notes = [
        _own_models(study),
        f"among {1 + len(others)} detectors (the study lacks {', '.join(missing)})" if missing else "",
    ]
    return AskedClaim(AllOf(tuple(parts)), "; ".join(each for each in notes if each))


_WORDS = {
    "deviation": "mean size of the deviation",
    "prompt difference": "prompt bias score difference",
    "gap": "accuracy gap between men and women",
    "f1": "F1",
    "accuracy": "accuracy",
    "filter_rate": "filter rate",
}


def _compared(of: str, detector: str, model: str, models: Sequence[str]) -> Quantity:
    if of == "deviation":
        return mean([distance(detector, each) for each in models])
    if of == "prompt difference":
        return prompt_difference(detector, model)
    return rate(of, detector)


def none_accurate(study: StudyAsked) -> Question:
    """Whether every detector is off somewhere."""
    present = [each for each in SEVEN if each in study.detectors]
    # In a study of other detectors the claim is one about its own.
    asked = present or [each for each in study.detectors if each != ENHANCED]
    if not asked:
        return NotAsked("the study has no detector besides CLIP-Enhance")
    parts = []
    for detector in asked:
        either = []
        for model in _models(study):
            either.append(
                Above(f"{detector} overestimates by more than 1.23 %, {model}", over(detector, model, _ACCURATE))
            )
            under = below(over(detector, model, -_ACCURATE), 0)
            either.append(Above(f"{detector} underestimates by more than 1.23 %, {model}", under))
        parts.append(AnyOf(tuple(either)))
    words = "each detector is off by more than 1.23 % (CLIP-Enhance's largest deviation) on some T2I model"
    return AskedClaim(AllOf(tuple(parts)), words + ("" if present else "; here: the study's own detectors"))


def some_overestimate(study: StudyAsked) -> Question:
    """Whether any detector is far too high anywhere."""
    present = [each for each in SEVEN if each in study.detectors] or list(study.detectors)
    if not present:
        return NotAsked("the study has no detector")
    return AskedClaim(
        AnyOf(
            tuple(
                Above(f"{detector}: score minus 1.2 times the actual one, {model}", over(detector, model, _FIFTH))
                for detector in present
                for model in study.t2i_models
            )
        ),
        "some detector overestimates some T2I model by more than 20 %",
    )


def largest_overestimate(study: StudyAsked) -> Question:
    """The largest number of Table 1."""
    if lacking := study.lacks("clip_prob"):
        return NotAsked(lacking)
    if "dreamlike" not in study.t2i_models:
        return NotAsked("the study has no T2I model dreamlike; an overestimate of 20 % by any detector is asked")
    if study.too_few:
        return NotAsked(study.too_few)
    quantity = deviation("clip_prob", "dreamlike")
    return AskedClaim(Near("deviation of clip_prob, dreamlike", quantity, (quantity,), DEVIATION_TOLERANCE, "%"))


def changed_order(study: StudyAsked) -> Question:
    """Whether a detector ranks T2I models otherwise than the humans."""
    if study.has_paper_models:
        if lacking := study.lacks("clip_prob"):
            return NotAsked(lacking)
        pairs, detectors = [("sd3", "dreamlike")], ["clip_prob"]
    else:
        models, detectors = study.t2i_models, list(study.detectors)
        pairs = [(one, other) for one in models for other in models if one != other]
        if not pairs or not detectors:
            return NotAsked("it takes two T2I models and a detector")
    parts = tuple(
        AllOf(
            (
                Above(f"actual score, {more} minus {less}", minus(actual(more), actual(less))),
                Above(
                    f"score by {detector}, {less} minus {more}",
                    minus(score(detector, less), score(detector, more)),
                ),
            )
        )
        for detector in detectors
        for more, less in pairs
    )
    note = "" if study.has_paper_models else "some detector turns the order of two T2I models round"
    return AskedClaim(AnyOf(parts), note)


def worse_than_fairface(study: StudyAsked) -> Question:
    """CLIP and FairFace, by the mean size of their deviations."""
    if lacking := study.lacks("clip", "fairface"):
        return NotAsked(lacking)
    models = _models(study)
    clip, fairface = (_compared("deviation", each, "", models) for each in ("clip", "fairface"))
    return AskedClaim(
        Above("mean size of the deviation, clip minus fairface", minus(clip, fairface), unit="%"),
        "CLIP's mean deviation is larger than FairFace's (seven times: on SD3 alone)",
    )


def fourth(study: StudyAsked) -> Question:
    """The place of MiVOLO by Table 2."""
    if lacking := study.lacks("mivolo", "clip", "facepp", "fairface"):
        return NotAsked(lacking)
    models = _models(study)

    def mean_of(detector: str, among: Sequence[str]) -> Quantity:
        return mean([prompt_difference(detector, each) for each in among])

    parts = []
    for other in ("fairface", "clip", "facepp"):
        # On the T2I models that Face++ judged.
        among = [each for each in models if each != "sd3"] if other == "facepp" else models
        difference = minus(mean_of("mivolo", among), mean_of(other, among))
        parts.append(Above(f"mean prompt bias score difference, mivolo minus {other}", difference))
    return AskedClaim(AllOf(tuple(parts)), _own_models(study))


def table1(study: StudyAsked, *, detector: str) -> Question:
    """One row of Table 1."""
    return _of_each_model(study, detector, deviation, "deviation", tolerance=DEVIATION_TOLERANCE, unit="%")


def table2(study: StudyAsked, *, detector: str) -> Question:
    """One row of Table 2."""
    return _of_each_model(
        study, detector, prompt_difference, "prompt bias score difference", tolerance=SCORE_TOLERANCE
    )


def _of_each_model(
    study: StudyAsked,
    detector: str,
    of: Callable[[str, str], Quantity],
    words: str,
    *,
    tolerance: float,
    unit: str = "",
) -> Question:
    if lacking := study.lacks(detector):
        return NotAsked(lacking)
    if study.too_few:
        return NotAsked(study.too_few)
    parts: list[Statement] = []
    for model in study.t2i_models:
        own = of(detector, model)
        papers = (own,) if model in T2I_MODELS else tuple(of(detector, each) for each in T2I_MODELS)
        parts.append(Near(f"{words} of {detector}, {model}", own, papers, tolerance, unit))
    others = any(model not in T2I_MODELS for model in study.t2i_models)
    note = "other T2I models lie in the range of the paper's three" if others else ""
    return AskedClaim(AllOf(tuple(parts)), note)


def table3(study: StudyAsked, *, detector: str) -> Question:
    """One row of Table 3."""
    if lacking := study.lacks(detector):
        return NotAsked(lacking)
    return AskedClaim(
        AllOf(
            tuple(
                Near(
                    f"{detector}: {name.replace('_', ' ')}",
                    rate(name, detector),
                    (rate(name, detector),),
                    SHARE_TOLERANCE,
                    "%",
                )
                for name in RATES
            )
        ),
        "" if study.is_alike else "over the study's own T2I models",
    )


def accurate_but_filtering(study: StudyAsked) -> Question:
    """High accuracy and low recall in one detector."""
    asked = [each for each in ("clip_prob", "blip2") if each in study.detectors]
    if not asked:
        return NotAsked("the study has neither clip_prob nor blip2")
    parts: list[Statement] = []
    for detector in asked:
        parts.append(Above(f"accuracy of {detector}", rate("accuracy", detector), RIGHT, "%"))
        recall = below(rate("recall", detector), _LOW_RECALL)
        parts.append(Above(f"67 % minus recall of {detector}", recall, unit="%"))
    return AskedClaim(AllOf(tuple(parts)))


def filtering_is_the_cause(study: StudyAsked) -> Question:
    """Which of the two processes has the larger part in the error."""
    asked = [each for each in ("clip_prob", "blip2") if each in study.detectors]
    if not asked:
        return NotAsked("the study has neither clip_prob nor blip2")
    return AskedClaim(
        AllOf(
            tuple(
                Above(f"filtering minus classification, {detector}", filtering_minus_classification(detector))
                for detector in asked
            )
        ),
        "filtering has the larger part in the prompt bias score difference",
    )


def language_models_filter_badly(study: StudyAsked) -> Question:
    """Filter rates and recalls of vision-language models."""
    asked = [each for each in VISION_LANGUAGE if each in study.detectors]
    if not asked:
        return NotAsked(f"the study has none of {', '.join(VISION_LANGUAGE)}")
    return AskedClaim(
        AllOf(
            tuple(
                AnyOf(
                    (
                        Above(
                            f"50 % minus filter rate of {each}", below(rate("filter_rate", each), _HALF), unit="%"
                        ),
                        Above(f"67 % minus recall of {each}", below(rate("recall", each), _LOW_RECALL), unit="%"),
                    )
                )
                for each in asked
            )
        ),
        "each filters less than half of the low-quality images, or keeps less than 67 % of the clear ones",
    )


def rates_above(study: StudyAsked, *, borders: dict[str, float], detectors: Sequence[str]) -> Question:
    """Rates of detectors that exceed a border each."""
    asked = [each for each in detectors if each in study.detectors]
    if not asked:
        return NotAsked(f"the study has none of {', '.join(detectors)}")
    parts = tuple(
        Above(f"{name.replace('_', ' ')} of {each}", rate(name, each), border, "%")
        for each in asked
        for name, border in borders.items()
    )
    return AskedClaim(AllOf(parts), "" if len(asked) == len(detectors) else f"{', '.join(asked)} alone")


def better_on_men(study: StudyAsked) -> Question:
    """The sign of the accuracy gap."""
    present = [each for each in SEVEN if each in study.detectors]
    asked = present or list(study.detectors)
    if not asked:
        return NotAsked("the study has no detector")
    return AskedClaim(
        AllOf(tuple(Above(f"accuracy on men minus women, {each}", rate("gap", each), unit="%") for each in asked)),
        "" if present else "the study's own detectors",
    )


def better_filter(study: StudyAsked) -> Question:
    """CLIP-Enhance's filter rate and FairFace's."""
    if lacking := study.lacks(ENHANCED, "fairface"):
        return NotAsked(lacking)
    difference = minus(rate("filter_rate", ENHANCED), rate("filter_rate", "fairface"))
    return AskedClaim(Above("filter rate, clip_enhance minus fairface", difference, unit="%"))
