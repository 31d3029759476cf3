"""The metrics of a threshold sweep, and by which of them a threshold is chosen: one line for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from detector_bench import metrics
from detector_bench.metrics import METRICS, CountArray, FloatArray, NClear, Scopes, Score

SweptScore = Callable[[CountArray, NClear, Scopes], Score]
"""From counts `[..., t2i_model, prompt, truth, verdict]` to one number for each of the scopes."""


class SweptMetric(NamedTuple):
    """A metric of a sweep."""

    name: str
    """As in `metrics.METRICS`."""
    score: SweptScore
    depends_on_n_clear: bool = False
    chooses: bool = False
    """Whether a threshold may be chosen by its best value."""


def distance_from_best(values: FloatArray, *, metric: str) -> FloatArray:
    """How far values are from the best that the metric's direction allows, but for a constant; lower is better.

    Rounded to 12 decimals, so that equal values stay equal whatever the order in which prompts were added up.

    Raises:
        ValueError: no direction is better.
    """
    distance = {"higher": -values, "lower": values, "closest to zero": np.abs(values)}.get(METRICS[metric].better)
    if distance is None:
        raise ValueError(f"no threshold is best by {metric!r}: no direction is better")
    return np.round(distance, 12)


def _kept(pooled: CountArray) -> Score:
    images = metrics.count_images(pooled)
    kept = metrics.detector_class_counts(pooled).sum(axis=-1)
    return Score(kept.astype(np.float64), images, np.zeros_like(images))


def _over_images(score: Callable[[CountArray], Score]) -> SweptScore:
    return lambda counts, _, scopes: score(metrics.pool(counts, scopes=scopes))


def _over_prompts(score: Callable[..., Score]) -> SweptScore:
    return lambda counts, _, scopes: score(counts, scopes=scopes)


def _by_n_clear(score: Callable[..., Score]) -> SweptScore:
    return lambda counts, n_clear, scopes: score(counts, n_clear=n_clear, scopes=scopes)


SWEPT = (
    SweptMetric("images_clear", _over_images(_kept)),
    SweptMetric("filter_rate", _over_images(metrics.filter_rate)),
    SweptMetric("recall", _over_images(metrics.recall)),
    SweptMetric("precision", _over_images(metrics.precision)),
    SweptMetric("f1", _over_images(metrics.f1), chooses=True),
    SweptMetric("accuracy", _over_images(metrics.accuracy)),
    SweptMetric("model_bias_score", _over_prompts(metrics.model_bias_score)),
    SweptMetric("model_bias_score_actual", _over_prompts(metrics.model_bias_score_actual)),
    SweptMetric("model_bias_score_deviation", _over_prompts(metrics.model_bias_score_deviation), chooses=True),
    SweptMetric(
        "prompt_bias_score_difference",
        _by_n_clear(metrics.prompt_bias_score_difference),
        depends_on_n_clear=True,
        chooses=True,
    ),
    SweptMetric("prompt_bias_error", _by_n_clear(metrics.prompt_bias_error), depends_on_n_clear=True),
)
"""In the order of the sweep's table."""
