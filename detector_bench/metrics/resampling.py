"""What a resample is: images drawn again, with replacement within every prompt of every T2I model, and reduced at
once to the sums that numbers are made of.

Every number that has a resampled interval comes from here. `Resampler` draws for metrics and causes, from joint
verdicts; `ImageSums` for whatever is added up of single images, as the scores of other benchmarks are;
`prompt_weights` says how often each prompt is drawn where whole prompts are. All draw block by block
(`over_blocks`), and every block has a stream of random numbers of its own: threads do not change what is drawn,
and the first resamples of a longer series are those of a shorter one.

**One borrowed image.** A prompt with 5 of 5 men has no scatter when its own images are drawn again, though the
next 5 need not be men. So `Resampler` draws from each prompt of n images as if it had one image more, which is
any image of its T2I model: every draw comes from there with probability 1 / (n + 1). For two equally frequent
classes that is half an image of each, the pseudo-counts of Jeffreys' prior. Values stay what they are; only their
scatter is found so. Prompts of more images than are drawn one by one do not borrow, and would hardly. `ImageSums`
draws each prompt's own images alone, one by one however many they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from detector_bench.metrics.counts import CountArray, FloatArray, divide
from detector_bench.metrics.joint_verdicts import JointVerdicts, Kinds
from detector_bench.metrics.normal_counts import Moments, NormalCounts

RESAMPLES_PER_BLOCK = 50
"""Fixed, so that equal seeds draw equal resamples however many are wanted."""

LARGEST_DRAWN_ONE_BY_ONE = 64
"""Prompts with more images get normally distributed counts in place of drawn images."""

_LENDERS = 10
"""For each block of resamples so many images are found that a prompt may borrow; drawing anew for each resample
takes twice as long."""

_IMAGES_AT_ONCE = 50_000
_Floats = NDArray[np.float32]

Values: TypeAlias = Mapping[str, NDArray[Any]]
"""Arrays by name, the axis `resample` last."""


def over_blocks(
    values_of_block: Callable[[int], tuple[Values, ...]], *, resamples: int, threads: int | None = None
) -> tuple[dict[str, NDArray[Any]], ...]:
    """Compute values for every block of `RESAMPLES_PER_BLOCK` resamples, and join them.

    Args:
        values_of_block: from a block's number to the values of its resamples, in one or several mappings.
        resamples: how many are wanted; the last block's surplus is cut off.
        threads: how many blocks are computed at once; None: as many as there are processors.
    """
    collected: tuple[dict[str, NDArray[Any]], ...] = ()
    # The matrices are small: threads of the linear algebra library would only wait for each other.
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool,
    ):
        blocks = range(-(-resamples // RESAMPLES_PER_BLOCK))
        for number, values in enumerate(pool.map(values_of_block, blocks)):
            collected = collected or tuple({} for _ in values)
            for kept, named in zip(collected, values, strict=True):
                _put(kept, named, start=number * RESAMPLES_PER_BLOCK, resamples=resamples)
    return collected


def _put(kept: dict[str, NDArray[Any]], values: Values, *, start: int, resamples: int) -> None:
    for name, value in values.items():
        if name not in kept:
            kept[name] = np.empty((*value.shape[:-1], resamples), dtype=value.dtype)
        room = kept[name][..., start : start + value.shape[-1]]
        room[...] = value[..., : room.shape[-1]]


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


class Sums(NamedTuple):
    """What one block of resamples counts."""

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
class _DrawnCounts:
    """Pairs of T2I model and prompt with as many images each, drawn image by image."""

    images: int
    """How many each pair has."""
    features: _Floats
    """Indicators `[pair, feature and code, image]`."""
    kinds: _Floats
    """Indicators `[pair x image, kind]`."""

    @property
    def to_lend(self) -> _Lent:
        """All of these images."""
        return _Lent(self.features.swapaxes(1, 2).reshape(len(self.kinds), -1), self.kinds)

    def drawn(self, stream: np.random.Generator, lent: _Lent | None) -> tuple[_Floats, _Floats]:
        """Counts of features, codes behind them, `[pair, feature, resample]`, and of kinds `[kind, resample]`."""
        pairs, features, kinds = len(self.features), self.features, self.kinds
        lendable = 0 if lent is None else len(lent.features)
        times, chosen = _times_drawn(stream, cells=pairs, images=self.images, lendable=lendable)
        if lent is not None:
            features = np.concatenate([features, lent.features[chosen].swapaxes(1, 2)], axis=2)
            own = kinds.reshape(pairs, self.images, -1)
            kinds = np.concatenate([own, lent.kinds[chosen]], axis=1).reshape(-1, kinds.shape[-1])
        return features @ times.reshape(pairs, -1, RESAMPLES_PER_BLOCK), kinds.T @ times


class _Group(NamedTuple):
    """Pairs of one block (T2I model and category) that are drawn together."""

    positions: NDArray[np.intp]
    """On the axis `pair` of the sums."""
    block: int
    counts: _DrawnCounts | NormalCounts


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
        self._order, self._starts = _by_cell(joint.pair, cells=joint.t2i_models * joint.prompts)
        images = np.diff(self._starts)
        filled = np.flatnonzero(images)
        self.pairs = filled[np.argsort(joint.block_of_pair[filled], kind="stable")]
        """The pairs that have images, block by block: the axis `pair` of the sums."""
        self.drawn = images[self.pairs] <= one_by_one
        """Which of them are drawn image by image; the counts of the others are not whole numbers."""
        self.blocks = joint.block_of_pair[self.pairs]
        """`[pair]`: its T2I model and category, never descending."""
        position = np.empty(len(images), dtype=np.intp)
        position[self.pairs] = np.arange(len(self.pairs))

        def groups(block: int) -> list[_Group]:
            pairs = self.pairs[self.blocks == block]
            small, large = pairs[images[pairs] <= one_by_one], pairs[images[pairs] > one_by_one]
            by_size = [small[images[small] == number] for number in np.unique(images[small])]
            found = [_Group(position[same], block, self._drawn(same)) for same in by_size]
            if large.size:
                order, counts = self._normal(large)
                found.append(_Group(position[order], block, counts))
            return found

        # The matrices are small: threads of the linear algebra library would only wait for each other.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
            self._groups = [
                group for each in threads.map(groups, np.unique(self.blocks).tolist()) for group in each
            ]
        self._lent = self._images_to_lend() if borrow else {}

    def _images_to_lend(self) -> dict[int, _Lent]:
        """By T2I model."""
        found: dict[int, list[_Lent]] = {}
        for group in self._groups:
            if isinstance(group.counts, _DrawnCounts):
                found.setdefault(self._model_of(group), []).append(group.counts.to_lend)
        return {
            model: _Lent(*(np.concatenate(arrays) for arrays in zip(*each, strict=True)))
            for model, each in found.items()
        }

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

    def _rows(self, pairs: NDArray[np.intp], images: int) -> NDArray[np.intp]:
        """The images of pairs that have so many each, one pair after the other."""
        rows: NDArray[np.intp] = self._order[(self._starts[pairs][:, np.newaxis] + np.arange(images)).ravel()]
        return rows

    def _drawn(self, pairs: NDArray[np.intp]) -> _DrawnCounts:
        images = int(self._starts[pairs[0] + 1] - self._starts[pairs[0]])
        features, kinds = self._indicators(self._rows(pairs, images))
        stacked = features.reshape(len(pairs), images, -1).swapaxes(1, 2)
        return _DrawnCounts(images, np.ascontiguousarray(stacked), kinds)

    def _normal(self, pairs: NDArray[np.intp]) -> tuple[NDArray[np.intp], NormalCounts]:
        """The pairs in the order in which they are in the counts, and these."""
        order, parts = [], []
        for some, images in _of_equal_size(self._starts[pairs + 1] - self._starts[pairs]):
            features, kinds = self._indicators(self._rows(pairs[some], images))
            features, codes = np.split(features, [self._features], axis=1)
            by_detector = codes.reshape(len(codes), self._joint.detectors, self._code_count)
            parts.append(Moments.of_images(features, kinds, by_detector, pairs=len(some)))
            order.append(pairs[some])
        return np.concatenate(order), NormalCounts.of_moments(parts)

    def unchanged(self) -> Sums:
        """The sums of the images as they are: one resample in which each image comes once; kinds by pair."""
        rows = [self._order[self._starts[pair] : self._starts[pair + 1]] for pair in self.pairs]
        indicators = [self._indicators(each) for each in rows]
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
            if isinstance(group.counts, _DrawnCounts):
                counts, kinds = group.counts.drawn(stream, self._lent.get(self._model_of(group)))
            else:
                counts, kinds = group.counts.drawn(stream, code_stream, resamples=RESAMPLES_PER_BLOCK)
            features[group.positions] = counts
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


class ImageSums:
    """Sums over the images of each cell, in resamples, of any numbers that single images have.

    All numbers of an image stay together, so that judges of the same image are compared on the same resamples.

    Args:
        numbers: `[image, number]`.
        cell: `[image]`: its T2I model and prompt, 0 to cells - 1; images with a negative cell are left out.
        cells: how many cells there are.
    """

    def __init__(self, numbers: FloatArray, cell: NDArray[np.intp], *, cells: int) -> None:
        self._numbers = numbers
        self._order, self._starts = _by_cell(cell, cells=cells)

    def block(self, number: int, *, seed: int) -> FloatArray:
        """The sums of one block of resamples, `[cell, number, resample]`; equal arguments give equal numbers."""
        stream = _stream(seed, number)
        sums = np.zeros((len(self._starts) - 1, self._numbers.shape[1], RESAMPLES_PER_BLOCK))
        for cells, images in _of_equal_size(np.diff(self._starts)):
            rows = self._order[self._starts[cells][:, np.newaxis] + np.arange(images)]
            times, _ = _times_drawn(stream, cells=len(cells), images=images)
            sums[cells] = self._numbers[rows].swapaxes(1, 2) @ times.reshape(len(cells), images, -1)
        return sums


def _by_cell(cell: NDArray[np.integer[Any]], *, cells: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The images in the order of their cells, those without one left out, and where each cell begins and ends:
    `[cell + 1]`."""
    order = np.argsort(cell, kind="stable")
    order = order[np.searchsorted(cell, 0, sorter=order) :]
    return order, np.concatenate([[0], np.cumsum(np.bincount(cell[order], minlength=cells))])


