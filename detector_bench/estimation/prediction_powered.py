"""How biased T2I models are, over all of their images, from few labels and the verdicts of all detectors.

Each number is estimated twice: with the detectors (`prediction_powered`) and from the labels alone
(`labels_only`). Both are right on average over draws of the labels, whatever the detectors' errors; the detectors
only make the first narrower. docs/audit.md says how often the intervals held the truth in simulated studies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import (
    About,
    BoundedShares,
    class_shares,
    label_share,
    limits_below_one,
    quadratic_limits,
    t_quantile,
)
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.estimation.unevenness import uneven_terms, unevenness
from detector_bench.estimation.working_model import CellMoments, cell_moments
from detector_bench.metrics.bias import SIGNED_CLASSES
from detector_bench.metrics.counts import FloatArray, divide
from detector_bench.metrics.image_counts import LABEL_SHARE

IntArray = NDArray[np.int64]

_LEAST_SPREAD = 1e-4


class Estimate(NamedTuple):
    """One score with its interval: arrays of one shape."""

    value: FloatArray
    """NaN where no label tells anything."""
    low: FloatArray
    high: FloatArray
    n: IntArray
    """How many labels (shares, prompt bias scores) or prompts (means over prompts) the estimate rests on."""
    n_left_out: IntArray
    """How many images, or prompts, are left out: no image of the prompt has a label, or, for bias scores, none
    that is labelled is clear."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """All scores of an attribute by one estimator."""

    scopes: dict[str, Estimate]
    """By metric, `[1 + T2I models, 1 + categories]`, "all" at position 0: `label_share_<position of the label>`,
    `mean_prompt_bias_score` (two classes), `model_bias_score`."""
    prompts: dict[str, Estimate]
    """By metric, `[t2i_model, prompt]`: `label_share_<position>`, `prompt_bias_score` (two classes)."""
    explained: FloatArray
    """`[detector]`: the part of the labels' variance within prompts that a detector's verdicts explain beside the
    others'; zeros from labels alone."""


def estimate(
    images: PartlyLabelled,
    *,
    about: About = "images",
    confidence: float = 0.95,
    use_detectors: bool = True,
    seed: int = 0,
) -> Estimates:
    """Estimate shares of labels and bias scores of all images.

    Args:
        images: some of them labelled, of any number of T2I models.
        about: `images`: what the labels of all these images would say. `t2i_model`: what the T2I models would show
            with endlessly many images of the same prompts; intervals are wider, and stay so with more labels.
        confidence: of the intervals.
        use_detectors: False: from the labels alone.
        seed: of the studies that are drawn for intervals of the model bias score.

    Returns:
        Shares are those of all images of a scope (`label_share_...`), bias scores means over its prompts. An
        estimate that chance carries beyond what a share can be is cut off there.
    """
    moments = cell_moments(images, use_detectors=use_detectors)
    of_classes = class_shares(moments, classes=images.classes, about=about)
    scopes = ScopeEstimates(images, moments)
    of_scopes: dict[str, Estimate] = {}
    of_prompts: dict[str, Estimate] = {}
    shape = (images.t2i_models, images.prompts)
    for label in range(images.labels):
        share = label_share(moments, label, about=about)
        of_scopes[f"{LABEL_SHARE}{label}"] = scopes.pooled(share, confidence)
        of_prompts[f"{LABEL_SHARE}{label}"] = of_cells(share, moments, confidence, shape)
    if images.classes == SIGNED_CLASSES:
        of_prompts["prompt_bias_score"] = signed(of_cells(of_classes[0], moments, confidence, shape))
        of_scopes["mean_prompt_bias_score"] = signed(scopes.mean(of_classes[0], confidence))
    of_scopes["model_bias_score"] = scopes.unevenness(of_classes, confidence, seed)
    return Estimates(of_scopes, of_prompts, moments.explained)


