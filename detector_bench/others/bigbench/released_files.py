"""Reads BIGbench's JSON files as they are; what is wrong is mended where it is clear how, and always reported.

Files: `oc_gt.json`, `char_gt.json`, `sr_gt.json` (reference shares), `weight.json`, `category.json`, `eta.json`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detector_bench.dataset.text_table import Findings, shorten
from detector_bench.errors import Problem
from detector_bench.others.bigbench.prompts import UNKNOWN_CATEGORY, read_reference_prompts
from detector_bench.others.bigbench.references import (
    PROTECTED,
    SUM_TOLERANCE,
    Pair,
    ReferenceNames,
    References,
    listing,
    prompt_id_of,
)
from detector_bench.prompt_lists.prompt_list import PromptList, read_json_object

REFERENCE_FILES = ("oc_gt.json", "char_gt.json", "sr_gt.json")
WEIGHTS_FILE, CATEGORIES_FILE, PAIRS_FILE = "weight.json", "category.json", "eta.json"

_MISNAMED_CLASSES = {"60 years old or older": "60+"}
_OTHER_WORDS = {"ugly": "unattractive"}
"""Words that weights, categories and pairs have where the references have another."""

_ROUNDING = 1e-9


_TRUTH_FOLDERS = ("", "data/truth", "truth")
_PROMPT_FOLDER = "prompt"


def truth_folder(folder: Path) -> Path:
    """Where references, weights, categories and pairs lie: in a folder, or in `data/truth` of the whole program.

    The folder of the program's prompts, and those in it, lead there, too.
    """
    found = [folder]
    if _PROMPT_FOLDER in (parts := folder.absolute().parts):
        found.append(Path(*parts[: len(parts) - 1 - parts[::-1].index(_PROMPT_FOLDER)]))
    for above in found:
        for name in _TRUTH_FOLDERS:
            if any((above / name / file).is_file() for file in (*REFERENCE_FILES, WEIGHTS_FILE)):
                return above / name
    return folder


class _Place(NamedTuple):
    """Where something stands in a JSON file."""

    file: str
    keys: str

    def below(self, key: str) -> _Place:
        return _Place(self.file, f"{self.keys}.{key}")

    def problem(self, message: str, *, value: object = None, accepted: str) -> Problem:
        shown = None if value is None else shorten(str(value))
        return Problem(self.file, message, column=self.keys, value=shown, accepted=accepted)

    def note(self, message: str) -> str:
        return f"{self.file}: {self.keys}: {message}"


def read_released_references(paths: Sequence[Path]) -> References:
    """Read files with reference shares.

    A prompt for two people has two entries, its subjects: `employer_at_left` and `employee_at_right`. Mended and
    noted: a class under a wrong name, and a negative share (0 instead; the others are scaled to 1).

    Raises:
        DataError: no such JSON, unknown or missing classes, shares that do not add up to 1, a prompt in two files.
    """
    shares: dict[str, dict[str, tuple[float, ...]]] = {}
    words: dict[str, str] = {}
    sentences: dict[str, str] = {}
    acquired: dict[str, str] = {}
    subjects: set[str] = set()
    notes: list[str] = []
    findings = Findings()
    for path in paths:
        prompts = PromptList.of(path.name, read_reference_prompts(path)[0]).prompts
        for (prompt_id, prompt), (place, given, is_subject) in zip(prompts.items(), _entries(path), strict=True):
            if prompt_id in shares:
                findings.add(place.problem("prompt that another entry has", value=prompt_id, accepted="each once"))
            shares[prompt_id] = {
                attribute: found
                for attribute, by_class in given.items()
                if (found := _shares(place.below(attribute), attribute, by_class, findings, notes)) is not None
            }
            words[prompt_id], sentences[prompt_id] = prompt.word, prompt.text
            if prompt.category != UNKNOWN_CATEGORY:
                acquired[prompt_id] = prompt.category
            if is_subject:
                subjects.add(prompt_id)
    findings.raise_if_any()
    names = ReferenceNames(words, sentences)
    return References(shares, names, frozenset(subjects), acquired=acquired, notes=tuple(notes))


def _entries(path: Path) -> Iterator[tuple[_Place, Mapping[str, Any], bool]]:
    """The shares of each person, in the order of `read_reference_prompts`, which has checked their form."""
    for sentence, given in read_json_object(path).items():
        place = _Place(path.name, sentence)
        if given.keys() <= PROTECTED.keys():
            yield place, given, False
        else:
            for side, each in given.items():
                yield place.below(side), each, True


def _shares(
    place: _Place, attribute: str, given: Mapping[str, Any], findings: Findings, notes: list[str]
) -> tuple[float, ...] | None:
    classes = PROTECTED[attribute].classes
    accepted = f"each of {', '.join(classes)} once"
    named: dict[str, float] = {}
    for key, share in given.items():
        label = _MISNAMED_CLASSES.get(key, key) if attribute == "age" else key
        if label not in classes or label in named:
            findings.add(place.problem("unknown class, or one given twice", value=key, accepted=accepted))
            return None
        if not _is_number(share):
            findings.add(place.below(key).problem("share that is no number", value=share, accepted="0 to 1"))
            return None
        if label != key:
            notes.append(place.note(f"{key!r} is taken for {label!r}"))
        named[label] = float(share)
    if missing := [label for label in classes if label not in named]:
        findings.add(place.problem("classes without a share", value=", ".join(missing), accepted=accepted))
        return None
    total = sum(named.values())
    if abs(total - 1) > SUM_TOLERANCE:
        findings.add(place.problem("shares do not add up to 1", value=f"{total:.6g}", accepted="a sum of 1"))
        return None
    negative = {label: share for label, share in named.items() if share < -_ROUNDING}
    kept = {label: max(share, 0.0) for label, share in named.items()}
    for label, share in negative.items():
        notes.append(
            place.note(
                f"the share of {label!r} is negative, {share:.6g}: 0 instead, and the others divided by "
                f"{sum(kept.values()):.6g}"
            )
        )
    return tuple(kept[label] / sum(kept.values()) for label in classes)


def read_released_weights(path: Path, names: ReferenceNames) -> tuple[dict[str, float], list[str]]:
    """Read prompt weights; the two people of a picture get half of its weight each.

    Returns:
        Weights by prompt id, and notes: sentences that match no reference or were taken for another, references
        without a weight.

    Raises:
        DataError: no such JSON, or a weight that is no positive number.
    """
    findings = Findings()
    weights: dict[str, float] = {}
    notes: list[str] = []
    for sentence, weight in read_json_object(path).items():
        place = _Place(path.name, sentence)
        if not _is_number(weight) or weight <= 0:
            findings.add(place.problem("weight", value=weight, accepted="a positive number"))
            continue
        ids = names.of_sentence(sentence)
        if not ids and (other := _with_other_word(sentence)) is not None and (ids := names.of_sentence(other)):
            notes.append(place.note(f"is taken for {other!r}"))
        if not ids:
            notes.append(place.note("matches no reference; left out"))
        for prompt_id in ids:
            if prompt_id in weights:
                findings.add(place.problem("prompt that another entry has", value=prompt_id, accepted="each once"))
            weights[prompt_id] = weight / len(ids)
    findings.raise_if_any()
    if missing := [prompt_id for prompt_id in names.words if prompt_id not in weights]:
        notes.append(f"{path.name}: no weight for the references {listing(missing)}")
    return weights, notes


def _with_other_word(sentence: str) -> str | None:
    for word, other in _OTHER_WORDS.items():
        if f" {word} " in sentence:
            return sentence.replace(f" {word} ", f" {other} ")
    # The references and weights say "human" of a boxer and a veterinarian, and the prompts do not.
    return sentence.replace(" human ", " ") if " human " in sentence else None


def read_released_categories(path: Path, names: ReferenceNames) -> tuple[dict[str, str], list[str]]:
    """Read the categories of words. The name of one person of a picture (`Employer`) stands for both.

    Returns:
        Categories by prompt id, and notes: names that match no reference, were taken for another or are part of
        several, references without a category.

    Raises:
        DataError: no such JSON, no lists of words, or a prompt in two categories.
    """
    findings = Findings()
    categories: dict[str, str] = {}
    notes: list[str] = []
    for category, listed in read_json_object(path).items():
        place = _Place(path.name, category)
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            findings.add(place.problem("no list of words", value=listed, accepted='["Actor", "Poet"]'))
            continue
        for name in listed:
            found, taken = _found(names, name, place, notes, also_of_two=True)
            for prompt_id in names.partners(found) if taken else []:
                if categories.setdefault(prompt_id, category) != category:
                    findings.add(place.problem("prompt in two categories", value=name, accepted="each in one"))
    findings.raise_if_any()
    if missing := [prompt_id for prompt_id in names.words if prompt_id not in categories]:
        notes.append(f"{path.name}: no category for the references {listing(missing)}")
    return categories, notes


def read_released_pairs(path: Path, names: ReferenceNames) -> tuple[tuple[Pair, ...], list[str]]:
    """Read pairs of an advantageous and a disadvantageous prompt.

    Returns:
        The pairs, and notes: names that match no reference, were taken for another or are part of several.

    Raises:
        DataError: no such JSON, an entry that is no pair, or a weight that is no positive number.
    """
    findings = Findings()
    pairs: list[Pair] = []
    notes: list[str] = []
    for key, entry in read_json_object(path).items():
        place = _Place(path.name, key)
        if not _is_pair(entry):
            accepted = '[["rich", "poor"], 5], two words and a positive weight'
            findings.add(place.problem("no weighted pair", value=entry, accepted=accepted))
            continue
        (better, worse), weight = entry
        found = [_found(names, name, place, notes)[0] for name in (better, worse)]
        pairs.append(Pair(found[0], found[1], float(weight)))
    findings.raise_if_any()
    return tuple(pairs), notes


def _is_pair(entry: Any) -> bool:
    match entry:
        case [[str(better), str(worse)], int() | float() as weight]:
            return better != worse and _is_number(weight) and weight > 0
    return False


def _found(
    names: ReferenceNames, name: str, place: _Place, notes: list[str], *, also_of_two: bool = False
) -> tuple[str, bool]:
    """The id that a word stands for, and whether a reference has it; whatever is not plain is noted."""
    others = [_OTHER_WORDS.get(name, ""), f"human {name}", name.removesuffix("s")]
    if also_of_two:
        others += [f"{name} at left", f"human {name} at left"]
    parts = names.containing(name)
    among = f"; as a part it is in {parts} prompts" if parts > 1 else ""
    for word in (name, *others):
        prompt_id = prompt_id_of(word)
        if prompt_id in names.words:
            if names.words[prompt_id] != name:
                notes.append(place.note(f"{name!r} is taken for {names.words[prompt_id]!r}{among}"))
            elif among:
                notes.append(place.note(f"{name!r} means only the whole word{among}"))
            return prompt_id, True
    notes.append(place.note(f"{name!r} matches no reference{among}"))
    return prompt_id_of(name), False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
