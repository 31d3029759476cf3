"""Finds records that come back to themselves by way of what they are made from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def in_circle(parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records come back to themselves when one goes from record to parent, again and again.

    Args:
        parents: for each record the number of its parent, or -1.
    """
    ancestors = parents
    # Each turn doubles the number of steps, so that these turns go further than any chain without a circle.
    for _ in range(len(parents).bit_length()):
        if (ancestors < 0).all():
            break
        ancestors = np.where(ancestors < 0, -1, ancestors[ancestors])
    is_in_circle = np.zeros(len(parents), dtype=bool)
    is_in_circle[ancestors[ancestors >= 0]] = True
    return is_in_circle
