"""Shares that somebody states for prompts, such as labour statistics: a table of the user's, read and checked.

A row is the share of one class: `attribute, class, share`, and for which prompts it is meant: `prompt_id`, `word`
or `category`, the last of which may be `all`. Of several shares for one prompt and attribute the closest wins:
that of its id, then of its word, its category, of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from detector_bench.dataset.consensus import as_numbers
from detector_bench.dataset.table_reading import SUFFIXES, read_table
from detector_bench.dataset.text_table import Findings, TextTable, shorten
from detector_bench.errors import Problem, nearest_hint
from detector_bench.metrics.counts import FloatArray
from detector_bench.vocabulary import ALL

KEYS = ("prompt_id", "word", "category")
"""Columns that say for which prompts a share is meant, the closest first."""

COLUMNS = ("attribute", "class", "share")

SUM_TOLERANCE = 0.005
"""How far the shares of an attribute may be from adding up to 1: rounded statistics do not quite."""

_PLAIN_SUM = 1e-9
"""Sums this close to 1 differ from it by the computer's rounding alone."""


class _Group(NamedTuple):
    """The shares of one attribute for some prompts."""

    key: str
    """One of `KEYS`."""
    name: str
    attribute: str


@dataclass(frozen=True)
class StatedShares:
    """Stated shares by prompt, as arrays in the order of an image set's prompts."""

    shares: Mapping[str, FloatArray]
    """By attribute, `[prompt, class]`, adding up to 1; NaN for a prompt without. Attributes without any are not
    there."""
    notes: tuple[str, ...] = ()
    """What was done to the numbers."""


@dataclass
class _Read:
    """What the rows of the file say so far."""

    table: TextTable
    findings: Findings
    shares: dict[_Group, dict[str, float]] = field(default_factory=dict)
    rows: dict[tuple[_Group, str], int] = field(default_factory=dict)
    wrong: set[_Group] = field(default_factory=set)

    def problem(self, message: str, record: int, column: str, value: str, accepted: str) -> None:
        place = (self.table.file, message, self.table.row(record), column)
        self.findings.add(Problem(*place, shorten(value), accepted))


def read_stated_shares(path: Path, classes: Mapping[str, Sequence[str]], prompts: pd.DataFrame) -> StatedShares:
    """Read and check the file.

    Args:
        path: CSV or Parquet; columns beside the known ones, such as a source, are left alone.
        classes: by attribute (or pair of attributes, `gender x race`), the classes that need a share each.
        prompts: the image set's prompt table.

    Raises:
        DataError: all mistakes at once: unknown prompts, words, categories, attributes and classes; shares outside
            0 to 1; a class that is missing or stated twice; shares that do not add up to 1.
    """
    findings = Findings()
    table = _table(path, findings)
    if table is None:
        findings.raise_if_any()
        raise AssertionError("a file that cannot be read is a mistake")
    read = _Read(table, findings)
    known = {key: list(dict.fromkeys(prompts[key].astype(str))) for key in KEYS}
    known["category"].append(ALL)
    numbers = as_numbers(table.column("share"))
    for record in range(len(table)):
        _read_record(read, record, float(numbers[record]), classes, known)
    sums = [_check_whole(read, group, classes[group.attribute]) for group in read.shares]
    findings.raise_if_any()
    rounded = [each for each in sums if abs(each - 1) > _PLAIN_SUM]
    notes = []
    if rounded:
        totals = " to ".join(dict.fromkeys(f"{each:g}" for each in (min(rounded), max(rounded))))
        notes.append(
            f"{path.name}: {len(rounded)} of {len(sums)} sets of shares add up to {totals}; each was divided by "
            "its sum."
        )
    return StatedShares(_by_prompt(read.shares, classes, prompts), tuple(notes))