class ScopeEstimates:
    """Means over the cells of each scope."""

    def __init__(self, images: PartlyLabelled, moments: CellMoments) -> None:
        self._images, self._moments = images, moments
        self._known = moments.labels > 0
        self._shape = (images.t2i_models, images.prompts)
        # Where cells were drawn, those that were not are no gap: what was drawn speaks for them, too.
        self._sampled = images.cell_probability < 1

    def _sums(self, values: NDArray[np.generic]) -> FloatArray:
        found: FloatArray = self._images.scopes.sums(
            np.where(np.isnan(values), 0, values).reshape(self._shape), prompt_axis=-1
        )
        return found

    @property
    def _filled(self) -> NDArray[np.bool_]:
        filled: NDArray[np.bool_] = self._moments.images > 0
        return filled

    def _mean(
        self, share: BoundedShares, weight: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Weighted means of the cells with a label, their variances, degrees of freedom and binomial parts."""
        used = weight * ~np.isnan(share.value)
        total = self._sums(used)
        value = divide(self._sums(used * share.value), total)
        variance = divide(self._sums(used**2 * share.measured), total**2)
        freedom = divide(
            self._sums(used**2 * share.measured) ** 2,
            self._sums(used**4 * share.measured**2 / share.measured_freedom),
        )
        binomial = divide(self._sums(used**2 * share.binomial_part), total**2)
        return value, variance + self._between(share.value, used), np.nan_to_num(freedom, nan=np.inf), binomial

    def _between(self, values: FloatArray, used: FloatArray) -> FloatArray:
        """What not having drawn all cells adds to the variance of a weighted mean of those that were."""
        drawn = ~np.isnan(values) & self._sampled
        if not drawn.any():
            return np.zeros((1 + self._shape[0], 1 + len(self._images.scopes.categories)))
        part = np.where(drawn, used, 0)
        number, total = self._sums(drawn.astype(float)), self._sums(part)
        missing = 1 - divide(self._sums(np.where(drawn, self._images.cell_probability, 0)), number)
        means = divide(self._sums(part * values), total)
        square = divide(self._sums(part * values**2), total) - means**2
        effective = divide(total**2, self._sums(part**2))
        spread = np.maximum(square, 0) * divide(effective, np.maximum(effective - 1, 0))
        whole = divide(total, self._sums(used))
        return np.nan_to_num(missing * divide(spread, effective) * whole**2)

    def pooled(self, share: BoundedShares, confidence: float) -> Estimate:
        """Share among all images of each scope."""
        images = self._moments.images.astype(float)
        value, variance, freedom, binomial = self._mean(share, images)
        low, high = _limits_of_mean(value, variance, binomial, t_quantile(confidence, freedom))
        return Estimate(
            np.clip(value, 0, 1),
            low,
            high,
            self._sums(self._moments.labels).astype(np.int64),
            self._left_out(images, share),
        )

    def mean(self, share: BoundedShares, confidence: float) -> Estimate:
        """Mean over the cells of each scope."""
        one = self._filled.astype(float)
        value, variance, freedom, binomial = self._mean(share, one)
        low, high = _limits_of_mean(value, variance, binomial, t_quantile(confidence, np.maximum(freedom, 1)))
        used = self._sums((~np.isnan(share.value)).astype(float)).astype(np.int64)
        return Estimate(np.clip(value, 0, 1), low, high, used, self._left_out(one, share))

    def unevenness(
        self, shares: list[BoundedShares], confidence: float, seed: int, *, only: int | None = None
    ) -> Estimate:
        """The model bias score of each scope; `only`: of this T2I model, 0 for all together, elsewhere NaN."""
        one = self._filled.astype(float)
        sampled = self._between(uneven_terms(shares), one * ~np.isnan(shares[0].value))
        shape = sampled.shape
        value, error, freedom = (np.full(shape, np.nan) for _ in range(3))
        models, categories = np.divmod(np.arange(self._images.cells), self._images.prompts)
        categories = self._images.scopes.category_of_prompt[categories]
        for model, category in np.ndindex(*shape):
            if only is not None and (model, category) != (only, 0):
                continue
            chosen = self._known & ((model == 0) | (models == model - 1))
            chosen &= (category == 0) | (categories == category - 1)
            found = unevenness(shares, chosen, seed=seed)
            value[model, category], freedom[model, category] = found.value, found.freedom
            error[model, category] = np.hypot(found.standard_error, np.sqrt(sampled[model, category]))
        quantile = t_quantile(confidence, np.maximum(freedom, 1))
        low, high = limits_below_one(value, error, quantile, least=1 / self._sums(self._moments.labels).clip(1))
        used = self._sums((~np.isnan(shares[0].value)).astype(float)).astype(np.int64)
        return Estimate(np.clip(value, 0, 1), low, high, used, self._left_out(one, shares[0]))

    def _left_out(self, of_cell: FloatArray, share: BoundedShares) -> IntArray:
        spoken_for = ~np.isnan(share.value) | (self._sampled & ~self._known)
        return self._sums(np.where(spoken_for, 0, of_cell)).astype(np.int64)


def _limits_of_mean(
    value: FloatArray, variance: FloatArray, binomial: FloatArray, quantile: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Limits of a mean of shares, whose variance changes with the mean as that of a share does."""
    spread = value * (1 - value)
    scaled = np.where(spread > _LEAST_SPREAD, variance / np.maximum(spread, _LEAST_SPREAD), binomial)
    return quadratic_limits(value, np.where(spread > _LEAST_SPREAD, 0, variance), scaled, quantile)


def of_cells(share: BoundedShares, moments: CellMoments, confidence: float, shape: tuple[int, int]) -> Estimate:
    """Shares of single cells, each with an interval of its own, `[t2i_model, prompt]`."""
    low, high = share.interval(confidence)
    known = ~np.isnan(share.value)
    low, high = (np.where(known, limit, np.nan).reshape(shape) for limit in (low, high))
    left_out = np.where(known, 0, moments.images)
    return Estimate(
        np.clip(share.value, 0, 1).reshape(shape),
        low,
        high,
        moments.labels.reshape(shape),
        left_out.reshape(shape),
    )


def signed(share: Estimate) -> Estimate:
    """The balance of both classes, from -1 to 1, of the share of the first."""
    return share._replace(value=2 * share.value - 1, low=2 * share.low - 1, high=2 * share.high - 1)
