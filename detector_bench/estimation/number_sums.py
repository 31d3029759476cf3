"""Sums of any numbers that single images have, over all images of each cell, where only some images are labelled.

A score of another benchmark is a function of such sums. Where it bends, noisy sums give it a bias, and nothing in
a single cell says how large. So the function is also asked about a pilot, sums whose spread over cells is that of
the true ones (constrained empirical Bayes: Louis 1984; Ghosh 1992), and about the pilot with noise: what the noise
adds there is taken off the estimate, and its spread makes the interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import COMMON_FREEDOM
from detector_bench.estimation.partly_labelled import PartlyLabelled
from detector_bench.estimation.working_model import CellMoments, Predictors, moments_of
from detector_bench.metrics.counts import FloatArray

DRAWS = 400
"""How often noise is drawn."""

_FEW_UNDEFINED = 0.1
_FAR = 5.0
_NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class EstimatedSums:
    """Estimated sums of each cell, and noise like theirs."""

    value: FloatArray
    """`[cell, column]`: right on average; 0 in a cell without a label."""
    pilot: FloatArray
    """`[cell, column]`: less spread over cells, by what noise adds; within the range of the numbers."""
    root: FloatArray
    """`[cell, column, column]`: a square root of the covariance of `value` over draws of the labels."""
    freedom: FloatArray
    """`[cell]`: degrees of freedom of the covariances."""
    known: NDArray[np.bool_]
    """`[cell]`: whether it has a label."""

    def noisy(self, *, seed: int) -> Iterator[FloatArray]:
        """The pilot with noise, `[draw, cell, column]`, a part of `DRAWS` draws at a time.

        Every noise is there once more with the opposite sign, so that it adds nothing to what is linear.
        """
        random = np.random.default_rng(seed)
        at_once = int(np.clip(_NUMBERS_AT_ONCE // max(self.value.size, 1), 1, DRAWS // 2))
        for start in range(0, DRAWS // 2, at_once):
            size = min(at_once, DRAWS // 2 - start)
            normal = random.standard_normal((size, *self.value.shape))
            noise = np.einsum("dck,ckl->dcl", normal, self.root)
            yield self.pilot + np.concatenate([noise, -noise])


def estimated_sums(
    images: PartlyLabelled, numbers: FloatArray, by_detectors: FloatArray | None = None
) -> EstimatedSums:
    """Estimate the sum of each column over all images of each cell.

    Args:
        images: which of them are labelled; `truth` says no more than that here, and `verdicts` are not looked at.
        numbers: `[image, column]` by the human labels; those of unlabelled images are not looked at.
        by_detectors: `[detector, image, column]`, the same by each detector; None: from the labels alone.
    """
    found = numbers[images.labelled]
    predictors = None
    if by_detectors is not None and len(by_detectors):
        predictors = _predictors(images, by_detectors)
    moments = moments_of(images, found, predictors)
    covariance = moments.dispersion[:, np.newaxis, np.newaxis] * _moderated(moments)
    known = moments.labels > 0
    # Exactly, not but for rounding, where nothing is left to predict.
    complete = (moments.labels == moments.images)[:, np.newaxis]
    mean = np.where(known[:, np.newaxis], np.where(complete, moments.label_share, moments.share), 0.0)
    pilot = _pilot(moments, mean, np.trace(covariance, axis1=1, axis2=2))
    if len(found):
        pilot = np.where(
            moments.dispersion[:, np.newaxis] > 0, np.clip(pilot, found.min(axis=0), found.max(axis=0)), pilot
        )
    size = moments.images[:, np.newaxis].astype(np.float64)
    return EstimatedSums(
        value=size * mean,
        pilot=size * np.where(known[:, np.newaxis], pilot, 0.0),
        root=size[..., np.newaxis] * _root(covariance),
        freedom=moments.freedom + COMMON_FREEDOM,
        known=known,
    )


def of_noise(noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of what noise adds to a score, where a few draws divide by almost nothing.

    The deviation is half the distance between the quantiles that lie one deviation off the mean of a normal
    distribution; the mean counts what lies farther than five deviations off the median as five.

    Args:
        noise: `[..., draw]`; NaN where a draw has no score.

    Returns:
        Both without the last axis; NaN where a tenth of the draws or more have no score.
    """
    from scipy.special import ndtr

    defined = np.isnan(noise).mean(axis=-1) < _FEW_UNDEFINED
    known = np.where(defined[..., np.newaxis], noise, 0.0)
    low, middle, high = np.nanquantile(known, [ndtr(-1), 0.5, ndtr(1)], axis=-1)
    deviation = (high - low) / 2
    bounds = (middle + sign * _FAR * deviation for sign in (-1, 1))
    mean = np.nanmean(np.clip(known, *(bound[..., np.newaxis] for bound in bounds)), axis=-1)
    return np.where(defined, mean, np.nan), np.where(defined, deviation, np.nan)


def _predictors(images: PartlyLabelled, by_detectors: FloatArray) -> Predictors:
    detectors, _, columns = by_detectors.shape
    size = np.maximum(images.images_of_cell, 1)

    def mean(of_image: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(images.cell, of_image, minlength=images.cells) / size)

    means = np.empty((images.cells, detectors, columns))
    spread = np.zeros(images.cells)
    for detector, column in np.ndindex(detectors, columns):
        of_image = by_detectors[detector, :, column]
        means[:, detector, column] = mean(of_image)
        spread += mean(of_image**2) - means[:, detector, column] ** 2
    # Of one number for each class it is the evenness of the classes.
    widest = spread.max(initial=0.0)
    evenness = spread / widest - 1 if widest > 0 else spread
    features = by_detectors[:, images.labelled].transpose(1, 0, 2).reshape(len(images.labelled), -1)
    return Predictors.of(features, means.reshape(images.cells, -1), evenness, images, detectors=detectors)


def _moderated(moments: CellMoments) -> FloatArray:
    """Covariances drawn towards their mean over cells: labels that agree by chance make nothing certain."""
    freedom = moments.freedom[:, np.newaxis, np.newaxis]
    total = float(freedom.sum())
    mean = (freedom * moments.residual_variance).sum(axis=0) / total if total else 0.0
    together = freedom * moments.residual_variance + COMMON_FREEDOM * mean
    moderated: FloatArray = together / (freedom + COMMON_FREEDOM)
    return moderated


def _pilot(moments: CellMoments, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """The estimates drawn towards the prediction until their distances from it spread as the true ones do.

    All columns by the same factor, so that sums over columns stay what they are.
    """
    known = moments.labels > 0
    if not known.any():
        return mean
    off = mean - moments.predicted
    middle = off[known].mean(axis=0)
    distance = ((off[known] - middle) ** 2).sum(axis=1)
    between = max(float((distance - variance[known]).mean()), 0.0)
    both = between + variance
    factor = np.sqrt(np.divide(between, both, out=np.ones_like(both), where=both > 0))
    factor[variance == 0] = 1
    pilot: FloatArray = mean + (factor[:, np.newaxis] - 1) * (off - middle)
    return pilot


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    root: FloatArray = np.sqrt(np.maximum(values, 0))[..., np.newaxis] * vectors.swapaxes(-1, -2)
    return root
