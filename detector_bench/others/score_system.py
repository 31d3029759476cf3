"""What every score system shares: its settings in a study file, and the way from its scores to metric rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from detector_bench.estimation import UNLABELLED, PartlyLabelled
from detector_bench.estimation.images_set_apart import chances_of_sample, labels_that_count
from detector_bench.estimation.number_sums import EstimatedSums, estimated_sums, of_noise
from detector_bench.evaluation.intervals import Intervals
from detector_bench.metrics.catalogue import METRICS
from detector_bench.metrics.counts import FloatArray, Score, divide
from detector_bench.metrics.intervals import (
    ENOUGH_FOR_PERCENTILES,
    Interval,
    mean_of_defined,
    percentile_interval,
    standard_error_interval,
    wilson_interval,
)
from detector_bench.metrics.resampling import ImageSums, over_blocks
from detector_bench.others.judgements import NO_CELL, DrawnLabels, Judgements
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import METRIC_COLUMNS

_UNSURE = 0.5
"""Which part of what is taken off an estimate counts as a standard deviation: it is itself an estimate."""


class Computed(NamedTuple):
    """The values of one score, for all judges."""

    attribute: str
    """What the score is about; `all` where it combines several attributes."""
    metric: str
    score: Score
    """`[..., judge, 1 + T2I models, 1 + categories]`, or of single prompts `[..., judge, t2i_model, prompt]`."""
    of_prompts: bool = False
    deviates: bool = False
    """Whether each detector also gets `<metric>_deviation`: (detected - actual) / actual."""
    is_share: bool = False
    """Whether it is a share of `score.n` things: then its interval is Wilson's."""
    detectors_only: bool = False
    """Whether it compares a detector with the ground truth, so that the ground truth itself has no row."""
    has_estimated_interval: bool = True
    """Whether estimates of it from few labels have intervals; False where these did not hold the truth."""


ScoreFunction = Callable[[FloatArray], Sequence[Computed]]
"""From sums `[..., judge, t2i_model, prompt, feature]` to scores; further leading axes are resamples."""


