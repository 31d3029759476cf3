"""Does a detector make the same errors in all prompts? What the misclassification estimate takes for granted.

Tested is that P(verdict | truth) is the same in all cells of T2I model and prompt, for the truths of
`MisclassificationMatrix`, on the labelled images. The verdicts of one truth are dealt out anew to its images,
whatever their cell: if errors are equal, the deal at hand is one like any other, however few labels a cell has (a
permutation test; no large numbers are needed). Two statistics say how unequal a deal is:

- The sum over truths of Pearson's chi-squares of cells by verdicts sees any differences, but hardly sees small
  ones where a cell has few labels.
- The sum over labelled images of the share that the image's verdict has among the cell's *unlabelled* images sees
  errors that lean the way the rest of the cell leans, towards its stereotype: mistakes that bias estimates of all
  such cells in one direction. (Where the labels were spread over the verdicts, what is labelled and what is not
  are alike by design; then, and where all images are labelled, shares of the truths among the labelled images
  stand in for these. That sees less.)

The test takes the larger of both after each is standardised over the deals, so that it has one p-value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.misclassification_matrix import verdicts_by_truth
from detector_bench.estimation.partly_labelled import UNLABELLED, IntArray, PartlyLabelled
from detector_bench.metrics.counts import FloatArray, divide

DEALS = 999
"""How often verdicts are dealt out anew."""

_ALIKE = 1e-9


class AssumptionTest(NamedTuple):
    """Whether errors are equal in all prompts."""

    p_value: float
    """(1 + deals that are as unequal) / (1 + deals): small where they are not equal; NaN where nothing can be
    tested, as when each truth has labels in one cell only, or but one verdict."""
    prompts: int
    """How many cells of T2I model and prompt were compared."""
    labels: int
    """How many labelled images were compared."""


class _Table(NamedTuple):
    """The labelled images of one truth."""

    images: IntArray
    """`[cell, verdict]`, neither of them empty."""
    shares: FloatArray
    """`[cell, verdict]`: which way the cell leans: shares of the verdicts among its unlabelled images, or of the
    truths among its labelled ones; 0 where it has none."""
    cells: IntArray


def assumption_test(
    images: PartlyLabelled, detector: int, *, seed: int, by_verdicts: bool = False, deals: int = DEALS
) -> AssumptionTest:
    """Test whether a detector makes the same errors in all prompts of all T2I models.

    Where images were drawn with unequal chances, the test is about the images that were drawn: about P(verdict |
    truth, drawn). That is the same in all cells if errors are, as long as an image's chance, but for a factor of
    its cell, depends on its verdicts alone. A small p-value does not say how far the estimates are off, and a
    large one is no proof of equal errors: with few labels only large differences are seen.

    Args:
        images: some of them labelled.
        detector: position of the detector.
        seed: of the deals.
        by_verdicts: True: the labelled images were spread over the detectors' verdicts within each cell (the
            design `verdicts`). Taken for another sample they would have equal errors called unequal too often.
        deals: how many.
    """
    tables = _tables(images, detector, by_verdicts=by_verdicts)
    if not tables:
        return AssumptionTest(float("nan"), 0, 0)
    random = np.random.default_rng(seed)
    statistics = sum(_statistics(table, random, deals) for table in tables)
    unequal = _standardised(np.asarray(statistics)).max(axis=0)
    as_unequal = int((unequal[1:] >= unequal[0] - _ALIKE).sum())
    return AssumptionTest(
        p_value=(1 + as_unequal) / (1 + deals),
        prompts=len(np.unique(np.concatenate([table.cells for table in tables]))),
        labels=int(sum(table.images.sum() for table in tables)),
    )


def _tables(images: PartlyLabelled, detector: int, *, by_verdicts: bool) -> list[_Table]:
    """Of the truths that have labels in several cells, and several verdicts."""
    kinds = images.classes + 1
    said = images.verdicts[detector].astype(np.int64)
    rest = np.flatnonzero((images.truth == UNLABELLED) & (said < kinds))
    place, truth, verdict = verdicts_by_truth(images, detector)
    if by_verdicts or not len(rest):
        leaning = _counted(images.cell[place], truth, images.cells, kinds)
    else:
        leaning = _counted(images.cell[rest], said[rest], images.cells, kinds)
    shares = np.nan_to_num(divide(leaning, leaning.sum(axis=1, keepdims=True)))
    found = []
    for each in range(kinds):
        of_truth = truth == each
        counted = _counted(images.cell[place[of_truth]], verdict[of_truth], images.cells, kinds)
        cells, verdicts = np.flatnonzero(counted.sum(axis=1)), np.flatnonzero(counted.sum(axis=0))
        if min(len(cells), len(verdicts)) > 1:
            chosen = np.ix_(cells, verdicts)
            found.append(_Table(counted[chosen], shares[chosen], cells))
    return found


def _counted(cell: NDArray[np.integer[Any]], verdict: IntArray, cells: int, kinds: int) -> IntArray:
    return np.bincount(cell * kinds + verdict, minlength=cells * kinds).reshape(cells, kinds)


def _statistics(table: _Table, random: np.random.Generator, deals: int) -> FloatArray:
    """Both statistics, `[statistic, 1 + deal]`, of the table at hand and of drawn ones with the same sums."""
    from scipy.stats import random_table

    of_cell, of_verdict = table.images.sum(axis=1), table.images.sum(axis=0)
    drawn = random_table.rvs(of_cell, of_verdict, size=deals, random_state=random)
    dealt = np.concatenate([table.images[np.newaxis], drawn]).reshape(1 + deals, -1)
    expected = np.outer(of_cell, of_verdict).ravel() / of_cell.sum()
    # The sums are fixed, so that of Pearson's sum only the squares of the counts differ between deals.
    return np.stack([np.square(dealt) @ (1 / expected), dealt @ table.shares.ravel()])


def _standardised(statistics: NDArray[np.float64]) -> FloatArray:
    """Over all deals, the one at hand included, which makes the test exact; 0 where they do not differ."""
    distance = statistics - statistics.mean(axis=1, keepdims=True)
    spread = statistics.std(axis=1, keepdims=True)
    found: FloatArray = np.divide(distance, spread, out=np.zeros_like(distance), where=spread > _ALIKE)
    return found
