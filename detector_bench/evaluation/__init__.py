"""Predictions x human labels -> numbers: the long metric table of a study."""

from __future__ import annotations

from detector_bench.evaluation.counting import Counts, LabelledImages, count_verdicts
from detector_bench.evaluation.files import read_predictions, write_metrics
from detector_bench.evaluation.metric_table import evaluate

__all__ = ["Counts", "LabelledImages", "count_verdicts", "evaluate", "read_predictions", "write_metrics"]
