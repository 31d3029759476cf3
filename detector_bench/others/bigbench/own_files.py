"""Reads and writes the tables that a user can bring instead of BIGbench's files (CSV or Parquet).

references:  prompt_id, attribute, class, share
weights:     prompt_id, weight, and optionally category and acquired_attribute
pairs:       advantageous, disadvantageous, weight
requested:   prompt_id, attribute, class
names:       prompt_id, bigbench_prompt
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from detector_bench.dataset.consensus import as_numbers
from detector_bench.dataset.table_reading import SUFFIXES, read_table
from detector_bench.dataset.text_table import Findings, TextTable, shorten
from detector_bench.errors import Problem, nearest_hint
from detector_bench.others.bigbench.references import (
    PROTECTED,
    SUM_TOLERANCE,
    Pair,
    ReferenceNames,
    References,
    accepted_words,
)
from detector_bench.vocabulary import ALL

REFERENCE_COLUMNS = ("prompt_id", "attribute", "class", "share")
WEIGHT_COLUMNS = ("prompt_id", "weight")
SCOPE_COLUMNS = ("category", "acquired_attribute")
PAIR_COLUMNS = ("advantageous", "disadvantageous", "weight")
REQUEST_COLUMNS = ("prompt_id", "attribute", "class")
NAME_COLUMNS = ("prompt_id", "bigbench_prompt")

_POSITIVE = "a number above 0"


class _Records:
    """The records of a file; mistakes are kept with row, column and value."""

    def __init__(self, path: Path, required: tuple[str, ...], findings: Findings, optional: tuple[str, ...] = ()):
        self.findings = findings
        self._table: TextTable | None = None
        self.columns: dict[str, list[str]] = {}
        if not path.is_file():
            findings.add(Problem(str(path), "the file is missing", accepted=f"columns {', '.join(required)}"))
            return
        if path.suffix not in SUFFIXES:
            findings.add(Problem(path.name, "neither CSV nor Parquet", accepted=" or ".join(SUFFIXES)))
            return
        table = read_table(path.parent, path.stem, required=required, optional=optional, findings=findings)
        if table is None or not table.has(*required):
            return
        self._table = table
        self.columns = {name: table.column(name).to_pylist() for name in table.columns}
        if len(table) == 0:
            findings.add(Problem(path.name, "the file has no records", accepted="a row below the header"))

    def __iter__(self) -> Iterator[int]:
        return iter(range(0 if self._table is None else len(self._table)))

    def text(self, column: str, record: int) -> str:
        return self.columns[column][record]

    def wrong(self, column: str, record: int, message: str, *, accepted: str, value: str | None = None) -> None:
        if self._table is None:
            raise ValueError("no table, so no record of it")
        shown = shorten(self.text(column, record) if value is None else value)
        self.findings.add(Problem(self._table.file, message, self._table.row(record), column, shown, accepted))

    def name(self, column: str, record: int) -> str | None:
        text = self.text(column, record)
        if text.strip() and text == text.strip():
            return text
        self.wrong(column, record, "empty, or blanks around the text", accepted="a name")
        return None

    def numbers(self, column: str) -> list[float]:
        """NaN where the text is no number."""
        return [] if self._table is None else as_numbers(self._table.column(column)).tolist()

    def position(self, record: int) -> tuple[str, int] | None:
        """Attribute and position of the class."""
        attribute, label = self.text("attribute", record), self.text("class", record)
        if attribute not in PROTECTED:
            self.wrong("attribute", record, "unknown attribute", accepted=", ".join(PROTECTED))
            return None
        words = accepted_words(attribute)
        if label not in words:
            accepted = f"{', '.join(words)}; {nearest_hint(label, words)}"
            self.wrong("class", record, f"unknown class of {attribute}", accepted=accepted)
            return None
        return attribute, words[label]

    def is_first(self, seen: dict[Any, int], key: Hashable, record: int, *, column: str) -> bool:
        """Whether no earlier record has the key; otherwise that is a mistake."""
        if key not in seen:
            seen[key] = record
            return True
        row = None if self._table is None else self._table.row(seen[key])
        self.wrong(column, record, "given twice", accepted=f"each once; row {row} has it")
        return False


def read_own_references(path: Path) -> References:
    """Read reference shares, a row per prompt, attribute and class. An attribute may be absent from a prompt.

    Raises:
        DataError: all mistakes at once: unknown attributes and classes, shares outside 0 to 1, a class that is
            missing or given twice, shares that do not add up to 1.
    """
    findings = Findings()
    records = _Records(path, REFERENCE_COLUMNS, findings)
    seen: dict[tuple[str, str, int], int] = {}
    shares: dict[tuple[str, str], dict[int, float]] = {}
    wrong: set[tuple[str, str]] = set()
    for record, share in zip(records, records.numbers("share"), strict=True):
        prompt_id, place = records.name("prompt_id", record), records.position(record)
        if prompt_id is None or place is None:
            wrong.add((records.text("prompt_id", record), records.text("attribute", record)))
            continue
        attribute, position = place
        if not 0 <= share <= 1:
            records.wrong("share", record, "no share", accepted="a number from 0 to 1")
            wrong.add((prompt_id, attribute))
        elif records.is_first(seen, (prompt_id, attribute, position), record, column="class"):
            shares.setdefault((prompt_id, attribute), {})[position] = share
    whole: dict[str, dict[str, tuple[float, ...]]] = {}
    for (prompt_id, attribute), found in shares.items():
        record = seen[prompt_id, attribute, next(iter(found))]
        if (prompt_id, attribute) not in wrong and _is_whole(records, record, attribute, found):
            total = sum(found.values())
            whole.setdefault(prompt_id, {})[attribute] = tuple(
                found[position] / total for position in range(len(found))
            )
    findings.raise_if_any()
    return References(whole, _names_of(whole))


def _is_whole(records: _Records, record: int, attribute: str, found: Mapping[int, float]) -> bool:
    classes = PROTECTED[attribute].classes
    of_what = f"{attribute} of {records.text('prompt_id', record)!r}"
    if missing := [label for position, label in enumerate(classes) if position not in found]:
        accepted = f"a share, 0 included, for each of {', '.join(classes)}"
        value = ", ".join(missing)
        records.wrong("class", record, f"classes without a share, {of_what}", value=value, accepted=accepted)
        return False
    total = sum(found.values())
    if abs(total - 1) > SUM_TOLERANCE:
        message = f"shares do not add up to 1, {of_what}"
        records.wrong("share", record, message, value=f"{total:.6g}", accepted="a sum of 1")
        return False
    return True


def _names_of(prompt_ids: Mapping[str, object]) -> ReferenceNames:
    same = {prompt_id: prompt_id for prompt_id in prompt_ids}
    return ReferenceNames(same, same)


class OwnWeights(NamedTuple):
    """What a table of weights says, by prompt id."""

    weights: dict[str, float]
    categories: dict[str, str]
    acquired: dict[str, str]
    """Acquired attributes, such as occupation, characteristic or social_relation."""


def read_own_weights(path: Path) -> OwnWeights:
    """Read weights and, where the columns are there, categories and acquired attributes; an empty one is none.

    Raises:
        DataError: all mistakes at once.
    """
    findings = Findings()
    found = OwnWeights({}, {}, {})
    names = dict(zip(SCOPE_COLUMNS, found[1:], strict=True))
    records = _Records(path, WEIGHT_COLUMNS, findings, optional=SCOPE_COLUMNS)
    seen: dict[str, int] = {}
    for record, weight in zip(records, records.numbers("weight"), strict=True):
        prompt_id = records.name("prompt_id", record)
        if prompt_id is None or not records.is_first(seen, prompt_id, record, column="prompt_id"):
            continue
        if not 0 < weight < math.inf:
            records.wrong("weight", record, "no weight", accepted=_POSITIVE)
        found.weights[prompt_id] = weight
        for column, name_of in names.items():
            name = records.text(column, record).strip() if column in records.columns else ""
            if name == ALL:
                records.wrong(column, record, "reserved name", accepted=f"any name but {ALL!r}")
            elif name:
                name_of[prompt_id] = name
    findings.raise_if_any()
    return found


def read_own_pairs(path: Path) -> tuple[Pair, ...]:
    """Read pairs of prompts.

    Raises:
        DataError: all mistakes at once.
    """
    findings = Findings()
    records = _Records(path, PAIR_COLUMNS, findings)
    seen: dict[tuple[str, str], int] = {}
    pairs: list[Pair] = []
    for record, weight in zip(records, records.numbers("weight"), strict=True):
        better, worse = (records.name(column, record) for column in PAIR_COLUMNS[:2])
        if better is None or worse is None:
            continue
        if better == worse:
            records.wrong("disadvantageous", record, "a pair of one prompt", accepted="another prompt")
        elif not 0 < weight < math.inf:
            records.wrong("weight", record, "no weight", accepted=_POSITIVE)
        elif records.is_first(seen, (better, worse), record, column="disadvantageous"):
            pairs.append(Pair(better, worse, weight))
    findings.raise_if_any()
    return tuple(pairs)


def read_requested(path: Path) -> dict[str, dict[str, int]]:
    """Read which classes prompts ask for; a prompt can ask for one class of several attributes.

    Returns:
        By prompt id and attribute: the position of the class among BIGbench's.

    Raises:
        DataError: all mistakes at once.
    """
    findings = Findings()
    records = _Records(path, REQUEST_COLUMNS, findings)
    seen: dict[tuple[str, str], int] = {}
    requested: dict[str, dict[str, int]] = {}
    for record in records:
        prompt_id, place = records.name("prompt_id", record), records.position(record)
        if prompt_id is None or place is None:
            continue
        attribute, position = place
        if records.is_first(seen, (prompt_id, attribute), record, column="attribute"):
            requested.setdefault(prompt_id, {})[attribute] = position
    findings.raise_if_any()
    return requested


def read_prompt_names(path: Path, names: ReferenceNames) -> dict[str, str]:
    """Read which prompt of the references each prompt of the image set is.

    Returns:
        By the image set's prompt id, the references' prompt id.

    Raises:
        DataError: all mistakes at once: a name that no reference has, or a sentence about two people.
    """
    findings = Findings()
    records = _Records(path, NAME_COLUMNS, findings)
    seen: dict[str, int] = {}
    found: dict[str, str] = {}
    for record in records:
        prompt_id, name = records.name("prompt_id", record), records.name("bigbench_prompt", record)
        if prompt_id is None or name is None:
            continue
        ids = names.of_name(name)
        if len(ids) != 1:
            words = [names.words[each] for each in ids] or list(names.words.values())
            message = "this prompt has two people" if ids else "no reference has this name"
            accepted = f"one of {', '.join(map(repr, words))}" if ids else nearest_hint(name, words)
            records.wrong("bigbench_prompt", record, message, accepted=accepted)
        elif records.is_first(seen, prompt_id, record, column="prompt_id"):
            found[prompt_id] = ids[0]
    findings.raise_if_any()
    return found


def reference_table(references: References) -> pd.DataFrame:
    """Reference shares as `read_own_references` reads them."""
    rows = [
        (prompt_id, attribute, label, share)
        for prompt_id, by_attribute in references.shares.items()
        for attribute, shares in by_attribute.items()
        for label, share in zip(PROTECTED[attribute].classes, shares, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(REFERENCE_COLUMNS))


def weight_table(references: References) -> pd.DataFrame:
    """Weights, categories and acquired attributes as `read_own_weights` reads them."""
    rows = [
        (prompt_id, weight, references.categories.get(prompt_id, ""), references.acquired.get(prompt_id, ""))
        for prompt_id, weight in references.weights.items()
    ]
    return pd.DataFrame(rows, columns=[*WEIGHT_COLUMNS, *SCOPE_COLUMNS])


def pair_table(references: References) -> pd.DataFrame:
    """Pairs of prompts as a table that `read_own_pairs` reads."""
    return pd.DataFrame(list(references.pairs), columns=list(PAIR_COLUMNS))
