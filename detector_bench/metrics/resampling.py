"""Draws of images with replacement within every prompt, reduced at once to the sums that the metrics need."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray
from detector_bench.metrics.joint_verdicts import JointVerdicts

RESAMPLES_PER_BLOCK = 50
"""Each block of resamples has its own stream of random numbers, so threads do not change what is drawn."""

LARGEST_DRAWN_ONE_BY_ONE = 64
"""Prompts with more images get normally distributed counts in place of drawn images."""

_SMALL_VARIANCE = 1e-10
_IMAGES_AT_ONCE = 50_000
_Floats = NDArray[np.float32]


class Sums(NamedTuple):
    """One block of resamples."""

    class_counts: _Floats
    """Images of each class by the human (first) and each detector: `[pair, K, 1 + detector, resample]`."""
    verdicts: _Floats | None
    """Images with a verdict, `[pair, detector, resample]`; None where all have one."""
    pooled: _Floats
    """Images of each kind, `[t2i_model x category, kind, resample]`; see `Kinds`. Of `unchanged`: `[pair,
    ...]`."""


class Kinds:
    """What is counted over all images of a scope: for each detector (truth, verdict), and the human labels.

    Metrics over images do not ask in which class a low-quality image was put, nor for `others` and missing
    verdicts, so that these share a kind or have none: 8 kinds in place of 16 for two classes.
    """

    def __init__(self, joint: JointVerdicts) -> None:
        classes = joint.classes
        cells = [(truth, verdict) for truth in range(classes) for verdict in range(classes + 1)]
        self.cells = [*cells, (classes, 0), (classes, classes)]
        self.detectors = joint.detectors
        self.labels = classes + 2
        self.size = len(self.cells) * self.detectors + self.labels
        kind_of = np.full((self.labels, self.labels), -1)
        for kind, cell in enumerate(self.cells):
            kind_of[cell] = kind
        kind_of[classes, :classes] = kind_of[classes, 0]
        self._kind_of = kind_of

    def of_images(self, truth: NDArray[np.int8], verdicts: NDArray[np.int8]) -> _Floats:
        """Indicators `[image, kind]`; kinds by cell, then detector, the human labels last."""
        indicators = np.zeros((truth.size, self.size), dtype=np.float32)
        by_cell = indicators[:, : -self.labels].reshape(truth.size, len(self.cells), self.detectors)
        found = self._kind_of[truth, verdicts].T
        for kind in range(len(self.cells)):
            by_cell[:, kind] = found == kind
        indicators[:, -self.labels :] = truth[:, np.newaxis] == np.arange(self.labels)
        return indicators

    def counts(self, pooled: CountArray) -> CountArray:
        """Count arrays `[..., detector, resample, truth, verdict]` of sums `[..., kind, resample]`."""
        by_cell = pooled[..., : -self.labels, :].reshape(
            *pooled.shape[:-2], len(self.cells), self.detectors, pooled.shape[-1]
        )
        shape = (self.labels, self.labels, *by_cell.shape[:-3], *by_cell.shape[-2:])
        # Truth and verdict come first in memory, so that adding them up runs over long rows.
        counts = np.zeros(shape, dtype=pooled.dtype)
        for kind, cell in enumerate(self.cells):
            counts[cell] = by_cell[..., kind, :, :]
        return np.moveaxis(counts, (0, 1), (-2, -1))

    def label_counts(self, pooled: CountArray) -> CountArray:
        """Images of each human label, `[..., label, resample]`, of sums `[..., kind, resample]`."""
        counts: CountArray = pooled[..., -self.labels :, :]
        return counts


@dataclass(frozen=True, slots=True)
class _Group:
    """Pairs of T2I model and prompt of one block (T2I model and category) that are drawn together."""

    pairs: NDArray[np.intp]
    block: int
    images: int
    """How many each pair has; 0 where they differ, in normally distributed groups."""
    features: _Floats
    """Drawn: indicators `[pair, feature, image]`. Normal: factors of the covariance, `[pair, feature,
    feature]`."""
    kinds: _Floats
    """Drawn: indicators `[pair x image, kind]`. Normal: what each factor adds to the kinds, `[pair x feature,
    kind]`."""
    mean: _Floats
    """Normal: mean of the features, `[pair, feature]`; drawn: empty."""
    kinds_mean: _Floats
    rest: _Floats
    """Normal: factor of the covariance of the kinds that the features do not explain, `[kind, kind]`."""


class Resampler:
    """Draws as many images as there are, with replacement, within every prompt of every T2I model.

    A resample is the same for all detectors. Prompts with up to `one_by_one` images are drawn image by image: the
    multinomial distribution itself. In larger ones the counts of classes and kinds follow the normal distribution
    with the multinomial's mean and covariance, jointly over detectors and kinds, cut at 0.

    Args:
        joint: truth and verdicts.
        count_verdicts: count images with a verdict, where not all have one.
        one_by_one: up to how many images of a prompt are drawn one by one.
    """

    def __init__(
        self, joint: JointVerdicts, *, count_verdicts: bool = False, one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE
    ) -> None:
        self.kinds = Kinds(joint)
        self._joint = joint
        self._count_verdicts = count_verdicts and bool((joint.verdicts == joint.classes + 1).any())
        self._blocks = joint.t2i_models * len(joint.scopes.categories)
        self._order = np.argsort(joint.pair, kind="stable")
        images = np.bincount(joint.pair, minlength=joint.t2i_models * joint.prompts)
        filled = np.flatnonzero(images)
        self.pairs = filled[np.argsort(joint.block_of_pair[filled], kind="stable")]
        """The pairs that have images, block by block: the axis `pair` of the sums."""
        self.drawn = images[self.pairs] <= one_by_one
        """Which of them are drawn image by image; the counts of the others are not whole numbers."""
        self.blocks = joint.block_of_pair[self.pairs]
        """`[pair]`: its T2I model and category, never descending."""
        self._starts = np.concatenate([[0], np.cumsum(images)])
        position = np.empty(len(images), dtype=np.intp)
        position[self.pairs] = np.arange(len(self.pairs))

        def groups(block: int) -> list[_Group]:
            pairs = self.pairs[self.blocks == block]
            found = []
            for number in np.unique(images[pairs]):
                same = pairs[images[pairs] == number]
                if number <= one_by_one:
                    found.append(self._drawn(same, position[same], block, int(number)))
            if (large := pairs[images[pairs] > one_by_one]).size:
                found.append(self._normal(large, position[large], block))
            return found

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            self._groups = [
                group for each in threads.map(groups, np.unique(self.blocks).tolist()) for group in each
            ]

    def _indicators(self, rows: NDArray[np.intp]) -> tuple[_Floats, _Floats]:
        """Features `[image, feature]` and kinds `[image, kind]` of some images."""
        joint = self._joint
        truth, verdicts = joint.truth[rows], joint.verdicts[:, rows]
        judges = np.concatenate([np.minimum(truth, joint.classes)[np.newaxis], verdicts])
        features = [judges == name for name in range(joint.classes)]
        if self._count_verdicts:
            features.append(verdicts <= joint.classes)
        return np.concatenate(features).T.astype(np.float32), self.kinds.of_images(truth, verdicts)

    def _drawn(self, pairs: NDArray[np.intp], position: NDArray[np.intp], block: int, images: int) -> _Group:
        rows = self._order[self._starts[pairs][:, np.newaxis] + np.arange(images)].ravel()
        features, kinds = self._indicators(rows)
        stacked = features.reshape(len(pairs), images, -1).swapaxes(1, 2)
        empty = np.empty(0, dtype=np.float32)
        return _Group(position, block, images, np.ascontiguousarray(stacked), kinds, empty, empty, empty)

    def _normal(self, pairs: NDArray[np.intp], position: NDArray[np.intp], block: int) -> _Group:
        sizes = self._starts[pairs + 1] - self._starts[pairs]
        order, parts = [], []
        for images in np.unique(sizes):
            alike = np.flatnonzero(sizes == images)
            for some in np.array_split(alike, -(-len(alike) * images // _IMAGES_AT_ONCE)):
                rows = (self._starts[pairs[some]][:, np.newaxis] + np.arange(images)).ravel()
                parts.append(_moments(*self._indicators(self._order[rows]), pairs=len(some)))
                order.append(position[some])
        columns = list(zip(*parts, strict=True))
        mean, kinds_mean, covariance, crossed = (np.concatenate(each) for each in columns[:4])
        factors = _factors(covariance)
        # The part of the kinds that goes along with each independent direction of the features.
        along = (np.linalg.inv(factors) @ crossed).reshape(-1, self.kinds.size)
        rest = _factors(np.sum(columns[4], axis=0) - along.T @ along)
        arrays = (factors, along, mean, kinds_mean.sum(axis=0), rest)
        return _Group(np.concatenate(order), block, 0, *(array.astype(np.float32) for array in arrays))

    def unchanged(self) -> Sums:
        """The sums of the images as they are: one resample in which each image comes once; kinds by pair."""
        joint = self._joint
        pairs = [self._order[self._starts[pair] : self._starts[pair + 1]] for pair in self.pairs]
        indicators = [self._indicators(rows) for rows in pairs]
        features = np.stack([each.sum(axis=0) for each, _ in indicators])[..., np.newaxis]
        kinds = np.stack([each.sum(axis=0) for _, each in indicators])[..., np.newaxis]
        named = joint.classes * (1 + joint.detectors)
        class_counts = features[:, :named].reshape(len(pairs), joint.classes, -1, 1)
        return Sums(class_counts, features[:, named:] if self._count_verdicts else None, kinds)

    def block(self, number: int, *, seed: int) -> Sums:
        """The sums of one block of `RESAMPLES_PER_BLOCK` resamples; equal arguments give equal numbers."""
        stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(number,))))
        joint = self._joint
        judges, resamples = 1 + joint.detectors, RESAMPLES_PER_BLOCK
        named = joint.classes * judges
        width = named + (joint.detectors if self._count_verdicts else 0)
        features = np.empty((len(self.pairs), width, resamples), dtype=np.float32)
        pooled = np.zeros((self._blocks, self.kinds.size, resamples), dtype=np.float32)
        for group in self._groups:
            draw = _draw_images if group.images else _draw_counts
            features[group.pairs], kinds = draw(group, stream)
            pooled[group.block] += kinds
        np.maximum(pooled, 0, out=pooled)
        return Sums(
            features[:, :named].reshape(len(self.pairs), joint.classes, judges, resamples),
            features[:, named:] if self._count_verdicts else None,
            pooled,
        )


def _draw_images(group: _Group, stream: np.random.Generator) -> tuple[_Floats, _Floats]:
    pairs, images, resamples = len(group.pairs), group.images, RESAMPLES_PER_BLOCK
    drawn = stream.integers(0, images, size=(resamples * pairs, images), dtype=np.uint16)
    place = np.arange(resamples * pairs, dtype=np.intp)[:, np.newaxis] * images + drawn
    times = np.zeros(resamples * pairs * images, dtype=np.float32)
    np.add.at(times, place.ravel(), np.float32(1))
    by_image = times.reshape(resamples, pairs * images).T
    return group.features @ by_image.reshape(pairs, images, resamples), group.kinds.T @ by_image


def _draw_counts(group: _Group, stream: np.random.Generator) -> tuple[_Floats, _Floats]:
    resamples = RESAMPLES_PER_BLOCK
    directions = stream.standard_normal((*group.mean.shape, resamples), dtype=np.float32)
    counts = group.mean[..., np.newaxis] + group.features @ directions
    kinds = group.kinds.T @ directions.reshape(-1, resamples)
    kinds += group.rest @ stream.standard_normal((len(group.rest), resamples), dtype=np.float32)
    kinds += group.kinds_mean[:, np.newaxis]
    return np.maximum(counts, 0, out=counts), kinds


def _moments(features: _Floats, kinds: _Floats, *, pairs: int) -> tuple[CountArray, ...]:
    """Moments of the resamples of some prompts with as many images each.

    Returns:
        Means of features `[pair, feature]` and kinds `[pair, kind]`, covariances of features and of features with
        kinds `[pair, feature, ...]`, and the covariance of the kinds over all of these prompts `[kind, kind]`.
    """
    images = len(features) // pairs
    by_pair = features.reshape(pairs, images, -1)
    kinds_by_pair = kinds.reshape(pairs, images, -1)
    # Sums of ones are exact in float32 up to 16 million images.
    one = np.ones((1, images), dtype=np.float32)
    mean, kinds_mean = ((one @ each)[:, 0].astype(np.float64) for each in (by_pair, kinds_by_pair))
    transposed = np.ascontiguousarray(by_pair.swapaxes(1, 2))
    covariance = transposed @ by_pair - mean[:, :, np.newaxis] * mean[:, np.newaxis] / images
    crossed = transposed @ kinds_by_pair - mean[:, :, np.newaxis] * kinds_mean[:, np.newaxis] / images
    return mean, kinds_mean, covariance, crossed, kinds.T @ kinds - kinds_mean.T @ kinds_mean / images


def _factors(covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """F with F F^T = covariance, which is singular where kinds never vary or depend on others."""
    size = covariances.shape[-1]
    scale = np.trace(covariances, axis1=-2, axis2=-1)[..., np.newaxis, np.newaxis] / size
    least = _SMALL_VARIANCE * scale + _SMALL_VARIANCE**2
    try:
        return np.linalg.cholesky(covariances + least * np.eye(size))
    except np.linalg.LinAlgError:
        # Many classes and detectors: differences of large sums leave directions with a variance just below 0.
        variances, directions = np.linalg.eigh(covariances)
        factors: NDArray[np.float64] = (
            directions * np.sqrt(np.maximum(variances, least[..., 0]))[..., np.newaxis, :]
        )
        return factors
