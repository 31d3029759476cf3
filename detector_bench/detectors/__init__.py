"""Detectors: small decisions on shared stages."""

from detector_bench.detectors.base import (
    DETECTORS,
    Card,
    Detector,
    DetectorType,
    Prediction,
    build_detector,
    detector,
)

__all__ = ["DETECTORS", "Card", "Detector", "DetectorType", "Prediction", "build_detector", "detector"]
