"""Confidence intervals of causes, found as those of the metric table are: same draws, same corrections.

So the error of a detector as it is has one interval, wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.intervals import Intervals, IntervalScores
from detector_bench.evaluation.scores import detector_scope_scores
from detector_bench.metrics import NClear, metric_info
from detector_bench.metrics.bootstrap import Resampled, resample, sampling_distribution, spread_factors
from detector_bench.metrics.cause_doubt import ResampledCauses, resample_causes
from detector_bench.metrics.causes import (
    PARTS,
    SIGNED_PARTS,
    BiasError,
    ErrorParts,
    ReplacedScores,
    accuracy_gap_of,
)
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.intervals import (
    ENOUGH_FOR_PERCENTILES,
    Interval,
    mean_of_defined,
    percentile_interval,
    standard_error_interval,
)
from detector_bench.metrics.joint_verdicts import Codes

_ABSOLUTE: BiasError = "model_bias_score_absolute_error"
_RANGE_OF: Mapping[BiasError, str] = {
    "prompt_bias_score_difference": "prompt_bias_score_difference",
    "model_bias_score_deviation": "model_bias_score_deviation",
    _ABSOLUTE: "model_bias_score",
}
"""The metric whose range an error shares: no distance of two scores from 0 to 1 is larger than 1."""

PartIntervals = dict[str, Interval]
"""By part, arrays `[1 + T2I models, 1 + categories, detector]`."""


def draw_causes(counts: Counts, named: Codes, *, settings: Intervals, n_clear: NClear) -> ResampledCauses | None:
    """The resamples behind the intervals of this module; None where the study has none.

    Args:
        counts: the verdicts on one attribute.
        named: the class that is stored with a filtered image, `[detector, image]`, images as in `counts.joint`;
            -1: none.
        settings: of the study.
        n_clear: denominator of detectors' prompt bias scores.
    """
    joint = counts.joint
    resamples = settings.resamples_for(joint.images)
    if not resamples or not joint.images or not joint.detectors:
        return None
    return resample_causes(
        joint, named, resamples=resamples, unit=settings.unit, seed=settings.seed, n_clear=n_clear
    )


def part_intervals(
    counts: Counts, drawn: ReplacedScores, scores: ReplacedScores, *, settings: Intervals, n_clear: NClear
) -> dict[BiasError, PartIntervals]:
    """The intervals of every part of every kind of bias error.

    Args:
        counts: the verdicts on one attribute.
        drawn: the scores in resamples; see `draw_causes`.
        scores: of the four detectors, `[replacement, 1 + T2I models, 1 + categories, detector]`.
        settings: of the study.
        n_clear: denominator of detectors' prompt bias scores.
    """
    spread = spread_factors(counts.joint, unit=settings.unit)[..., np.newaxis]
    scattered = _scattered(drawn, scores, spread=spread, settings=settings)
    of_metrics = _of_metrics(counts, drawn, settings=settings, n_clear=n_clear)
    limits = _Limits.of(counts, settings)
    found: dict[BiasError, PartIntervals] = {}
    for error, values in scores.errors.items():
        value = ErrorParts.of_errors(values)
        if error == _ABSOLUTE:
            intervals = _of_absolute_error(scattered[error], value, limits)
        else:
            scatter = ErrorParts.of_errors(scattered[error])
            intervals = {
                part: limits.around(*numbers) for part, *numbers in zip(PARTS, scatter, value, strict=True)
            }
        finished = {part: _finished(intervals[part], getattr(value, part), error, part) for part in PARTS}
        found[error] = finished | ({"error": of_metrics[error]} if error in of_metrics else {})
    return found


def _of_metrics(
    counts: Counts, drawn: ReplacedScores, *, settings: Intervals, n_clear: NClear
) -> dict[str, Interval]:
    """The intervals of the metric table, by metric, `[1 + T2I models, 1 + categories, detector]`; of metrics that
    causes do not ask for none."""
    as_it_is = {name: values[0] for name, values in _as_metrics(drawn).items()}
    table = detector_scope_scores(counts, n_clear=n_clear)
    of_table = IntervalScores.of_counts(
        counts, settings, n_clear=n_clear, drawn=Resampled(as_it_is, {}, {}, np.empty(0, np.intp))
    )
    table = of_table.of_detectors(table)
    return {
        name: Interval(*(np.moveaxis(limit[..., place], 0, -1) for limit in (table.ci_low, table.ci_high)))
        for place, name in enumerate(table.metrics)
    }


@dataclass(frozen=True, slots=True)
class _Limits:
    """How scatter becomes limits: as the study says, by a standard error where the metric table has score
    intervals, which parts of an error can have none of, being no number between two bounds of their own."""

    settings: Intervals
    enough_for_percentiles: NDArray[np.bool_]
    """`[1 + T2I models, 1 + categories, 1]`."""

    @classmethod
    def of(cls, counts: Counts, settings: Intervals) -> _Limits:
        enough = IntervalScores(counts, settings, None, None, "detector").enough_for_percentiles()
        return cls(settings, enough[..., np.newaxis])

    def around(self, scatter: FloatArray, value: FloatArray) -> Interval:
        """Limits of numbers `[1 + T2I models, 1 + categories, detector]`, from their scatter `[..., resample]`."""
        if self.settings.method == "score" or scatter.shape[-1] < ENOUGH_FOR_PERCENTILES:
            return standard_error_interval(scatter, value, level=self.settings.level)
        interval = percentile_interval(scatter, level=self.settings.level)
        return Interval(*(np.where(self.enough_for_percentiles, limit, np.nan) for limit in interval))


def _scattered(
    drawn: ReplacedScores, scores: ReplacedScores, *, spread: FloatArray, settings: Intervals
) -> dict[BiasError, FloatArray]:
    """How the four errors scatter from study to study, `[replacement, ..., resample]`; the absolute error with
    its sign."""
    found = sampling_distribution(_as_metrics(drawn), _as_metrics(scores), spread=spread, unit=settings.unit)
    return {
        "prompt_bias_score_difference": found["prompt_bias_score_difference"],
        "model_bias_score_deviation": found["model_bias_score_deviation"],
        _ABSOLUTE: found["model_bias_score"] - found["model_bias_score_actual"],
    }


def _as_metrics(scores: ReplacedScores) -> dict[str, FloatArray]:
    """The scores by the name of the metric that they are, `[replacement, ...]`."""
    return {
        "model_bias_score": scores.model_bias_score,
        "model_bias_score_actual": np.broadcast_to(scores.model_bias_score_actual, scores.model_bias_score.shape),
        "model_bias_score_deviation": scores.errors["model_bias_score_deviation"],
        "prompt_bias_score_difference": scores.prompt_bias_score_difference,
    }


def _of_absolute_error(signed: FloatArray, value: ErrorParts, limits: _Limits) -> PartIntervals:
    """Intervals of |error| and its parts, from the scatter of the signed errors, `[replacement, ..., resample]`.

    That of an error is what the interval of the signed error says about its size: from 0 on, where it holds 0.
    Parts are centred, as folding at 0 adds chance to all errors that they are made of.
    """
    found = {}
    folded, errors = ErrorParts.of_errors(np.abs(signed)), ErrorParts.of_errors(signed)
    for part in PARTS:
        if part in SIGNED_PARTS:
            number, scatter = getattr(value, part), getattr(folded, part)
            shift = number - mean_of_defined(scatter)
            found[part] = limits.around(scatter + shift[..., np.newaxis], number)
        else:
            scatter = getattr(errors, part)
            low, high = limits.around(scatter, mean_of_defined(scatter))
            nearest = np.where((low < 0) & (high > 0), 0, np.minimum(np.abs(low), np.abs(high)))
            found[part] = Interval(nearest, np.maximum(np.abs(low), np.abs(high)))
    return found


def _finished(interval: Interval, value: FloatArray, error: BiasError, part: str) -> Interval:
    """Limits within the range of the error or part; none where it is undefined."""
    info = metric_info(_RANGE_OF[error])
    lowest, highest = info.lowest, np.inf if info.highest is None else info.highest
    if part in SIGNED_PARTS:
        lowest = -highest
    return Interval(*(np.where(np.isnan(value), np.nan, np.clip(limit, lowest, highest)) for limit in interval))


def draw_accuracies(counts: Counts, *, settings: Intervals) -> FloatArray | None:
    """The accuracies of `ResampledCauses` where no causes are asked for; None where the study has no resamples."""
    joint = counts.joint
    resamples = settings.resamples_for(joint.images)
    if not resamples or not joint.images or not joint.detectors:
        return None
    drawn = resample(joint, resamples=resamples, unit=settings.unit, seed=settings.seed).detectors
    return np.stack([drawn[f"accuracy_{index}"] for index in range(joint.classes)])


def gap_interval(
    counts: Counts, drawn: FloatArray | None, value: FloatArray, accuracies: FloatArray, *, settings: Intervals
) -> Interval:
    """The interval of the accuracy gap.

    Args:
        counts: the verdicts on one attribute.
        drawn: the accuracies in resamples, see `ResampledCauses`; None: there is no interval.
        value: the gap, `[1 + T2I models, 1 + categories, detector]`.
        accuracies: of every class, `[..., detector, K]`.
        settings: of the study.
    """
    if drawn is None:
        return Interval(np.full_like(value, np.nan), np.full_like(value, np.nan))
    values = {f"accuracy_{index}": accuracies[..., index] for index in range(len(drawn))}
    spread = spread_factors(counts.joint, unit=settings.unit)[..., np.newaxis]
    scatter = sampling_distribution(
        dict(zip(values, drawn, strict=True)), values, spread=spread, unit=settings.unit
    )
    gaps = accuracy_gap_of(np.stack([scatter[name] for name in values], axis=-1))
    low, high = _Limits.of(counts, settings).around(gaps, value)
    return Interval(*(np.where(np.isnan(value), np.nan, np.clip(limit, -1, 1)) for limit in (low, high)))
