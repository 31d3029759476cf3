"""Reads stored predictions and writes metric tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from detector_bench.atomic_files import replacing
from detector_bench.errors import DataError, DetectorBenchError, Problem
from detector_bench.prediction_rows import newest_first, part_number, without_repeats
from detector_bench.schema import METRIC_COLUMNS, PREDICTIONS

_NEEDED_COLUMNS = ["image_id", "detector", "attribute", "status", "label"]
_REPEATED_WORDS = ["detector", "attribute", "status", "label"]
_NEEDS_QUOTES = ('"', ",", "\n", "\r")


def read_predictions(folder: Path | str, *, also: Sequence[str] = ()) -> dict[str, pa.Table]:
    """Read all detectors' stored predictions.

    Args:
        folder: holds a folder for each detector, named after it, with any number of `.parquet` files.
        also: further columns of `schema.PREDICTIONS`; they are null where a file lacks them.

    Returns:
        By detector, in alphabetical order: image_id, attribute, status and label of every row, in file order. Of
        an image that several parts of an interrupted run hold, the newest verdict counts. A detector without a
        file has an empty table.

    Raises:
        DetectorBenchError: there is no such folder, or no detector in it.
        DataError: files that cannot be read, lack a column, or hold another detector's rows; all of them at once.
    """
    folder = Path(folder)
    folders = sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))
    if not folders:
        raise DetectorBenchError(
            f"no predictions in {str(folder)!r}: expected a folder for each detector, with .parquet files"
        )
    problems: list[Problem] = []
    predictions = {each.name: _read_detector(each, problems, also=also) for each in folders}
    if problems:
        raise DataError(problems)
    return predictions


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
    if not tables:
        return pa.schema([PREDICTIONS.field(name) for name in kept]).empty_table()
    rows = pa.concat_tables(tables)
    # Parts of a run that was cut short may repeat each other; in other files a repetition is a mistake.
    return without_repeats(rows) if any(part_number(path) is not None for path in paths) else rows


def _with_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, PREDICTIONS.field(name).type))
    return table


def write_metrics(metrics: pd.DataFrame, folder: Path) -> None:
    """Write a metric table as `metrics.csv` and `metrics.parquet`, each file whole or not at all.

    The same table gives the same bytes. Missing words and undefined numbers are empty cells (nulls); floats have
    as many digits as it takes to read them back exactly. In the CSV file either no word is quoted, or, where some
    name holds a comma or a quotation mark, all of them are.

    Args:
        metrics: columns as in `schema.METRIC_COLUMNS`.
        folder: created if missing; files of an earlier evaluation are replaced.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    table = pa.Table.from_pandas(metrics[list(METRIC_COLUMNS)], preserve_index=False).replace_schema_metadata(None)
    with replacing(folder / "metrics.parquet") as temporary:
        pq.write_table(table, temporary, compression="zstd")
    with replacing(folder / "metrics.csv") as temporary:
        _write_csv(table, temporary)


def _write_csv(table: pa.Table, path: Path) -> None:
    types = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    text = table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))
    quotes = "needed" if _any_word_needs_quotes(table) else "none"
    pyarrow.csv.write_csv(text, path, pyarrow.csv.WriteOptions(quoting_style=quotes, quoting_header="none"))


def _any_word_needs_quotes(table: pa.Table) -> bool:
    columns = [column for column in table.columns if not pa.types.is_primitive(column.type)]
    words = (word for column in columns for word in column.unique().to_pylist() if isinstance(word, str))
    return any(mark in word for word in words for mark in _NEEDS_QUOTES)
