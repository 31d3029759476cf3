"""The one rule for a detector that failed on many images: where it has a number of its own, and where it competes.

- *A T2I model*: a detector that left more than `max_error_share` of its images without a verdict could not run on
  it. It has no number of that T2I model, and is compared with nobody there.
- *All T2I models together*: a detector that could not run on one of them or more is judged on other images than
  the rest. It is no best or worst one, and is neither ranked nor compared. What is counted over images (filtering,
  accuracy) is still shown, with a note, unless it could run on none: it says how the detector did on images that
  it saw. What is made of prompts or T2I models (bias scores, their errors, the causes of these, scores of other
  benchmarks) is not shown: it would be about other T2I models than the humans' number beside it.

Numbers of images are always shown, they say what became of the images. `metrics.csv` keeps all numbers: the rule
says what is shown of them. Tables, figures, pages, ranks and comparisons ask here or `MetricLookup`, which asks
here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from detector_bench.metrics.catalogue import Counted, metric_info
from detector_bench.metrics.counts import divide

DEFAULT_MAX_ERROR_SHARE = 0.1
"""A detector that leaves a larger share of a T2I model's images without a verdict could not run on it.

A share over all images lies at most so far from the same share over those with a verdict, whatever the missing
verdicts would have been: with a tenth of them missing, 10 percentage points. More would be wider than what most
detectors differ by. Fewer would leave out who merely could not read some damaged files."""

_OVER_IMAGES: frozenset[Counted] = frozenset({"images", "classes"})
"""What numbers are counted over that add up single images."""


def could_not_run(without_verdict: ArrayLike, images: ArrayLike, *, max_error_share: float) -> NDArray[np.bool_]:
    """Whether a detector left too large a share of a T2I model's images without a verdict.

    Args:
        without_verdict: images that ended in an error or were never judged; of any shape.
        images: how many there are, of a shape that fits; of no images none are too many.
        max_error_share: the share that is borne, 0 to 1.
    """
    shares = divide(np.asarray(without_verdict, dtype=float), np.asarray(images, dtype=float))
    too_many: NDArray[np.bool_] = shares > max_error_share  # False for NaN
    return too_many


def is_withheld(metric: str, *, failed: int, t2i_models: int) -> bool:
    """Whether a detector's number over some T2I models is not shown, as it could not run on one or on all of them.

    Args:
        metric: a name that `metric_info` knows.
        failed: on how many of the T2I models it could not run.
        t2i_models: how many the number is over.

    Raises:
        ConfigError: no such metric.
    """
    if not failed:
        return False
    info = metric_info(metric)
    return info.kind != "count" and (info.counted not in _OVER_IMAGES or failed == t2i_models)
