"""Writes the tables of an image set that a recipe makes: every request, what came of it, the prompts."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.atomic_files import remove, replacing, write_text
from detector_bench.dataset.image_references import SEED_COLUMN
from detector_bench.generation.journal import SENT, Journal
from detector_bench.generation.plan import ModelPlan, Plan, PlannedRequest, in_parts
from detector_bench.generation.scenes import SCENES_FILE
from detector_bench.generation.t2i_models import ModelRecord
from detector_bench.vocabulary.columns import IMAGE_COLUMNS
from detector_bench.vocabulary.generations import GENERATIONS, GENERATIONS_FILE, GenerationStatus

IMAGES_FILE = "images.csv"
PROMPTS_FILE = "prompts.csv"

_AT_ONCE = 1_000
_ROWS_IN_A_GROUP = 5_000
_STATE = b"detector_bench"
"""Key of the file's metadata: the plan and the journals that it was written from."""


def state_of(plan: Plan, journals: Mapping[str, Journal]) -> str:
    """What the tables depend on, as a text: equal texts, equal tables."""
    digests = {model.name: model.digest for model in plan.models}
    names = {*digests, *journals}
    return json.dumps(
        {name: [digests.get(name), journals[name].changes if name in journals else 0] for name in names},
        sort_keys=True,
    )


def written_state(folder: Path) -> str | None:
    """What the tables that lie in a folder were written from; None: there are none, or they are damaged."""
    try:
        found = pq.read_schema(folder / GENERATIONS_FILE).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    is_whole = all((folder / name).is_file() for name in (IMAGES_FILE, PROMPTS_FILE))
    return found[_STATE].decode() if is_whole and _STATE in found else None


def written_counts(folder: Path) -> Counter[tuple[str, str, bool]] | None:
    """How many rows `generations.parquet` has, by T2I model, status and `in_recipe`; None: nobody can tell."""
    columns = ["t2i_model", "status", "in_recipe"]
    try:
        table = pq.read_table(folder / GENERATIONS_FILE, columns=columns, read_dictionary=columns[:2])
        rows = table.unify_dictionaries().group_by(columns).aggregate([([], "count_all")]).to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return None
    return Counter({(row["t2i_model"], row["status"], row["in_recipe"]): row["count_all"] for row in rows})


def write_tables(
    plan: Plan, journals: Mapping[str, Journal], folder: Path, *, photos: Mapping[str, str]
) -> list[str]:
    """Write `generations.parquet`, `prompts.csv`, `scenes.csv` where pictures show two people, and `images.csv`.

    Each is written whole or not at all, the last one last.

    Args:
        plan: what the recipe asks for.
        journals: by T2I model, what became of it; also of T2I models that the recipe no longer has.
        folder: of the image set.
        photos: by image id, where the photos that are edited lie in the folder.

    Returns:
        The ids of the photos that are listed: those of which there is an edit, for a photo alone is no pair.

    Raises:
        DetectorBenchError: the disk is full, or a journal is damaged.
    """
    _remove_left_behind(folder)
    edits = bool(photos)
    edited: set[str] = set()
    columns = (*IMAGE_COLUMNS, *((SEED_COLUMN,) if edits else ()))
    with ExitStack() as files:
        generations = files.enter_context(replacing(folder / GENERATIONS_FILE))
        images = files.enter_context(replacing(folder / IMAGES_FILE))
        prompts = files.enter_context(replacing(folder / PROMPTS_FILE))
        prompts.write_text(plan.prompt_table(), encoding="utf-8", newline="\n")
        _write_scenes(plan, folder / SCENES_FILE)
        schema = GENERATIONS.with_metadata({_STATE: state_of(plan, journals).encode()})
        with (
            pq.ParquetWriter(generations, schema, compression="zstd") as table,
            images.open("w", encoding="utf-8", newline="") as stream,
        ):
            listed = csv.writer(stream, lineterminator="\n")
            listed.writerow(columns)
            for group in _groups(_rows(plan, journals)):
                made = [row for row in group if row["status"] == GenerationStatus.MADE and row["in_recipe"]]
                edited.update(row["seed_image_id"] for row in made)
                listed.writerows(
                    [row["image_id"], row["path"], row["t2i_model"], row["prompt_id"]]
                    + ([row["seed_image_id"] or ""] if edits else [])
                    for row in made
                )
                table.write_table(
                    pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in group], schema)
                )
            pairs = [photo for photo in photos if photo in edited]
            listed.writerows((photo, photos[photo], "", "", "") for photo in pairs)
    return pairs


