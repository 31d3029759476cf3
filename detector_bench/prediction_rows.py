"""The order in which a detector's prediction files count, and what to make of rows that repeat each other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from detector_bench.vocabulary import Status

JOINED_NAME = "predictions.parquet"
"""The file that a finished run leaves."""

_PART_NAME = re.compile(r"part-(\d+)\.parquet")


def part_number(path: Path) -> int | None:
    """The number of a part that a run wrote while it went; None for any other file."""
    match = _PART_NAME.fullmatch(path.name)
    return None if match is None else int(match[1])


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Sort prediction files: parts from the last one down, then the joined file, then others by name.

    A row that is in a part and in the joined file is as new or newer in the part.
    """
    return sorted(paths, key=lambda path: (-(part_number(path) or 0), path.name != JOINED_NAME, path.name))


def without_repeats(table: pa.Table) -> pa.Table:
    """Keep the first row of each image and attribute, with verdicts before errors; the order stays.

    Args:
        table: rows of one detector, the newest first.
    """
    if table.num_rows == 0:
        return table
    keys = pa.table(
        {
            "image_id": table["image_id"].cast(pa.string()),
            "attribute": table["attribute"].cast(pa.string()),
            "rank": pc.equal(table["status"].cast(pa.string()), Status.ERROR.value).cast(pa.int8()),
            "row": pa.array(range(table.num_rows), pa.int64()),
        }
    ).sort_by([("rank", "ascending"), ("row", "ascending")])
    first = keys.group_by(["image_id", "attribute"], use_threads=False).aggregate([("row", "first")])
    rows = first["row_first"]
    return table if len(rows) == table.num_rows else table.take(rows.sort())