def _table(path: Path, findings: Findings) -> TextTable | None:
    if not path.is_file():
        findings.add(Problem(str(path), "the file is missing", accepted=f"columns {', '.join(COLUMNS)}"))
        return None
    if path.suffix not in SUFFIXES:
        findings.add(Problem(path.name, "neither CSV nor Parquet", accepted=" or ".join(SUFFIXES)))
        return None
    numbers = ("share",)
    table = read_table(path.parent, path.stem, required=COLUMNS, optional=KEYS, numbers=numbers, findings=findings)
    if table is None or not table.has(*COLUMNS):
        return None
    if not any(table.has(key) for key in KEYS):
        accepted = f"one or more of {', '.join(KEYS)}"
        findings.add(Problem(path.name, "no column says for which prompts", row=1, accepted=accepted))
        return None
    if len(table) == 0:
        findings.add(Problem(path.name, "the file has no records", accepted="a row below the header"))
        return None
    return table


def _read_record(
    read: _Read, record: int, share: float, classes: Mapping[str, Sequence[str]], known: Mapping[str, list[str]]
) -> None:
    table = read.table
    keys = {key: table.cell(key, record) for key in KEYS if table.has(key) and table.cell(key, record)}
    attribute, label = table.cell("attribute", record), table.cell("class", record)
    if len(keys) != 1:
        of_keys = [key for key in KEYS if table.has(key)]
        value = ", ".join(keys.values())
        read.problem("for which prompts?", record, of_keys[0], value, f"one of {', '.join(of_keys)}, and one only")
        return
    ((key, name),) = keys.items()
    if name not in known[key]:
        read.problem(
            f"no prompt has this {key.replace('_', ' ')}", record, key, name, nearest_hint(name, known[key])
        )
        return
    if attribute not in classes:
        accepted = f"what the study compares: {', '.join(classes)}"
        read.problem("attribute that is not compared", record, "attribute", attribute, accepted)
        return
    group = _Group(key, name, attribute)
    shares = read.shares.setdefault(group, {})
    if label not in classes[attribute]:
        accepted = ", ".join(classes[attribute])
        read.problem(f"unknown class of {attribute}", record, "class", label, accepted)
        read.wrong.add(group)
    elif not 0 <= share <= 1:
        accepted = "a number from 0 to 1, not per cent"
        read.problem("no share", record, "share", table.cell("share", record), accepted)
        read.wrong.add(group)
    elif label in shares:
        first = table.row(read.rows[group, label])
        read.problem(f"stated twice for {key} {name!r}", record, "class", label, f"once; row {first} has it")
        read.wrong.add(group)
    else:
        shares[label] = share
        read.rows[group, label] = record


def _check_whole(read: _Read, group: _Group, classes: Sequence[str]) -> float:
    """What the shares of a group add up to; a class that is missing and a wrong sum are mistakes."""
    shares = read.shares[group]
    total = sum(shares.values())
    if group in read.wrong:
        return total
    of_what = f"{group.attribute} of {group.key} {group.name!r}"
    record = read.rows[group, next(iter(shares))]
    if missing := [label for label in classes if label not in shares]:
        accepted = f"a row for each of {', '.join(classes)}; share 0 where there is none"
        read.problem(f"{of_what}: classes without a share", record, "class", ", ".join(missing), accepted)
    elif abs(total - 1) > SUM_TOLERANCE:
        accepted = f"1, give or take {SUM_TOLERANCE:g}"
        read.problem(f"{of_what}: the shares do not add up to 1", record, "share", f"{total:g}", accepted)
    return total


def _by_prompt(
    groups: Mapping[_Group, Mapping[str, float]], classes: Mapping[str, Sequence[str]], prompts: pd.DataFrame
) -> dict[str, FloatArray]:
    found: dict[str, FloatArray] = {}
    for attribute in dict.fromkeys(group.attribute for group in groups):
        shares = np.full((len(prompts), len(classes[attribute])), np.nan)
        # The closest last, so that it wins.
        for key in reversed(KEYS):
            of_prompts = prompts[key].astype(str).to_numpy()
            of_key = [group for group in groups if (group.key, group.attribute) == (key, attribute)]
            for group in sorted(of_key, key=lambda group: group.name != ALL):
                stated = np.array([groups[group][label] for label in classes[attribute]])
                meant = of_prompts == group.name
                if key == "category" and group.name == ALL:
                    meant[:] = True
                shares[meant] = stated / stated.sum()
        found[attribute] = shares
    return found
