"""Reads `scenes.csv` of an image set: which prompts are about two people, and the prompts of their halves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from detector_bench.dataset import ImageSet
from detector_bench.dataset.table_reading import read_any_table
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, Problem
from detector_bench.generation.scenes import SCENE_COLUMNS, SCENES_FILE, SIDES
from detector_bench.vocabulary.columns import optional_prompt_columns

Subjects = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By the prompt of the pictures and side: the row of the half's prompt."""


def read_scenes(image_set: ImageSet) -> Subjects:
    """Read which prompts are about two people, and the prompts of their halves.

    Raises:
        ConfigError: there is no such file.
        DataError: mistakes in it, all at once: an unknown prompt, a side that is missing or given twice, a
            half's prompt that has no id of its own.
    """
    path = image_set.root / SCENES_FILE
    if not path.is_file():
        raise ConfigError(
            f"{path}: the file is missing; `generate` writes it for prompts about two people (accepted: columns "
            f"{', '.join(SCENE_COLUMNS)}, and those of a prompt table; a row for the left and one for the right)"
        )
    findings = Findings()
    table = _table(path, findings)
    found: dict[str, dict[str, dict[str, str]]] = {}
    if table is not None:
        for scene, side, row in _rows(table, set(image_set.prompts["prompt_id"]), findings):
            found.setdefault(scene, {})[side] = row
    for scene, sides in found.items():
        if not findings and len(sides) < len(SIDES):
            accepted = "a row for the left and one for the right"
            findings.add(Problem(SCENES_FILE, "a scene with one side", None, "scene_prompt_id", scene, accepted))
    findings.raise_if_any()
    return found


def _table(path: Path, findings: Findings) -> TextTable | None:
    table = read_any_table(path, findings, wanted=(*SCENE_COLUMNS, *optional_prompt_columns()))
    missing = [] if table is None else [name for name in SCENE_COLUMNS if not table.has(name)]
    for name in missing:
        accepted = ", ".join(SCENE_COLUMNS)
        findings.add(Problem(SCENES_FILE, "the column is missing", 1, name, accepted=accepted))
    return None if missing else table


def _rows(table: TextTable, prompts: set[str], findings: Findings) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Scene, side and the half's prompt of each row that is right."""
    names = [name for name in (*SCENE_COLUMNS, *optional_prompt_columns()) if table.has(name)]
    seen: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for index, cells in enumerate(zip(*(_column(table, name) for name in names), strict=True)):
        row = dict(zip(names, cells, strict=True))
        scene, side, prompt_id = row.pop("scene_prompt_id"), row.pop("side"), row["prompt_id"]
        wrong = None
        if scene not in prompts:
            wrong = "scene_prompt_id", "prompt that prompts.csv does not list", "a prompt_id of prompts.csv"
        elif side not in SIDES or (scene, side) in seen:
            wrong = "side", "unknown side, or one given twice", "left once and right once for each scene"
        elif not prompt_id or prompt_id in prompts or prompt_id in ids:
            wrong = "prompt_id", "empty, or an id that another prompt has", "an id of its own"
        if wrong is not None:
            column, message, accepted = wrong
            value = table.cell(column, index)
            findings.add(Problem(SCENES_FILE, message, table.row(index), column, value, accepted))
            continue
        seen.add((scene, side))
        ids.add(prompt_id)
        yield scene, side, row


def _column(table: TextTable, name: str) -> Sequence[str]:
    cells: list[str] = table.column(name).to_pylist()
    return cells
