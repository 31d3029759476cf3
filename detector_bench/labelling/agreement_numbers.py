"""How far annotators agree, with intervals: in all, by T2I model, by category and by round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset import ImageSet
from detector_bench.labelling.label_table import GivenLabel
from detector_bench.labelling.questions import Question
from detector_bench.metrics import Score
from detector_bench.metrics.agreement import (
    cohen_kappa,
    contingency,
    fleiss_kappa,
    label_counts,
    percent_agreement,
)
from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.metrics.intervals import Interval
from detector_bench.vocabulary import ALL

LEVEL = 0.95
NO_LABEL = -1
"""In place of the position of a label."""

_NO_INTERVAL = Interval(np.asarray(np.nan), np.asarray(np.nan))


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


def cohen_interval(contingency: CountArray, *, level: float = LEVEL) -> Interval:
    """Interval of Cohen's kappa from the standard error of Fleiss, Cohen and Everitt (1969), by statsmodels.

    Args:
        contingency: images by the label of the first and of the second annotator, `[label, label]`.
        level: 0.95 for a 95 % interval.

    Returns:
        Limits within -1 and 1; NaN where kappa is undefined, and where the two never differ: then the formula's
        standard error is 0, which is no finding.
    """
    from statsmodels.stats.inter_rater import cohens_kappa

    used = np.flatnonzero(contingency.sum(axis=0) + contingency.sum(axis=1))
    if used.size < 2 or np.trace(contingency) == contingency.sum():
        return _NO_INTERVAL
    with np.errstate(invalid="ignore"):  # of a test of kappa = 0, which is not asked for
        found = cohens_kappa(contingency[np.ix_(used, used)])
    return _within_limits(found.kappa, found.std_kappa, level=level)


def fleiss_interval(label_counts: CountArray, *, level: float = LEVEL) -> Interval:
    """Interval of Fleiss' kappa from the jackknife over images (Fleiss and Davies 1982).

    Images with the same labels have the same influence, so one of each kind is left out once.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`; images are used as in `fleiss_kappa`.
        level: 0.95 for a 95 % interval.

    Returns:
        Limits within -1 and 1; NaN where kappa is undefined, and where nobody ever differs.
    """
    labels = label_counts.sum(axis=1)
    if not (labels > 1).any():
        return _NO_INTERVAL
    images_with = np.bincount(labels[labels > 1])
    used = label_counts[labels == np.flatnonzero(images_with == images_with.max()).max()]
    kinds, kind, times = np.unique(used, axis=0, return_inverse=True, return_counts=True)
    kappa, images = fleiss_kappa(used).value, len(used)
    if np.isnan(kappa) or kappa == 1 or images < 2:
        return _NO_INTERVAL
    first_of_kind = [int(np.flatnonzero(kind == position)[0]) for position in range(len(kinds))]
    left_out = np.array([fleiss_kappa(np.delete(used, row, axis=0)).value for row in first_of_kind])
    if np.isnan(left_out).any():
        return _NO_INTERVAL
    mean = (times * left_out).sum() / images
    error = np.sqrt((images - 1) / images * (times * (left_out - mean) ** 2).sum())
    return _within_limits(float(kappa), float(error), level=level)


def _within_limits(kappa: float, error: float, *, level: float) -> Interval:
    if not error > 0:
        return _NO_INTERVAL
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    limits: list[FloatArray] = [np.asarray(np.clip(kappa + side * half, -1, 1)) for side in (-1, 1)]
    return Interval(*limits)


def _agreement(kappa: Score, interval: Interval, percent: Score) -> Agreement:
    return Agreement(
        kappa=float(kappa.value),
        low=float(interval.low),
        high=float(interval.high),
        percent=float(percent.value),
        images=int(kappa.n),
        compared=int(percent.n),
    )
