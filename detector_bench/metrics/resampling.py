"""Draws of images with replacement within every prompt, reduced at once to the sums that the metrics need.

**One borrowed image.** A prompt with 5 of 5 men has no scatter when its own images are drawn again, though the
next 5 need not be men. So each prompt of n images is drawn from as if it had one image more, which is any image of
its T2I model: every draw comes from there with probability 1 / (n + 1). For two equally frequent classes that is
half an image of each, the pseudo-counts of Jeffreys' prior. Values stay what they are; only their scatter is found
so. Prompts of more images than are drawn one by one do not borrow, and would hardly.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.image_kinds import Kinds
from detector_bench.metrics.joint_verdicts import JointVerdicts

RESAMPLES_PER_BLOCK = 50
"""Each block of resamples has its own stream of random numbers, so threads do not change what is drawn."""

LARGEST_DRAWN_ONE_BY_ONE = 64
"""Prompts with more images get normally distributed counts in place of drawn images."""

_LENDERS = 10
"""For each block of resamples so many images are found that a prompt may borrow; drawing anew for each resample
takes twice as long."""

_SMALL_VARIANCE = 1e-10
_IMAGES_AT_ONCE = 50_000
_Floats = NDArray[np.float32]
_NOTHING: _Floats = np.empty(0, dtype=np.float32)


class Sums(NamedTuple):
    """One block of resamples."""

    class_counts: _Floats
    """Images of each class by the human (first) and each detector: `[pair, K, 1 + detector, resample]`."""
    verdicts: _Floats | None
    """Images with a verdict, `[pair, detector, resample]`; None where all have one."""
    pooled: _Floats
    """Images of each kind, `[t2i_model x category, kind, resample]`; see `Kinds`. Of `unchanged`: `[pair,
    ...]`."""
    codes: _Floats | None = None
    """Images of each code, `[pair, detector, code, resample]`; None where no codes were given."""


def own_weight(images: CountArray, *, one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE) -> FloatArray:
    """How much of what is drawn for a prompt is its own: 1 less what comes from other prompts.

    Args:
        images: of every prompt, `[t2i_model, prompt]`.
        one_by_one: as for `Resampler`; larger prompts neither borrow nor lend.

    Returns:
        `[t2i_model, prompt]`; 0 where there is no image.
    """
    small = (images > 0) & (images <= one_by_one)
    lent = np.where(small, images, 0)
    of_own = divide(lent, lent.sum(axis=-1, keepdims=True))
    return np.where(small, (images + of_own) / (images + 1), (images > 0).astype(np.float64))


class _Lent(NamedTuple):
    """The images of a T2I model's prompts that are drawn one by one."""

    features: _Floats
    """`[image, feature]`."""
    kinds: _Floats
    """`[image, kind]`."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Pairs of T2I model and prompt of one block (T2I model and category) that are drawn together."""

    pairs: NDArray[np.intp]
    block: int
    images: int
    """How many each pair has; 0 where they differ, in normally distributed groups."""
    features: _Floats
    """Drawn: indicators `[pair, feature and code, image]`. Normal: factors of the covariance, `[pair, feature,
    feature]`."""
    kinds: _Floats
    """Drawn: indicators `[pair x image, kind]`. Normal: what each factor adds to the kinds, `[pair x feature,
    kind]`."""
    mean: _Floats
    """Normal: mean of the features, `[pair, feature]`; drawn: empty."""
    kinds_mean: _Floats
    rest: _Floats
    """Normal: factor of the covariance of the kinds that the features do not explain, `[kind, kind]`."""
    codes: _Floats
    """Normal: what each factor of the features adds to the codes, `[pair, detector, code, feature]`; drawn:
    empty."""
    codes_mean: _Floats
    """Normal: `[pair, detector, code]`."""
    codes_rest: _Floats
    """Normal: factors of the covariance of a detector's codes that the features do not explain, `[pair, detector,
    code, code]`."""


