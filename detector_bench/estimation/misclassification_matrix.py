"""How often a detector gives each verdict to images of each truth, and verdicts corrected for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detector_bench.estimation.partly_labelled import IntArray, PartlyLabelled
from detector_bench.metrics.counts import CountArray, FloatArray, divide

LEAST_SEPARATION = 1.96
"""So many standard errors above 0 the least singular value of a matrix must be that is inverted: a detector whose
verdicts have nothing to do with the truth passes in no more than about 5 % of samples."""

ROUNDS = 300
"""Of the EM algorithm; endlessly many would move a share by about 0.001."""

_EVEN_PART = 1.0
"""So many labels, spread over all verdicts, are added to a truth's for the variance of its row, so that a row of
one verdict alone is not taken for certain."""

_LEAST_START = 0.01
_INSIDE = 1e-9
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class MisclassificationMatrix:
    """How often a detector gives each verdict to images of each truth.

    Truths are the K classes and, last, not clear (`low_quality` and `others`). Verdicts are the K classes and
    filtered.
    """

    shares: FloatArray
    """`[truth, verdict]`: estimates of P(verdict | truth), inversely weighted by the chance to be labelled; NaN
    in the row of a truth that no labelled image shows."""
    labels: IntArray
    """`[truth]`: labelled images with a verdict."""
    effective: FloatArray
    """`[truth]`: how many labels of equal weight would say as much (Kish): (sum of weights)^2 / sum of squares."""
    without_verdict: int
    """Labelled images that the detector gave no verdict on, and that are in no row."""

    @property
    def unseen(self) -> IntArray:
        """Positions of the truths that no labelled image with a verdict shows."""
        return np.flatnonzero(self.labels == 0)

    @property
    def separation(self) -> float:
        """The least singular value over its standard error, which is 0 or more; NaN where a row is unknown.

        Below `LEAST_SEPARATION` there may be truths whose verdicts do not differ.
        """
        if len(self.unseen):
            return float("nan")
        of_truths, values, of_verdicts = np.linalg.svd(self.shares)
        variance = of_truths[:, -1] ** 2 @ (self.spread(of_verdicts[-1]) / self.effective)
        return float(values[-1] / np.sqrt(variance))

    @property
    def usable(self) -> bool:
        """Whether it can be inverted."""
        return bool(self.separation >= LEAST_SEPARATION)

    def fault(self, truths: Sequence[str]) -> str:
        """Say in one line why the detector has no estimates; "" where it has.

        Args:
            truths: names of the K classes and of what is not clear.
        """
        if len(self.unseen):
            names = ", ".join(truths[place] for place in self.unseen)
            return (
                f"no labelled image with a verdict shows {names}: what the detector says of such images is unknown"
            )
        if not self.usable:
            return (
                "the verdicts do not tell the truths apart: the least singular value of the misclassification "
                f"matrix is {self.separation:.2g} standard errors, less than {LEAST_SEPARATION:g}"
            )
        return ""

    def corrected(self, verdicts: CountArray) -> FloatArray:
        """Shares of the truths within the simplex, `[..., truth]`, of images of each verdict, `[..., verdict]`.

        NaN where there is no image, and everywhere if the matrix cannot be inverted.
        """
        said = divide(verdicts, verdicts.sum(axis=-1, keepdims=True))
        if not self.usable:
            return np.full(said.shape, np.nan)
        found: FloatArray = said @ np.linalg.inv(self.shares)
        outside = found.min(axis=-1) < -_INSIDE
        found[outside] = _most_likely(said[outside], self.shares, start=found[outside])
        return np.clip(found, 0, 1)

    def spread(self, forms: FloatArray, others: FloatArray | None = None) -> FloatArray:
        """Covariances, `[..., truth]`, of two linear forms of an image's verdict, `[..., (truth,) verdict]`."""
        verdicts = self.shares.shape[1]
        labels = self.effective[:, np.newaxis]
        rows = (labels * self.shares + _EVEN_PART / verdicts) / (labels + _EVEN_PART)
        second = forms if others is None else others
        subscripts = "tv,...tv->...t" if forms.ndim > 1 else "tv,v->t"
        first_mean, second_mean = (np.einsum(subscripts, rows, each) for each in (forms, second))
        found: FloatArray = np.einsum(subscripts, rows, forms * second) - first_mean * second_mean
        return found


def _most_likely(said: FloatArray, matrix: FloatArray, *, start: FloatArray) -> FloatArray:
    """Shares of the truths, `[place, truth]`, under which the verdicts `[place, verdict]` are the likeliest."""
    found = np.maximum(start, _LEAST_START)
    found /= found.sum(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        found = found * ((said / np.maximum(found @ matrix, _SMALLEST)) @ matrix.T)
    return found


def verdicts_by_truth(images: PartlyLabelled, detector: int) -> tuple[IntArray, IntArray, IntArray]:
    """The labelled images on which a detector has a verdict: which they are, their truths, 0 to K, their
    verdicts."""
    place = images.labelled
    verdict = images.verdicts[detector, place].astype(np.int64)
    kept = verdict <= images.classes
    return place[kept], np.minimum(images.truth[place[kept]], images.classes), verdict[kept]


def misclassification_matrix(images: PartlyLabelled, detector: int) -> MisclassificationMatrix:
    """Estimate how often a detector gives each verdict to each truth, from the labelled images of all prompts.

    Args:
        images: some of them labelled.
        detector: position of the detector.
    """
    place, truth, verdict = verdicts_by_truth(images, detector)
    kinds = images.classes + 1
    weight = label_weights(images, place)
    table = np.bincount(truth * kinds + verdict, weight, minlength=kinds**2).reshape(kinds, kinds)
    squares = np.bincount(truth, weight**2, minlength=kinds)
    return MisclassificationMatrix(
        shares=divide(table, table.sum(axis=1, keepdims=True)),
        labels=np.bincount(truth, minlength=kinds),
        effective=np.nan_to_num(divide(table.sum(axis=1) ** 2, squares)),
        without_verdict=len(images.labelled) - len(place),
    )


def label_weights(images: PartlyLabelled, place: IntArray) -> FloatArray:
    """Of labelled images: 1 over the chance to be labelled, `[place]`."""
    weight: FloatArray = 1 / (images.probability[place] * images.cell_probability[images.cell[place]])
    return weight
