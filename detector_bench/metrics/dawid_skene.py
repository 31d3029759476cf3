"""Estimates of the true labels, and of every annotator's errors, from labels alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray

_IntArray = NDArray[np.int64]

DEFAULT_TOLERANCE = 1e-9
DEFAULT_MAX_ITERATIONS = 10_000


class AnnotatorModel(NamedTuple):
    """What Dawid and Skene's model makes of some labels.

    Attributes:
        posterior: probability of each true label of each image, `[image, label]`; NaN for an image without labels.
        prevalence: share of each true label, `[label]`.
        confusion: probability that an annotator gives a label, by the true one, `[annotator, truth, label]`; equal
            probabilities where nothing is known, for a truth that none of an annotator's images has.
        log_likelihood: of the labels, natural logarithm; no iteration lowers it.
        iterations: how many it took.
        converged: whether the likelihood grew no more; if not, the iterations ran out.
    """

    posterior: FloatArray
    prevalence: FloatArray
    confusion: FloatArray
    log_likelihood: float
    iterations: int
    converged: bool

    @property
    def label(self) -> _IntArray:
        """The most probable label of each image, `[image]`, the first of equals; -1 for one without labels."""
        unknown = np.isnan(self.posterior).any(axis=-1)
        return np.where(unknown, -1, np.nan_to_num(self.posterior).argmax(axis=-1))


def dawid_skene(
    annotator: _IntArray,
    image: _IntArray,
    label: _IntArray,
    *,
    annotators: int,
    images: int,
    labels: int,
    tolerance: float = DEFAULT_TOLERANCE,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
) -> AnnotatorModel:
    """Fit Dawid and Skene's model by expectation maximization.

    Every image has one true label, drawn with the probabilities `prevalence`; an annotator gives label l to an
    image of truth k with probability `confusion[annotator, k, l]`, whatever the others give and whatever the image
    looks like otherwise. Where images differ in difficulty, annotators err together, and the model is too sure.

    With three annotators whose confusion matrices have full rank, the parameters are identified up to an order of
    the true labels (Kruskal 1977; Allman, Matias and Rhodes 2009); with two they are not, and the result would be
    one of many that fit equally well. The order is fixed by the start: posteriors are the shares of an image's
    labels, so that the majority's label is the likeliest. No random start, so equal labels give equal results.

    Source: Dawid and Skene 1979, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    equations 2.3 to 2.5, maximum likelihood without smoothing.

    Args:
        annotator, image, label: one entry per label that was given, as numbers from 0. An annotator may label an
            image several times.
        annotators: how many annotators there are.
        images: how many images.
        labels: how many labels can be given.
        tolerance: iterations end when the log-likelihood grows by no more than this per labelled image. The
            posteriors are not asked: where annotators have few labels the likelihood has flat ridges, along which
            a few images' posteriors wander for thousands of iterations without a better fit.
        max_iterations: or after so many, at least 1.

    Raises:
        ValueError: no label at all.
    """
    if label.size == 0:
        raise ValueError("no label was given")
    votes = np.bincount(image * labels + label, minlength=images * labels).reshape(images, labels)
    labelled = votes.sum(axis=-1) > 0
    given = _Given(annotator, image, label, annotators, images, labels, labelled)
    posterior = np.where(labelled[:, np.newaxis], votes, 0) / np.maximum(votes.sum(axis=-1), 1)[:, np.newaxis]
    log_likelihood, converged, enough = -np.inf, False, tolerance * int(labelled.sum())
    iterations = 0
    while not converged and iterations < max_iterations:
        iterations += 1
        prevalence, confusion = _maximized(given, posterior)
        before = log_likelihood
        posterior, log_likelihood = _expected(given, prevalence, confusion)
        converged = log_likelihood - before <= enough
    return AnnotatorModel(
        posterior=np.where(labelled[:, np.newaxis], posterior, np.nan),
        prevalence=prevalence,
        confusion=confusion,
        log_likelihood=log_likelihood,
        iterations=iterations,
        converged=converged,
    )


class _Given(NamedTuple):
    annotator: _IntArray
    image: _IntArray
    label: _IntArray
    annotators: int
    images: int
    labels: int
    labelled: NDArray[np.bool_]


def _maximized(given: _Given, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The likeliest prevalence and confusion matrices, were the posteriors known."""
    place, size = given.annotator * given.labels + given.label, given.annotators * given.labels
    weight = np.stack([np.bincount(place, each[given.image], size) for each in posterior.T])
    weight = weight.reshape(given.labels, given.annotators, given.labels).swapaxes(0, 1)
    total = weight.sum(axis=-1, keepdims=True)
    unknown = np.full_like(weight, 1 / given.labels)
    confusion = np.divide(weight, total, out=unknown, where=total > 0)
    prevalence: FloatArray = posterior[given.labelled].mean(axis=0)
    return prevalence, confusion


def _expected(given: _Given, prevalence: FloatArray, confusion: FloatArray) -> tuple[FloatArray, float]:
    """The posteriors, were the parameters known; 0 for images without labels. And the log-likelihood."""
    with np.errstate(divide="ignore"):  # a label that an annotator never gives has probability 0
        of_label, of_truth = np.log(confusion), np.log(prevalence)
    joint = np.stack(
        [
            np.bincount(given.image, of_label[given.annotator, truth, given.label], given.images)
            for truth in range(given.labels)
        ],
        axis=-1,
    )
    joint += of_truth
    highest = joint.max(axis=-1, keepdims=True)
    scaled = np.exp(joint - highest)
    total = scaled.sum(axis=-1, keepdims=True)
    log_likelihood = float((highest + np.log(total))[given.labelled].sum())
    return np.where(given.labelled[:, np.newaxis], scaled / total, 0), log_likelihood
