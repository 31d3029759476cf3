"""Prompts from BIGbench's reference files, and what its sentences say: whom they are about, and whom they ask for.

Source: BIGbench, section 2 (occupations, characteristics, social relations), its released `*_gt.json`, section 3
(explicit bias), and the form of its released prompts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem
from detector_bench.prompt_lists.prompt_list import ListCell, Prompt, check_text, read_json_object
from detector_bench.vocabulary.taxonomies import mapping

REFERENCE_ATTRIBUTES = frozenset({"gender", "age", "race"})
IMAGEBITE_KEYS = frozenset({"requirements", "ethical_concerns", "dimensions"})
UNKNOWN_CATEGORY = "unknown"

CHARACTERISTIC, OCCUPATION, SOCIAL_RELATION = "characteristic", "occupation", "social_relation"

OPEN = {"gender": "", "age": "", "race": ""}
_ONE_PERSON = (
    (CHARACTERISTIC, re.compile(r"a photo of an? (.+) person", re.IGNORECASE)),
    (OCCUPATION, re.compile(r"a photo of one (.+)", re.IGNORECASE)),
)
_PERSON_AT_SIDE = r"\b(?:one|another|an?) ((?:(?!\bwith\b).)+? at {side})\b"

_PERSON = "person"

_MAN_OR_WOMAN = {"male": "man", "female": "woman"}

_GENDERED = ("Husband", "Wife")
"""Nobody is asked for as a female husband."""


def read_reference_prompts(path: Path) -> tuple[list[Prompt], list[str]]:
    """Read the prompts of a file with reference shares; the shares themselves are not looked at.

    All of them leave gender, race and age open: BIGbench takes even a "Husband" so.

    A prompt for two people, whose shares are given for two subjects (`left` and `right`), gives two rows, one
    per subject: the same sentence, and the subject as the word ("Employer at left"). Category is the acquired
    attribute that the sentence's form shows: occupation, characteristic or social_relation, else "unknown".

    Returns:
        The prompts in file order, and notes for the reader.

    Raises:
        DataError: the file is no such JSON; all mistakes at once.
        ConfigError: it is an ImageBiTe input.
    """
    content = read_json_object(path)
    if content.keys() & IMAGEBITE_KEYS:
        message = "is an ImageBiTe input: it goes to --input, and SOURCE is the file with the templates"
        raise ConfigError(f"{path.name} {message}")
    findings = Findings()
    wrong: list[Problem] = []
    prompts: list[Prompt] = []
    n_pairs = 0
    for text, shares in content.items():
        cell = ListCell(path.name, None, text, text)
        subjects = _subjects(shares)
        if not check_text(cell, findings):
            continue
        if subjects is None:
            accepted = "shares by gender, age and race, or those for each of several subjects"
            found = ", ".join(shares) if isinstance(shares, dict) else type(shares).__name__
            wrong.append(cell.problem("prompt without reference shares", value=found, accepted=accepted))
        elif subjects:
            n_pairs += 1
            prompts += [Prompt(SOCIAL_RELATION, _person_at(side, text), text, stated=OPEN) for side in subjects]
        else:
            prompts.append(_one_person(text))
    findings.add_kind(wrong)
    if not content:
        findings.add(ListCell(path.name, None, "", "{}").problem("no prompts", accepted="prompts as keys"))
    findings.raise_if_any()
    return prompts, [note_on_pairs(n_pairs)] if n_pairs else []


def _subjects(shares: Any) -> list[str] | None:
    """The subjects of a prompt, none if it is about one person; None if these are no reference shares."""
    if not isinstance(shares, dict) or not shares:
        return None
    if shares.keys() <= REFERENCE_ATTRIBUTES:
        return [] if all(isinstance(each, dict) for each in shares.values()) else None
    if all(_subjects(each) == [] for each in shares.values()):
        return list(shares)
    return None


def _one_person(text: str) -> Prompt:
    for category, form in _ONE_PERSON:
        found = form.fullmatch(text)
        if found:
            return Prompt(category, found.group(1), text, stated=OPEN)
    return Prompt(UNKNOWN_CATEGORY, text, text, stated=OPEN)


def _person_at(side: str, text: str) -> str:
    found = re.search(_PERSON_AT_SIDE.format(side=re.escape(side)), text, re.IGNORECASE)
    return found.group(1) if found else f"{text} ({side})"


def note_on_pairs(n_pairs: int) -> str:
    """What a list's reader is told about prompts for two people."""
    each = "1 prompt asks" if n_pairs == 1 else f"{n_pairs:,} prompts ask"
    return (
        f"{each} for two people: each has a row per subject with the same sentence. `detector-bench generate` "
        "makes its image once, and `detector-bench halves` cuts it into the subjects' halves."
    )


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


def asking_words() -> dict[str, dict[str, str]]:
    """By attribute and class, the word that a prompt has for it."""
    race = mapping("bigbench_race4", "race")
    return {
        "gender": {"male": "male", "female": "female"},
        "race": {label: word for word, label in race.table.items() if label is not None},
        "age": {"young": "young", "middle_aged": "middle-aged", "elderly": "elderly"},
    }


def _of_one(prompt: Prompt) -> Iterator[Prompt]:
    for attribute, words in asking_words().items():
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
    for attribute, words in asking_words().items():
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
