"""For whoever makes a detector: a file to begin with, every step on a picture, a card that says what holds."""

from detector_bench.detector_kit.described import described_detector, is_description

__all__ = ["described_detector", "is_description"]
