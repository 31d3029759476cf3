"""The detectors of a study against each other: who is compared with whom, and what comes of it as long tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.evaluation.coded_predictions import CodedPredictions
from detector_bench.evaluation.comparison import (
    COMPARED_METRICS,
    ComparisonFamily,
    Contest,
    check_same_images,
    images_judged_differently,
)
from detector_bench.evaluation.counting import Counts, count_verdicts
from detector_bench.evaluation.image_index import LabelledImages
from detector_bench.evaluation.image_verdicts import rows_of_attribute
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.ranking import RankedDetector, ranking
from detector_bench.metrics import JointVerdicts, NClear, could_not_run, images_without_verdict
from detector_bench.vocabulary import ALL

CONTEST_COLUMNS = ("image_sha256",)
"""What `read_predictions` has to read to know which files were judged."""

_TESTED = ("first_value", "second_value", "difference", "ci_low", "ci_high", "p_value", "told_apart")
COMPARISON_COLUMNS = (
    *("attribute", "t2i_model", "metric", "first", "second"),
    *_TESTED,
    *("images", "tests"),
)
"""One row per metric and pair of detectors, `first` before `second` in the study; see `comparison.PairedTest`.
`images`: how many labelled images; `tests`: how many comparisons were tested together."""

_SEEN = ("first_value", "second_value", "only_first", "only_second", "p_value")
PAIRED_IMAGE_COLUMNS = ("attribute", "t2i_model", "share", "first", "second", *_SEEN)
"""One row per share and pair of detectors; see `comparison.PairedImages`."""

RANK_COLUMNS = (
    *("attribute", "t2i_model", "metric", "detector", "rank", "rank_low", "rank_high", "score", "groups"),
    *("better_than", "images", "tests"),
)
"""One row per metric and detector, best first; see `ranking.RankedDetector`. `better_than`: names with spaces
between them. Ranks over all T2I models ("all") are one family of tests with the comparisons; ranks on each T2I
model, by the prompt bias error alone, are a second one with those of all attributes."""

BY_T2I_MODEL = "prompt_bias_error"
"""By which detectors are ranked on each T2I model: it decides which one the report can trust there."""


@dataclass(frozen=True, eq=False)
class DetectorContest:
    """The detectors that judged the same images of one attribute."""

    attribute: str
    contest: Contest
    left_out: tuple[str, ...]
    """Detectors that were judged on other images, or could not run on all T2I models."""

    @classmethod
    def of(
        cls,
        image_set: LabelledImages,
        predictions: Mapping[str, pa.Table],
        *,
        attribute: str,
        pair: tuple[str, str] | None = None,
        max_error_share: float = 1.0,
    ) -> Self:
        """Gather the detectors that judged the same images.

        Args:
            image_set: images, prompts and human labels.
            predictions: by detector, with the columns `CONTEST_COLUMNS`.
            attribute: which one.
            pair: two detectors that must be comparable, while others may be left out; None: all must.
            max_error_share: detectors that gave no verdict on a larger share of a T2I model's images are left out
                (`metrics.failing`).

        Raises:
            ConfigError: one of the pair, or all but one detector, do not judge the attribute.
            DetectorBenchError: detectors were judged on different images.
        """
        left_out = _judged_on_other_images(predictions, attribute=attribute, pair=pair)
        kept = predictions
        if left_out:
            kept = {name: table for name, table in predictions.items() if name not in left_out}
        counts = count_verdicts(image_set, kept, attribute=attribute, allow_incomplete=True)
        return cls.of_counts(attribute, counts, max_error_share=max_error_share, left_out=left_out)

    @classmethod
    def of_counts(
        cls, attribute: str, counts: Counts, *, max_error_share: float, left_out: Sequence[str] = ()
    ) -> Self:
        """The detectors that could run on every T2I model; see `of`."""
        failed = _failed(counts, max_error_share=max_error_share).any(axis=1)
        able = np.flatnonzero(~failed).tolist()
        names = tuple(counts.detectors[number] for number in able)
        others = tuple(name for name in counts.detectors if name not in names)
        joint = counts.joint if not others else counts.joint.of_detectors(able)
        return cls(attribute, Contest(joint, names), (*left_out, *others))

    def family(
        self, intervals: Intervals, *, n_clear: NClear, metrics: Sequence[str] = COMPARED_METRICS
    ) -> ComparisonFamily:
        """All pairs of the detectors by all these metrics, tested at once.

        Raises:
            ConfigError: a metric that detectors cannot be compared by.
        """
        return ComparisonFamily.of(
            [self.contest],
            metrics=tuple(dict.fromkeys(metrics)),
            unit=intervals.unit,
            seed=intervals.seed,
            level=intervals.level,
            n_clear=n_clear,
        )

    def test_rows(self, family: ComparisonFamily) -> Iterator[dict[str, Any]]:
        """Every comparison as a row of `COMPARISON_COLUMNS`."""
        about = {"images": self.contest.joint.images, "tests": family.size}
        for metric in family.metrics:
            for first, second in combinations(range(len(self.contest.detectors)), 2):
                _, *tested = family.test(metric, first, second)
                numbers = dict(zip(_TESTED, tested, strict=True))
                yield self._place(first, second) | {"metric": metric} | numbers | about

    def rank_rows(self, family: ComparisonFamily) -> Iterator[dict[str, Any]]:
        """Every detector's rank by every metric, as `RANK_COLUMNS`."""
        return _rank_rows(family, [(self.attribute, ALL)])

    def image_rows(self) -> Iterator[dict[str, Any]]:
        """What McNemar's tests say of every pair, as `PAIRED_IMAGE_COLUMNS`."""
        for first, second in combinations(range(len(self.contest.detectors)), 2):
            for share, *seen in images_judged_differently(self.contest.joint, first, second):
                yield self._place(first, second) | {"share": share} | dict(zip(_SEEN, seen, strict=True))

    def _place(self, first: int, second: int) -> dict[str, str]:
        names = self.contest.detectors
        return {"attribute": self.attribute, "t2i_model": ALL, "first": names[first], "second": names[second]}


