"""Images of which some have a human label, all have detectors' verdicts, and the label's chance to be there is
known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray
from detector_bench.metrics.joint_verdicts import Codes
from detector_bench.metrics.scopes import Scopes

IntArray = NDArray[np.int64]

UNLABELLED = -1
"""Truth of an image that has no human label, or one that no chance is known for."""


_COUNTED_TOGETHER = 1 << 20
"""Images: counting turns what it counts into numbers of eight bytes."""


def count_codes(codes: Callable[[slice], NDArray[np.integer[Any]]], *, images: int, size: int) -> IntArray:
    """How many images have each code, counted piece by piece.

    Args:
        codes: the codes of some images, each below `size`.
        images: how many there are.
        size: how many codes there are.
    """
    counts = np.zeros(size, dtype=np.int64)
    for begin in range(0, images, step := max(_COUNTED_TOGETHER, size)):
        counts += np.bincount(codes(slice(begin, begin + step)), minlength=size)
    return counts


@dataclass(frozen=True, eq=False)
class PartlyLabelled:
    """The images of all T2I models with the verdicts of all detectors on one attribute.

    A cell is a T2I model and a prompt: `t2i_model * prompts + prompt`. Within a cell the labelled images are drawn
    without replacement; the arrays are of images that a T2I model made.
    """

    truth: IntArray
    """`[image]`: position of the human label among the classes, `low_quality`, `others`; `UNLABELLED` without
    one."""
    verdicts: Codes
    """`[detector, image]`: a class, K for filtered, K + 1 for no verdict."""
    cell: NDArray[np.integer[Any]]
    """`[image]`."""
    t2i_models: int
    scopes: Scopes
    """The category of each prompt."""
    classes: int
    """How many classes (K) the attribute has."""
    probability: FloatArray
    """`[image]`: the chance of a labelled image to be drawn, given that its cell was; elsewhere NaN."""
    cell_probability: FloatArray
    """`[cell]`: the chance of a cell to get any label at all; 1 where all cells do."""

    @classmethod
    def drawn_evenly(
        cls,
        truth: IntArray,
        verdicts: Codes,
        cell: NDArray[np.integer[Any]],
        *,
        t2i_models: int,
        scopes: Scopes,
        classes: int,
    ) -> PartlyLabelled:
        """Labels that were drawn within each cell with equal chance, all cells being chosen on purpose."""
        cells = t2i_models * len(scopes.category_of_prompt)
        labelled = truth != UNLABELLED
        images, labels = np.bincount(cell, minlength=cells), np.bincount(cell[labelled], minlength=cells)
        probability = np.full(len(truth), np.nan)
        probability[labelled] = (labels / np.maximum(images, 1))[cell[labelled]]
        return cls(truth, verdicts, cell, t2i_models, scopes, classes, probability, np.ones(cells))

    @property
    def prompts(self) -> int:
        """How many prompts there are, those without an image included."""
        return len(self.scopes.category_of_prompt)

    @property
    def cells(self) -> int:
        """How many cells there are, those without an image included."""
        return self.t2i_models * self.prompts

    @property
    def detectors(self) -> int:
        """How many detectors there are."""
        return len(self.verdicts)

    @property
    def labels(self) -> int:
        """How many different labels there are: the classes, `low_quality`, `others`."""
        return self.classes + 2

    @cached_property
    def complete(self) -> bool:
        """Whether every image has a label."""
        return bool((self.truth != UNLABELLED).all())

    @cached_property
    def labelled(self) -> IntArray:
        """Positions of the labelled images, by cell."""
        found = np.flatnonzero(self.truth != UNLABELLED)
        return found[np.argsort(self.cell[found], kind="stable")]

    @cached_property
    def images_of_cell(self) -> IntArray:
        """`[cell]`."""
        return count_codes(lambda part: self.cell[part], images=len(self.cell), size=self.cells)

    @cached_property
    def labels_of_cell(self) -> IntArray:
        """`[cell]`: how many of its images have a label."""
        if self.complete:
            return self.images_of_cell
        return np.bincount(self.cell[self.truth != UNLABELLED], minlength=self.cells)
