"""How far people, or a detector and a person, agree on labels, and what their labels say about the true ones.

Fleiss' kappa is statsmodels'. Cohen's kappa is computed here as scikit-learn does, whose function takes a
millisecond for each table; so is Krippendorff's alpha, for nominal labels: the library for it is GPL-licensed. All
are 1 for full agreement, 0 for as much as chance gives, negative for less; higher is better. They are undefined
(NaN) where everybody gave one and the same label: then chance explains everything. Images with fewer than two
labels say nothing about agreement; `Score.n_left_out` counts them.

Intervals: of Cohen's kappa from the standard error of Fleiss, Cohen and Everitt (1969); of the others from the
jackknife over images (Fleiss and Davies 1982), for which both are functions of sums over images. Limits lie within
-1 and 1. There is none (NaN) where the number is undefined, and where nobody ever differs: then the standard error
is 0, which is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray, Score, divide
from detector_bench.metrics.intervals import Interval

_IntArray = NDArray[np.int64]

LEVEL = 0.95
_ROUNDING = 1e-12
NO_INTERVAL = Interval(np.asarray(np.nan), np.asarray(np.nan))

DEFAULT_TOLERANCE = 1e-9
DEFAULT_MAX_ITERATIONS = 10_000


def percent_agreement(label_counts: CountArray) -> Score:
    """Share of the pairs of labels of one image that are equal, over all images: [0, 1].

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images with two labels or more.
    """
    used = _pairable(label_counts)
    labels = used.sum(axis=-1)
    equal = (used * (used - 1)).sum()
    return _score(divide(equal, (labels * (labels - 1)).sum()), label_counts, used)


def cohen_kappa(contingency: CountArray) -> Score:
    """Cohen's kappa of two raters (Cohen 1960): 1 - observed / expected disagreement; to the last digit that of
    scikit-learn.

    Args:
        contingency: images by the label of the first and of the second, `[label, label]`.

    Returns:
        One number; n counts the images that both labelled.
    """
    images, of_first, of_second = contingency.sum(), contingency.sum(axis=1), contingency.sum(axis=0)
    given = np.flatnonzero(of_first + of_second)
    apart = 1 - np.eye(given.size)
    observed = (apart * contingency[np.ix_(given, given)]).sum()
    by_chance = divide(np.outer(of_second[given], of_first[given]), images)
    return Score(1 - divide(observed, (apart * by_chance).sum()), np.asarray(images), np.zeros_like(images))


def fleiss_kappa(label_counts: CountArray) -> Score:
    """Fleiss' kappa (Fleiss 1971), by statsmodels.

    It needs the same number of labels for every image: of all such numbers from two upwards, the one that most
    images have is taken (the larger one of equals); other images are left out. Which annotator gave a label does
    not matter.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images used.
    """
    from statsmodels.stats.inter_rater import fleiss_kappa as of_statsmodels

    used = _equally_many(label_counts)
    one_label = (used.sum(axis=0) > 0).sum() < 2
    value = np.nan if one_label else of_statsmodels(used)
    return _score(np.asarray(value, dtype=np.float64), label_counts, used)


def krippendorff_alpha(label_counts: CountArray) -> Score:
    """Krippendorff's alpha for nominal labels; any number of annotators, labels may be missing.

    1 - observed / expected disagreement. An image with m labels contributes its ordered pairs of labels, each with
    weight 1 / (m - 1); expected disagreement is that of pairs drawn from all n labels without putting back.
    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", sections C and D.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.

    Returns:
        One number; n counts the images with two labels or more.
    """
    used = _pairable(label_counts)
    labels = used.sum(axis=-1, keepdims=True)
    total = used.sum()
    of_label = used.sum(axis=0)
    equal = divide(used * (used - 1), labels - 1).sum()
    value = 1 - divide((total - 1) * (total - equal), total * total - (of_label * of_label).sum())
    return _score(value, label_counts, used)


def cohen_interval(contingency: CountArray, *, level: float = LEVEL) -> Interval:
    """Interval of Cohen's kappa.

    Args:
        contingency: images by the label of the first and of the second rater, `[label, label]`.
        level: 0.95 for a 95 % interval.
    """
    images = contingency.sum()
    shares = divide(contingency, images)
    of_first, of_second = shares.sum(axis=1), shares.sum(axis=0)
    same, by_chance = np.trace(shares), of_first @ of_second
    if np.trace(contingency) == images or not by_chance < 1:
        return NO_INTERVAL
    kappa = (same - by_chance) / (1 - by_chance)
    on_diagonal = np.diag(shares) @ (1 - (of_first + of_second) * (1 - kappa)) ** 2
    apart = shares * (1 - np.eye(len(shares)))
    beside = (1 - kappa) ** 2 * (apart * (of_second[:, None] + of_first) ** 2).sum()
    variance = on_diagonal + beside - (kappa - by_chance * (1 - kappa)) ** 2
    error = np.sqrt(max(variance, 0) / images) / (1 - by_chance)
    return _within_limits(float(kappa), float(error), level=level)


def fleiss_interval(label_counts: CountArray, *, level: float = LEVEL) -> Interval:
    """Interval of Fleiss' kappa.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`; images are used as in `fleiss_kappa`.
        level: 0.95 for a 95 % interval.
    """
    used = _equally_many(label_counts)
    labels = used.sum(axis=1)
    equal = divide((used * (used - 1)).sum(axis=1), labels * (labels - 1))
    return _jackknife_interval(np.column_stack([equal, np.ones(len(used)), used]), fleiss_of_sums, level=level)


def fleiss_of_sums(sums: FloatArray) -> FloatArray:
    """Fleiss' kappa from sums over images with equally many labels.

    Args:
        sums: of each image's share of equal pairs, of images, and of each label, `[..., 2 + label]`.

    Returns:
        `[...]`; NaN where only one label was given.
    """
    same = divide(sums[..., 0], sums[..., 1])
    given = sums[..., 2:]
    by_chance = (divide(given, given.sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return divide(same - by_chance, np.where(by_chance < 1 - _ROUNDING, 1 - by_chance, 0))


def krippendorff_interval(label_counts: CountArray, *, level: float = LEVEL) -> Interval:
    """Interval of Krippendorff's alpha.

    Args:
        label_counts: how many annotators gave each label, `[image, label]`.
        level: 0.95 for a 95 % interval.
    """
    used = _pairable(label_counts)
    equal = divide((used * (used - 1)).sum(axis=1), used.sum(axis=1) - 1)
    return _jackknife_interval(np.column_stack([equal, used]), _alpha_of_sums, level=level)


def _alpha_of_sums(sums: FloatArray) -> FloatArray:
    """Krippendorff's alpha from sums of each image's equal pairs, weighted, and of each label."""
    equal, given = sums[..., 0], sums[..., 1:]
    total = given.sum(axis=-1)
    return 1 - divide((total - 1) * (total - equal), total * total - (given * given).sum(axis=-1))


def _jackknife_interval(
    sums: FloatArray, statistic: Callable[[FloatArray], FloatArray], *, level: float
) -> Interval:
    """Interval of a function of sums over images, `[image, sum]`, by leaving out each image once."""
    images, total = len(sums), sums.sum(axis=0)
    if images < 2:
        return NO_INTERVAL
    value, left_out = statistic(total), statistic(total - sums)
    if np.isnan(value) or np.isnan(left_out).any():
        return NO_INTERVAL
    error = np.sqrt((images - 1) / images * ((left_out - left_out.mean()) ** 2).sum())
    return _within_limits(float(value), float(error), level=level)


def _within_limits(value: float, error: float, *, level: float) -> Interval:
    if not error > _ROUNDING:
        return NO_INTERVAL
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    limits: list[FloatArray] = [np.asarray(np.clip(value + side * half, -1, 1)) for side in (-1, 1)]
    return Interval(*limits)


def label_counts(given: Sequence[NDArray[np.integer]], *, labels: int) -> CountArray:
    """How many annotators gave each label, `[image, label]`.

    Args:
        given: by annotator, the position of each image's label; -1 where there is none.
        labels: how many there are.
    """
    counts = np.zeros((len(given[0]) if given else 0, labels + 1), dtype=np.int64)
    for of_images in given:
        counts[np.arange(len(counts)), of_images] += 1  # an image without a label is counted in the last place
    return counts[:, :labels]


def contingency(first: NDArray[np.integer], second: NDArray[np.integer], *, labels: int) -> CountArray:
    """Images by the label of one rater (rows) and of another (columns), positions as in `label_counts`.

    Images without a label by one of them are in no cell.
    """
    both = (first >= 0) & (second >= 0)
    return np.bincount(first[both] * labels + second[both], minlength=labels * labels).reshape(labels, labels)


def one_against_rest(counts: CountArray, *, label: int, axes: tuple[int, ...] = (-1,)) -> CountArray:
    """Counts in which only one label and all the others together are told apart: those axes become 2 long."""
    for axis in axes:
        chosen = np.take(counts, [label], axis=axis)
        counts = np.concatenate([counts.sum(axis=axis, keepdims=True) - chosen, chosen], axis=axis)
    return counts


def _pairable(label_counts: CountArray) -> CountArray:
    used: CountArray = label_counts[label_counts.sum(axis=-1) > 1]
    return used


def _equally_many(label_counts: CountArray) -> CountArray:
    """The images with as many labels as most have."""
    used = _pairable(label_counts)
    labels = used.sum(axis=-1)
    if labels.size:
        images_with = np.bincount(labels)
        used = used[labels == np.flatnonzero(images_with == images_with.max()).max()]
    return used


def _score(value: CountArray, label_counts: CountArray, used: CountArray) -> Score:
    return Score(np.asarray(value), np.asarray(len(used)), np.asarray(len(label_counts) - len(used)))


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
