"""Prompts from BIGbench's reference files: each key is a prompt.

Source: BIGbench, section 2 (occupations, characteristics, social relations) and its released `*_gt.json`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from detector_bench.dataset.text_table import Findings
from detector_bench.errors import ConfigError, Problem
from detector_bench.prompt_lists.prompt_list import ListCell, Prompt, check_text, read_json_object

REFERENCE_ATTRIBUTES = frozenset({"gender", "age", "race"})
IMAGEBITE_KEYS = frozenset({"requirements", "ethical_concerns", "dimensions"})
UNKNOWN_CATEGORY = "unknown"

CHARACTERISTIC, OCCUPATION, SOCIAL_RELATION = "characteristic", "occupation", "social_relation"

_OPEN = {"gender": "", "age": "", "race": ""}
_ONE_PERSON = (
    (CHARACTERISTIC, re.compile(r"a photo of an? (.+) person", re.IGNORECASE)),
    (OCCUPATION, re.compile(r"a photo of one (.+)", re.IGNORECASE)),
)
_PERSON_AT_SIDE = r"\b(?:one|another|an?) ((?:(?!\bwith\b).)+? at {side})\b"


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
            prompts += [Prompt(SOCIAL_RELATION, _person_at(side, text), text, stated=_OPEN) for side in subjects]
        else:
            prompts.append(_one_person(text))
    findings.add_kind(wrong)
    if not content:
        findings.add(ListCell(path.name, None, "", "{}").problem("no prompts", accepted="prompts as keys"))
    findings.raise_if_any()
    return prompts, [_note(n_pairs)] if n_pairs else []


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
            return Prompt(category, found.group(1), text, stated=_OPEN)
    return Prompt(UNKNOWN_CATEGORY, text, text, stated=_OPEN)


def _person_at(side: str, text: str) -> str:
    found = re.search(_PERSON_AT_SIDE.format(side=re.escape(side)), text, re.IGNORECASE)
    return found.group(1) if found else f"{text} ({side})"


def _note(n_pairs: int) -> str:
    each = "1 prompt asks" if n_pairs == 1 else f"{n_pairs} prompts ask"
    return (
        f"{each} for two people: each has a row per subject with the same sentence. Generate its image once, cut "
        "it into the subjects' halves, and list each half in images.csv under its subject's prompt_id."
    )
