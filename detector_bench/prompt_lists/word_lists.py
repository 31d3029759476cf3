"""Prompts from a list of words and one template per category, as in `labels/lyu2025` and `labels/biaspainter`."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import numpy as np

from detector_bench.dataset.prompts import check_statements, check_weights
from detector_bench.dataset.table_reading import SUFFIXES, read_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem, nearest_hint
from detector_bench.prompt_lists.prompt_list import ListCell, Prompt, check_text, report_repeats
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import STATED_COLUMNS, STATED_PREFIX, WEIGHT_COLUMN

WORD = "[word]"
"""The placeholder of a template."""

ARTICLE = "a/an"
"""Before the placeholder: whichever article the word takes."""

_PLACEHOLDER = re.compile(r"\[[^\]]*\]?|\][^\[]*|\{[^}]*\}?")


def read_word_prompts(words: Path, templates: Path) -> list[Prompt]:
    """Fill the template of each word's category with the word.

    Args:
        words: CSV or Parquet with the columns `category` and `word`, and optionally `stated_*` and `weight`, as in
            a prompt table; other columns are not read.
        templates: CSV or Parquet with the columns `category` and `template`, one sentence per category, with
            `[word]` once, and optionally `stated_*`. `a/an [word]` takes the article by sound.

    Raises:
        DataError: all mistakes in both files at once.
    """
    findings = Findings()
    sentence_table = _read(templates, "template", findings)
    sentences = _sentences(sentence_table, findings)
    table = _read(words, "word", findings, weights=True)
    cells = _word_cells(table, findings) if table is not None else []
    for category, _ in cells:
        if category.text not in sentences and sentences:
            hint = nearest_hint(category.text, sentences)
            findings.add(category.problem(f"category without a template in {templates.name}", accepted=hint))
    findings.raise_if_any()
    stated = _statements(table, sentence_table, findings)
    weights = _weights(table)
    findings.raise_if_any()
    return [
        Prompt(
            category.text, cell.text, _filled(sentences[category.text].text, cell.text), stated=said, weight=weight
        )
        for (category, cell), said, weight in zip(cells, stated, weights, strict=True)
    ]


def _statements(words: TextTable | None, templates: TextTable | None, findings: Findings) -> list[dict[str, str]]:
    """What the prompt of each word states: what its row says, and the template of its category."""
    if words is None or templates is None:
        return []
    stated: list[dict[str, str]] = [{} for _ in range(len(words))]
    categories = words.column("category").to_pylist()
    for attribute, column in STATED_COLUMNS.items():
        if not words.has(column) and not templates.has(column):
            continue
        of_template = dict(zip(templates.column("category").to_pylist(), _column(templates, column), strict=True))
        contradicting = []
        for index, (category, said) in enumerate(zip(categories, _column(words, column), strict=True)):
            by_template = of_template[category]
            stated[index][attribute] = said or by_template
            if said and by_template and said != by_template:
                contradicting.append(index)
        findings.add_rows(
            words,
            column,
            np.array(contradicting, dtype=np.intp),
            message=f"the template of its category in {templates.file} states another class of {attribute}",
            accepted=lambda index, known=of_template: repr(known[categories[index]]),  # type: ignore[misc]
        )
    return stated


def _column(table: TextTable, column: str) -> list[str]:
    return table.column(column).to_pylist() if table.has(column) else [""] * len(table)


def _weights(words: TextTable | None) -> list[float | None]:
    if words is None:
        return []
    return [float(text) if text else None for text in _column(words, WEIGHT_COLUMN)]


def _read(path: Path, column: str, findings: Findings, *, weights: bool = False) -> TextTable | None:
    if path.suffix not in SUFFIXES:
        findings.add(Problem(path.name, "neither CSV nor Parquet", accepted=" or ".join(SUFFIXES)))
        return None
    if not path.is_file():
        findings.add(Problem(path.name, "the file is missing", accepted=f"columns category and {column}"))
        return None
    table = read_table(
        path.parent,
        path.stem,
        required=("category", column),
        optional=(*STATED_COLUMNS.values(), *([WEIGHT_COLUMN] if weights else [])),
        numbers=(WEIGHT_COLUMN,),
        closed_prefix=STATED_PREFIX,
        findings=findings,
    )
    if table is None or not table.has("category", column):
        return None
    check_statements(table, findings)
    check_weights(table, findings)
    if len(table) == 0:
        findings.add(Problem(path.name, "the file has no records", accepted="at least one row below the header"))
    return table


def _cells(table: TextTable, column: str) -> list[ListCell]:
    return [
        ListCell(table.file, table.row(index), column, text)
        for index, text in enumerate(table.column(column).to_pylist())
    ]


def _checked_pairs(table: TextTable, column: str, findings: Findings) -> list[tuple[ListCell, ListCell]]:
    pairs = list(zip(_cells(table, "category"), _cells(table, column), strict=True))
    kept = []
    for category, cell in pairs:
        if category.text == ALL:
            findings.add(category.problem("reserved name", accepted=f"any name but {ALL!r}"))
        both = [check_text(category, findings), check_text(cell, findings)]
        if all(both):
            kept.append((category, cell))
    return kept


def _word_cells(table: TextTable, findings: Findings) -> list[tuple[ListCell, ListCell]]:
    pairs = _checked_pairs(table, "word", findings)
    repeats = (((category.text, cell.text.casefold()), cell) for category, cell in pairs)
    report_repeats(repeats, findings, what="word in its category")
    return pairs


def _sentences(table: TextTable | None, findings: Findings) -> dict[str, ListCell]:
    if table is None:
        return {}
    pairs = _checked_pairs(table, "template", findings)
    report_repeats(((category.text, category) for category, _ in pairs), findings, what="category")
    for _, cell in pairs:
        _check_sentence(cell, findings)
    return {category.text: cell for category, cell in pairs}


def _check_sentence(cell: ListCell, findings: Findings) -> None:
    found = _PLACEHOLDER.findall(cell.text)
    unknown = [text for text in found if text != WORD]
    for text in unknown:
        findings.add(cell.problem("unknown placeholder", value=text, accepted=WORD))
    if not unknown and found.count(WORD) != 1:
        findings.add(cell.problem(f"{found.count(WORD)} placeholders", accepted=f"{WORD} exactly once"))
    if ARTICLE in cell.text.replace(f"{ARTICLE} {WORD}", WORD):
        message = f"{ARTICLE} that stands before no placeholder"
        findings.add(cell.problem(message, accepted=f"{ARTICLE} {WORD}"))


def _filled(sentence: str, word: str) -> str:
    return sentence.replace(f"{ARTICLE} {WORD}", f"{indefinite_article(word)} {word}").replace(WORD, word)


_SPELLED_LIKE_A_VOWEL = frozenset("AEFHILMNORSX")
"""Letters whose names begin with a vowel sound: ef, aitch, em, ..."""

_SAID_AS_WORDS = frozenset({"FIFA", "NASA", "NATO", "REM", "ROM", "SIM", "STEM", "SWAT"})
"""Short words in capitals that nobody spells out, and whose first letter's name would mislead."""

