"""Prompts from a prompt table, such as `prompts` writes, and from plain lists of sentences.

A prompt table has a column `prompt`; `prompt_id, category, word` and all optional columns are read where it has
them. Beside `NAME.csv`, `NAME_wordings.csv` has the wordings of prompts that have several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from detector_bench.dataset.image_tree import slug
from detector_bench.dataset.prompts import check_prompt_statements
from detector_bench.dataset.table_reading import SUFFIXES, read_any_table, report_unknown_columns
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import Problem
from detector_bench.prompt_lists.prompt_list import (
    LONGEST_ID,
    WORDING_COLUMNS,
    ListCell,
    Prompt,
    check_text,
    report_repeats,
)
from detector_bench.prompt_lists.text_lines import read_lines
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.columns import (
    BASE_PROMPT_COLUMN,
    PROMPT_COLUMNS,
    STATED_PREFIX,
    WEIGHT_COLUMN,
    optional_prompt_columns,
    stated_columns,
)

PLAIN_CATEGORY = "prompt"
"""Of prompts of which nobody says a category."""

_NOTED = 3


def is_prompt_table(path: Path) -> bool:
    """Whether a CSV or Parquet file has sentences, and not words for templates."""
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return False
    table = read_any_table(path, Findings(), wanted=PROMPT_COLUMNS)
    return table is not None and table.has("prompt")


def wordings_file(table: Path) -> Path:
    """Where the wordings of a prompt table's prompts are kept: `prompts_wordings.csv` beside `prompts.csv`."""
    return table.with_name(f"{table.stem}_wordings.csv")


def read_prompt_table(path: Path) -> tuple[list[Prompt], list[str]]:
    """Read the prompts of a table; they keep their ids.

    Returns:
        The prompts in the table's order, and notes: sentences that stand there twice.

    Raises:
        DataError: all mistakes at once: in the table's own words (see docs/prompts.md), an empty sentence, an id
            that is given twice or cannot be a file's name, a wording of an unknown prompt.
    """
    findings = Findings()
    wanted = (*PROMPT_COLUMNS, *optional_prompt_columns())
    table = read_any_table(path, findings, wanted=wanted, numbers=(WEIGHT_COLUMN,))
    findings.raise_if_any()
    if table is None or not table.has("prompt"):
        findings.add(Problem(path.name, "the column is missing", 1, "prompt", accepted="a column of sentences"))
        findings.raise_if_any()
        return [], []
    report_unknown_columns(table, STATED_PREFIX, optional_prompt_columns(), findings)
    check_prompt_statements(table, findings)
    if len(table) == 0:
        findings.add(Problem(path.name, "the file has no records", accepted="at least one row below the header"))
    _check_ids(table, findings)
    for column in ("category", "word", "prompt"):
        for cell in _cells(table, column):
            if check_text(cell, findings) and column == "category" and cell.text == ALL:
                findings.add(cell.problem("reserved name", accepted=f"any name but {ALL!r}"))
    findings.raise_if_any()
    prompts = _with_wordings(_prompts(table), wordings_file(path), findings)
    findings.raise_if_any()
    return prompts, list(_repeats(prompts, list(_cells(table, "prompt"))))


def read_sentences(path: Path) -> tuple[list[Prompt], list[str]]:
    """Read a text file with a sentence in each line; empty lines are passed over.

    Raises:
        DataError: all mistakes at once, with their rows.
    """
    findings = Findings()
    cells = [ListCell(line.file, line.row, "prompt", line.text) for line in read_lines(path, findings)]
    if not cells and not findings:
        findings.add(Problem(path.name, "no sentences", accepted="a sentence in each line"))
    prompts = [Prompt(PLAIN_CATEGORY, cell.text, cell.text) for cell in cells if check_text(cell, findings)]
    findings.raise_if_any()
    return prompts, list(_repeats(prompts, cells))


def _cells(table: TextTable, column: str) -> Iterator[ListCell]:
    if table.has(column):
        for index, text in enumerate(table.column(column).to_pylist()):
            yield ListCell(table.file, table.row(index), column, text)


