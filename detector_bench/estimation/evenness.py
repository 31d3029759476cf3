"""Do prompts show all classes equally often, or are they uneven beyond what chance explains?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detector_bench.estimation.bounded_shares import BoundedShares

_LEAST_VARIANCE = 1e-5


def evenness_p_value(shares: list[BoundedShares], chosen: NDArray[np.bool_]) -> float:
    """Chance of prompts as uneven as these if all showed all classes equally often; NaN without a prompt.

    The sum over cells and classes of squared distances from 1/K, each in standard errors at 1/K, is held against
    chi-square (Pearson 1900). It weighs each prompt by what is known of it, so it sees an unevenness that the mean
    over prompts hides in the noise of those with few labels. Distances are put from Student's t on the normal
    scale first.

    Args:
        shares: of each class among the clear images of each cell.
        chosen: `[cell]`; those without a label are left out.
    """
    from scipy.special import chdtrc, ndtri, stdtr

    classes = len(shares)
    cells = np.flatnonzero(chosen & ~np.isnan(shares[0].value))
    if not len(cells):
        return float(np.nan)
    total = 0.0
    for share in shares:
        variance = np.maximum(share.variance(np.array(1 / classes))[cells], _LEAST_VARIANCE)
        distance = np.abs(share.value[cells] - 1 / classes) / np.sqrt(variance)
        total += float((ndtri(stdtr(share.freedom[cells], -distance)) ** 2).sum())
    return float(chdtrc(len(cells) * (classes - 1), total * (1 - 1 / classes)))
