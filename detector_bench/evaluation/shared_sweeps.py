"""All detectors of an attribute at the same thresholds, over all T2I models, to be seen side by side.

What one detector gives on each T2I model, and by whatever metric its threshold is chosen, is asked of it alone
(`detector-bench sweep`): of many prompts that takes seconds for each detector.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from detector_bench.errors import ConfigError
from detector_bench.evaluation.image_index import LabelledImages
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.out_of_sample import CHOICE_COLUMNS, RESAMPLES, threshold_choices
from detector_bench.evaluation.sweeps import (
    SWEEP_COLUMNS,
    even_thresholds,
    first_threshold,
    sweep_counts,
    sweep_table,
)
from detector_bench.metrics import NClear
from detector_bench.vocabulary import ALL

STEPS = 100
"""Between the lowest threshold at which any detector begins to filter, and 1."""

CHOSEN_BY = "prompt_bias_score_difference"
"""The metric by which each detector's threshold is chosen."""

SHARED_CHOICE_COLUMNS = (*CHOICE_COLUMNS, "images_without_score")
"""`images_without_score`: labelled images that the detector kept without a score, at every threshold."""


def shared_sweeps(
    image_set: LabelledImages,
    predictions: Mapping[str, pa.Table],
    *,
    attribute: str,
    n_clear: NClear = "detector",
    intervals: Intervals,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sweep all detectors that keep images with a score, and choose each one's threshold of the least bias error.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with the columns `reason` and `score`.
        attribute: which one.
        n_clear: denominator of prompt bias scores.
        intervals: seed and level; with the method `none` there are no intervals.

    Returns:
        Columns as in `SWEEP_COLUMNS`, and one row per detector with `SHARED_CHOICE_COLUMNS`; detectors without a
        score have no rows.

    Raises:
        DataError: as in `count_verdicts`.
    """
    first = first_threshold(predictions.values(), attribute=attribute)
    thresholds = even_thresholds(first=first, steps=STEPS)
    curves, chosen = [], []
    for detector, table in predictions.items():
        try:
            sweep = sweep_counts(
                image_set,
                table,
                detector=detector,
                attribute=attribute,
                thresholds=thresholds,
                allow_incomplete=True,
            )
        except ConfigError:
            continue
        numbers = sweep_table(sweep, n_clear=n_clear)
        curves.append(numbers[numbers["t2i_model"] == ALL])
        choices = threshold_choices(
            sweep,
            n_clear=n_clear,
            chosen_by=[CHOSEN_BY],
            t2i_models=[ALL],
            seed=intervals.seed,
            level=intervals.level,
            resamples=0 if intervals.method == "none" else RESAMPLES,
        )
        chosen.append(choices.assign(images_without_score=sweep.without_score))
    if not curves:
        return pd.DataFrame(columns=list(SWEEP_COLUMNS)), pd.DataFrame(columns=list(SHARED_CHOICE_COLUMNS))
    return pd.concat(curves, ignore_index=True), pd.concat(chosen, ignore_index=True)
