"""How far annotators agree, with intervals: in all, by T2I model, by category and by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.questions import Question
from detector_bench.metrics import Score
from detector_bench.metrics.agreement import (
    cohen_interval,
    cohen_kappa,
    contingency,
    fleiss_interval,
    fleiss_kappa,
    label_counts,
    percent_agreement,
)
from detector_bench.metrics.counts import CountArray
from detector_bench.metrics.intervals import Interval
from detector_bench.vocabulary import ALL

NO_LABEL = -1
"""In place of the position of a label."""


class Round(StrEnum):
    """A part of the labelling."""

    ALL = "all"
    CALIBRATION = "calibration"
    """The items that everybody labels first, as they were labelled before their discussion."""
    AFTER = "after"
    """The items that are not part of the calibration round."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement on some images.

    Attributes:
        kappa: Cohen's of two annotators, Fleiss' of more: 1 full agreement, 0 what chance gives. NaN if undefined.
        low, high: limits of its 95 % interval; NaN where there is none.
        percent: share of pairs of labels of one image that are equal, 0 to 1; NaN without any pair.
        images: on how many images kappa rests: two annotators, those that both labelled; more, those with the most
            common number of labels.
        compared: images with two labels or more.
    """

    kappa: float
    low: float
    high: float
    percent: float
    images: int
    compared: int


@dataclass(frozen=True, slots=True)
class ScopedAgreement:
    """Agreement on the images of a T2I model and of a category; either is "all"."""

    t2i_model: str
    category: str
    agreement: Agreement


class LabelsSideBySide:
    """The labels of one question, image by image.

    Args:
        image_set: images and prompts.
        given: labels as people gave them on their own, see `LabelStore.given(independent=True)`.
        question: which one.

    Attributes:
        annotators: everybody who answered the question, in alphabetical order.
        t2i_models, categories: those of the image set, in its order.
    """

    def __init__(self, image_set: ImageSet, given: Sequence[GivenLabel], question: Question) -> None:
        self.question = question
        self.t2i_models = [str(name) for name in image_set.images["t2i_model"].unique()]
        self.categories = [str(name) for name in image_set.prompts["category"].unique() if name]
        of_question = [one for one in given if one.question == question.name]
        code = {label: position for position, label in enumerate(question.labels)}
        in_calibration = {one.item.item_id: one.item.in_calibration for one in of_question}
        row = {image_id: position for position, image_id in enumerate(in_calibration)}
        self.annotators = sorted({one.annotator for one in of_question})
        self._codes = {name: np.full(len(row), NO_LABEL) for name in self.annotators}
        for one in of_question:
            self._codes[one.annotator][row[one.item.item_id]] = code[one.choice.label]
        self._in_calibration = np.array(list(in_calibration.values()), dtype=bool)
        images = image_set.images.set_index("image_id").loc[list(row)]
        self._t2i_model = images["t2i_model"].to_numpy()
        category_of = dict(zip(image_set.prompts["prompt_id"], image_set.prompts["category"], strict=True))
        self._category = images["prompt_id"].map(category_of).to_numpy()

    def agreement(
        self,
        annotators: Sequence[str],
        *,
        part: Round = Round.ALL,
        t2i_model: str = ALL,
        category: str = ALL,
    ) -> Agreement:
        """Agreement of two or more annotators."""
        chosen = self._chosen(part, t2i_model, category)
        codes = [self._codes[name][chosen] for name in annotators]
        return agreement_of(codes, labels=len(self.question.labels))

    def by_scope(self, annotators: Sequence[str], *, part: Round = Round.ALL) -> Iterator[ScopedAgreement]:
        """Agreement for each T2I model, then for each category, in the image set's order."""
        for t2i_model, category in self.scopes:
            found = self.agreement(annotators, part=part, t2i_model=t2i_model, category=category)
            yield ScopedAgreement(t2i_model, category, found)

    @property
    def scopes(self) -> list[tuple[str, str]]:
        """Each T2I model with all categories, then all T2I models with each category."""
        return [*((name, ALL) for name in self.t2i_models), *((ALL, name) for name in self.categories)]

    def confusion(
        self,
        first: str,
        second: str,
        *,
        part: Round = Round.ALL,
        t2i_model: str = ALL,
        category: str = ALL,
    ) -> CountArray:
        """Images by the label of one annotator (rows) and of another (columns), in the order of the labels."""
        chosen = self._chosen(part, t2i_model, category)
        rows, columns = self._codes[first][chosen], self._codes[second][chosen]
        return contingency(rows, columns, labels=len(self.question.labels))

    def _chosen(self, part: Round, t2i_model: str, category: str) -> NDArray[np.bool_]:
        chosen = np.ones(len(self._in_calibration), dtype=bool)
        if part is not Round.ALL:
            chosen &= self._in_calibration == (part is Round.CALIBRATION)
        if t2i_model != ALL:
            chosen &= self._t2i_model == t2i_model
        if category != ALL:
            chosen &= self._category == category
        return chosen


def agreement_of(codes: Sequence[NDArray[np.int64]], *, labels: int) -> Agreement:
    """Agreement of two or more annotators.

    Args:
        codes: by annotator, the position of each image's label; `NO_LABEL` where there is none.
        labels: how many there are.
    """
    counts = label_counts(codes, labels=labels)
    if len(codes) == 2:
        confusion = contingency(*codes, labels=labels)
        kappa, interval = cohen_kappa(confusion), cohen_interval(confusion)
    else:
        kappa, interval = fleiss_kappa(counts), fleiss_interval(counts)
    return _agreement(kappa, interval, percent_agreement(counts))


def _agreement(kappa: Score, interval: Interval, percent: Score) -> Agreement:
    return Agreement(
        kappa=float(kappa.value),
        low=float(interval.low),
        high=float(interval.high),
        percent=float(percent.value),
        images=int(kappa.n),
        compared=int(percent.n),
    )
