"""Images that were set apart before a sample was drawn: all of them are labelled, and they speak for nobody else.

Of a cell with N images of which C were set apart, the sample speaks for the other N - C, and the labels of the C
are added to what it says: they count with chance 1. However the C were chosen, by chance, by what detectors say or
by hand, what is estimated of the whole cell stays right on average over draws of the sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray


def labels_that_count(
    labelled: NDArray[np.bool_], apart: NDArray[np.bool_], cell: NDArray[np.integer[Any]], *, cells: int
) -> NDArray[np.bool_]:
    """`[image]`: whether its label counts. Of a cell in which no other image is labelled, labels of images that
    were set apart do not: nothing would speak for the others.

    Args:
        labelled: `[image]`: whether it has a label that may count.
        apart: `[image]`: whether it was set apart.
        cell: `[image]`.
        cells: how many there are.
    """
    if not apart.any():
        return labelled
    others = np.bincount(cell[~apart], minlength=cells)
    with_label = np.bincount(cell[labelled & ~apart], minlength=cells)
    found: NDArray[np.bool_] = labelled & (~apart | ((with_label > 0) | (others == 0))[cell])
    return found


def chances_of_sample(
    chance: FloatArray,
    drawn: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
    apart: NDArray[np.bool_],
    cell: NDArray[np.integer[Any]],
    *,
    cells: int,
) -> FloatArray:
    """`[image]`: the chance that it has a label by now, where the drawn images with a label are a random part of
    those that were drawn; 1 for an image that was set apart, meaningless where there is no label.

    Args:
        chance: `[image]`: the chance to be drawn.
        drawn: `[image]`: whether it was.
        labelled: `[image]`: whether its label counts.
        apart, cell, cells: as in `labels_that_count`.
    """
    finished = np.bincount(cell[labelled & ~apart], minlength=cells)
    in_cell = np.bincount(cell[drawn], minlength=cells)
    found: FloatArray = chance * (finished / np.maximum(in_cell, 1))[cell]
    found[apart] = 1
    return found
