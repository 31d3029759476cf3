"""Measured values against the human's: sums over images, and the metrics that stand in a metric table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.evaluation.image_index import NULL, ImageIndex, LabelledImages
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.scores import PromptCells, ScoreTable
from detector_bench.metrics import Scopes, metric_info
from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.metrics.intervals import Interval, wilson_interval
from detector_bench.metrics.measured_values import (
    CUMULATIVE_SCORE_LIMIT,
    ErrorSums,
    StandardError,
    cumulative_score,
    error_of_drawn_images,
    error_of_drawn_prompts,
    mean_absolute_error,
    mean_error,
)
from detector_bench.vocabulary.columns import VALUE_COLUMN

_IN_YEARS = "years"
_ROUNDING = 1e-6
"""A standard error that is a smaller part of its mean comes from rounding, not from scatter."""


@runtime_checkable
class MeasuredImages(Protocol):
    """An image set whose labels may hold measured values."""

    def measured(self, attribute: str) -> pd.DataFrame:
        """One row per image, in the order of `images`: image_id, value (NaN where there is none)."""


@dataclass(frozen=True, slots=True)
class MeasuredValues:
    """What is known about one attribute's measured values: sums `[detector, t2i_model, prompt]`."""

    sums: ErrorSums
    scopes: Scopes
    in_years: bool
    intervals: Intervals

    @classmethod
    def of_verdicts(
        cls, image_set: LabelledImages, verdicts: ImageVerdicts, *, intervals: Intervals
    ) -> MeasuredValues | None:
        """Add up errors by detector, T2I model and prompt; None where no image of a T2I model has a human value.

        Args:
            image_set: only one with `measured` can have values.
            verdicts: of the attribute; a detector without the column `value` has measured nothing.
            intervals: how the intervals of the study are found.
        """
        attribute, index = verdicts.attribute, verdicts.index
        if attribute.unit is None or not isinstance(image_set, MeasuredImages):
            return None
        human = image_set.measured(attribute.name)["value"].to_numpy(dtype=np.float64)
        used = np.isfinite(human) & (index.cells != NULL)
        if not used.any():
            return None
        sums = [
            _error_sums(index, human, used, verdicts.numbers_of(VALUE_COLUMN, place))
            for place in range(len(verdicts.detectors))
        ]
        shape = (0, *index.shape)
        stacked = [np.stack(each) for each in zip(*sums, strict=True)] or [np.zeros(shape, dtype=np.int64)] * 6
        return cls(ErrorSums(*stacked), index.scopes, attribute.unit.name == _IN_YEARS, intervals)

    def scope_scores(self) -> ScoreTable:
        """Metrics for every scope: `[detector, 1 + T2I models, 1 + categories, metric]`."""
        table = self._scores(self.sums.pooled(self.scopes))
        if self.intervals.method != "none":
            self._add_intervals(table, self.sums, self.scopes)
        return table

    def prompt_scores(self, *, at: PromptCells) -> ScoreTable:
        """Metrics for some prompts of some T2I models: `[detector, cell, metric]`."""
        sums = ErrorSums(*(values[:, *at] for values in self.sums))
        table = self._scores(sums)
        settings = self.intervals
        if settings.prompts and settings.method != "none" and settings.unit == "image":
            # Each cell as a T2I model of its own with a single prompt.
            single = ErrorSums(*(values[..., np.newaxis] for values in sums))
            every = self._scores(single.pooled(_ONE_PROMPT))
            self._add_intervals(every, single, _ONE_PROMPT)
            table.ci_low[:], table.ci_high[:] = every.ci_low[:, 1:, 0], every.ci_high[:, 1:, 0]
        return table

    def _scores(self, sums: ErrorSums) -> ScoreTable:
        named = [("mean_absolute_error", mean_absolute_error(sums)), ("mean_error", mean_error(sums))]
        if self.in_years:
            named.append(("cumulative_score_5", cumulative_score(sums)))
        return ScoreTable.of_scores(named)

    def _add_intervals(self, table: ScoreTable, sums: ErrorSums, scopes: Scopes) -> None:
        settings = self.intervals
        averaged = {
            "mean_absolute_error": (sums.distances, sums.squares),
            "mean_error": (sums.errors, sums.squares),
            "cumulative_score_5": (sums.near, sums.near),
        }
        for number, name in enumerate(table.metrics):
            value, n = table.value[..., number], table.n[..., number]
            total, squares = averaged[name]
            if settings.unit == "prompt":
                error = error_of_drawn_prompts(total, sums.n, scopes=scopes)
            else:
                error = error_of_drawn_images(total, squares, sums.n, scopes=scopes)
            interval = _students_interval(value, error, level=settings.level)
            if name == "cumulative_score_5":
                interval = _of_share(interval, value, n, settings)
            info = metric_info(name)
            table.ci_low[..., number], table.ci_high[..., number] = (
                np.clip(limit, info.lowest, info.highest) for limit in interval
            )


_ONE_PROMPT = Scopes.of_prompts([""])


def _error_sums(
    index: ImageIndex, human: NDArray[np.float64], used: NDArray[np.bool_], values: NDArray[np.float64]
) -> ErrorSums:
    """Sums of one detector, `[t2i_model, prompt]`."""
    both = used & np.isfinite(values)
    error = values[both] - human[both]
    cells = index.cells[both]
    size = int(np.prod(index.shape))

    def add_up(weights: NDArray[np.float64]) -> FloatArray:
        return np.bincount(cells, weights, size).reshape(index.shape).astype(np.float64)

    distance = np.abs(error)
    n = np.bincount(cells, minlength=size)
    return ErrorSums(
        n=n.reshape(index.shape),
        left_out=(np.bincount(index.cells[used], minlength=size) - n).reshape(index.shape),
        errors=add_up(error),
        distances=add_up(distance),
        squares=add_up(error * error),
        near=np.bincount(cells[distance <= CUMULATIVE_SCORE_LIMIT], minlength=size).reshape(index.shape),
    )


def _students_interval(value: FloatArray, error: StandardError, *, level: float) -> Interval:
    """The mean plus and minus a quantile of Student's t times its standard error; none where nothing varies."""
    from scipy.special import stdtrit

    known = (error.degrees > 0) & (error.size > _ROUNDING * np.abs(value))
    quantile = stdtrit(np.where(known, error.degrees, 1), (1 + level) / 2)
    half = np.where(known, quantile * error.size, np.nan)
    return Interval(value - half, value + half)


def _of_share(interval: Interval, value: FloatArray, n: CountArray, settings: Intervals) -> Interval:
    """Wilson's interval; with drawn prompts, whose scatter it does not know, only at 0 and 1."""
    wilson = wilson_interval(value, n, level=settings.level)
    if settings.unit == "image":
        return wilson
    edge = (value == 0) | (value == 1)
    return Interval(*(np.where(edge, one, other) for one, other in zip(wilson, interval, strict=True)))
