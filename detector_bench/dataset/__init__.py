"""Image sets: reading, checking and importing them, and the consensus of their annotators."""

from __future__ import annotations

from detector_bench.dataset.check_report import AttributeSummary, CheckReport, check
from detector_bench.dataset.consensus import ADJUDICATOR, CONSENSUS, DISAGREEMENT, consensus
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.import_tree import import_folder

__all__ = [
    "ADJUDICATOR",
    "CONSENSUS",
    "DISAGREEMENT",
    "SEED_COLUMN",
    "AttributeSummary",
    "CheckReport",
    "ImageSet",
    "check",
    "consensus",
    "import_folder",
]
