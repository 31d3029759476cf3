"""The prompts of an image set: what they ask for, were made from and count for; and how they are imported.

An imported folder tree has a row per prompt folder, filled from a table of prompts where one is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from detector_bench.dataset.consensus import as_numbers
from detector_bench.dataset.image_tree import TreeImage, prompt_ids, slug
from detector_bench.dataset.table_reading import report_unknown_columns, separator_hint
from detector_bench.dataset.text_table import Findings, TextTable, in_circle, text_columns
from detector_bench.errors import Problem, nearest_hint
from detector_bench.vocabulary import ATTRIBUTES, PARTLY, Attribute, attribute_named
from detector_bench.vocabulary.columns import (
    BASE_PROMPT_COLUMN,
    STATED_PREFIX,
    WEIGHT_COLUMN,
    optional_prompt_columns,
    stated_columns,
)

_SEVERAL = re.compile(r"[;,|/+&]|\band\b|\bor\b")


def check_prompt_statements(
    prompts: TextTable, findings: Findings, attributes: Mapping[str, Attribute] = ATTRIBUTES
) -> None:
    """Report statements, base prompts and weights that a prompt table cannot have."""
    check_statements(prompts, findings, attributes)
    are_weights = check_weights(prompts, findings)
    if not prompts.has("prompt_id"):
        return
    bases = _bases(prompts)
    are_bases = not prompts.has(BASE_PROMPT_COLUMN) or _check_bases(prompts, bases, findings)
    if prompts.has(WEIGHT_COLUMN) and are_weights and are_bases:
        _check_completeness(prompts, bases, findings)


def check_statements(
    table: TextTable, findings: Findings, attributes: Mapping[str, Attribute] = ATTRIBUTES
) -> None:
    """Report what no prompt can state, in any table that has such columns."""
    for name, column in stated_columns(attributes).items():
        if table.has(column):
            _check_stated(table, column, attributes[name], findings)


def check_weights(table: TextTable, findings: Findings) -> bool:
    """Report weights that are no numbers above 0, in any table that has weights; True if there are none."""
    if not table.has(WEIGHT_COLUMN):
        return True
    numbers = as_numbers(table.column(WEIGHT_COLUMN))
    given = table.records_with(WEIGHT_COLUMN, lambda value: bool(value.strip()))
    wrong = given[~(np.isfinite(numbers[given]) & (numbers[given] > 0))]
    findings.add_rows(
        table, WEIGHT_COLUMN, wrong, message="weight that is not a number above 0", accepted="such as 1 or 0.5"
    )
    return len(wrong) == 0


def stated_by(prompts: pd.DataFrame, attribute: str) -> pd.Series[str] | None:
    """What each prompt states of an attribute, by `prompt_id`: a word of `Attribute.statements`, or "" (open).

    None: the table has no such column, so that nothing is known.
    """
    column = STATED_PREFIX + attribute_named(attribute).name
    return prompts.set_index("prompt_id")[column] if column in prompts else None


def bases_of(prompts: pd.DataFrame) -> dict[str, str]:
    """By `prompt_id`, the prompt that a prompt was made from; those without one are not there."""
    if BASE_PROMPT_COLUMN not in prompts:
        return {}
    pairs = zip(prompts["prompt_id"], prompts[BASE_PROMPT_COLUMN], strict=True)
    return {prompt_id: base for prompt_id, base in pairs if base}


def weights_of(prompts: pd.DataFrame) -> pd.Series[float] | None:
    """What each prompt counts for, by `prompt_id`: its weight, or else that of its base prompt.

    None: no prompt has a weight.
    """
    if WEIGHT_COLUMN not in prompts:
        return None
    own = prompts.set_index("prompt_id")[WEIGHT_COLUMN]
    weights = pd.Series(np.array([float(text) if text else np.nan for text in own]), index=own.index)
    if weights.isna().all():
        return None
    if BASE_PROMPT_COLUMN in prompts:
        bases = pd.Index(own.index).get_indexer(pd.Index(prompts[BASE_PROMPT_COLUMN]))
        weights[:] = _inherited(weights.to_numpy(), bases.astype(np.int64))
    return weights


def _check_stated(prompts: TextTable, column: str, attribute: Attribute, findings: Findings) -> None:
    accepted = f"{', '.join(attribute.statements)}, or an empty cell where the prompt leaves {attribute.name} open"
    wrong = prompts.records_with(column, lambda value: value not in ("", *attribute.statements))
    several = np.array([_names_several(prompts.cell(column, index), attribute) for index in wrong], dtype=bool)
    findings.add_rows(
        prompts,
        column,
        wrong[several],
        message=f"a prompt that states two classes of {attribute.name}",
        accepted=f"one of them; {PARTLY!r} where one person may be of either; a row each for two people",
    )
    findings.add_rows(
        prompts, column, wrong[~several], message=f"unknown {attribute.name} class", accepted=accepted
    )


def _names_several(value: str, attribute: Attribute) -> bool:
    parts = [part.strip() for part in _SEVERAL.split(value)]
    return len(parts) > 1 and all(part in attribute.statements for part in parts)


def _bases(prompts: TextTable) -> NDArray[np.int64]:
    """For each prompt the record of its base prompt, -1 where it has none or that is unknown."""
    if not prompts.has(BASE_PROMPT_COLUMN):
        return np.full(len(prompts), -1, dtype=np.int64)
    # Of a repeated id, which is a mistake of its own, the first record counts.
    ids = prompts.column("prompt_id").to_pylist()
    known = {name.strip(): record for record, name in reversed(list(enumerate(ids)))}
    known.pop("", None)
    bases = prompts.column(BASE_PROMPT_COLUMN).to_pylist()
    return np.array([known.get(name.strip(), -1) for name in bases], dtype=np.int64)


def _check_bases(prompts: TextTable, bases: NDArray[np.int64], findings: Findings) -> bool:
    """Report unknown bases and circles; True if there are no circles."""
    known = prompts.encoded("prompt_id").texts
    readable = {"", *prompts.unreadable.get("prompt_id", ())}
    named = prompts.records_with(BASE_PROMPT_COLUMN, lambda value: value.strip() not in readable)

    def accepted(index: int) -> str:
        hint = nearest_hint(prompts.cell(BASE_PROMPT_COLUMN, index), known)
        row = "a prompt_id of this file (a base prompt needs a row, but no images), or an empty cell"
        return f"{row}; {hint}" if hint.startswith("did you mean") else row

    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        named[bases[named] < 0],
        message="base prompt that the file does not list",
        accepted=accepted,
    )
    is_own = bases == np.arange(len(bases))
    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        np.flatnonzero(is_own),
        message="prompt that is its own base",
        accepted="the prompt without what this one states, or an empty cell",
    )
    circle = in_circle(np.where(is_own, -1, bases))
    findings.add_rows(
        prompts,
        BASE_PROMPT_COLUMN,
        np.flatnonzero(circle),
        message="prompt that is its own base, by way of other prompts",
        accepted="a prompt that is not made from this one, or an empty cell",
    )
    return not (is_own | circle).any()


def _check_completeness(prompts: TextTable, bases: NDArray[np.int64], findings: Findings) -> None:
    numbers = as_numbers(prompts.column(WEIGHT_COLUMN))
    without = np.flatnonzero(np.isnan(_inherited(numbers, bases)))
    if len(without) > 0 and not np.isnan(numbers).all():
        first = int(without[0])
        findings.add(
            Problem(
                prompts.file,
                f"{len(without):,} of {len(prompts):,} prompts have no weight, nor a base with one; the first",
                prompts.row(first),
                WEIGHT_COLUMN,
                prompts.cell("prompt_id", first),
                "a weight for all prompts, or for none",
            )
        )


def _inherited(weights: NDArray[np.float64], bases: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights, those of the base prompts where there are none of their own."""
    found = weights.copy()
    for _ in range(len(weights)):
        missing = np.flatnonzero(np.isnan(found) & (bases >= 0))
        taken = found[bases[missing]]
        if np.isnan(taken).all():
            break
        found[missing] = taken
    return found