class ScoreSystem(BaseModel, ABC):
    """Settings of a score system: an entry under `scores` of a study file.

    A subclass has parameters as fields. Files are fields of type Path, relative to the study file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str
    """The name under which it is registered; a subclass may narrow it."""

    @property
    @abstractmethod
    def attributes(self) -> tuple[str, ...]:
        """The attributes whose answers it needs."""

    @property
    @abstractmethod
    def variant(self) -> str:
        """What stands in the column `variant` of its metric rows."""

    @property
    def definitions(self) -> tuple[str, ...]:
        """Every word that its rows can have in that column; no other entry of the same system may have it."""
        return (self.variant,)

    @abstractmethod
    def rows(self, judgements: Judgements, intervals: Intervals) -> pd.DataFrame:
        """Compute the scores of all judges as rows of a metric table.

        Raises:
            ConfigError: the settings do not fit the image set.
            DataError: a file of the settings is wrong.
        """

    def notes(self, judgements: Judgements) -> dict[str, tuple[str, ...]]:  # noqa: ARG002 - for subclasses
        """By variant, what has to be said below its tables, such as mistakes in a file that were mended."""
        return {}

    def files(self, judgements: Judgements, intervals: Intervals) -> dict[str, pd.DataFrame]:  # noqa: ARG002
        """Further tables for the result folder, by file name (`mine.csv`); those of one name are joined."""
        return {}

    def with_files(self, moved: Callable[[Path], Path]) -> ScoreSystem:
        """The same settings with every path replaced."""
        paths = {name: moved(value) for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)


def score_rows(
    judgements: Judgements,
    features: FloatArray,
    function: ScoreFunction,
    *,
    variant: str,
    intervals: Intervals,
) -> pd.DataFrame:
    """Compute scores, their deviations from the ground truth, and intervals of both.

    Images are drawn anew within each T2I model and prompt; a resample is the same for all judges. As for the model
    bias score, resamples are centred on the value and stretched by sqrt(images / (images - prompts))
    (docs/uncertainty.md). Where `judgements.drawn` says so, the ground truth is estimated instead, as in
    `estimated_rows`.

    Args:
        judgements: who judges, and where each image belongs.
        features: `[judge, image, feature]`: what the function needs added up; 0 where an image does not count
            (`Judgements.asked`). Seed photos are left out.
        function: from sums to scores.
        variant: for the column of that name.
        intervals: how intervals are found; `unit: prompt` and BCa are not available here, images are drawn and
            percentiles taken.
    """
    if judgements.drawn is not None:
        return estimated_rows(judgements, features, function, variant=variant, intervals=intervals)
    models, prompts = len(judgements.t2i_models), len(judgements.prompt_ids)
    judges, images, numbers = features.shape
    by_image = np.ascontiguousarray(np.moveaxis(features, 0, 1)).reshape(images, judges * numbers)

    shape = (models, prompts, judges, numbers)
    computed = list(function(np.moveaxis(judgements.sums(by_image).reshape(shape), 2, 0)))
    # What counts for no attribute is not there to be drawn.
    asked = np.logical_or.reduce([judgements.asked(name) for name in judgements.judged])
    draws = ImageSums(by_image, np.where(asked, judgements.cell, NO_CELL), cells=models * prompts)

    def drawn(number: int) -> tuple[dict[str, FloatArray]]:
        sums = draws.block(number, seed=intervals.seed)
        by_resample = np.moveaxis(sums.reshape(*shape, sums.shape[-1]), (4, 2), (0, 1))
        kept = (
            (str(place), np.moveaxis(again.score.value, 0, -1))
            for place, again in enumerate(function(np.ascontiguousarray(by_resample)))
            if not again.is_share and (intervals.prompts or not again.of_prompts)
        )
        return (dict(kept),)

    resampled = over_blocks(drawn, resamples=intervals.resamples_for(images)) or ({},)
    rows = MetricRows(judgements, variant=variant)
    for place, each in enumerate(computed):
        found = resampled[0].get(str(place))
        scatter = None if found is None else _scatter(judgements, each, found)
        rows.add(each, scatter, level=intervals.level if intervals.method != "none" else None)
    return rows.table()


def estimated_rows(
    judgements: Judgements,
    features: FloatArray,
    function: ScoreFunction,
    *,
    variant: str,
    intervals: Intervals,
) -> pd.DataFrame:
    """Estimate what the scores by the human labels of all images would be, from those that have labels.

    The sums are estimated (`estimation.number_sums`), the function makes scores of them, and what noise adds to
    these is taken off. Limits lie t standard deviations of noisy scores to either side; there are none where a
    prompt of the scope has images and no label. `n` counts labelled images, `n_left_out` images of prompts without
    any label.

    Args:
        judgements: who judges; `drawn` says which images are labelled.
        features: as for `score_rows`.
        function: from sums to scores.
        variant: for the column of that name.
        intervals: whether there are any, their level, and the seed.
    """
    drawn, judges = judgements.drawn, len(judgements.judges)
    assert drawn is not None  # noqa: S101 - asked of drawn labels alone
    placed = np.flatnonzero(judgements.cell != NO_CELL)
    partly = _partly_labelled(judgements, drawn, placed)
    of_detectors = features[1:, placed] if drawn.use_detectors else None
    found = estimated_sums(partly, features[0, placed], of_detectors)

    def scores(sums: FloatArray) -> list[Computed]:
        shape = (*sums.shape[:-2], len(judgements.t2i_models), len(judgements.prompt_ids), sums.shape[-1])
        as_all = np.repeat(sums.reshape(shape)[..., np.newaxis, :, :, :], judges, axis=-4)
        return [each for each in function(as_all) if not each.detectors_only]

    noisy = [[each.score.value[:, 0] for each in scores(sums)] for sums in found.noisy(seed=intervals.seed)]
    judged = {name: each[:1] for name, each in judgements.judged.items()}
    truth = replace(judgements, judges=judgements.judges[:1], judged=judged)
    rows = MetricRows(truth, variant=variant)
    for place, (each, pilot) in enumerate(zip(scores(found.value), scores(found.pilot), strict=True)):
        values = np.concatenate([part[place] for part in noisy])
        rows.add_estimate(each, _EstimatedScore.of(each, pilot, values, found, partly), intervals)
    return rows.table()


class _EstimatedScore(NamedTuple):
    """One score of the ground truth, estimated: arrays `[1, ...]`."""

    score: Score
    deviation: FloatArray
    """Standard deviation of the estimate; NaN where nothing can be said of it."""
    freedom: FloatArray

    @classmethod
    def of(
        cls, each: Computed, pilot: Computed, noisy: FloatArray, found: EstimatedSums, partly: PartlyLabelled
    ) -> _EstimatedScore:
        """Take off what noise adds.

        Args:
            each: the score of the estimated sums, `[judge, ...]`.
            pilot: the same of the pilot.
            noisy: the same of the pilot with noise, the ground truth's alone, `[draw, ...]`.
            found: the sums.
            partly: the images.
        """
        shape = (partly.t2i_models, partly.prompts)

        def counted(of_cell: NDArray[np.generic]) -> NDArray[np.float64]:
            numbers = of_cell.reshape(shape).astype(np.float64)
            return numbers if each.of_prompts else partly.scopes.sums(numbers, prompt_axis=-1)

        value, start = each.score.value[0], pilot.score.value[0]
        adds, spread = of_noise(np.moveaxis(noisy, 0, -1) - start[..., np.newaxis])
        value = np.where(np.isnan(adds), value, value - adds)
        missing = counted(np.where(found.known, 0, partly.images_of_cell))
        no_interval = (missing > 0) | np.isnan(value) | (not each.has_estimated_interval)
        deviation = np.where(no_interval, np.nan, np.hypot(spread, _UNSURE * adds))
        # Where a score counts nothing, it is about nothing.
        about = (np.asarray(each.score.n)[0] != 0) | (np.asarray(each.score.n_left_out)[0] != 0) | (missing > 0)
        n, left_out = (np.where(about, number, 0) for number in (counted(partly.labels_of_cell), missing))
        score = Score(value[np.newaxis], n[np.newaxis], left_out[np.newaxis])
        return cls(score, deviation[np.newaxis], counted(found.freedom)[np.newaxis])


def _partly_labelled(judgements: Judgements, drawn: DrawnLabels, placed: NDArray[np.intp]) -> PartlyLabelled:
    """The images that T2I models made, `placed`, as the estimator wants them."""
    cell, labelled = judgements.cell[placed], drawn.labelled[placed]
    cells = len(judgements.t2i_models) * len(judgements.prompt_ids)
    apart = np.zeros(len(placed), dtype=np.bool_) if drawn.apart is None else drawn.apart[placed]
    if drawn.probability is not None:
        labelled = labels_that_count(labelled & ~np.isnan(drawn.probability[placed]), apart, cell, cells=cells)
    partly = PartlyLabelled.drawn_evenly(
        np.where(labelled, 0, UNLABELLED).astype(np.int64),
        np.zeros((0, len(placed)), dtype=np.int8),
        cell,
        t2i_models=len(judgements.t2i_models),
        scopes=judgements.scopes,
        classes=1,
    )
    if drawn.probability is None:
        return partly
    # Images that were drawn and have no label yet, or that lack another one, are missing by chance.
    chance = drawn.probability[placed]
    sampled = ~np.isnan(chance) & ~apart
    chance = chances_of_sample(chance, sampled, labelled, apart, cell, cells=cells)
    return replace(partly, probability=np.where(labelled, chance, np.nan))


def _scatter(judgements: Judgements, each: Computed, resampled: FloatArray) -> FloatArray:
    """Resamples `[judge, ..., resample]`, centred and stretched."""
    images = judgements.images_asked(each.attribute)
    lost = (images > 0).astype(np.int64)
    if not each.of_prompts:
        images, lost = (judgements.scopes.sums(number, prompt_axis=-1) for number in (images, lost))
    spread = np.sqrt(divide(images, images - lost))
    centred = resampled - mean_of_defined(resampled)[..., np.newaxis]
    return each.score.value[..., np.newaxis] + spread[..., np.newaxis] * centred


def _interval(scatter: FloatArray, value: FloatArray, *, level: float) -> Interval:
    if scatter.shape[-1] < ENOUGH_FOR_PERCENTILES:
        return standard_error_interval(scatter, value, level=level)
    return percentile_interval(scatter, level=level)


class MetricRows:
    """Collects scores as rows of a metric table."""

    def __init__(self, judgements: Judgements, *, variant: str) -> None:
        self._judgements = judgements
        self._variant = variant
        self._blocks: list[pd.DataFrame] = []

    def add(self, each: Computed, scatter: FloatArray | None, *, level: float | None) -> None:
        """Add one score of every judge, and its deviation where it has one.

        Args:
            each: the score, without leading axes.
            scatter: resamples of it, `[judge, ..., resample]`; None: there is no interval but Wilson's.
            level: of the intervals; None: there are none.
        """
        interval = None
        if level is not None and each.is_share:
            interval = wilson_interval(each.score.value, each.score.n, level=level)
        elif level is not None and scatter is not None:
            interval = _interval(scatter, each.score.value, level=level)
        first = 1 if each.detectors_only and self._judgements.has_truth else 0
        self._add(each, each.metric, each.score, interval, first_judge=first)
        if not each.deviates or not self._truth_of(each) or len(self._judgements.judges) == 1:
            return
        value = each.score.value
        deviation = each.score._replace(value=divide(value - value[:1], np.broadcast_to(value[:1], value.shape)))
        interval = None
        if level is not None and scatter is not None:
            actual = np.broadcast_to(scatter[:1], scatter.shape)
            interval = _interval(divide(scatter - actual, actual), deviation.value, level=level)
        self._add(each, f"{each.metric}_deviation", deviation, interval, first_judge=1)

    def add_estimate(self, each: Computed, found: _EstimatedScore, intervals: Intervals) -> None:
        """Add one score of the ground truth that was estimated."""
        interval = None
        value = found.score.value
        if each.metric in METRICS:
            value = np.clip(value, METRICS[each.metric].lowest, METRICS[each.metric].highest)
        if intervals.method != "none":
            from scipy.stats import t

            half = t.ppf((1 + intervals.level) / 2, np.maximum(found.freedom, 1)) * found.deviation
            interval = Interval(found.score.value - half, found.score.value + half)
        self._add(each, each.metric, found.score._replace(value=value), interval, first_judge=0)

    def table(self) -> pd.DataFrame:
        """The rows added so far, columns as in `vocabulary.columns.METRIC_COLUMNS`."""
        if not self._blocks:
            return pd.DataFrame({name: [] for name in METRIC_COLUMNS})
        return pd.concat(self._blocks, ignore_index=True)

    def _truth_of(self, each: Computed) -> bool:
        """Whether there is a ground truth to deviate from."""
        known = self._judgements
        return known.has_truth and (each.attribute == ALL or known.judged[each.attribute][0])

    def _add(
        self, each: Computed, metric: str, score: Score, interval: Interval | None, *, first_judge: int
    ) -> None:
        there = self._filled(each)
        there[:first_judge] = False
        if each.attribute != ALL:
            there &= np.array(self._judgements.judged[each.attribute])[:, np.newaxis, np.newaxis]
        if not there.any():
            return
        judge, model, place = np.nonzero(there)
        nothing = np.full(score.value.shape, np.nan)
        low, high = interval if interval is not None else (nothing, nothing)
        # Resamples of a score of 0 are not 0, so a deviation from it would have limits around no value.
        low, high = (np.where(np.isnan(score.value), np.nan, limit) for limit in (low, high))
        if metric in METRICS:
            low, high = (np.clip(limit, METRICS[metric].lowest, METRICS[metric].highest) for limit in (low, high))
        words = self._words(each, model, place)
        block = {
            "detector": np.array(self._judgements.judges, dtype=object)[judge],
            "attribute": each.attribute,
            **words,
            "metric": metric,
            "n_clear": None,
            "variant": self._variant,
            "value": score.value[there],
            "ci_low": low[there],
            "ci_high": high[there],
            "n": np.asarray(score.n)[there].astype(np.int64),
            "n_left_out": np.asarray(score.n_left_out)[there].astype(np.int64),
        }
        self._blocks.append(pd.DataFrame(block)[list(METRIC_COLUMNS)])

    def _filled(self, each: Computed) -> NDArray[np.bool_]:
        """Where there are images: without one there is no row."""
        known, images = self._judgements, self._judgements.images
        if not each.of_prompts:
            images = known.scopes.sums(images, prompt_axis=-1)
        return np.repeat((images > 0)[np.newaxis], len(known.judges), axis=0)

    def _words(self, each: Computed, model: NDArray[np.intp], place: NDArray[np.intp]) -> dict[str, object]:
        known = self._judgements
        if each.of_prompts:
            return {
                "t2i_model": np.array(known.t2i_models, dtype=object)[model],
                "category": known.scopes.category_words[place],
                "prompt_id": np.array(known.prompt_ids, dtype=object)[place],
            }
        return {
            "t2i_model": np.array([ALL, *known.t2i_models], dtype=object)[model],
            "category": np.array([ALL, *known.scopes.categories], dtype=object)[place],
            "prompt_id": ALL,
        }
