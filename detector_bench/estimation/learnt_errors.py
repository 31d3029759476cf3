"""What a study with labels teaches about detectors: how often they say what of an image with which label.

What is taken to another study is the chance of all detectors' verdicts given the label, P(verdicts | label), and
nothing about how frequent the labels are ("label shift"). A classifier q, a multinomial logistic regression on all
verdicts, sums up what the detectors say of an image; M, the mean of q given the label, turns means of q over any
images into shares of labels, M^-1 mean(q). That is right on average whatever q, as long as P(verdicts | label) is
the same (Lipton, Wang and Smola 2018, arXiv 1802.03916; Rogan and Gladen 1978 for one test). Every image's q comes
from a classifier that never saw its prompt.

`low_quality` and `others` are one label here, unclear: detectors filter both, and do not tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.estimation.partly_labelled import IntArray, PartlyLabelled
from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.joint_verdicts import Codes

FOLDS = 5
"""In how many parts prompts are divided, so that no image's q knows its own label."""

RESAMPLES = 200
"""Of the prompts of the study with labels."""

FEWEST_LABELS = 5
"""Labelled images of a class, or unclear ones, below which nothing is learnt about them."""

_RIDGE = 1.0
_ITERATIONS = 100
_FEWEST_PROMPTS = 5
_LEAST_DIFFERENCE = 1.5
_LARGEST_SPREAD, _LEAST_SPREAD = 1.0, -0.5


class Opinion(NamedTuple):
    """The distinct combinations of verdicts on some images."""

    features: FloatArray
    """`[combination, feature]`."""
    of_image: IntArray
    """`[image]`: which combination."""


def combinations(verdicts: Codes, *, classes: int) -> Opinion:
    """Find the distinct combinations of all detectors' verdicts.

    Args:
        verdicts: `[detector, image]`.
        classes: of the attribute.
    """
    distinct, of_image = np.unique(verdicts.T, axis=0, return_inverse=True)
    one_hot = distinct[:, :, np.newaxis] == np.arange(classes + 2)
    features = np.concatenate([np.ones((len(distinct), 1)), one_hot.reshape(len(distinct), -1)], axis=1)
    return Opinion(features, of_image.ravel())


@dataclass(frozen=True, eq=False)
class LearntErrors:
    """What was learnt. Labels are the classes, then unclear; a group is a prompt, or of few prompts an image."""

    classes: int
    classifiers: FloatArray
    """`[fold, feature, label]`: coefficients of q; an image of another study gets the mean of all folds' q."""
    mixing: FloatArray
    """M, `[q of label, label]`: the mean of q given the label."""
    resampled_mixing: FloatArray
    """`[resample, q of label, label]`: the same of resampled groups."""
    spread: float
    """b: prompts lie (1 + b) times as far from their mean in the estimates as in the labels. Above 0 where
    detectors err towards a prompt's majority. 0 where chance explains it."""
    resampled_spread: FloatArray
    """`[resample]`."""
    noise: FloatArray
    """`[label, label, label]`: covariances of the corrected M^-1 q given the first label."""
    between: FloatArray
    """T, `[label, label]`: covariances, from prompt to prompt, of what the estimate of a prompt with endlessly
    many images would be off by; measured on prompts that M did not see. 0 of fewer than five prompts."""
    between_clear: FloatArray
    """`[class]`: the variance of the same of a class's share among clear images. Filters that are strict in one
    prompt and loose in another move shares of all images far more than these."""
    freedom: float
    """Degrees of freedom: resampled groups less one."""
    prompts: int
    """How many prompts had labels."""
    labels: int
    """How many labelled images there were."""
    unclear: int | None
    """Which label of unclear images there was, K for low_quality and K + 1 for others; None: both, or neither."""

    @classmethod
    def of(cls, images: PartlyLabelled, *, seed: int = 0) -> LearntErrors:
        """Learn from the labelled images.

        Args:
            images: of the study with labels.
            seed: of the resamples.

        Raises:
            ConfigError: fewer than five labelled images of a class, or detectors whose verdicts do not tell the
                labels apart.
        """
        taught = _Taught.of(images)
        prompts = np.unique(images.cell[images.labelled] % images.prompts)
        unclear = np.unique(images.truth[taught.place])
        unclear = unclear[unclear >= images.classes]
        q, classifiers = taught.classified(images)
        sums, numbers = taught.by_group(q)
        mixing = sums.sum(axis=0) / numbers.sum(axis=0)
        random = np.random.default_rng(seed)
        weights = random.standard_exponential((RESAMPLES, len(numbers)))
        resampled = np.einsum("rg,gkl->rkl", weights, sums) / (weights @ numbers)[:, np.newaxis]
        _check_told_apart(mixing, resampled)
        corrected = q @ np.linalg.inv(mixing).T
        noise = taught.noise(corrected)
        between, between_clear = np.zeros_like(mixing), np.zeros(images.classes)
        spread, resampled_spread = 0.0, np.zeros(RESAMPLES)
        if len(prompts) >= _FEWEST_PROMPTS:
            held_out = _held_out(q, taught, sums, numbers)
            off = _off(held_out, taught, noise)
            spread, resampled_spread = off.spread(weights)
            between, between_clear = off.between(spread), off.between_clear(spread, classes=images.classes)
        return cls(
            classes=images.classes,
            classifiers=classifiers,
            mixing=mixing,
            resampled_mixing=resampled,
            spread=spread,
            resampled_spread=resampled_spread,
            noise=noise,
            between=between,
            between_clear=between_clear,
            freedom=float(len(numbers) - 1),
            prompts=len(prompts),
            labels=len(taught.label),
            unclear=int(unclear[0]) if len(unclear) == 1 else None,
        )

    def said(self, verdicts: Codes) -> FloatArray:
        """q of images of another study, `[image, label]`: adds up to 1."""
        opinion = combinations(verdicts, classes=self.classes)
        q = np.mean([_softmax(opinion.features @ each) for each in self.classifiers], axis=0)
        found: FloatArray = q[opinion.of_image]
        return found