@dataclass(frozen=True, eq=False)
class PromptFile:
    """A table of prompts, and which of its records a prompt folder may mean."""

    table: TextTable
    by_id: dict[str, int]
    by_text: dict[str, int]
    """By the slug of the sentence; sentences that several records have are left out."""

    @classmethod
    def of(cls, table: TextTable, findings: Findings) -> PromptFile | None:
        """A table with `prompt_id` and any of the other columns of a prompt table; None: it lacks the ids."""
        report_unknown_columns(table, STATED_PREFIX, optional_prompt_columns(), findings)
        by_id = _records_by_id(table, findings)
        return None if by_id is None else cls(table, by_id, _records_by_text(table))

    def record_of(self, folder: str, prompt_id: str) -> int | None:
        """Which record a folder is named after: its id, or its sentence."""
        by_id = (self.by_id.get(name) for name in (folder, prompt_id, slug(folder)))
        return next((record for record in by_id if record is not None), self.by_text.get(slug(folder).casefold()))


def ids_of_folders(images: list[TreeImage], prompts: PromptFile | None) -> dict[str, str]:
    """The prompt id of each folder: its slug, or where it is named after a prompt's sentence that prompt's id."""
    ids = prompt_ids(images)
    if prompts is None:
        return ids
    for folder, prompt_id in ids.items():
        record = prompts.record_of(folder, prompt_id)
        named = None if record is None else prompts.table.cell("prompt_id", record).strip()
        if record == prompts.by_text.get(slug(folder).casefold()) and named and named not in ids.values():
            ids[folder] = named
    return ids


