"""The words of all tables: attributes and their classes, verdicts, and other benchmarks' words."""

from __future__ import annotations

from detector_bench.vocabulary.attribute_files import (
    ATTRIBUTES,
    attribute_named,
    attributes_of,
    read_attributes,
    write_attributes,
)
from detector_bench.vocabulary.attributes import (
    ALL,
    GROUND_TRUTH,
    LOW_QUALITY,
    LOW_QUALITY_REASONS,
    OTHERS,
    PARTLY,
    Attribute,
    AttributeClass,
    Status,
    Unit,
    reasons_of,
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
    "AttributeClass",
    "Status",
    "Unit",
    "attribute_named",
    "attributes_of",
    "read_attributes",
    "reasons_of",
    "write_attributes",
]
