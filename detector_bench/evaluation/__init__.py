"""Predictions x human labels -> numbers: the long metric table of a study."""

from __future__ import annotations

from detector_bench.evaluation.comparison import PairedTest, compare_detectors
from detector_bench.evaluation.confusion import write_confusion
from detector_bench.evaluation.counting import Counts, LabelledImages, count_verdicts
from detector_bench.evaluation.files import read_predictions, write_metrics
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.metric_table import evaluate, evaluate_with_confusion
from detector_bench.evaluation.ranking import RankedDetector, rank_detectors

__all__ = [
    "Counts",
    "Intervals",
    "LabelledImages",
    "PairedTest",
    "RankedDetector",
    "compare_detectors",
    "count_verdicts",
    "evaluate",
    "evaluate_with_confusion",
    "rank_detectors",
    "read_predictions",
    "write_confusion",
    "write_metrics",
]