def _judged_on_other_images(
    predictions: Mapping[str, pa.Table], *, attribute: str, pair: tuple[str, str] | None = None
) -> tuple[str, ...]:
    """The detectors that cannot be compared with the pair; without a pair that is an error, as `of` says."""
    judging = [name for name in predictions if _judges(predictions, name, attribute)]
    silent = [name for name in (pair or predictions) if name not in judging]
    if silent and (pair or len(judging) < 2):
        raise ConfigError(f"{', '.join(silent)} does not judge {attribute}: nothing to compare")
    left_out = []
    for name in sorted(judging, key=lambda each: each not in (pair or ())):
        try:
            _check_same_images(pair[0] if pair else judging[0], name, predictions, attribute=attribute)
        except DetectorBenchError:
            if pair is None or name in pair:
                raise
            left_out.append(name)
    return tuple(left_out)


def _judges(predictions: Mapping[str, pa.Table], detector: str, attribute: str) -> bool:
    if isinstance(predictions, CodedPredictions):
        return attribute in predictions.status_counts[detector]
    return len(rows_of_attribute(predictions[detector], attribute)) > 0


def _check_same_images(first: str, second: str, predictions: Mapping[str, pa.Table], *, attribute: str) -> None:
    """As `check_same_images`; at once where the predictions evidently agree."""
    if isinstance(predictions, CodedPredictions):
        if predictions.evidently_same_images(first, second, attribute):
            return
    else:
        columns = ["image_id", "image_sha256"]
        one, other = (rows_of_attribute(predictions[name], attribute).select(columns) for name in (first, second))
        if one.equals(other):
            return
    tables = {name: predictions[name] for name in (first, second)}
    check_same_images(first, second, tables, attribute=attribute)


class ContestTables(NamedTuple):
    """The long tables of all contests of a study."""

    comparisons: pd.DataFrame
    images_judged_rightly: pd.DataFrame
    ranks: pd.DataFrame
    not_comparable: dict[str, str]
    """By attribute, why its detectors should not be compared although they stand there."""


