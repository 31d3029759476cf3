"""Whether a detector or a stage gives the same verdicts however a run goes about its work."""

from detector_bench.conformance.runs import pictures_in, sample_pictures
from detector_bench.conformance.suite import (
    DEFAULT_TOLERANCE,
    Conformance,
    Nonconformity,
    Way,
    check_detector,
    check_stage,
)

__all__ = [
    "DEFAULT_TOLERANCE",
    "Conformance",
    "Nonconformity",
    "Way",
    "check_detector",
    "check_stage",
    "pictures_in",
    "sample_pictures",
]
