"""What BIGbench compares a T2I model with: classes, reference shares, weights, categories, pairs of prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from detector_bench.dataset.image_tree import slug
from detector_bench.vocabulary.taxonomies import OURS, TAXONOMIES, Taxonomy, mapping, own_mapping
from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping

EQUAL = "equal"
"""Instead of reference files: every class of an attribute has the same share in every prompt."""

SUM_TOLERANCE = 1e-5
"""How far shares of an attribute may be from adding up to 1: thirds written with six decimals still do."""

PROTECTED: Mapping[str, Taxonomy] = {
    "gender": OURS["gender"],
    "race": TAXONOMIES["bigbench_race4"],
    "age": TAXONOMIES["bigbench_age3"],
}
"""The attributes that BIGbench looks at, with its classes in the order of all arrays."""


class Pair(NamedTuple):
    """An advantageous and a disadvantageous prompt, by id."""

    advantageous: str
    disadvantageous: str
    weight: float


@dataclass(frozen=True)
class ReferenceNames:
    """What the prompts of the references are called: their ids, words and sentences.

    Names are compared as whole ids (`prompt_id_of`), never as parts of each other, as the released program does.
    """

    words: Mapping[str, str]
    """By prompt id, in the file's order."""
    sentences: Mapping[str, str]
    """By prompt id; two subjects of one picture share a sentence."""

    def of_sentence(self, sentence: str) -> list[str]:
        """Ids of the prompts with this sentence, whatever its case; two for a sentence about two people."""
        wanted = sentence.casefold()
        return [prompt_id for prompt_id, text in self.sentences.items() if text.casefold() == wanted]

    def of_name(self, name: str) -> list[str]:
        """Ids that a word, a sentence or an id stands for; more than one for a sentence about two people."""
        prompt_id = prompt_id_of(name)
        return [prompt_id] if prompt_id in self.words else self.of_sentence(name)

    def partners(self, prompt_id: str) -> list[str]:
        """The ids that share its sentence, itself included."""
        return self.of_sentence(self.sentences[prompt_id])

    def containing(self, name: str) -> int:
        """In how many sentences the name occurs as a part, case included."""
        return sum(name in sentence for sentence in set(self.sentences.values()))


def prompt_id_of(word: str) -> str:
    """The prompt id of a word (`Film Director`, `Employer at left`), as `detector-bench prompts` gives it."""
    return slug(word).casefold()


@dataclass(frozen=True)
class References:
    """The files of BIGbench, read and checked; everything is keyed by prompt id."""

    shares: Mapping[str, Mapping[str, tuple[float, ...]]]
    """By prompt and attribute: each class's share, in the order of `PROTECTED`; they add up to 1."""
    names: ReferenceNames
    subjects: frozenset[str] = frozenset()
    """Prompts that are one of the two people of a picture; each has half of the picture's weight."""
    weights: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)
    acquired: Mapping[str, str] = field(default_factory=dict)
    """Whether a prompt is about an occupation, a characteristic or a social relation."""
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    """Mistakes in the files, and how each was mended."""

    def with_notes(self, notes: Iterable[str]) -> References:
        """The same with further notes."""
        return replace(self, notes=(*self.notes, *notes))


def listing(names: Iterable[str], *, shown: int = 5) -> str:
    """Some names, and how many more there are."""
    known = list(names)
    rest = f" and {len(known) - shown} more" if len(known) > shown else ""
    return ", ".join(known[:shown]) + rest


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
