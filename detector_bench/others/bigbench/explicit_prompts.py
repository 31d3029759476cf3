"""BIGbench's explicit prompts: those of its references, each asking for a gender, a race or an age group.

Source: BIGbench, section 3 (explicit bias), and the form of its released prompts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from detector_bench.others.bigbench.prompts import CHARACTERISTIC, OCCUPATION, SOCIAL_RELATION
from detector_bench.prompt_lists.prompt_list import Prompt
from detector_bench.vocabulary.taxonomies import mapping

_PERSON = "person"
_MAN_OR_WOMAN = {"male": "man", "female": "woman"}
_GENDERED = ("Husband", "Wife")
"""Nobody is asked for as a female husband."""


def explicit_prompts(prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[str]]:
    """Prompts that ask for one class each: "a photo of one White Dancer", "a photo of a rich man".

    One per class for a prompt about one person. A prompt about two gets every combination of two classes of an
    attribute, each as two rows, as its base has. Each is made from one of `prompts`, and weighs as that one does.

    Args:
        prompts: as `read_reference_prompts` gives them.

    Returns:
        The explicit prompts, and notes for the reader.
    """
    made: list[Prompt] = []
    without = 0
    for _, group in itertools.groupby(prompts, key=lambda prompt: (prompt.category, prompt.text)):
        people = list(group)
        found = list(_of_one(people[0]) if people[0].category != SOCIAL_RELATION else _of_two(people))
        without += not found
        made += found
    notes = [f"{without:,} prompts of no known form have no explicit ones."] if without else []
    return made, notes


def _words() -> dict[str, dict[str, str]]:
    """By attribute and class, the word that a prompt has for it."""
    race = mapping("bigbench_race4", "race")
    return {
        "gender": {"male": "male", "female": "female"},
        "race": {label: word for word, label in race.table.items() if label is not None},
        "age": {"young": "young", "middle_aged": "middle-aged", "elderly": "elderly"},
    }


def _of_one(prompt: Prompt) -> Iterator[Prompt]:
    for attribute, words in _words().items():
        for label, asked in words.items():
            stated = dict(prompt.stated) | {attribute: label}
            if prompt.category == OCCUPATION:
                text = f"{prompt.text.removesuffix(prompt.word)}{asked} {prompt.word}"
                yield _explicit(prompt, f"{asked} {prompt.word}", text, stated)
            elif prompt.category == CHARACTERISTIC:
                someone = _MAN_OR_WOMAN[label] if attribute == "gender" else f"{asked} {_PERSON}"
                text = f"{prompt.text.removesuffix(_PERSON)}{someone}"
                yield _explicit(prompt, f"{prompt.word} {someone.removesuffix(_PERSON).strip()}", text, stated)


def _of_two(people: Sequence[Prompt]) -> Iterator[Prompt]:
    if any(person.word not in person.text for person in people):
        return
    for attribute, words in _words().items():
        if attribute == "gender" and any(name in person.word for person in people for name in _GENDERED):
            continue
        for labels in itertools.product(words, repeat=len(people)):
            text = people[0].text
            for person, label in zip(people, labels, strict=True):
                text = text.replace(person.word, f"{words[label]} {person.word}", 1)
            for person, label in zip(people, labels, strict=True):
                stated = dict(person.stated) | {attribute: label}
                yield _explicit(person, f"{words[label]} {person.word}", text, stated)


def _explicit(prompt: Prompt, word: str, text: str, stated: dict[str, str]) -> Prompt:
    return Prompt(prompt.category, word, text, stated=stated, base=(prompt.category, prompt.word, prompt.text))
