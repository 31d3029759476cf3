"""Adds up numbers of single images by T2I model and prompt, for the images at hand and for resamples of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray

_RESAMPLES_AT_ONCE = 50
"""Fixed, so that equal seeds draw equal resamples whatever the size of the image set."""


def cell_sums(features: FloatArray, cell: NDArray[np.intp], *, cells: int) -> FloatArray:
    """Sum of each number over the images of each cell.

    Args:
        features: `[image, number]`.
        cell: `[image]`, 0 to cells - 1; images with a negative cell are left out.
        cells: how many cells there are.

    Returns:
        `[cell, number]`.
    """
    placed = np.flatnonzero(cell >= 0)
    sums = np.zeros((cells, features.shape[1]))
    np.add.at(sums, cell[placed], features[placed])
    return sums


def resampled_cell_sums(
    features: FloatArray, cell: NDArray[np.intp], *, cells: int, resamples: int, seed: int
) -> Iterator[FloatArray]:
    """The same sums after drawing the images of each cell anew, with replacement.

    All numbers of an image stay together, so that judges of the same image are compared on the same resamples.

    Args:
        features: `[image, number]`.
        cell: `[image]`, 0 to cells - 1; images with a negative cell are left out.
        cells: how many cells there are.
        resamples: how many.
        seed: equal seeds give equal resamples.

    Yields:
        `[resample, cell, number]`, some resamples at a time.
    """
    random = np.random.default_rng(seed)
    groups = _cells_by_size(cell)
    for first in range(0, resamples, _RESAMPLES_AT_ONCE):
        count = min(_RESAMPLES_AT_ONCE, resamples - first)
        sums = np.zeros((count, cells, features.shape[1]))
        for which, images in groups:
            drawn = _times_drawn(random, resamples=count, cells=len(which), images=images.shape[1])
            sums[:, which] = np.matmul(drawn, features[images]).swapaxes(0, 1)
        yield sums


def _cells_by_size(cell: NDArray[np.intp]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Cells of equal size together: their numbers, and their images `[cell, image]`."""
    order = np.argsort(cell, kind="stable")
    order = order[cell[order] >= 0]
    found, first, size = np.unique(cell[order], return_index=True, return_counts=True)
    groups = []
    for images in np.unique(size):
        these = np.flatnonzero(size == images)
        groups.append((found[these], order[first[these][:, np.newaxis] + np.arange(images)]))
    return groups


def _times_drawn(random: np.random.Generator, *, resamples: int, cells: int, images: int) -> FloatArray:
    """How often each image is in each resample of its cell: `[cell, resample, image]`."""
    shape = (cells, resamples, images)
    place = random.integers(0, images, size=shape, dtype=np.int32).reshape(-1, images)
    place = place + np.arange(len(place), dtype=np.int64)[:, np.newaxis] * images
    return np.bincount(place.ravel(), minlength=place.size).reshape(shape).astype(np.float64)