@dataclass(frozen=True, eq=False)
class _Taught:
    """The labelled images, in order of their cells."""

    place: IntArray
    """Where they stand among all images."""
    label: IntArray
    weight: FloatArray
    """Inverse chances, on average 1 in each cell."""
    cell: IntArray
    """Numbered without gaps."""
    t2i_model: IntArray
    """`[cell]`."""
    group: IntArray
    """What is resampled: the prompt, or of few prompts the image."""
    group_of_cell: IntArray
    fold: IntArray
    labels: int

    @classmethod
    def of(cls, images: PartlyLabelled) -> _Taught:
        place = images.labelled
        label = np.minimum(images.truth[place], images.classes)
        number = np.bincount(label, minlength=images.classes + 1)
        if (number[:-1] < FEWEST_LABELS).any():
            raise ConfigError(f"fewer than {FEWEST_LABELS} labelled images of a class: nothing is learnt about it")
        if number[-1] < FEWEST_LABELS:  # nothing is learnt about unclear images, and none are assumed
            place, label = place[label < images.classes], label[label < images.classes]
        labels = images.classes + int(number[-1] >= FEWEST_LABELS)
        cells, cell = np.unique(images.cell[place], return_inverse=True)
        prompts, prompt = np.unique(images.cell[place] % images.prompts, return_inverse=True)
        weight = 1 / images.probability[place]
        weight *= (np.bincount(cell) / np.bincount(cell, weight))[cell]
        few = len(prompts) < _FEWEST_PROMPTS
        group = np.arange(len(place)) if few else prompt
        fold = (np.arange(len(place)) if few else prompt) % FOLDS
        of_cell = np.searchsorted(prompts, cells % images.prompts)
        return cls(place, label, weight, cell, cells // images.prompts, group, of_cell, fold, labels)

    def classified(self, images: PartlyLabelled) -> tuple[FloatArray, FloatArray]:
        """q of every labelled image, `[image, label]`, and the classifiers of all folds."""
        opinion = combinations(images.verdicts[:, self.place], classes=images.classes)
        size = (len(opinion.features), self.labels)
        q = np.empty((len(self.label), self.labels))
        classifiers = []
        for fold in range(int(self.fold.max()) + 1):
            seen, own = self.fold != fold, self.fold == fold
            counts = np.zeros(size)
            np.add.at(counts, (opinion.of_image[seen], self.label[seen]), self.weight[seen])
            classifiers.append(_fitted(opinion.features, counts))
            q[own] = _softmax(opinion.features @ classifiers[-1])[opinion.of_image[own]]
        return q, np.stack(classifiers)

    def by_group(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of q, `[group, q of label, label]`, and of the weights, `[group, label]`."""
        groups = int(self.group.max()) + 1
        sums, numbers = np.zeros((groups, self.labels, self.labels)), np.zeros((groups, self.labels))
        for label in range(self.labels):
            own = self.label == label
            np.add.at(sums[:, :, label], self.group[own], self.weight[own, np.newaxis] * q[own])
        np.add.at(numbers, (self.group, self.label), self.weight)
        return sums, numbers

    def noise(self, corrected: FloatArray) -> FloatArray:
        """Covariances given the label, `[label, label, label]`."""
        found = np.zeros((self.labels,) * 3)
        for label in range(self.labels):
            own = self.label == label
            off, weight = corrected[own] - np.eye(self.labels)[label], self.weight[own]
            found[label] = (weight * off.T) @ off / weight.sum()
        return found


@dataclass(frozen=True, eq=False)
class _Off:
    """What estimates of single cells are off by, and what sampling explains of it."""

    off: FloatArray
    """`[cell, label]`: the estimate less the share among the same labelled images."""
    sampling: FloatArray
    """`[cell, label, label]`: covariances of `off` if errors were the same in all prompts."""
    share: FloatArray
    """`[cell, label]`: of the labelled images."""
    away: FloatArray
    """`[cell, label]`: the share less the mean of its T2I model."""
    away_sampling: FloatArray
    """`[cell, label, label]`."""
    number: FloatArray
    """`[cell]`: labels, which the cells weigh."""
    group: IntArray
    """`[cell]`."""

    def spread(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """b by moments, drawn towards 0 by how uncertain it is, and the same of resamples."""
        above = self.number * (self.off * self.away).sum(axis=1)
        below = self.number * ((self.away**2).sum(axis=1) - np.trace(self.away_sampling, axis1=1, axis2=2))
        of_cell = weights[:, self.group]

        def ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
            found = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
            return np.clip(found, _LEAST_SPREAD, _LARGEST_SPREAD)

        found = float(ratio(above.sum(keepdims=True), below.sum(keepdims=True))[0])
        resampled = ratio(of_cell @ above, of_cell @ below)
        variance = float(resampled.var())
        kept = max(0.0, 1 - variance / found**2) if found else 0.0
        return kept * found, kept * resampled

    def between(self, spread: float) -> FloatArray:
        """T by moments, without negative variances."""
        found = np.einsum("c,ckl->kl", self.number, self._unexplained(spread)) / self.number.sum()
        values, vectors = np.linalg.eigh(found)
        kept: FloatArray = (vectors * np.maximum(values, 0)) @ vectors.T
        return kept

    def between_clear(self, spread: float, *, classes: int) -> FloatArray:
        """The variances of the classes' shares among clear images, `[class]`."""
        clear = np.zeros(self.share.shape[1])
        clear[:classes] = 1
        among = self.share @ clear
        number = self.number * among
        used = number > 0
        unexplained = self._unexplained(spread)[used]
        found = np.zeros(classes)
        for each in range(classes):
            part = self.share[used, each, np.newaxis] / among[used, np.newaxis]
            forms = (np.eye(len(clear))[each] - part * clear) / among[used, np.newaxis]
            squares = np.einsum("ck,ckl,cl->c", forms, unexplained, forms)
            found[each] = max(0.0, float(number[used] @ squares / number[used].sum()))
        return found

    def _unexplained(self, spread: float) -> FloatArray:
        """Products of what cells are off by, less what sampling and b explain, `[cell, label, label]`."""
        products = self.off[:, :, np.newaxis] * self.off[:, np.newaxis] - self.sampling
        explained = self.away[:, :, np.newaxis] * self.away[:, np.newaxis] - self.away_sampling
        return np.asarray(products - spread**2 * explained)


def _off(held_out: FloatArray, taught: _Taught, noise: FloatArray) -> _Off:
    """Compare estimates of held-out prompts with their labels.

    Args:
        held_out: corrected q of every labelled image by errors learnt from other prompts, `[image, label]`.
        taught: their labels.
        noise: see `LearntErrors.noise`.
    """
    number = np.bincount(taught.cell).astype(float)
    weight = taught.weight / number[taught.cell]

    def mean(values: FloatArray, weights: FloatArray = weight) -> FloatArray:
        found = np.zeros((len(number), *values.shape[1:]))
        np.add.at(found, taught.cell, weights.reshape(-1, *(1,) * (values.ndim - 1)) * values)
        return found

    one_hot = np.eye(taught.labels)[taught.label]
    share = mean(one_hot)
    diagonal = np.einsum("cl,lm->clm", share, np.eye(taught.labels))
    # Of unequal chances a cell tells as much as this many labels do.
    effective = 1 / mean(np.ones((len(weight), 1)), weight**2)[:, 0]
    multinomial = (diagonal - share[:, :, np.newaxis] * share[:, np.newaxis]) / np.maximum(
        effective - 1, 1
    ).reshape(-1, 1, 1)
    models = int(taught.t2i_model.max()) + 1
    total = np.zeros((models, taught.labels))
    np.add.at(total, taught.t2i_model, number[:, np.newaxis] * share)
    middle = total / np.maximum(np.bincount(taught.t2i_model, number, minlength=models), 1)[:, np.newaxis]
    return _Off(
        off=mean(held_out - one_hot),
        sampling=mean(noise[taught.label], weight**2),
        share=share,
        away=share - middle[taught.t2i_model],
        away_sampling=multinomial,
        number=number,
        group=taught.group_of_cell,
    )


def _held_out(q: FloatArray, taught: _Taught, sums: FloatArray, numbers: FloatArray) -> FloatArray:
    """Corrected q by an M that did not see the prompt; by the whole one where no other prompt has a label."""
    rest, number = sums.sum(axis=0) - sums, numbers.sum(axis=0) - numbers
    whole = sums.sum(axis=0) / numbers.sum(axis=0)
    mixing = np.divide(
        rest, number[:, np.newaxis], out=np.tile(whole, (len(sums), 1, 1)), where=number[:, np.newaxis] > 0
    )
    inverse = np.linalg.pinv(mixing)
    found: FloatArray = np.einsum("ilk,ik->il", inverse[taught.group], q)
    return found


def _check_told_apart(mixing: FloatArray, resampled: FloatArray) -> None:
    least = float(np.linalg.svd(mixing, compute_uv=False)[-1])
    doubt = float(np.linalg.svd(resampled - mixing, compute_uv=False)[:, 0].mean())
    if least < _LEAST_DIFFERENCE * doubt:
        raise ConfigError(
            "the verdicts on the labelled images do not tell the human labels apart well enough to estimate "
            "shares without labels"
        )


def _fitted(features: FloatArray, counts: FloatArray) -> FloatArray:
    """Coefficients of a multinomial logistic regression with a ridge penalty, `[feature, label]`.

    Args:
        features: `[combination, feature]`, the first being 1.
        counts: weights of the images of each combination and label.
    """
    from scipy.optimize import minimize

    used = counts.sum(axis=1) > 0
    features, counts = features[used], counts[used]
    number = counts.sum(axis=1, keepdims=True)
    penalty = np.full((features.shape[1], 1), _RIDGE)
    penalty[0] = 1e-6

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        found = flat.reshape(features.shape[1], -1)
        score = features @ found
        score -= score.max(axis=1, keepdims=True)
        total = np.exp(score).sum(axis=1, keepdims=True)
        value = (number * np.log(total)).sum() - (counts * score).sum() + (penalty * found**2).sum() / 2
        slope = features.T @ (number * np.exp(score) / total - counts) + penalty * found
        return float(value), slope.ravel()

    start = np.zeros(features.shape[1] * counts.shape[1])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    found: NDArray[np.float64] = best.reshape(features.shape[1], -1)
    return found


def _softmax(score: FloatArray) -> FloatArray:
    found = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
