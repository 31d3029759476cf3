"""What one detector's verdicts say about all images once its errors are undone by a misclassification matrix.

The labelled images say how often a detector gives each verdict to each truth, and what it says of all images is
corrected for that: with M[t, v] = P(verdict v | truth t) and s the shares of the verdicts among the images of a
cell, the shares of the truths are the p within the simplex with s = p M (two classes: Rogan and Gladen 1978, Am.
J. Epidemiol. 107, 71-76; generative models: CLEAM, Teo, Abdollahzadeh and Cheung 2023, arXiv 2310.19297). Where
no p in the simplex fits, it is the one of greatest likelihood, by the EM algorithm (Saerens, Latinne and
Decaestecker 2002, Neural Computation 14, 21-41).

It is shown beside other estimates, as users of the method compute it, with what that means:

- **Errors are taken to be equal in all prompts of all T2I models**: one matrix, from all labelled images. Where a
  detector errs towards a prompt's stereotype, the estimates stay wrong however many labels there are.
  `equal_errors.py` tests it.
- **A model bias score of noisy prompt estimates is too high**: |p - 1/K| grows with the noise of p. Undoing errors
  adds noise, and nothing takes it away again. Intervals lie around the estimate, so they share its bias.
- **Low quality and others are one truth, not clear.** A detector has K + 1 verdicts, K classes and filtered, and
  K + 1 verdicts tell no more than K + 1 truths apart.
- Images without a verdict are left out, and counted: whether there is one is taken not to depend on the truth.

A truth that no labelled image shows has an unknown row, and a detector whose verdicts do not tell the truths
apart, such as one that never filters, has a matrix that cannot be inverted. Neither has estimates: all values are
NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from detector_bench.estimation.bounded_shares import About
from detector_bench.estimation.misclassification_matrix import (
    MisclassificationMatrix,
    label_weights,
    misclassification_matrix,
    verdicts_by_truth,
)
from detector_bench.estimation.partly_labelled import UNLABELLED, PartlyLabelled
from detector_bench.estimation.prediction_powered import Estimate, Estimates
from detector_bench.metrics.bias import SIGNED_CLASSES, concentration
from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.image_counts import LABEL_SHARE

_LEAST_CLEAR = 0.1
"""Of the gradients: a share of clear images is not taken to be less, so that a prompt of few has no endless
variance."""


def misclassification(
    images: PartlyLabelled, detector: int, *, about: About = "images", confidence: float = 0.95
) -> Estimates:
    """Estimate shares of labels and bias scores of all images from one detector's verdicts, its errors undone.

    Intervals are by the delta method, with the doubt about the matrix, which all prompts share, about the verdicts
    of the images, and, about T2I models, about which images there are. They hold the truth only where errors are
    equal in all prompts, and not where a bias of the score is larger than they are wide.

    Args:
        images: some of them labelled.
        detector: position of the detector.
        about: `images` or `t2i_model`, as of `prediction_powered.estimate`.
        confidence: of the intervals.

    Returns:
        Estimates of the same metrics as `prediction_powered.estimate`. Values lie in their ranges. `n` counts
        images with a verdict (shares, prompt bias scores) or prompts (means over prompts), `n_left_out` images
        without one, or prompts with images but without a score. The shares of `low_quality` and `others` cannot
        be told apart: where both are among the labels both are NaN, otherwise the one that is stands for all that
        is not clear. Where there are no estimates (see `MisclassificationMatrix.fault`) everything is NaN and
        left out. `explained` is 0.
    """
    matrix = misclassification_matrix(images, detector)
    cells = _Places.of_cells(images, detector, matrix)
    scopes = _Places.of_scopes(images, cells, matrix)
    limits = _Limits(matrix, about, confidence)
    of_scopes: dict[str, Estimate] = {}
    of_prompts: dict[str, Estimate] = {}
    seen = _labels_seen(images)
    for label in range(images.labels):
        for places, found in ((scopes, of_scopes), (cells, of_prompts)):
            found[f"{LABEL_SHARE}{label}"] = _share(places, limits, min(label, images.classes), known=seen[label])

    def mean(value: FloatArray, gradient: FloatArray, lowest: float) -> Estimate:
        return _mean(images, cells, limits, value, gradient, lowest=lowest)

    clear = cells.shares[..., : images.classes]
    total = clear.sum(axis=-1)
    if images.classes == SIGNED_CLASSES:
        score = divide(clear[..., 0] - clear[..., 1], total)
        gradient = _gradient_among_clear(clear, np.array([1.0, -1.0]))
        of_prompts["prompt_bias_score"] = _image_estimate(
            cells, score, limits.half_width(cells, gradient), lowest=-1
        )
        of_scopes["mean_prompt_bias_score"] = mean(score, gradient, -1)
    uneven = concentration(clear)
    sign = np.sign(divide(clear, total[..., np.newaxis]) - 1 / images.classes)
    slope = sign / (2 * (1 - 1 / images.classes))
    of_scopes["model_bias_score"] = mean(uneven, _gradient_among_clear(clear, slope), 0)
    return Estimates(of_scopes, of_prompts, np.zeros(images.detectors))


class _Places(NamedTuple):
    """Cells, `[t2i_model, prompt]`, or scopes, `[1 + T2I models, 1 + categories]`, as a detector sees them."""

    verdicts: CountArray
    """`[..., verdict]`: images."""
    errors: CountArray
    """`[...]`: images without a verdict."""
    label_weight: FloatArray
    """`[..., truth]`: which part of the labels' weight in the truth's row of the matrix is of this place."""
    shares: FloatArray
    """`[..., truth]`: corrected."""

    @property
    def images(self) -> CountArray:
        """`[...]`: images with a verdict."""
        counted: CountArray = self.verdicts.sum(axis=-1)
        return counted

    @classmethod
    def of_cells(cls, images: PartlyLabelled, detector: int, matrix: MisclassificationMatrix) -> _Places:
        kinds = images.classes + 1
        shape = (images.t2i_models, images.prompts)
        counted = np.bincount(
            images.cell * (kinds + 1) + images.verdicts[detector], minlength=images.cells * (kinds + 1)
        ).reshape(*shape, kinds + 1)
        place, truth, _ = verdicts_by_truth(images, detector)
        weight = np.bincount(
            images.cell[place] * kinds + truth, label_weights(images, place), minlength=images.cells * kinds
        ).reshape(*shape, kinds)
        weight = np.nan_to_num(divide(weight, weight.sum(axis=(0, 1))))
        verdicts = counted[..., :kinds]
        return cls(verdicts, counted[..., kinds], weight, matrix.corrected(verdicts))

    @classmethod
    def of_scopes(cls, images: PartlyLabelled, cells: _Places, matrix: MisclassificationMatrix) -> _Places:
        sums = images.scopes.sums
        verdicts = sums(cells.verdicts, prompt_axis=-2)
        weight = sums(cells.label_weight, prompt_axis=-2)
        return cls(verdicts, sums(cells.errors, prompt_axis=-1), weight, matrix.corrected(verdicts))


Sums = Callable[[CountArray, int], CountArray]
"""Adds up over the cells of each scope, of an array and the axis that is the prompt."""


class _Limits(NamedTuple):
    """Half-widths of intervals."""

    matrix: MisclassificationMatrix
    about: About
    confidence: float

    def half_width(
        self, places: _Places, gradient: FloatArray, *, sums: Sums | None = None, terms: CountArray | int = 1
    ) -> FloatArray:
        """Of a function of each place's shares, or of the mean of such functions over each scope.

        With h_c the derivative of place c's function by the shares of its verdicts, the error of the mean is, for
        each truth, the sum over its images of verdict . h_c / N_c, less the weighted mean over its labelled
        images of verdict . A, A = sum_c p_c h_c. Labelled images are in both, so that the two have a covariance.

        Args:
            places: cells or scopes.
            gradient: `[..., truth]`: the derivative by the shares of the truths; 0 in a place that does not count.
            sums: None: each place by itself.
            terms: of each scope's mean.
        """
        if not self.matrix.usable:
            empty: FloatArray = np.full(np.shape(terms) if sums else gradient.shape[:-1], np.nan)
            return empty

        def added(values: CountArray, axis: int) -> FloatArray:
            return values if sums is None else sums(values, axis)

        shares, counted = np.nan_to_num(places.shares), np.maximum(places.images, 1)
        forms = (gradient @ np.linalg.inv(self.matrix.shares).T)[..., np.newaxis, :]
        spread = self.matrix.spread(np.broadcast_to(forms, (*gradient.shape, gradient.shape[-1])))
        own = (shares * spread).sum(axis=-1)
        if self.about == "t2i_model":
            own = own + (shares * gradient**2).sum(axis=-1) - (shares * gradient).sum(axis=-1) ** 2
        own = added(own / counted, -1)
        all_images = added(shares[..., np.newaxis] * forms, -3)
        both = added((places.label_weight / counted[..., np.newaxis])[..., np.newaxis] * forms, -3)
        of_matrix = (self.matrix.spread(all_images) / self.matrix.effective).sum(axis=-1)
        variance = own + of_matrix - 2 * self.matrix.spread(all_images, both).sum(axis=-1)
        return self._quantile * np.sqrt(divide(np.maximum(variance, 0), np.square(terms)))

    @property
    def _quantile(self) -> float:
        from scipy.special import ndtri

        return float(ndtri((1 + self.confidence) / 2))


def _labels_seen(images: PartlyLabelled) -> list[bool]:
    """Which labels have a share of their own: not `low_quality` and `others` where both are among the labels."""
    truth = images.truth[images.truth != UNLABELLED]
    unclear = [bool((truth == images.classes + place).any()) for place in (0, 1)]
    alone = unclear[0] != unclear[1]
    return [True] * images.classes + [alone and each for each in unclear]


def _gradient_among_clear(clear: FloatArray, slope: FloatArray) -> FloatArray:
    """Of sum_k slope_k p_k, p_k the shares among the clear images, by the shares of the truths, `[..., truth]`."""
    total = clear.sum(axis=-1, keepdims=True)
    among = divide(clear, total)
    of_classes = (slope - (slope * among).sum(axis=-1, keepdims=True)) / np.maximum(total, _LEAST_CLEAR)
    found: FloatArray = np.nan_to_num(np.concatenate([of_classes, np.zeros_like(total)], axis=-1))
    return found


def _share(places: _Places, limits: _Limits, truth: int, *, known: bool) -> Estimate:
    value = np.where(known, places.shares[..., truth], np.nan)
    gradient = np.broadcast_to(np.eye(places.shares.shape[-1])[truth], places.shares.shape)
    return _image_estimate(places, value, limits.half_width(places, gradient), lowest=0)


def _image_estimate(places: _Places, value: FloatArray, half: FloatArray, *, lowest: float) -> Estimate:
    """One that rests on images."""
    there = ~np.isnan(value)
    n = np.where(there, places.images, 0)
    return _estimate(value, half, n, places.images + places.errors - n, lowest=lowest)


def _mean(
    images: PartlyLabelled,
    cells: _Places,
    limits: _Limits,
    value: FloatArray,
    gradient: FloatArray,
    *,
    lowest: float,
) -> Estimate:
    """Mean over the cells of each scope that have a value."""

    def sums(values: CountArray, axis: int) -> CountArray:
        return images.scopes.sums(values, prompt_axis=axis)

    there = ~np.isnan(value)
    filled = cells.images + cells.errors > 0
    n, left_out = (sums(each.astype(np.int64), -1) for each in (there, filled & ~there))
    mean = divide(sums(np.where(there, value, 0.0), -1), n)
    half = limits.half_width(cells, np.where(there[..., np.newaxis], gradient, 0), sums=sums, terms=n)
    return _estimate(mean, half, n, left_out, lowest=lowest)


def _estimate(
    value: FloatArray, half: FloatArray, n: CountArray, left_out: CountArray, *, lowest: float
) -> Estimate:
    return Estimate(value, np.clip(value - half, lowest, 1), np.clip(value + half, lowest, 1), n, left_out)