class Resampler:
    """Draws as many images as there are, with replacement, within every prompt of every T2I model; some borrowed.

    A resample is the same for all detectors. Prompts with up to `one_by_one` images are drawn image by image: the
    multinomial distribution itself. In larger ones the counts of classes and kinds follow the normal distribution
    with the multinomial's mean and covariance, jointly over detectors and kinds, cut at 0.

    Args:
        joint: truth and verdicts.
        count_verdicts: count images with a verdict, where not all have one.
        one_by_one: up to how many images of a prompt are drawn one by one.
        codes: a further property of every image, one for each detector, that is counted pair by pair, `[detector,
            image]`; -1: none. All else is drawn as it would be without codes.
        borrow: False: from each prompt's own images alone, the plain bootstrap.
    """

    def __init__(
        self,
        joint: JointVerdicts,
        *,
        count_verdicts: bool = False,
        one_by_one: int = LARGEST_DRAWN_ONE_BY_ONE,
        codes: NDArray[np.int16] | None = None,
        borrow: bool = True,
    ) -> None:
        self.kinds = Kinds(joint)
        self._joint = joint
        self._codes = codes
        self._code_count = 0 if codes is None else int(codes.max(initial=-1)) + 1
        self._count_verdicts = count_verdicts and bool((joint.verdicts == joint.classes + 1).any())
        flags = joint.detectors if self._count_verdicts else 0
        self._features = joint.classes * (1 + joint.detectors) + flags
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

        # The matrices are small: threads of the linear algebra library would only wait for each other.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
            self._groups = [
                group for each in threads.map(groups, np.unique(self.blocks).tolist()) for group in each
            ]
        self._lent = self._images_to_lend() if borrow else {}

    def _images_to_lend(self) -> dict[int, _Lent]:
        """By T2I model."""
        found = {}
        for model in range(self._joint.t2i_models):
            drawn = [group for group in self._groups if group.images and self._model_of(group) == model]
            if drawn:
                features = [group.features.swapaxes(1, 2).reshape(len(group.kinds), -1) for group in drawn]
                found[model] = _Lent(np.concatenate(features), np.concatenate([group.kinds for group in drawn]))
        return found

    def _model_of(self, group: _Group) -> int:
        return group.block // len(self._joint.scopes.categories)

    def _indicators(self, rows: NDArray[np.intp]) -> tuple[_Floats, _Floats]:
        """Features `[image, feature]`, codes behind them, and kinds `[image, kind]` of some images."""
        joint = self._joint
        truth, verdicts = joint.truth[rows], joint.verdicts[:, rows]
        judges = np.concatenate([np.minimum(truth, joint.classes)[np.newaxis], verdicts])
        features = [judges == name for name in range(joint.classes)]
        if self._count_verdicts:
            features.append(verdicts <= joint.classes)
        if self._codes is not None:
            features += [
                of_detector == np.arange(self._code_count)[:, np.newaxis] for of_detector in self._codes[:, rows]
            ]
        return np.concatenate(features).T.astype(np.float32), self.kinds.of_images(truth, verdicts)

    def _sums(self, features: _Floats, kinds: _Floats) -> Sums:
        """Sums of features `[pair, feature, resample]`, codes behind them, and of kinds."""
        joint = self._joint
        named = joint.classes * (1 + joint.detectors)
        return Sums(
            features[:, :named].reshape(len(self.pairs), joint.classes, -1, features.shape[-1]),
            features[:, named : self._features] if self._count_verdicts else None,
            kinds,
            None
            if self._codes is None
            else features[:, self._features :].reshape(
                len(self.pairs), joint.detectors, self._code_count, features.shape[-1]
            ),
        )

    def _drawn(self, pairs: NDArray[np.intp], position: NDArray[np.intp], block: int, images: int) -> _Group:
        rows = self._order[self._starts[pairs][:, np.newaxis] + np.arange(images)].ravel()
        features, kinds = self._indicators(rows)
        stacked = features.reshape(len(pairs), images, -1).swapaxes(1, 2)
        return _Group(
            position,
            block,
            images,
            features=np.ascontiguousarray(stacked),
            kinds=kinds,
            mean=_NOTHING,
            kinds_mean=_NOTHING,
            rest=_NOTHING,
            codes=_NOTHING,
            codes_mean=_NOTHING,
            codes_rest=_NOTHING,
        )

    def _normal(self, pairs: NDArray[np.intp], position: NDArray[np.intp], block: int) -> _Group:
        sizes = self._starts[pairs + 1] - self._starts[pairs]
        order, parts = [], []
        for images in np.unique(sizes):
            alike = np.flatnonzero(sizes == images)
            for some in np.array_split(alike, -(-len(alike) * images // _IMAGES_AT_ONCE)):
                rows = (self._starts[pairs[some]][:, np.newaxis] + np.arange(images)).ravel()
                all_features, kinds = self._indicators(self._order[rows])
                features, codes = np.split(all_features, [self._features], axis=1)
                by_detector = codes.reshape(len(codes), self._joint.detectors, self._code_count)
                of_kinds = _moments(features, kinds, pairs=len(some))
                parts.append((*of_kinds, *_code_moments(features, by_detector, pairs=len(some))))
                order.append(position[some])
        columns = list(zip(*parts, strict=True))
        mean, kinds_mean, covariance, crossed = (np.concatenate(each) for each in columns[:4])
        codes_mean, codes_covariance, codes_crossed = (np.concatenate(each) for each in columns[5:])
        factors = _factors(covariance)
        # The part of the kinds that goes along with each independent direction of the features.
        directions = np.linalg.inv(factors)
        along = (directions @ crossed).reshape(-1, self.kinds.size)
        rest = _factors(np.sum(columns[4], axis=0) - along.T @ along)
        # The same for the codes, pair by pair and each detector's by themselves: causes look at one detector.
        codes_along = codes_crossed @ directions.swapaxes(-1, -2)[:, np.newaxis]
        codes_rest = codes_covariance - codes_along @ codes_along.swapaxes(-1, -2)
        of_codes = (codes_along, codes_mean, _factors(codes_rest) if codes_rest.size else codes_rest)
        arrays = (factors, along, mean, kinds_mean.sum(axis=0), rest, *of_codes)
        return _Group(np.concatenate(order), block, 0, *(array.astype(np.float32) for array in arrays))

    def unchanged(self) -> Sums:
        """The sums of the images as they are: one resample in which each image comes once; kinds by pair."""
        pairs = [self._order[self._starts[pair] : self._starts[pair + 1]] for pair in self.pairs]
        indicators = [self._indicators(rows) for rows in pairs]
        features = np.stack([each.sum(axis=0) for each, _ in indicators])[..., np.newaxis]
        kinds = np.stack([each.sum(axis=0) for _, each in indicators])[..., np.newaxis]
        return self._sums(features, kinds)

    def block(self, number: int, *, seed: int) -> Sums:
        """The sums of one block of `RESAMPLES_PER_BLOCK` resamples; equal arguments give equal numbers."""
        stream = _stream(seed, number)
        # Of its own, so that codes leave everything else as it is drawn without them.
        code_stream = _stream(seed, number, 1)
        width = self._features + self._joint.detectors * self._code_count
        features = np.empty((len(self.pairs), width, RESAMPLES_PER_BLOCK), dtype=np.float32)
        pooled = np.zeros((self._blocks, self.kinds.size, RESAMPLES_PER_BLOCK), dtype=np.float32)
        for group in self._groups:
            if group.images:
                lent = self._lent.get(self._model_of(group))
                features[group.pairs], kinds = _draw_images(group, lent, stream)
            else:
                features[group.pairs], kinds = _draw_counts(group, stream, code_stream)
            pooled[group.block] += kinds
        return self._sums(features, np.maximum(pooled, 0, out=pooled))


def prompt_weights(joint: JointVerdicts, number: int, *, seed: int) -> NDArray[np.float32]:
    """How often each prompt is drawn: `[prompt, resample]`. Prompts without images take no part.

    Every category keeps its number of prompts. Equal arguments give equal numbers.
    """
    stream = _stream(seed, number)
    weights = np.zeros((joint.prompts, RESAMPLES_PER_BLOCK), dtype=np.float32)
    has_images = np.bincount(joint.pair % max(joint.prompts, 1), minlength=joint.prompts) > 0
    for category in range(len(joint.scopes.categories)):
        members = np.flatnonzero((joint.scopes.category_of_prompt == category) & has_images)
        if members.size:
            equal = np.full(members.size, 1 / members.size)
            weights[members] = stream.multinomial(members.size, equal, size=RESAMPLES_PER_BLOCK).T
    return weights


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def _draw_images(group: _Group, lent: _Lent | None, stream: np.random.Generator) -> tuple[_Floats, _Floats]:
    pairs, images, resamples = len(group.pairs), group.images, RESAMPLES_PER_BLOCK
    features, kinds, places = group.features, group.kinds, images
    drawn = stream.integers(0, images + (lent is not None), size=(resamples * pairs, images), dtype=np.uint16)
    if lent is not None:
        chosen = stream.integers(0, len(lent.features), size=(pairs, _LENDERS))
        features = np.concatenate([features, lent.features[chosen].swapaxes(1, 2)], axis=2)
        own = kinds.reshape(pairs, images, -1)
        kinds = np.concatenate([own, lent.kinds[chosen]], axis=1).reshape(-1, kinds.shape[-1])
        places += _LENDERS
        borrowed = drawn == images
        drawn[borrowed] += stream.integers(0, _LENDERS, size=np.count_nonzero(borrowed), dtype=np.uint16)
    place = np.arange(resamples * pairs, dtype=np.intp)[:, np.newaxis] * places + drawn
    times = np.zeros(resamples * pairs * places, dtype=np.float32)
    np.add.at(times, place.ravel(), np.float32(1))
    by_image = times.reshape(resamples, pairs * places).T
    return features @ by_image.reshape(pairs, places, resamples), kinds.T @ by_image


def _draw_counts(
    group: _Group, stream: np.random.Generator, code_stream: np.random.Generator
) -> tuple[_Floats, _Floats]:
    resamples = RESAMPLES_PER_BLOCK
    directions = stream.standard_normal((*group.mean.shape, resamples), dtype=np.float32)
    counts = group.mean[..., np.newaxis] + group.features @ directions
    kinds = group.kinds.T @ directions.reshape(-1, resamples)
    kinds += group.rest @ stream.standard_normal((len(group.rest), resamples), dtype=np.float32)
    kinds += group.kinds_mean[:, np.newaxis]
    if group.codes.size:
        rest = code_stream.standard_normal((*group.codes_mean.shape, resamples), dtype=np.float32)
        codes = (
            group.codes_mean[..., np.newaxis] + group.codes @ directions[:, np.newaxis] + group.codes_rest @ rest
        )
        counts = np.concatenate([counts, codes.reshape(len(counts), -1, resamples)], axis=1)
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


def _code_moments(features: _Floats, codes: _Floats, *, pairs: int) -> tuple[CountArray, ...]:
    """As `_moments`, for the codes of every detector.

    Returns:
        Means `[pair, detector, code]`, covariances `[pair, detector, code, code]`, and those with the features
        `[pair, detector, code, feature]`.
    """
    images = len(features) // pairs
    by_pair = features.reshape(pairs, 1, images, -1)
    by_code = codes.reshape(pairs, images, *codes.shape[1:]).transpose(0, 2, 3, 1)
    mean = by_code.sum(axis=-1, dtype=np.float64)
    feature_mean = by_pair.sum(axis=-2, dtype=np.float64)[..., np.newaxis, :]
    covariance = by_code @ by_code.swapaxes(-1, -2) - mean[..., np.newaxis] * mean[..., np.newaxis, :] / images
    crossed = by_code @ by_pair - mean[..., np.newaxis] * feature_mean / images
    return mean, covariance, crossed


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
