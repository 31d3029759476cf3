"""Which community every judge sees in every image, by the meanings that a requirement's communities have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray
from detector_bench.others.imagebite.formulas import BoolArray
from detector_bench.others.imagebite.requirements import Requirement
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import OTHERS as OTHERS_LABEL
from detector_bench.vocabulary import attribute_named

OUTSIDE, UNANSWERED, UNKNOWN = 0, 1, 2
"""Places after the communities: a class or an age of none of them; filtered or low-quality; an error, no label, or
no age in years where one is needed."""

_MORE_PLACES = 3


@dataclass(frozen=True, slots=True)
class Answers:
    """What all judges answer to one requirement; `place` counts communities first, then the three above."""

    place: NDArray[np.intp]
    """`[judge, image]`."""
    answerable: BoolArray
    """`[judge, community]`: whether an answer of the judge can stand for the community."""

    @classmethod
    def of(cls, judgements: Judgements, requirement: Requirement) -> Answers:
        """Look every answer up."""
        labels = judgements.labels[requirement.attribute]
        if any(community.meaning.years is not None for community in requirement.communities):
            place = _by_years(labels, judgements.values[requirement.attribute], requirement)
        else:
            place = _by_class(labels, requirement)
        judged = np.array(judgements.judged[requirement.attribute])
        answerable = np.repeat(requirement.answered_by_detectors[np.newaxis], len(judged), axis=0)
        if judgements.has_truth:
            answerable[0] = requirement.answered_by_humans
        return cls(place, answerable & judged[:, np.newaxis])

    @property
    def communities(self) -> int:
        """How many communities there are."""
        return int(self.answerable.shape[1])

    def features(self) -> FloatArray:
        """`[judge, image, place]`: 1 where the image has that answer, else 0."""
        return np.asarray(np.eye(self.communities + _MORE_PLACES)[self.place])

    def counts(self, judgements: Judgements) -> NDArray[np.int64]:
        """Images by answer: `[judge, t2i_model, prompt, place]`; seed photos are left out."""
        return np.stack([judgements.sums(each) for each in self.features()]).astype(np.int64)


def _by_class(labels: NDArray[np.int8], requirement: Requirement) -> NDArray[np.intp]:
    classes = attribute_named(requirement.attribute).classes
    communities = len(requirement.communities)
    known = np.full(len(classes), communities + OUTSIDE)
    others = communities + OUTSIDE
    for index, community in enumerate(requirement.communities):
        for label in community.meaning.labels:
            if label == OTHERS_LABEL:
                others = index
            else:
                known[classes.index(label)] = index
    return _with_unclear(labels, known[np.maximum(labels, 0)], communities, others=others)


def _by_years(labels: NDArray[np.int8], values: NDArray[np.float64], requirement: Requirement) -> NDArray[np.intp]:
    """The age decides, not the class; a class without an age says nothing about years."""
    communities = len(requirement.communities)
    place = np.full(labels.shape, communities + OUTSIDE)
    for index, community in enumerate(requirement.communities):
        years = community.meaning.years
        if years is not None:
            place[(values >= years.first) & (values < years.last + 1)] = index
    place = np.where(np.isnan(values), communities + UNKNOWN, place)
    return _with_unclear(labels, place, communities, others=communities + OUTSIDE)


def _with_unclear(
    labels: NDArray[np.int8], place: NDArray[np.intp], communities: int, *, others: int
) -> NDArray[np.intp]:
    unclear = [labels == UNJUDGED, labels == NO_VERDICT, labels == OTHERS]
    found = np.select(unclear, [communities + UNANSWERED, communities + UNKNOWN, others], place)
    return found.astype(np.intp)
