"""What a T2I model's bias is over all images, from all detectors' verdicts and the labels of a few: pure
functions."""

from __future__ import annotations

from detector_bench.estimation.bounded_shares import About as About
from detector_bench.estimation.equal_errors import AssumptionTest as AssumptionTest
from detector_bench.estimation.equal_errors import assumption_test as assumption_test
from detector_bench.estimation.misclassification_matrix import MisclassificationMatrix as MisclassificationMatrix
from detector_bench.estimation.partly_labelled import UNLABELLED as UNLABELLED
from detector_bench.estimation.partly_labelled import PartlyLabelled as PartlyLabelled
from detector_bench.estimation.prediction_powered import Estimate as Estimate
from detector_bench.estimation.prediction_powered import Estimates as Estimates
from detector_bench.estimation.prediction_powered import estimate as estimate
