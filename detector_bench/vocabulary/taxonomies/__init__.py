"""The words of detectors and bias benchmarks, and what they mean in ours: taxonomies and mappings between them."""

from __future__ import annotations

from detector_bench.vocabulary.taxonomies.catalogue import (
    MAPPINGS,
    OURS,
    TAXONOMIES,
    MappingField,
    mapping,
    mapping_named,
    own_mapping,
    taxonomy_named,
)
from detector_bench.vocabulary.taxonomies.taxonomy import Mapping, SharesByClass, Taxonomy

__all__ = [
    "MAPPINGS",
    "OURS",
    "TAXONOMIES",
    "Mapping",
    "MappingField",
    "SharesByClass",
    "Taxonomy",
    "mapping",
    "mapping_named",
    "own_mapping",
    "taxonomy_named",
]
