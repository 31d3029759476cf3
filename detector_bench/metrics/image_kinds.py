"""What resamples count over all images of a scope, laid out for speed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import CountArray
from detector_bench.metrics.joint_verdicts import JointVerdicts

_Floats = NDArray[np.float32]


class Kinds:
    """What is counted over all images of a scope: for each detector (truth, verdict), and the human labels.

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
