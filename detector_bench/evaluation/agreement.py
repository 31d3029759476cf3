"""Agreement between annotators, and between each detector and each human, laid out as a long table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.evaluation.image_index import (
    NULL,
    AnnotatedImages,
    ImageIndex,
    IntArray,
    annotators_labels,
    human_label_codes,
)
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics import Score, pool
from detector_bench.metrics.agreement import (
    LEVEL,
    NO_INTERVAL,
    cohen_interval,
    cohen_kappa,
    fleiss_interval,
    fleiss_kappa,
    krippendorff_alpha,
    krippendorff_interval,
    label_counts,
    one_against_rest,
    percent_agreement,
)
from detector_bench.metrics.intervals import Interval
from detector_bench.vocabulary import ALL, GROUND_TRUTH, attribute_named

AGREEMENT_COLUMNS = (
    "attribute",
    "raters",
    "first",
    "second",
    "t2i_model",
    "category",
    "label",
    "statistic",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "n_left_out",
)
"""One row per number. `raters` is one of the constants below; `first` and `second` are empty for all annotators
together. `label` is "all", or the one label that is told apart from all the others. `n` counts images;
`percent_agreement` has no interval."""

ALL_ANNOTATORS = "all_annotators"
TWO_ANNOTATORS = "two_annotators"
DETECTOR_AND_HUMAN = "detector_and_human"

DEFAULT_MIN_SHARED = 10
"""Pairs with fewer images in common are left out: crowd workers share a handful by chance."""


class _Scope(NamedTuple):
    t2i_model: str
    category: str
    place: tuple[int, int]
    """Among the sums of `Scopes`."""
    images: NDArray[np.bool_]


class _Pair(NamedTuple):
    raters: str
    first: str
    second: str
    contingency: IntArray
    """Images by the labels of both, behind these the images that one of them has not labelled, `[1 + T2I models,
    1 + categories, label + 1, label + 1]`."""

    @property
    def shared(self) -> int:
        """How many images both have labelled."""
        return int(self.contingency[0, 0, :-1, :-1].sum())


def agreement(
    image_set: AnnotatedImages,
    predictions: Mapping[str, pa.Table] | None = None,
    *,
    attribute: str = "gender",
    min_shared: int = DEFAULT_MIN_SHARED,
    intervals: Intervals | None = None,
) -> pd.DataFrame:
    """Measure agreement over everything, for each T2I model, and for each prompt category.

    All annotators together: percent agreement, Fleiss' kappa and Krippendorff's alpha. Pairs: percent agreement
    and Cohen's kappa; every two annotators, and every detector with every annotator and, where there are several
    annotators, with the consensus (`ground_truth`). The label that a detector gives a filtered image is
    `low_quality`; an image without a verdict, or without a person's label, is missing. The adjudicator, who has
    seen the others' labels, is no annotator here.

    Args:
        image_set: images, prompts and labels.
        predictions: by detector, with the columns `reason` and `score`; None for people alone.
        attribute: which one.
        min_shared: pairs with fewer images in common have no row.
        intervals: their level, and whether there are any; None: 95 %. They need no resamples.

    Returns:
        Columns as in `AGREEMENT_COLUMNS`. A value is NaN where only one label was given.

    Raises:
        ConfigError, DataError: as in `count_verdicts`. Images without a prediction are simply missing.
    """
    index, kind = ImageIndex.of(image_set), attribute_named(attribute)
    annotators = annotators_labels(image_set, index, kind)
    detectors = _detectors(image_set, index, predictions, attribute=attribute) if predictions else {}
    humans = dict(annotators)
    if len(annotators) > 1:
        humans[GROUND_TRUTH] = human_label_codes(image_set, index, kind).astype(np.int64)
    raters = _Raters(index, attribute, kind.labels, annotators, detectors, humans)
    settings = intervals or Intervals()
    return raters.compared(min_shared=min_shared, level=None if settings.method == "none" else settings.level)


def agreement_of_given(
    image_set: AnnotatedImages,
    given: Mapping[str, Mapping[str, str]],
    *,
    attribute: str,
    labels: Sequence[str],
    min_shared: int = 1,
) -> pd.DataFrame:
    """Measure how far people agree whose labels are not, or not yet, those of the image set.

    Args:
        image_set: images and prompts.
        given: by annotator, the label of each image by its id.
        attribute: what they are about, as the rows are to say it.
        labels: all that may be given.
        min_shared: pairs with fewer images in common have no row.

    Returns:
        The rows that `agreement` gives for people alone.
    """
    index, code = ImageIndex.of(image_set), {label: position for position, label in enumerate(labels)}
    annotators = {}
    for name in sorted(given):
        codes = np.full(len(index.cells), NULL, dtype=np.int64)
        codes[index.positions(pd.Series(list(given[name]), dtype="str"))] = [
            code[one] for one in given[name].values()
        ]
        annotators[name] = codes
    raters = _Raters(index, attribute, tuple(labels), annotators, {}, annotators)
    return raters.compared(min_shared=min_shared, level=LEVEL)


@dataclass(frozen=True, slots=True)
class _Raters:
    """Everybody's label of each image, by name: positions among the labels, `NULL` where there is none."""

    index: ImageIndex
    attribute: str
    labels: Sequence[str]
    annotators: Mapping[str, NDArray[np.integer]]
    detectors: Mapping[str, NDArray[np.integer]]
    humans: Mapping[str, NDArray[np.integer]]
    """Whom detectors are compared with."""

    def compared(self, *, min_shared: int, level: float | None) -> pd.DataFrame:
        """All rows, with intervals of this level; None: without."""
        shared = [pair for pair in self._pairs() if pair.shared >= min_shared]
        rows: list[dict[str, object]] = []
        for scope in _scopes(self.index):
            place = {"attribute": self.attribute, "t2i_model": scope.t2i_model, "category": scope.category}
            if len(self.annotators) > 1:
                names = {"raters": ALL_ANNOTATORS, "first": "", "second": ""}
                given = [each[scope.images] for each in self.annotators.values()]
                counts = label_counts(given, labels=len(self.labels))
                rows += [place | names | row for row in _group_rows(counts, self.labels, level=level)]
            for pair in shared:
                names = {"raters": pair.raters, "first": pair.first, "second": pair.second}
                rows += [place | names | row for row in _pair_rows(pair, scope, self.labels, level=level)]
        return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))

    def _pairs(self) -> Iterator[_Pair]:
        for first, second in combinations(self.annotators, 2):
            yield self._pair(TWO_ANNOTATORS, (first, self.annotators[first]), (second, self.annotators[second]))
        for detector, said in self.detectors.items():
            for human, labelled in self.humans.items():
                yield self._pair(DETECTOR_AND_HUMAN, (detector, said), (human, labelled))

    def _pair(
        self, raters: str, first: tuple[str, NDArray[np.integer]], second: tuple[str, NDArray[np.integer]]
    ) -> _Pair:
        labels = len(self.labels)
        counts = self.index.count((first[1], labels), (second[1], labels))
        return _Pair(raters, first[0], second[0], pool(counts, scopes=self.index.scopes))


