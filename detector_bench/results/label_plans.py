"""What two bias errors say about a detector, and the labelled images that would settle what they leave open."""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import product

import numpy as np
import pandas as pd

from detector_bench.evaluation.counting import Counts
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.more_labels import Tolerance, more_labels
from detector_bench.metrics.intervals import Interval
from detector_bench.results.metric_lookup import MetricLookup, Number

PROMPT_ERROR = "prompt_bias_error"
MODEL_ERROR = "model_bias_score_error"

LABEL_PLAN_COLUMNS = ("attribute", "detector", "t2i_model", "prompt_id", "images")
"""One row per prompt of a detector on a T2I model that is left open and could be settled; `images`: those to label
beyond the ones at hand."""


class Standing(StrEnum):
    """What a detector's two bias errors, with their intervals, say about it; for a T2I model that of its best."""

    GOOD_ENOUGH = "good enough"
    """Both errors lie within the tolerance, their whole intervals included."""
    LEFT_OPEN = "left open"
    """Some interval reaches over the edge of the tolerance: these images cannot tell."""
    TOO_FAR_OFF = "too far off"
    """The whole interval of one error lies beyond the tolerance."""
    NO_INTERVAL = "no interval"
    """An error has no interval, so nothing is known about how sure it is."""
    NO_SCORE = "no score"
    """The detector failed on too many images, or reports no score."""


def standing(reported: Number, prompt_error: Number, model_error: Number, *, tolerance: Tolerance) -> Standing:
    """Compare two bias errors with the tolerance.

    Args:
        reported: model bias score; without one there is nothing to judge.
        prompt_error: prompt bias error.
        model_error: error of the model bias score.
        tolerance: how far off is near enough.
    """
    if reported.missing:
        return Standing.NO_SCORE
    judged = (
        (prompt_error, tolerance.prompt_bias_error),
        (model_error, tolerance.model_bias_score_error),
    )
    if any(bounded(number) and (number.ci_low > edge or number.ci_high < -edge) for number, edge in judged):
        return Standing.TOO_FAR_OFF
    if not all(bounded(number) for number, _ in judged):
        return Standing.NO_INTERVAL
    inside = all(-edge <= number.ci_low and number.ci_high <= edge for number, edge in judged)
    return Standing.GOOD_ENOUGH if inside else Standing.LEFT_OPEN


def bounded(number: Number) -> bool:
    """Whether there is an interval."""
    return math.isfinite(number.ci_low) and math.isfinite(number.ci_high)


def label_plans(
    lookup: MetricLookup, counts: Counts, *, tolerance: Tolerance, intervals: Intervals
) -> pd.DataFrame:
    """Plan the images that would settle what is left open; see `more_labels`.

    Args:
        lookup: one attribute's rows of a metric table.
        counts: of the same attribute.
        tolerance: how far off is near enough.
        intervals: how those of the metric table were found. Of other prompts further images of these say nothing:
            with `unit: prompt` there is no plan.

    Returns:
        Columns as in `LABEL_PLAN_COLUMNS`.
    """
    found = [pd.DataFrame(columns=list(LABEL_PLAN_COLUMNS))]
    for detector, model in product(lookup.detectors if lookup.has_labels else (), lookup.t2i_models):
        if intervals.unit == "prompt" or lookup.could_not_run(detector, model):
            continue
        reported, prompt_error, model_error = (
            lookup.number(metric, detector=detector, t2i_model=model, n_clear=lookup.n_clear)
            for metric in ("model_bias_score", PROMPT_ERROR, MODEL_ERROR)
        )
        if standing(reported, prompt_error, model_error, tolerance=tolerance) is not Standing.LEFT_OPEN:
            continue
        plan = more_labels(
            counts.verdicts[counts.detectors.index(detector), counts.t2i_models.index(model)],
            prompt_bias_error=Interval(np.array(prompt_error.ci_low), np.array(prompt_error.ci_high)),
            model_bias_score_error=Interval(np.array(model_error.ci_low), np.array(model_error.ci_high)),
            tolerance=tolerance,
            n_clear=lookup.n_clear,
            level=intervals.level,
        )
        if plan is not None:
            images = {"prompt_id": counts.prompt_ids, "images": plan.by_prompt}
            words = {"attribute": lookup.attribute, "detector": detector, "t2i_model": model}
            found.append(pd.DataFrame(images).assign(**words)[list(LABEL_PLAN_COLUMNS)])
    return pd.concat(found[1:] or found, ignore_index=True)