def import_prompts(
    ids: dict[str, str], prompts: PromptFile | None, *, category: str, findings: Findings
) -> TextTable:
    """The prompts of a tree's folders.

    Args:
        ids: as `ids_of_folders` gives them.
        prompts: the file; None: all that is known is the folder's name.
        category: of prompts that the file gives none.
        findings: receives the mistakes.

    Returns:
        A row per prompt folder, then the base prompts (and theirs) that have no folder.
    """
    if prompts is None:
        return TextTable("prompts.csv", text_columns(_columns_of_folders(ids, category)))
    records, missing = {}, []
    for folder, prompt_id in ids.items():
        record = prompts.record_of(folder, prompt_id)
        if record is None:
            names = dict.fromkeys((folder, prompt_id))
            accepted = f"a row with prompt_id {' or '.join(map(repr, names))}, or with it as its prompt"
            file = prompts.table.file
            missing.append(Problem(file, "no row for a prompt folder", None, "prompt_id", folder, accepted))
        else:
            records[folder] = record
    findings.add_kind(missing)
    if missing:
        return TextTable("prompts.csv", text_columns(_columns_of_folders(ids, category)))
    return _rows_of_file(prompts.table, prompts.by_id, records, ids, category)


def _columns_of_folders(ids: dict[str, str], category: str) -> dict[str, list[str]]:
    return {
        "prompt_id": list(ids.values()),
        "category": [category for _ in ids],
        "word": [_word_of(folder) for folder in ids],
        "prompt": ["" for _ in ids],
    }


def _word_of(folder: str) -> str:
    return folder.replace("_", " ").strip() or folder


def _rows_of_file(
    table: TextTable, known: dict[str, int], records: dict[str, int], ids: dict[str, str], category: str
) -> TextTable:
    """Rows of the file for the folders and their base prompts, under the folders' ids."""
    cells = {name: [cell.strip() for cell in table.column(name).to_pylist()] for name in table.columns}
    id_of = {record: ids[folder] for folder, record in reversed(records.items())}
    bases = _bases_without_folder(cells.get(BASE_PROMPT_COLUMN, []), known, records.values())
    id_of |= {record: cells["prompt_id"][record] for record in bases}
    rows = [*((record, ids[folder], _word_of(folder)) for folder, record in records.items())]
    rows += [(record, id_of[record], _word_of(id_of[record])) for record in bases]

    def column(name: str, record: int, otherwise: str) -> str:
        return (cells[name][record] if name in cells else "") or otherwise

    columns = {
        "prompt_id": [prompt_id for _, prompt_id, _ in rows],
        "category": [column("category", record, category) for record, _, _ in rows],
        "word": [column("word", record, word) for record, _, word in rows],
        "prompt": [column("prompt", record, "") for record, _, _ in rows],
    }
    for name in optional_prompt_columns():
        if name in cells:
            columns[name] = [cells[name][record] for record, _, _ in rows]
    if BASE_PROMPT_COLUMN in columns:
        # The file's own ids may differ from those that the folders get; an unknown one stays, to be reported.
        columns[BASE_PROMPT_COLUMN] = [
            id_of[known[base]] if base in known else base for base in columns[BASE_PROMPT_COLUMN]
        ]
    return TextTable(
        table.file, text_columns(columns), np.array([table.row(record) for record, _, _ in rows], dtype=np.int64)
    )


def _bases_without_folder(bases: list[str], known: dict[str, int], records: Iterable[int]) -> list[int]:
    """Records of base prompts, of their base prompts and so on, that are none of these records."""
    found = dict.fromkeys(records)
    queue = list(found)
    first = len(queue)
    for record in queue:
        base = known.get(bases[record]) if bases and bases[record] else None
        if base is not None and base not in found:
            found[base] = None
            queue.append(base)
    return queue[first:]


def _records_by_id(table: TextTable, findings: Findings) -> dict[str, int] | None:
    if not table.has("prompt_id"):
        accepted = "prompt_id, and any of category, word, prompt"
        message = f"the column is missing{separator_hint(table)}"
        findings.add(Problem(table.file, message, 1, "prompt_id", accepted=accepted))
        return None
    known: dict[str, int] = {}
    repeated = []
    for record, name in enumerate(table.column("prompt_id").to_pylist()):
        if known.setdefault(name.strip(), record) != record:
            repeated.append(record)
    findings.add_rows(
        table, "prompt_id", np.array(repeated), message="duplicate prompt_id", accepted="one row per prompt"
    )
    return known


def _records_by_text(table: TextTable) -> dict[str, int]:
    if not table.has("prompt"):
        return {}
    found: dict[str, list[int]] = {}
    for record, text in enumerate(table.column("prompt").to_pylist()):
        found.setdefault(slug(text).casefold(), []).append(record)
    return {text: records[0] for text, records in found.items() if text and len(records) == 1}
