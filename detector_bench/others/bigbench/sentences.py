"""What a sentence of BIGbench's says: about whom it is, and which class of whom it asks for.

Source: the form of its released prompts. Whatever follows a sentence's first comma is a scene, and no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from detector_bench.others.bigbench.prompts import (
    CHARACTERISTIC,
    OCCUPATION,
    OPEN,
    SOCIAL_RELATION,
    UNKNOWN_CATEGORY,
    asking_words,
)
from detector_bench.prompt_lists import Prompt

_ONE = re.compile(r"(a photo of one) (.+)", re.IGNORECASE)
_TRAIT = re.compile(r"(a photo of an?) (.+) (person|man|woman)", re.IGNORECASE)
_TWO = re.compile(r"(one) (.+) at left with (one|another|an?) (.+) at right", re.IGNORECASE)

_PERSON = "person"

_NEARLY = 0.8
"""How alike two words are, from 0 to 1, so that one may be the other misspelt."""

_NAMES_IN_REFERENCES = {"boxer": "human Boxer", "veterinarian": "human Veterinarian"}
"""How the reference shares and the weights call those whom the prompts call otherwise."""

_GENDER_OF = {"man": "male", "woman": "female"}


@dataclass(frozen=True, slots=True)
class SentencePerson:
    """Somebody in a sentence.

    Attributes:
        name: as in the reference shares, without what is asked for: `Dancer`, `rich`, `Employer`.
        attribute: of which a class is asked for; empty: of none.
        label: the class.
        side: `left` or `right` of two people; empty: there is one.
    """

    name: str
    attribute: str = ""
    label: str = ""
    side: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of BIGbench's, taken apart.

    Attributes:
        text: the sentence, with single blanks.
        category: occupation, characteristic, social_relation or unknown.
        base: the sentence without what it asks for.
        people: one or two; for an unknown category one, whose name is the sentence.
    """

    text: str
    category: str
    base: str
    people: tuple[SentencePerson, ...]

    @property
    def asks(self) -> bool:
        """Whether it asks for any class."""
        return any(person.label for person in self.people)

    def nearly_asks(self) -> str:
        """What is nearly asked for, by a word that is misspelt (`East-Asain Dancer`); else empty."""
        at_end = self.category == CHARACTERISTIC
        for person in self.people if self.category != UNKNOWN_CATEGORY and not self.asks else ():
            words = _plain(person.name).split()
            for count in range(1, min(len(words), 3)):
                part = " ".join(words[-count:] if at_end else words[:count])
                if near := get_close_matches(part, _asked_for().values(), n=1, cutoff=_NEARLY):
                    return near[0]
        return ""

    def order(self) -> tuple[int, ...]:
        """Explicit sentences with the same base are listed by this: by attribute, then by class."""
        places = {place: number for number, place in enumerate(_asked_for())}
        return tuple(places.get((person.attribute, person.label), -1) for person in self.people)

    def prompts(self, *, wordings: tuple[str, ...] = ()) -> Iterator[Prompt]:
        """A prompt for each of its people, as `prompts.explicit_prompts` makes them."""
        for person in self.people:
            base = (self.category, _word(self.category, person.name, "", side=person.side), self.base)
            asked = asking_words()[person.attribute][person.label] if person.label else ""
            yield Prompt(
                self.category,
                _word(self.category, person.name, asked, side=person.side),
                self.text,
                stated=OPEN | ({person.attribute: person.label} if person.label else {}),
                base=base if person.label else None,
                wordings=wordings,
            )


def read_sentence(sentence: str) -> Sentence:
    """Take a sentence apart; case, hyphens and blanks make no difference. What follows a comma is left out."""
    text = " ".join(sentence.partition(",")[0].split())
    if found := _TWO.fullmatch(text):
        first, left, article, right = found.groups()
        people = [_asked_first(left), _asked_first(right)]
        base = f"{first} {people[0].name} at left with {article} {people[1].name} at right"
        sides = zip(people, ("left", "right"), strict=True)
        named = tuple(SentencePerson(each.name, each.attribute, each.label, side) for each, side in sides)
        return Sentence(text, SOCIAL_RELATION, base, named)
    if found := _ONE.fullmatch(text):
        person = _asked_first(found.group(2))
        base = f"{found.group(1)} {person.name}"
        name = _NAMES_IN_REFERENCES.get(person.name.casefold(), person.name)
        return Sentence(text, OCCUPATION, base, (SentencePerson(name, person.attribute, person.label),))
    if found := _TRAIT.fullmatch(text):
        beginning, trait, someone = found.groups()
        gender = _GENDER_OF.get(someone.casefold())
        person = SentencePerson(trait, "gender", gender) if gender else _asked_last(trait)
        return Sentence(text, CHARACTERISTIC, f"{beginning} {person.name} {_PERSON}", (person,))
    return Sentence(text, UNKNOWN_CATEGORY, text, (SentencePerson(text),))


def in_order(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Sentences in the order of `prompts.explicit_prompts`, so that their prompts have the same ids.

    By category; those that ask for nobody first, as they come; then by their base's place and what they ask for.
    """
    listed = list(sentences)
    categories = (OCCUPATION, CHARACTERISTIC, SOCIAL_RELATION, UNKNOWN_CATEGORY)
    place = {sentence.text: number for number, sentence in enumerate(listed) if not sentence.asks}

    def order(numbered: tuple[int, Sentence]) -> tuple[int, bool, int, tuple[int, ...], int]:
        number, sentence = numbered
        of_base = place.get(sentence.base, len(listed))
        return categories.index(sentence.category), sentence.asks, of_base, sentence.order(), number

    return [sentence for _, sentence in sorted(enumerate(listed), key=order)]


def _word(category: str, name: str, asked: str, *, side: str) -> str:
    if category == CHARACTERISTIC:
        return f"{name} {({'male': 'man', 'female': 'woman'}).get(asked, asked)}".strip()
    whole = f"{asked} {name}".strip()
    return f"{whole} at {side}" if side else whole


@cache
def _asked_for() -> dict[tuple[str, str], str]:
    """By attribute and class, the word for it, without case or hyphen."""
    return {
        (attribute, label): _plain(word)
        for attribute, words in asking_words().items()
        for label, word in words.items()
    }


def _plain(text: str) -> str:
    return text.casefold().replace("-", " ")


def _asked_first(phrase: str) -> SentencePerson:
    """`East Asian Dancer`: the class comes first."""
    for (attribute, label), word in _asked_for().items():
        if _plain(phrase).startswith(f"{word} "):
            return SentencePerson(phrase[len(word) + 1 :], attribute, label)
    return SentencePerson(phrase)


def _asked_last(phrase: str) -> SentencePerson:
    """`rich East Asian`: the class comes last."""
    for (attribute, label), word in _asked_for().items():
        if _plain(phrase).endswith(f" {word}"):
            return SentencePerson(phrase[: -len(word) - 1], attribute, label)
    return SentencePerson(phrase)
