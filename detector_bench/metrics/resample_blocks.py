"""Runs through the resamples block by block, several at once, and puts the values of all blocks together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from detector_bench.metrics.resampling import RESAMPLES_PER_BLOCK

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