_SPELLED_OUT = re.compile(r"[A-Z]{2,4}s?|[A-Z]{1,4}\d+|[A-Za-z]")
_SILENT_H = re.compile(r"hour|honest|honou?r|heir")
_SOUNDS_LIKE_YOU_OR_WON = re.compile(
    r"e[uw]|on(?:e|es|ce|eself)(?![a-z])|ouija|uyghur"
    r"|unanim|uni(?!dent|n|m(?!o))|us[aeiou]|ut[aeio]|ur[aeiou]|ubi|ufo|ugand|uk[eru]"
)
_EIGHT_ELEVEN_EIGHTEEN = re.compile(r"8|1[18](?!\d)")


def indefinite_article(phrase: str) -> str:
    """Say whether "a" or "an" stands before a phrase: an hour, a university, a CEO, an MRI scan, an 80-year-old.

    The first word decides. Two to four capitals are spelled out letter by letter, as is a single letter before a
    hyphen or a number (an X-ray, an F1 driver). Words that dialects treat differently follow British use (a
    herbalist, a historian). The rule knows the usual exceptions, not all: for a word that it gets wrong, write the
    article into a template of your own.
    """
    first = re.search(r"[^\W_]+", phrase)
    if first is None:
        return "a"
    word = first.group()
    if word[0].isdigit():
        return "an" if _EIGHT_ELEVEN_EIGHTEEN.match(word) else "a"
    if _SPELLED_OUT.fullmatch(word) and word not in _SAID_AS_WORDS:
        return "an" if word[0].upper() in _SPELLED_LIKE_A_VOWEL else "a"
    bare = unicodedata.normalize("NFKD", word)[0].casefold() + word[1:].casefold()
    if _SILENT_H.match(bare):
        return "an"
    if _SOUNDS_LIKE_YOU_OR_WON.match(bare):
        return "a"
    return "an" if bare[0] in "aeiou" else "a"
