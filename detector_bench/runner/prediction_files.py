"""Reads stored predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.errors import DataError, DetectorBenchError, Problem
from detector_bench.runner.prediction_store import newest_first, part_number, without_repeats
from detector_bench.vocabulary.columns import PREDICTIONS

_NEEDED_COLUMNS = ["image_id", "detector", "attribute", "status", "label"]
_REPEATED_WORDS = ["detector", "attribute", "status", "label"]


def read_predictions(folder: Path | str, *, also: Sequence[str] = ()) -> dict[str, pa.Table]:
    """Read all detectors' stored predictions.

    Args:
        folder: a result folder, or its folder `predictions`: that holds a folder for each detector, named after
            it, with any number of `.parquet` files. Folders without such a file are no detector's, and left out.
        also: further columns of `schema.PREDICTIONS`; they are null where a file lacks them.

    Returns:
        By detector, in alphabetical order: image_id, attribute, status and label of every row, in file order. Of
        an image that several parts of an interrupted run hold, the newest verdict counts.

    Raises:
        DetectorBenchError: there is no such folder, or no detector's predictions in it.
        DataError: files that cannot be read, lack a column, or hold another detector's rows; all of them at once.
    """
    folder = predictions_folder(Path(folder))
    folders = [path for path in _folders_in(folder) if any(path.glob("*.parquet"))]
    if not folders:
        raise DetectorBenchError(
            f"no predictions in {str(folder)!r}: expected a folder for each detector, with .parquet files, as "
            "`detector-bench run` writes them"
        )
    problems: list[Problem] = []
    predictions = {each.name: _read_detector(each, problems, also=also) for each in folders}
    if problems:
        raise DataError(problems)
    return predictions


def predictions_folder(folder: Path) -> Path:
    """The folder `predictions` of a result folder, or the folder itself.

    A detector may have the name `predictions`, too: its folder holds files and no folders.
    """
    inner = folder / "predictions"
    return inner if _folders_in(inner) else folder


def _folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))


def _read_detector(folder: Path, problems: list[Problem], *, also: Sequence[str]) -> pa.Table:
    kept = [name for name in (*_NEEDED_COLUMNS, *also) if name != "detector"]
    tables = []
    paths = newest_first(folder.glob("*.parquet"))
    for path in paths:
        place = f"{folder.name}/{path.name}"
        try:
            lacking = [name for name in _NEEDED_COLUMNS if name not in pq.read_schema(path).names]
            if lacking:
                accepted = ", ".join(PREDICTIONS.names)
                problems += [Problem(place, f"column {name} is missing", accepted=accepted) for name in lacking]
                continue
            with pq.ParquetFile(path, read_dictionary=_REPEATED_WORDS) as file:
                table = _with_columns(file.read(columns=[*_NEEDED_COLUMNS, *also]), also)
        except (OSError, pa.ArrowException) as error:
            problems.append(Problem(place, f"cannot be read ({error})", accepted="a Parquet file"))
            continue
        strangers = [name for name in table["detector"].unique().to_pylist() if name != folder.name]
        if strangers:
            message = "rows of another detector"
            problems.append(
                Problem(place, message, column="detector", value=str(strangers[0]), accepted=folder.name)
            )
        tables.append(table.select(kept))
    if not tables:  # every file has a problem, and the caller raises them
        return pa.schema([PREDICTIONS.field(name) for name in kept]).empty_table()
    rows = pa.concat_tables(tables)
    # Parts of a run that was cut short may repeat each other; in other files a repetition is a mistake.
    return without_repeats(rows) if any(part_number(path) is not None for path in paths) else rows


def _with_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, PREDICTIONS.field(name).type))
    return table
