"""Reads stored predictions: all tables at once, one when it is asked for, or piece by piece.

A table of a million images is a hundred megabytes, so that what only counts reads pieces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from detector_bench.errors import DataError, DetectorBenchError, Problem
from detector_bench.runner.prediction_store import part_number, prediction_files, without_repeats
from detector_bench.runner.shard_ledger import ShardLedger, file_sha256
from detector_bench.runner.shards import Shard, shard_of_file
from detector_bench.vocabulary.columns import PREDICTIONS

_NEEDED_COLUMNS = ("image_id", "detector", "attribute", "status", "label")
_REPEATED_WORDS = ("detector", "attribute", "status", "label")


def read_predictions(
    folder: Path | str, *, also: Sequence[str] = (), of_images: pa.Array | None = None
) -> dict[str, pa.Table]:
    """Read all detectors' stored predictions.

    Args:
        folder: a result folder, or its folder `predictions`: that holds a folder for each detector, named after
            it, with any number of `.parquet` files. Folders without such a file are no detector's, and left out.
        also: further columns of `vocabulary.columns.PREDICTIONS`; they are null where a file lacks them.
        of_images: ids of images; rows of others are left out. None: all.

    Returns:
        By detector, in alphabetical order: image_id, attribute, status and label of every row, in file order. Of
        an image that several parts of an interrupted run hold, the newest verdict counts.

    Raises:
        DetectorBenchError: there is no such folder, or no detector's predictions in it.
        DataError: files that cannot be read, lack a column, or hold another detector's rows; all of them at once.
    """
    stored = StoredPredictions(folder, also=also)
    problems: list[Problem] = []
    predictions = {name: stored.read(name, problems, of_images=of_images) for name in stored}
    if problems:
        raise DataError(problems)
    return predictions


def predictions_folder(folder: Path) -> Path:
    """The folder `predictions` of a result folder, or the folder itself.

    A detector may have the name `predictions`, too: its folder holds files and no folders.
    """
    inner = folder / "predictions"
    return inner if _folders_in(inner) else folder


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that stand one after another in one file of a detector."""

    detector: str
    paths: tuple[Path, ...]
    """The file; or all files of a shard that is not finished, which may repeat each other."""
    row_group: int | None
    """None: all rows."""
    first_row: int
    """Position of the first row in the file."""
    columns: tuple[str, ...]
    """What is read."""

    @property
    def name(self) -> str:
        """The file's name, by which the same shard is known in the folder of another detector."""
        return self.paths[0].name

    def read(self, problems: list[Problem]) -> pa.Table:
        """The rows; files that cannot be read or hold another detector's rows are added to the problems."""
        further = [name for name in self.columns if name not in _NEEDED_COLUMNS]
        if self.row_group is None:
            return _read_files(self.detector, self.paths, problems, also=further).select(self.columns)
        return _read_file(self.detector, self.paths[0], problems, also=further, row_group=self.row_group).select(
            self.columns
        )


class StoredPredictions(Mapping[str, pa.Table]):
    """The tables of `read_predictions`, each read from disk when it is asked for, and every time anew.

    A file that the manifest of its shard vouches for has to have the sha256 that stands there; pages of all files
    that `run` writes carry checksums, too. Files that somebody else put there have neither.

    Args:
        folder: as `read_predictions` takes it.
        also: further columns of each table.

    Raises:
        DetectorBenchError: there is no such folder, or no detector's predictions in it.
    """

    def __init__(self, folder: Path | str, *, also: Sequence[str] = ()) -> None:
        folder = predictions_folder(Path(folder))
        self.folder = folder
        self._folders = {path.name: path for path in _folders_in(folder) if any(path.glob("*.parquet"))}
        self._also = tuple(also)
        if not self._folders:
            raise DetectorBenchError(
                f"no predictions in {str(folder)!r}: expected a folder for each detector, with .parquet files, as "
                "`detector-bench run` writes them"
            )

    def __getitem__(self, detector: str) -> pa.Table:
        """A detector's table.

        Raises:
            DataError: files that cannot be read, lack a column, or hold another detector's rows.
        """
        problems: list[Problem] = []
        table = self.read(detector, problems)
        if problems:
            raise DataError(problems)
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def read(self, detector: str, problems: list[Problem], *, of_images: pa.Array | None = None) -> pa.Table:
        """A detector's table, or its rows about some images; what is wrong with files is added to the problems."""
        files = self._sound_files(detector, problems)
        return _read_files(detector, files, problems, also=self._also, of_images=of_images)

    def pieces(self, detector: str, columns: Sequence[str], problems: list[Problem]) -> list[Piece]:
        """Where a detector's rows stand, in file order; together the pieces are its table.

        Args:
            detector: its name.
            columns: what each piece reads.
            problems: takes in what is wrong with the files.
        """
        pieces: list[Piece] = []
        shards: dict[Shard, list[Path]] = {}
        for path in self._sound_files(detector, problems):
            shards.setdefault(shard_of_file(path.name) or Shard(), []).append(path)
        for paths in shards.values():
            if any(part_number(path) is not None for path in paths):
                pieces.append(Piece(detector, tuple(paths), None, 0, tuple(columns)))
                continue
            for path in paths:
                first = 0
                for number, rows in enumerate(_row_groups(detector, path, problems)):
                    pieces.append(Piece(detector, (path,), number, first, tuple(columns)))
                    first += rows
        return pieces

    def files(self, detector: str) -> list[Path]:
        """The files with a detector's rows, the newest first."""
        return prediction_files(self._folders[detector])

    @cached_property
    def vouched(self) -> dict[Path, str]:
        """The sha256 that each file had when a run wrote it, as its shard's manifest says."""
        return ShardLedger(self.folder).vouched()

    def compare(self, detectors: Iterable[str]) -> None:
        """Compare the files of several detectors with their manifests at once, before they are read one by one."""
        files = [path for name in detectors for path in self.files(name) if path in self.vouched]
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
            list(threads.map(sha256_of_file, files))

    def _sound_files(self, detector: str, problems: list[Problem]) -> list[Path]:
        files = self.files(detector)
        for path in files:
            written = self.vouched.get(path)
            if written is not None and (found := sha256_of_file(path)) != written:
                message = "not as the run wrote it: run the study again, which judges anew what stood in it"
                place = f"{detector}/{path.name}"
                problems.append(Problem(place, message, column="sha256", value=found, accepted=written))
        return files


