"""Writes `generations.parquet` beside a small image set, from what a test says of each request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.vocabulary.generations import GENERATIONS, GENERATIONS_FILE


def request(image_id: str, t2i_model: str, prompt_id: str, status: str, **more: Any) -> dict[str, Any]:
    """One row."""
    return {
        "image_id": image_id,
        "t2i_model": t2i_model,
        "prompt_id": prompt_id,
        "number": 0,
        "seed": 0,
        "status": status,
        "prompt": f"a photo of one {prompt_id}",
        "parameters": "{}",
        "may_have_been_paid": False,
        "request_sha256": "0" * 64,
        "in_recipe": True,
    } | more


def requests_for(
    pictures: Iterable[Sequence[Any]], others: Mapping[tuple[str, str], Mapping[str, int]]
) -> list[dict[str, Any]]:
    """A row for each picture (`stored_study.Picture`), and so many others by T2I model and prompt, by status."""
    rows = [request(each[0], each[1], each[2], "made") for each in pictures]
    for (model, prompt), counts in others.items():
        for status, count in counts.items():
            rows += [
                request(
                    f"{model}__{prompt}__{status}_{number:04d}", model, prompt, status, reason=f"test_{status}"
                )
                for number in range(count)
            ]
    return rows


def write_generations(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the file of an image set."""
    path = folder / GENERATIONS_FILE
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=GENERATIONS), path)
    return path