def _check_ids(table: TextTable, findings: Findings) -> None:
    cells = list(_cells(table, "prompt_id"))
    for cell in cells:
        if not check_text(cell, findings):
            continue
        if cell.text == ALL:
            findings.add(cell.problem("reserved name", accepted=f"any name but {ALL!r}"))
        elif slug(cell.text) != cell.text or len(cell.text) > LONGEST_ID + 20:
            accepted = f"letters, digits, dots, hyphens and underscores, such as {slug(cell.text)[:LONGEST_ID]!r}"
            findings.add(cell.problem("id that cannot name a file", accepted=accepted))
    report_repeats(((cell.text, cell) for cell in cells if cell.text), findings, what="prompt_id")
    if table.has(BASE_PROMPT_COLUMN) and not table.has("prompt_id"):
        message = f"the column is missing, and {BASE_PROMPT_COLUMN} refers to it"
        findings.add(Problem(table.file, message, 1, "prompt_id", accepted="an id for each prompt"))


def _prompts(table: TextTable) -> list[Prompt]:
    cells = {name: table.column(name).to_pylist() for name in table.columns}
    attributes = {name: column for name, column in stated_columns().items() if column in cells}

    def cell(column: str, index: int, otherwise: str = "") -> str:
        text: str = cells[column][index] if column in cells else ""
        return text or otherwise

    made = [
        Prompt(
            cell("category", index, PLAIN_CATEGORY),
            cell("word", index, sentence),
            sentence,
            stated={name: cells[column][index] for name, column in attributes.items()},
            weight=float(cell(WEIGHT_COLUMN, index)) if cell(WEIGHT_COLUMN, index) else None,
            prompt_id=cell("prompt_id", index),
        )
        for index, sentence in enumerate(cells["prompt"])
    ]
    by_id = {prompt.prompt_id: prompt for prompt in made if prompt.prompt_id}
    bases = [by_id.get(cell(BASE_PROMPT_COLUMN, index)) for index in range(len(made))]
    return [
        prompt if base is None else replace(prompt, base=base.key, base_id=base.prompt_id)
        for prompt, base in zip(made, bases, strict=True)
    ]


def _with_wordings(prompts: list[Prompt], file: Path, findings: Findings) -> list[Prompt]:
    if not file.is_file():
        return prompts
    table = read_any_table(file, findings, wanted=WORDING_COLUMNS)
    if table is None:
        return prompts
    if missing := [name for name in WORDING_COLUMNS if not table.has(name)]:
        findings.add(
            Problem(file.name, "the column is missing", 1, missing[0], accepted=", ".join(WORDING_COLUMNS))
        )
        return prompts
    wordings: dict[str, list[str]] = {prompt.prompt_id: [] for prompt in prompts if prompt.prompt_id}
    columns = (_cells(table, name) for name in WORDING_COLUMNS)
    for prompt_id, number, wording in zip(*columns, strict=True):
        if prompt_id.text not in wordings:
            findings.add(prompt_id.problem("wording of a prompt that the table lacks", accepted="its prompt_id"))
        elif number.text != str(expected := len(wordings[prompt_id.text])):
            findings.add(number.problem("number that does not follow the one before", accepted=str(expected)))
        elif check_text(wording, findings):
            wordings[prompt_id.text].append(wording.text)
    return [replace(prompt, wordings=tuple(wordings.get(prompt.prompt_id, ()))) for prompt in prompts]


def _repeats(prompts: list[Prompt], cells: list[ListCell]) -> Iterator[str]:
    """A note on prompts that stand there several times: each stays one of its own."""
    first: dict[tuple[str, str, str], ListCell] = {}
    repeats = [
        (cell, earlier)
        for prompt, cell in zip(prompts, cells, strict=True)
        if (earlier := first.setdefault(prompt.key, cell)) is not cell
    ]
    if repeats:
        shown = "; ".join(f"row {cell.row} as row {earlier.row}" for cell, earlier in repeats[:_NOTED])
        rest = f" and {len(repeats) - _NOTED:,} more" if len(repeats) > _NOTED else ""
        yield f"{cells[0].file}: prompts that stand there before, each kept as one of its own: {shown}{rest}."
