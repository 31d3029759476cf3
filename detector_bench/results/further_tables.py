"""The long tables that an evaluation writes beside the metric table: causes, comparisons and ranks, agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from detector_bench.dataset import ImageSet
from detector_bench.evaluation.agreement import agreement
from detector_bench.evaluation.causes import PREDICTION_COLUMNS, accuracy_gaps, causes, filter_outcomes
from detector_bench.evaluation.contests import CONTEST_COLUMNS, contest_tables
from detector_bench.results.manifest import EvaluationSettings

COLUMNS_NEEDED = (*PREDICTION_COLUMNS, *CONTEST_COLUMNS)
"""Columns of the predictions that `further_tables` needs."""

MOST_IMAGES = 200_000
"""Of larger studies these tables are computed when they are asked for: an evaluation takes seconds so. The metric
table draws no resamples there either."""

_OF_CAUSES = ("causes", "accuracy_gaps", "filter_outcomes")
_OF_CONTESTS = ("comparisons", "images_judged_rightly", "ranks")
FURTHER_TABLES = (*_OF_CAUSES, *_OF_CONTESTS, "agreement")


def further_tables(
    image_set: ImageSet,
    predictions: Mapping[str, pa.Table],
    settings: EvaluationSettings,
    *,
    names: Sequence[str] = FURTHER_TABLES,
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Compute the tables.

    Args:
        image_set: images, prompts and human labels.
        predictions: by detector, with `COLUMNS_NEEDED`.
        settings: of the evaluation.
        names: which tables; others that come along are given, too.

    Returns:
        By name as in `LONG_TABLES`; and by attribute, why its detectors are not comparable.
    """
    tables: dict[str, pd.DataFrame] = {}
    not_comparable: dict[str, str] = {}
    if any(name in _OF_CAUSES for name in names):
        found = [_of_causes(image_set, predictions, settings, attribute) for attribute in settings.attributes]
        tables |= {name: pd.concat([each[name] for each in found], ignore_index=True) for name in _OF_CAUSES}
    if any(name in _OF_CONTESTS for name in names):
        contests = contest_tables(
            image_set,
            predictions,
            attributes=settings.attributes,
            n_clear=settings.n_clear,
            intervals=settings.intervals,
            max_error_share=settings.max_error_share,
        )
        tables |= {name: getattr(contests, name) for name in _OF_CONTESTS}
        not_comparable = contests.not_comparable
    if "agreement" in names:
        measured = [agreement(image_set, predictions, attribute=attribute) for attribute in settings.attributes]
        tables["agreement"] = pd.concat(measured, ignore_index=True)
    return tables, not_comparable


def _of_causes(
    image_set: ImageSet, predictions: Mapping[str, pa.Table], settings: EvaluationSettings, attribute: str
) -> dict[str, pd.DataFrame]:
    judged: tuple[Any, ...] = (image_set, predictions)
    counted: dict[str, Any] = {"attribute": attribute, "allow_incomplete": True}
    return {
        "causes": causes(*judged, n_clear=settings.n_clear, intervals=settings.intervals, **counted),
        "accuracy_gaps": accuracy_gaps(*judged, intervals=settings.intervals, **counted),
        "filter_outcomes": filter_outcomes(*judged, **counted),
    }
