"""The prompt table of an imported folder tree: a row per prompt folder, from a table of prompts where given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from detector_bench.dataset.findings import Findings
from detector_bench.dataset.image_tree import TreeImage, prompt_ids, slug
from detector_bench.dataset.table_reading import read_any_table, report_unknown_columns
from detector_bench.dataset.text_table import TextTable, text_columns
from detector_bench.errors import Problem
from detector_bench.results.schema import (
    BASE_PROMPT_COLUMN,
    PROMPT_COLUMNS,
    STATED_PREFIX,
    WEIGHT_COLUMN,
    optional_prompt_columns,
)


@dataclass(frozen=True, eq=False)
class PromptFile:
    """A table of prompts, and which of its records a prompt folder may mean."""

    table: TextTable
    by_id: dict[str, int]
    by_text: dict[str, int]
    """By the slug of the sentence; sentences that several records have are left out."""

    @classmethod
    def read(cls, path: Path, findings: Findings) -> PromptFile | None:
        """Read a CSV or Parquet file with `prompt_id` and any of the other columns of a prompt table."""
        wanted = (*PROMPT_COLUMNS, *optional_prompt_columns())
        table = read_any_table(path, findings, wanted=wanted, numbers=(WEIGHT_COLUMN,))
        if table is None:
            return None
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
        findings.add(Problem(table.file, "the column is missing", 1, "prompt_id", accepted=accepted))
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
