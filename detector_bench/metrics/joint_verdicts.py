"""What humans and all detectors say about the same image, which counts of one detector alone cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray, FloatArray
from detector_bench.metrics.scopes import Scopes

Codes = NDArray[np.int8]
_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class JointVerdicts:
    """The labelled images of an image set with the verdicts of all detectors on one attribute.

    Images of one prompt of one T2I model with the same truth and the same verdicts are interchangeable, so this
    says as much as a count array with an axis for each detector, and stays small however many detectors there are.
    """

    truth: Codes
    """`[image]`: position of the human label among the classes, `low_quality`, `others`."""
    verdicts: Codes
    """`[detector, image]`: a class, K for filtered, K + 1 for no verdict."""
    pair: NDArray[np.integer[Any]]
    """`[image]`: position of its T2I model and prompt in the flattened table `[t2i_model, prompt]`."""
    t2i_models: int
    scopes: Scopes
    """The category of each prompt."""
    classes: int
    """How many classes (K) the attribute has."""

    @property
    def prompts(self) -> int:
        """How many prompts there are, those without an image included."""
        return len(self.scopes.category_of_prompt)

    @property
    def detectors(self) -> int:
        """How many detectors there are."""
        return len(self.verdicts)

    @property
    def images(self) -> int:
        """How many labelled images there are."""
        return len(self.truth)

    @cached_property
    def block_of_pair(self) -> NDArray[np.intp]:
        """`[t2i_model x prompt]`: position of each pair in the flattened table `[t2i_model, category]`."""
        model = np.arange(self.t2i_models)[:, np.newaxis] * len(self.scopes.categories)
        return (model + self.scopes.category_of_prompt).ravel()

    def counts(self, weights: FloatArray | None = None) -> CountArray:
        """Count the images: `[detector, t2i_model, prompt, truth, verdict]`.

        Args:
            weights: how often each image counts, `[image]`; None: once.
        """
        labels = self.classes + 2
        shape = (self.t2i_models, self.prompts, labels, labels)
        cell = (self.pair.astype(np.intp) * labels + self.truth) * labels
        size = int(np.prod(shape))
        counted = [np.bincount(cell + verdict, weights, size).reshape(shape) for verdict in self.verdicts]
        return np.stack(counted) if counted else np.zeros((0, *shape))

    def of_detectors(self, chosen: list[int]) -> JointVerdicts:
        """The same images with some of the detectors only."""
        return JointVerdicts(
            self.truth, self.verdicts[chosen], self.pair, self.t2i_models, self.scopes, self.classes
        )


class Kinds:
    """What is counted over all images of a scope, laid out for speed: for each detector (truth, verdict), and the
    human labels.

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
class ScopeSums:
    """Adds up numbers of single pairs of T2I model and prompt, in many resamples, over the pairs of each scope."""

    joint: JointVerdicts
    blocks: NDArray[np.intp]
    """`[pair]`: T2I model and category of each pair, never descending; see `resampling.Resampler`."""

    @property
    def runs(self) -> list[tuple[int, slice]]:
        """Each block that has a pair, and where its pairs stand.

        Arrays of all pairs take much memory, and time: what is computed pair by pair is added up block by block.
        """
        return runs_of(self.blocks)

    def of_runs(self, sums: Sequence[CountArray]) -> CountArray:
        """The same as `of_pairs`, of `run_sum` of each of the `runs`."""
        total = np.zeros((self._count, *sums[0].shape))
        total[np.unique(self.blocks)] = sums
        return self.of_blocks(total)

    def of_pairs(self, values: CountArray) -> CountArray:
        """`[pair, ...]` to `[1 + T2I models, 1 + categories, ...]`; position 0 is "all"."""
        filled, starts = np.unique(self.blocks, return_index=True)
        total = np.zeros((self._count, *values.shape[1:]))
        if filled.size:
            total[filled] = np.add.reduceat(values, starts, axis=0)
        return self.of_blocks(total)

    def of_weighted_pairs(self, values: CountArray, weights: NDArray[np.float32]) -> CountArray:
        """The same where every pair counts several times.

        Args:
            values: `[pair, ...]`.
            weights: how often each pair counts, `[pair, resample]`.

        Returns:
            `[1 + T2I models, 1 + categories, ..., resample]`.
        """
        parts = np.zeros((self._count, *values.shape[1:], weights.shape[-1]))
        for block in np.unique(self.blocks):
            chosen = self.blocks == block
            # Not in single precision: what is added up with other numbers beside it has to give the same sum.
            parts[block] = np.tensordot(
                values[chosen].astype(np.float64), weights[chosen].astype(np.float64), axes=(0, 0)
            )
        return self.of_blocks(parts)

    def of_blocks(self, blocks: CountArray) -> CountArray:
        """`[t2i_model x category, ...]` to `[1 + T2I models, 1 + categories, ...]`."""
        values = blocks.reshape(self.joint.t2i_models, len(self.joint.scopes.categories), *blocks.shape[1:])
        values = np.concatenate([values.sum(axis=1, keepdims=True), values], axis=1)
        total: CountArray = np.concatenate([values.sum(axis=0, keepdims=True), values], axis=0)
        return total

    @property
    def _count(self) -> int:
        return self.joint.t2i_models * len(self.joint.scopes.categories)


def runs_of(labels: NDArray[np.intp]) -> list[tuple[int, slice]]:
    """The labels that there are, of labels that never descend, and where each of them stands."""
    found, starts = np.unique(labels, return_index=True)
    ends = zip(starts.tolist(), [*starts[1:].tolist(), len(labels)], strict=True)
    return [(label, slice(*both)) for label, both in zip(found.tolist(), ends, strict=True)]


def run_sum(values: CountArray) -> CountArray:
    """Sum over the first axis, to the last digit as `ScopeSums.of_pairs` adds up."""
    total: CountArray = np.add.reduceat(values, [0], axis=0)[0]
    return total