def contest_tables(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attributes: Sequence[str],
    n_clear: NClear,
    intervals: Intervals,
    max_error_share: float,
) -> ContestTables:
    """Compare and rank a study's detectors, with unit, seed and level of its intervals.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with the columns `CONTEST_COLUMNS`.
        attributes: which ones.
        n_clear: denominator of prompt bias scores.
        intervals: of the study.
        max_error_share: a detector that gave no verdict on a larger share of a T2I model's images is not ranked
            there, and neither compared nor ranked over all T2I models (`metrics.failing`).
    """
    tests: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    places: list[tuple[str, str]] = []
    contests: list[Contest] = []
    not_comparable = {}
    for attribute in attributes:
        counts = count_verdicts(image_set, predictions, attribute=attribute, allow_incomplete=True)
        try:
            _judged_on_other_images(predictions, attribute=attribute)
        except DetectorBenchError as error:
            not_comparable[attribute] = str(error)
        contest = DetectorContest.of_counts(attribute, counts, max_error_share=max_error_share)
        if contest.contest.detectors and counts.joint.images:
            family = contest.family(intervals, n_clear=n_clear)
            tests += contest.test_rows(family)
            images += contest.image_rows()
            ranks += contest.rank_rows(family)
        for model, own in _contests_of_t2i_models(counts, max_error_share=max_error_share):
            places.append((attribute, model))
            contests.append(own)
    if contests:
        family = ComparisonFamily.of(
            contests,
            metrics=(BY_T2I_MODEL,),
            unit=intervals.unit,
            seed=intervals.seed,
            level=intervals.level,
            n_clear=n_clear,
        )
        ranks += _rank_rows(family, places)
    return ContestTables(
        pd.DataFrame(tests, columns=list(COMPARISON_COLUMNS)),
        pd.DataFrame(images, columns=list(PAIRED_IMAGE_COLUMNS)),
        pd.DataFrame(ranks, columns=list(RANK_COLUMNS)),
        not_comparable,
    )


def _rank_rows(family: ComparisonFamily, places: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Every detector's rank by every metric; `places`: attribute and T2I model of each contest."""
    for number, (attribute, t2i_model) in enumerate(places):
        about = {"images": family.contests[number].joint.images, "tests": family.size}
        for metric in family.metrics:
            for each in ranking(family, metric, contest=number):
                place = {"attribute": attribute, "t2i_model": t2i_model, "metric": metric}
                yield place | each._asdict() | {"better_than": " ".join(each.better_than)} | about


def ranked_detectors(rows: pd.DataFrame) -> list[RankedDetector]:
    """The rows of one metric in `ranks` as they were computed, best first."""
    return [
        RankedDetector(
            row["detector"],
            row["rank"],
            int(row["rank_low"]),
            int(row["rank_high"]),
            row["score"],
            row["groups"],
            tuple(row["better_than"].split()),
        )
        for row in rows.to_dict("records")
    ]


def _contests_of_t2i_models(counts: Counts, *, max_error_share: float) -> Iterator[tuple[str, Contest]]:
    """The detectors that could run on each T2I model, where there are two or more."""
    failed = _failed(counts, max_error_share=max_error_share)
    for position, model in enumerate(counts.t2i_models):
        able = np.flatnonzero(~failed[:, position]).tolist()
        joint = _of_t2i_model(counts.joint, position)
        if len(able) > 1 and joint.images:
            yield model, Contest(joint.of_detectors(able), tuple(counts.detectors[number] for number in able))


def _failed(counts: Counts, *, max_error_share: float) -> NDArray[np.bool_]:
    """Which detectors could not run on which T2I models: `[detector, t2i_model]`."""
    without = images_without_verdict(counts.verdicts).sum(axis=-1)
    return could_not_run(without, counts.human.sum(axis=(-2, -1)), max_error_share=max_error_share)


def _of_t2i_model(joint: JointVerdicts, position: int) -> JointVerdicts:
    own = joint.pair // joint.prompts == position
    return JointVerdicts(
        truth=joint.truth[own],
        verdicts=np.ascontiguousarray(joint.verdicts[:, own]),
        pair=joint.pair[own] - position * joint.prompts,
        t2i_models=1,
        scopes=joint.scopes,
        classes=joint.classes,
    )