def sha256_of_file(path: Path) -> str | None:
    """The sha256 of a file's content; None if it cannot be read. Unless it changes, a file is read once."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _sha256_at(path, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=65_536)
def _sha256_at(path: Path, state: tuple[int, ...]) -> str | None:  # noqa: ARG001 - what the memory hangs on
    return file_sha256(path)


def _folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))


def _row_groups(detector: str, path: Path, problems: list[Problem]) -> list[int]:
    """The number of rows of each."""
    place = f"{detector}/{path.name}"
    try:
        with pq.ParquetFile(path) as file:
            if _has_columns(file.schema_arrow, place, problems):
                return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    except (OSError, ValueError, pa.ArrowException) as error:  # damaged names are no text
        problems.append(_unreadable(place, error))
    return []


def _read_files(
    detector: str,
    paths: Sequence[Path],
    problems: list[Problem],
    *,
    also: Sequence[str],
    of_images: pa.Array | None = None,
) -> pa.Table:
    found = [_read_file(detector, path, problems, also=also) for path in paths]
    # Words of a file that cannot be read are no dictionary, which would not go together with the others'.
    tables = [table for table in found if table.num_rows] or found[:1]
    if of_images is not None:
        tables = [table.filter(pc.is_in(table["image_id"], of_images)) for table in tables]
    rows = pa.concat_tables(tables).unify_dictionaries()
    # Parts of a run that was cut short may repeat each other; in other files a repetition is a mistake.
    return without_repeats(rows) if any(part_number(path) is not None for path in paths) else rows


def _read_file(
    detector: str, path: Path, problems: list[Problem], *, also: Sequence[str], row_group: int | None = None
) -> pa.Table:
    place = f"{detector}/{path.name}"
    kept = [name for name in (*_NEEDED_COLUMNS, *also) if name != "detector"]
    nothing = pa.schema([PREDICTIONS.field(name) for name in kept]).empty_table()
    try:
        schema = pq.read_schema(path)
        if not _has_columns(schema, place, problems):
            return nothing
        with pq.ParquetFile(path, read_dictionary=list(_REPEATED_WORDS), page_checksum_verification=True) as file:
            columns = [*_NEEDED_COLUMNS, *(name for name in also if name in schema.names)]
            table = file.read(columns) if row_group is None else file.read_row_group(row_group, columns)
    except (OSError, ValueError, pa.ArrowException) as error:  # damaged names are no text
        problems.append(_unreadable(place, error))
        return nothing
    for name in (name for name in also if name not in table.column_names):
        table = table.append_column(name, pa.nulls(table.num_rows, PREDICTIONS.field(name).type))
    strangers = [name for name in table["detector"].unique().to_pylist() if name != detector]
    if strangers:
        message = "rows of another detector"
        problems.append(Problem(place, message, column="detector", value=str(strangers[0]), accepted=detector))
    return table.select(kept)


def _has_columns(schema: pa.Schema, place: str, problems: list[Problem]) -> bool:
    accepted = ", ".join(PREDICTIONS.names)
    lacking = [name for name in _NEEDED_COLUMNS if name not in schema.names]
    problems += [Problem(place, f"column {name} is missing", accepted=accepted) for name in lacking]
    return not lacking


def _unreadable(place: str, error: Exception) -> Problem:
    return Problem(place, f"cannot be read ({error})", accepted="a Parquet file")
