"""Predictions x human labels -> numbers: the long metric table of a study."""

from __future__ import annotations

from detector_bench.evaluation.comparison import ComparisonFamily, Contest, PairedTest
from detector_bench.evaluation.counting import Counts, count_verdicts
from detector_bench.evaluation.image_index import LabelledImages
from detector_bench.evaluation.intervals import Intervals
from detector_bench.evaluation.label_doubt import label_doubt
from detector_bench.evaluation.metric_table import evaluate, evaluate_with_confusion
from detector_bench.evaluation.ranking import RankedDetector, rank_detectors
from detector_bench.runner.stored_predictions import read_predictions

__all__ = [
    "ComparisonFamily",
    "Contest",
    "Counts",
    "Intervals",
    "LabelledImages",
    "PairedTest",
    "RankedDetector",
    "count_verdicts",
    "evaluate",
    "evaluate_with_confusion",
    "label_doubt",
    "rank_detectors",
    "read_predictions",
]