def _remove_left_behind(folder: Path) -> None:
    """Remove what processes left that died while they wrote tables; nobody else writes them now."""
    for name in (GENERATIONS_FILE, IMAGES_FILE, PROMPTS_FILE):
        for left in folder.glob(f".{name}.*.tmp"):
            remove(left)


def _write_scenes(plan: Plan, path: Path) -> None:
    scenes = plan.scenes_table()
    if scenes is None:
        remove(path)
    else:
        write_text(path, scenes)


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS_IN_A_GROUP:
            yield group
            group = []
    if group:
        yield group


def _rows(plan: Plan, journals: Mapping[str, Journal]) -> Iterator[dict[str, Any]]:
    """One row for every request that the recipe makes, T2I model by T2I model, and behind those of each what it
    was asked for once and no longer is; last those of T2I models that the recipe no longer has."""
    for model in plan.models:
        journal = journals.get(model.name)
        if journal is None:
            yield from (_waiting(model, planned) for planned in model)
            continue
        records = _Records(journal)
        matched = 0
        for part in in_parts(model, _AT_ONCE):
            known = journal.rows([each.request.image_id for each in part])
            for planned in part:
                row = known.get(planned.request.image_id)
                matched += row is not None
                if row is None or row["request_sha256"] != planned.sha256:
                    yield _waiting(model, planned)
                else:
                    yield _told(model.name, row, records, in_recipe=True)
                if row is not None and row["request_sha256"] != planned.sha256:
                    yield _told(model.name, row, records, in_recipe=False)
        if matched < journal.count() or journal.replaced_count():
            asked = (planned.request.image_id for planned in model)
            yield from (_told(model.name, row, records, in_recipe=False) for row in journal.others(asked))
    named = {model.name for model in plan.models}
    for name, journal in sorted(journals.items()):
        if name not in named:
            records = _Records(journal)
            yield from (_told(name, row, records, in_recipe=False) for row in journal.others(()))


class _Records:
    """The records of a journal, each read once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._read: dict[int, dict[str, Any]] = {}

    def columns(self, number: int) -> dict[str, Any]:
        """What a table says of the T2I model."""
        if number not in self._read:
            found: ModelRecord = self._journal.record_of(number)
            self._read[number] = {
                "model": found.model,
                "revision": found.revision,
                "model_sha256": found.sha256,
                "versions": json.dumps(dict(found.versions)) if found.versions else None,
                "device": found.device,
            }
        return self._read[number]


def _waiting(model: ModelPlan, planned: PlannedRequest) -> dict[str, Any]:
    request = planned.request
    return {
        **dict.fromkeys(GENERATIONS.names),
        "image_id": request.image_id,
        "t2i_model": model.name,
        "prompt_id": request.prompt_id,
        "number": request.number,
        "seed_image_id": None if request.seed_photo is None else request.seed_photo.image_id,
        "seed": request.seed,
        "status": GenerationStatus.WAITING.value,
        "prompt": request.prompt,
        "parameters": model.asked,
        "may_have_been_paid": False,
        "request_sha256": planned.sha256,
        "in_recipe": True,
        "path": None,
    }


def _told(t2i_model: str, row: Mapping[str, Any], records: _Records, *, in_recipe: bool) -> dict[str, Any]:
    return {
        **row,
        **records.columns(row["record"]),
        "t2i_model": t2i_model,
        "may_have_been_paid": bool(row["may_have_been_paid"]),
        # One that is on its way now, in another process.
        "status": GenerationStatus.WAITING.value if row["status"] == SENT else row["status"],
        "in_recipe": in_recipe,
    }
