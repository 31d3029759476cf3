"""A study's data for the referee: counts of gender, and both annotators' labels."""

from __future__ import annotations

from collections.abc import Sequence

from detector_bench.dataset import ImageSet
from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.image_index import NULL, ImageIndex, annotators_labels
from detector_bench.metrics.agreement import contingency
from detector_bench.metrics.counts import CountArray
from detector_bench.others.lyu2025.detector_questions import ENHANCED, SEVEN
from detector_bench.others.lyu2025.published import T2I_MODELS, published_tables
from detector_bench.others.lyu2025.referee import JudgedClaim, judged_claims
from detector_bench.vocabulary import attribute_named

GENDER = "gender"
"""All claims are about it."""

_TWO = 2


def concerns(detectors: Sequence[str], t2i_models: Sequence[str]) -> bool:
    """Whether a study has any of the paper's detectors or T2I models by name."""
    return bool({*detectors} & {*SEVEN, ENHANCED} or {*t2i_models} & {*T2I_MODELS})


def claims_of_study(image_set: ImageSet, counts: Counts, *, seed: int = 0) -> list[JudgedClaim]:
    """Ask a study all claims of Lyu 2025.

    Args:
        image_set: its images and labels.
        counts: of gender.
        seed: of all draws.
    """
    annotators, number = _annotators(image_set)
    return judged_claims(counts, published_tables(), annotators=annotators, number_of_annotators=number, seed=seed)


def _annotators(image_set: ImageSet) -> tuple[CountArray | None, int]:
    """Images by the labels of the two annotators; None if there are not just two. And how many there are."""
    kind = attribute_named(GENDER)
    given = list(annotators_labels(image_set, ImageIndex.of(image_set), kind).values())
    given = [each for each in given if (each != NULL).any()]
    if len(given) != _TWO:
        return None, len(given)
    first, second = given
    return contingency(first, second, labels=len(kind.labels)), _TWO
