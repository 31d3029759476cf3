"""From numbers of single pairs of T2I model and prompt, in many resamples, to their sums over scopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray
from detector_bench.metrics.joint_verdicts import JointVerdicts


@dataclass(frozen=True, slots=True)
class ScopeSums:
    """Adds up over the pairs of each scope."""

    joint: JointVerdicts
    blocks: NDArray[np.intp]
    """`[pair]`: T2I model and category of each pair, never descending; see `resampling.Resampler`."""

    def of_pairs(self, values: CountArray) -> CountArray:
        """`[pair, ...]` to `[1 + T2I models, 1 + categories, ...]`; position 0 is "all"."""
        return self.of_blocks(self._over_pairs(values))

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

    def _over_pairs(self, values: CountArray) -> CountArray:
        filled, starts = np.unique(self.blocks, return_index=True)
        total = np.zeros((self._count, *values.shape[1:]))
        if filled.size:
            total[filled] = np.add.reduceat(values, starts, axis=0)
        return total
