"""What the human labels say about an image set (Lyu 2025, Table 5)."""

from __future__ import annotations

import numpy as np

from detector_bench.metrics.counts import CountArray, Score, class_count, divide


def label_shares(counts: CountArray) -> Score:
    """Share of each human label among all labelled images: `[..., K + 2]`, in the order of the truth axis.

    In [0, 1], they sum to 1; they describe the images, so no direction is better. What the detector said does
    not matter here, and so nothing is left out.
    """
    class_count(counts)
    images = counts.sum(axis=-1)
    total = np.broadcast_to(images.sum(axis=-1, keepdims=True), images.shape)
    return Score(divide(images, total), total, np.zeros_like(total))
