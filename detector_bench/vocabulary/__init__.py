"""The words of all tables: attributes and their classes, verdicts, and other benchmarks' words."""

from __future__ import annotations

from detector_bench.vocabulary.attributes import (
    ALL,
    ATTRIBUTES,
    GROUND_TRUTH,
    LOW_QUALITY,
    LOW_QUALITY_REASONS,
    OTHERS,
    PARTLY,
    Attribute,
    Status,
    Unit,
    attribute_named,
)

__all__ = [
    "ALL",
    "ATTRIBUTES",
    "GROUND_TRUTH",
    "LOW_QUALITY",
    "LOW_QUALITY_REASONS",
    "OTHERS",
    "PARTLY",
    "Attribute",
    "Status",
    "Unit",
    "attribute_named",
]