def _detectors(
    image_set: AnnotatedImages, index: ImageIndex, predictions: Mapping[str, pa.Table], *, attribute: str
) -> dict[str, NDArray[np.integer]]:
    """Every detector's label of each image: a class, low_quality if filtered, `NULL` without a verdict."""
    found = ImageVerdicts.read(image_set, predictions, attribute=attribute, index=index, allow_incomplete=True)
    # Filtered has the code that low_quality has among the labels: the one after the classes.
    labels = np.where(found.clear | found.filtered, found.verdicts, NULL)
    return {name: labels[place] for place, name in enumerate(found.detectors) if found.has_judged[place]}


def _scopes(index: ImageIndex) -> Iterator[_Scope]:
    model, prompt = index.places
    category = index.scopes.category_of_prompt[prompt]
    yield _Scope(ALL, ALL, (0, 0), index.counted)
    for position, name in enumerate(index.t2i_models):
        yield _Scope(name, ALL, (1 + position, 0), model == position)
    for position, name in enumerate(index.scopes.categories):
        of_category = index.counted & (category == position)
        if of_category.any():
            yield _Scope(ALL, name, (0, 1 + position), of_category)


def _group_rows(counts: IntArray, labels: Sequence[str], *, level: float | None) -> Iterator[dict[str, object]]:
    statistics = {
        "percent_agreement": (percent_agreement, None),
        "fleiss_kappa": (fleiss_kappa, fleiss_interval),
        "krippendorff_alpha": (krippendorff_alpha, krippendorff_interval),
    }
    for label, position in _with_all(labels):
        told_apart = counts if position is None else one_against_rest(counts, label=position)
        for name, (statistic, interval) in statistics.items():
            limits = NO_INTERVAL if interval is None or level is None else interval(told_apart, level=level)
            yield _row(label, name, statistic(told_apart), limits)


def _pair_rows(
    pair: _Pair, scope: _Scope, labels: Sequence[str], *, level: float | None
) -> Iterator[dict[str, object]]:
    with_missing = pair.contingency[scope.place]
    images = with_missing[:-1, :-1]
    left_out = np.asarray(with_missing.sum() - images.sum())
    for label, position in _with_all(labels):
        told_apart = images if position is None else one_against_rest(images, label=position, axes=(-1, -2))
        kappa = cohen_kappa(told_apart)._replace(n_left_out=left_out)
        agreed = np.trace(told_apart) / kappa.n if kappa.n else np.nan
        limits = NO_INTERVAL if level is None else cohen_interval(told_apart, level=level)
        yield _row(label, "percent_agreement", kappa._replace(value=np.asarray(agreed)), NO_INTERVAL)
        yield _row(label, "cohen_kappa", kappa, limits)


def _with_all(labels: Sequence[str]) -> list[tuple[str, int | None]]:
    return [(ALL, None), *((label, position) for position, label in enumerate(labels))]


def _row(label: str, statistic: str, score: Score, limits: Interval) -> dict[str, object]:
    return {
        "label": label,
        "statistic": statistic,
        "value": float(score.value),
        "ci_low": float(limits.low),
        "ci_high": float(limits.high),
        "n": int(score.n),
        "n_left_out": int(score.n_left_out),
    }
