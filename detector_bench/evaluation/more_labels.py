"""How far off a detector may be, and how many more labelled images would settle what an interval leaves open."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.metrics import CountArray, FloatArray, NClear, Scopes, count_images
from detector_bench.metrics.estimands import model_bias_score_error_bias
from detector_bench.metrics.intervals import Interval
from detector_bench.metrics.prompt_bias_error import squared_errors, variance_of_one_image

MOST_TIMES = 20
"""A plan that needs more than so many times the images at hand is none."""

_STEPS = 60
_HALVINGS = 14
_POWER = 0.8


class Tolerance(BaseModel):
    """How far off a detector may be and still be called good enough: a choice of the reader, not of statistics.

    The defaults come from what the scores are used for. Lyu 2025 calls a prompt biased beyond 0.2, so a detector
    whose typical error is larger takes fair prompts for biased ones. For the model bias score it is half of that,
    as errors of single prompts partly even out: a detector that is right on 95 % of the men and of the women is
    0.1 too low on a T2I model whose prompts show one gender each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_bias_error: float = Field(default=0.2, gt=0, allow_inf_nan=False)
    """Of prompt bias scores, which run from -1 to 1: root mean square over the prompts, chance left out."""
    model_bias_score_error: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """Of the model bias score, which runs from 0 to 1, to either side."""


class MoreLabels(NamedTuple):
    """Images to label beyond those at hand."""

    by_prompt: NDArray[np.int64]
    """How many more images of each prompt, `[prompt]`."""

    @property
    def images(self) -> int:
        """How many more images of all prompts together."""
        return int(self.by_prompt.sum())


def more_labels(
    counts: CountArray,
    *,
    prompt_bias_error: Interval,
    model_bias_score_error: Interval,
    tolerance: Tolerance,
    n_clear: NClear = "detector",
    level: float = 0.95,
) -> MoreLabels | None:
    """Plan the images that would take the intervals of both errors to one side of the tolerance.

    The plan assumes that both errors are what they seem, and gives the images that would settle the verdict in
    four of five cases then. It is only as good as this assumption: errors that the images at hand hardly bound
    can turn out to be others. The variance of a prompt's squared error has a part that falls with the number of
    its images n and a part that falls with n^2; images go where they take away most. The interval of the model
    bias score's error is taken to shrink in all prompts alike: the part that chance adds with the root of the
    number of images, the bias of the corrected scores as `metrics.estimands` says.

    Args:
        counts: one detector on one T2I model, `[prompt, truth, verdict]`.
        prompt_bias_error: its interval.
        model_bias_score_error: its interval.
        tolerance: what the intervals are compared with.
        n_clear: see `metrics.prompt_bias_score`.
        level: of the intervals.

    Returns:
        None where nothing is left open, or where more than `MOST_TIMES` the images at hand would be needed: the
        error lies too close to the edge of the tolerance, or closer than the bias of the corrected scores.
    """
    images = count_images(counts).astype(np.float64)
    factor = _times(model_bias_score_error, tolerance.model_bias_score_error, counts, level=level)
    if not np.isfinite(factor):
        return None
    planned = images * factor
    if _crosses(prompt_bias_error, tolerance.prompt_bias_error):
        spread = _spread_out(counts, tolerance.prompt_bias_error**2, n_clear=n_clear, level=level)
        planned = np.maximum(planned, spread)
    more = planned - images
    if not np.isfinite(more).all() or more.sum() > MOST_TIMES * images.sum() or not more.any():
        return None
    return MoreLabels(np.ceil(more - 1e-9).astype(np.int64))


def _crosses(interval: Interval, edge: float) -> bool:
    return bool(interval.low <= edge < interval.high)


def _surely(level: float) -> tuple[float, float]:
    """Standard errors from value to limit, and from value to edge for the limit to stay clear of the edge."""
    half = NormalDist().inv_cdf((1 + level) / 2)
    return half, half + NormalDist().inv_cdf(_POWER)


def _times(interval: Interval, edge: float, counts: CountArray, *, level: float) -> float:
    """By how much the images have to be multiplied for a symmetric interval to lie on one side of +-edge."""
    low, high = float(interval.low), float(interval.high)
    inside, outside = -edge <= low and high <= edge, low > edge or high < -edge
    if inside or outside or not np.isfinite(low + high):
        return 1.0
    scopes = Scopes.of_prompts([""] * len(counts))

    def bias(times: float) -> float:
        return float(model_bias_score_error_bias(counts[np.newaxis], scopes=scopes, times=times)[0, 0])

    gap = abs(abs(low + high) / 2 - edge)
    limit, clear = _surely(level)
    scatter = max((high - low) / 2 - bias(1.0), 0.0) * clear / limit
    least, most = 1.0, 1.0 + MOST_TIMES
    # What seems to lie on one side may lie on the other for all that the correction's bias says.
    if bias(1.0) >= gap or scatter / np.sqrt(most) + bias(most) > gap:
        return np.inf
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        enough = scatter / np.sqrt(middle) + bias(middle) <= gap
        least, most = (least, middle) if enough else (middle, most)
    return most


def _spread_out(counts: CountArray, edge: float, *, n_clear: NClear, level: float) -> FloatArray:
    """Images of each prompt that take the mean squared error to one side of the edge, `[prompt]`."""
    terms, images = squared_errors(counts, n_clear=n_clear), count_images(counts).astype(np.float64)
    usable = ~np.isnan(terms.value)
    prompts, found = int(usable.sum()), float(np.nanmean(terms.value)) if usable.any() else np.nan
    gap = found - edge if found > edge else edge - max(found, 0.0)
    if not gap > 0:
        return np.full(len(images), np.inf)
    _, clear = _surely(level)
    allowed = (gap * prompts / clear) ** 2
    quadratic = np.where(usable, terms.variance_at_zero, 0)
    linear = np.where(usable, np.maximum(terms.variance - terms.variance_at_zero, 0), 0)
    # What chance makes of single prompts is evened out: the sum is what the interval rests on.
    whole = max(float(np.nansum(terms.variance)), float(quadratic.sum())) + float(
        variance_of_one_image(images[usable]).mean() if usable.any() else 0
    )
    if not linear.sum() + quadratic.sum() > 0:
        times: FloatArray = images * np.sqrt(max(np.sqrt(whole / allowed), 1.0))
        return times
    scale = whole / (linear.sum() + quadratic.sum())
    linear, quadratic = scale * linear, scale * quadratic

    def images_at(price: float) -> FloatArray:
        """What is worth its price: the derivative of the variance is 1 / price; solved by Newton's method."""
        wanted = np.maximum(np.sqrt(price * linear * images), np.cbrt(2 * price * quadratic * images**2)) + 1e-9
        for _ in range(_STEPS):
            slope = 3 * wanted**2 - price * linear * images
            value = wanted**3 - price * (linear * images * wanted + 2 * quadratic * images**2)
            wanted = np.maximum(wanted - value / np.where(slope > 0, slope, 1), 1e-9)
        at_least: FloatArray = np.maximum(wanted, images)
        return at_least

    def variance_of(planned: FloatArray) -> float:
        kept = images / np.maximum(planned, 1)
        return float((linear * kept + quadratic * kept**2).sum())

    low, high = -40.0, 80.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if variance_of(images_at(np.exp(middle))) > allowed else (low, middle)
    return images_at(float(np.exp(high)))
