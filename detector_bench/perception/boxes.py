"""Boxes around faces and persons, as stages hand them on.

A box stage gives three arrays for each image, one row per box, in the order in which its model found them:

- `corners`: (boxes, 4), left, top, right, bottom in pixels of the decoded image; right and bottom are outside
  the box, so that width = right - left. A box may reach over the image's border.
- `scores`: (boxes,), the model's own confidence, on the model's own scale; higher is surer.
- `landmarks`: (boxes, points, 2), x and y in pixels; no points where the model gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.perception.stage import Arrays


def boxes(
    corners: Sequence[Sequence[float]] | NDArray[Any],
    scores: Sequence[float] | NDArray[Any],
    landmarks: NDArray[Any] | None = None,
) -> Arrays:
    """Put boxes into the form that all box stages share; none are `boxes([], [])`."""
    count = len(scores)
    return {
        "corners": np.asarray(corners, dtype=np.float32).reshape(count, 4),
        "scores": np.asarray(scores, dtype=np.float32).reshape(count),
        "landmarks": np.zeros((count, 0, 2), np.float32)
        if landmarks is None or count == 0
        else np.asarray(landmarks, dtype=np.float32).reshape(count, -1, 2),
    }


def areas(found: Arrays) -> NDArray[Any]:
    """Area of each box in square pixels, shape (boxes,)."""
    left, top, right, bottom = np.asarray(found["corners"], dtype=np.float64).T
    return np.asarray((right - left) * (bottom - top))


def largest(found: Arrays) -> int | None:
    """Index of the box with the largest area, the first of equals; None where there is no box."""
    if len(found["scores"]) == 0:
        return None
    return int(np.argmax(areas(found)))
