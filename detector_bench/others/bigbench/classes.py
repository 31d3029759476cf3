"""BIGbench's classes, and where each of ours belongs among them."""

from __future__ import annotations

from collections.abc import Mapping

from detector_bench.vocabulary.taxonomies import OURS, TAXONOMIES, Taxonomy, mapping, own_mapping
from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping

PROTECTED: Mapping[str, Taxonomy] = {
    "gender": OURS["gender"],
    "race": TAXONOMIES["bigbench_race4"],
    "age": TAXONOMIES["bigbench_age3"],
}
"""The attributes that BIGbench looks at, with its classes in the order of all arrays."""


def accepted_words(attribute: str) -> dict[str, int]:
    """What a file may call each class: BIGbench's word or ours for the same (`East Asian`, `east_asian`)."""
    taxonomy = PROTECTED[attribute]
    ours = mapping(taxonomy.name, attribute)
    return {
        word: position
        for position, label in enumerate(taxonomy.classes)
        for word in (label, ours.table[label])
        if word is not None
    }


def class_mapping(attribute: str, race_mapping: Mapping[str, str | None] | None) -> ClassMapping:
    """Where each of our classes belongs; a race mapping of the user's own takes the place of the usual one.

    Raises:
        ConfigError: a race mapping that leaves a class out or names an unknown one.
    """
    if attribute == "race" and race_mapping is not None:
        return own_mapping(race_mapping, source=OURS["race"], target=PROTECTED["race"])
    return mapping(attribute, PROTECTED[attribute].name)