def _of_equal_size(sizes: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], int]]:
    """Positions of cells that have as many images each, and how many; not too many images at once."""
    for images in np.unique(sizes[sizes > 0]).tolist():
        alike = np.flatnonzero(sizes == images)
        for some in np.array_split(alike, min(-(-len(alike) * images // _IMAGES_AT_ONCE), len(alike))):
            yield some, images


def _times_drawn(
    stream: np.random.Generator, *, cells: int, images: int, lendable: int = 0
) -> tuple[_Floats, NDArray[np.intp]]:
    """Draw as many images as there are in cells that have as many each.

    Args:
        stream: of random numbers.
        cells: how many.
        images: of each.
        lendable: how many images there are to borrow from; 0: none is borrowed.

    Returns:
        How often each image is drawn, `[cell x place, resample]`, a cell's lenders behind its own images; and
        which of the lendable images these lenders are, `[cell, lender]`.
    """
    rows, places = RESAMPLES_PER_BLOCK * cells, images + (_LENDERS if lendable else 0)
    size = np.uint16 if places <= np.iinfo(np.uint16).max else np.uint32
    drawn = stream.integers(0, images + bool(lendable), size=(rows, images), dtype=size)
    chosen = np.empty((cells, 0), dtype=np.intp)
    if lendable:
        chosen = stream.integers(0, lendable, size=(cells, _LENDERS))
        borrowed = drawn == images
        drawn[borrowed] += stream.integers(0, _LENDERS, size=np.count_nonzero(borrowed), dtype=size)
    place = np.arange(rows, dtype=np.intp)[:, np.newaxis] * places + drawn
    times = np.zeros(rows * places, dtype=np.float32)
    np.add.at(times, place.ravel(), np.float32(1))
    return times.reshape(RESAMPLES_PER_BLOCK, cells * places).T, chosen
