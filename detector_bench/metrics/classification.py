"""How well a detector names the class of images that it and the human both call clear (Lyu 2025, section 3.5).

Every function takes counts `[..., truth, verdict]` and returns scores in [0, 1], higher is better.
`Score.n_left_out` counts human-clear images without a verdict; filtered images are outside the question.
"""

from __future__ import annotations

import numpy as np

from detector_bench.metrics.counts import CountArray, Score, class_count, divide


def accuracy(counts: CountArray) -> Score:
    """Share of right classes over the images that human and detector both call clear."""
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.trace(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=(-2, -1))
    return Score(divide(right, judged), judged, counts[..., :classes, -1].sum(axis=-1))


def accuracy_per_class(counts: CountArray) -> Score:
    """Share of right classes among the images of each human class that the detector keeps: `[..., K]`."""
    classes = class_count(counts)
    confusion = counts[..., :classes, :classes]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    judged = confusion.sum(axis=-1)
    return Score(divide(right, judged), judged, counts[..., :classes, -1])
