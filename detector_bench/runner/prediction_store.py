"""Predictions on disk: one folder per detector, written in parts as the run goes, joined when it ends.

Every file carries the detector's fingerprint in its metadata, and only rows of the present one count. What another
version of the detector judged is dropped when a run begins to judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from detector_bench.atomic_files import replacing
from detector_bench.detectors.base import Prediction
from detector_bench.errors import DetectorBenchError
from detector_bench.runner.shard_ledger import ShardFile, ShardLedger, file_sha256
from detector_bench.runner.shards import Shard, shard_of_file
from detector_bench.sealed import digest_of
from detector_bench.vocabulary import Status
from detector_bench.vocabulary.columns import PREDICTIONS

_PART_NAME = re.compile(r"(?:shard-\d{5}-of-\d{5}\.)?part-(\d+)\.parquet")


def part_number(path: Path) -> int | None:
    """The number of a part that a run wrote while it went; None for any other file."""
    match = _PART_NAME.fullmatch(path.name)
    return None if match is None else int(match[1])


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Sort prediction files: parts from the last one down, then joined files, then others by name.

    A row that is in a part and in the joined file is as new or newer in the part.
    """
    return sorted(paths, key=lambda path: (-(part_number(path) or 0), shard_of_file(path.name) is None, path.name))


def prediction_files(folder: Path) -> list[Path]:
    """The files of a detector's folder that count, the newest first: all `.parquet` files but those of shards that
    the run is not cut into any more."""
    paths = list(folder.glob("*.parquet"))
    shards = {path: shard_of_file(path.name) for path in paths}
    if any(shard is not None and shard.count > 1 for shard in shards.values()):
        layout = ShardLedger(folder.parent).layout()
        count = 1 if layout is None else layout.shards
        paths = [path for path, shard in shards.items() if shard is None or shard.count == count]
    return newest_first(paths)


def judged_images(folder: Path, attributes: Sequence[str], fingerprint: str) -> pa.Array:
    """Ids of the images with a verdict, and no error, on every attribute by this version of a detector.

    Nothing is written, and files that cannot be read are passed over.

    Args:
        folder: of the detector; need not be there.
        attributes: that it judges.
        fingerprint: of the version.
    """
    tables = []
    for path in prediction_files(folder):
        try:
            if (_read_metadata(path) or {}).get(FINGERPRINT_KEY) == fingerprint.encode():
                columns = ["image_id", "attribute", "status"]
                tables.append(
                    pq.read_table(path, columns=columns, filters=pc.field("status") != Status.ERROR.value)
                )
        except (DetectorBenchError, OSError, ValueError, pa.ArrowException):
            continue
    if not tables:
        return pa.array([], pa.string())
    counts = pa.concat_tables(tables).group_by("image_id").aggregate([("attribute", "count_distinct")])
    judged = counts.filter(pc.field("attribute_count_distinct") == len(attributes))["image_id"]
    return judged.cast(pa.string()).combine_chunks()


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


FINGERPRINT_KEY = b"detector_bench.fingerprint"
IDENTITY_KEY = b"detector_bench.identity"
_LONGEST_REASON = 500
_FIELDS = tuple(field.name for field in fields(Prediction))


class Maker(NamedTuple):
    """What a file of predictions says of the detector that made it.

    Attributes:
        fingerprint: None in a file of another program, which says nothing.
        identity: what the fingerprint is the sha256 of, as `Detector.identity` has it.
        damage: what is wrong with these two; empty if nothing is.
    """

    fingerprint: str | None
    identity: Any
    damage: str


def written_maker(path: Path) -> Maker:
    """Read what made a file of predictions out of its metadata."""
    try:
        metadata = _read_metadata(path) or {}
        fingerprint = metadata[FINGERPRINT_KEY].decode()
        identity = json.loads(metadata[IDENTITY_KEY])
    except KeyError:
        return Maker(None, None, "")
    except (DetectorBenchError, ValueError):
        return Maker(None, None, "it cannot be read")
    is_sound = digest_of(identity) == fingerprint
    return Maker(
        fingerprint, identity, "" if is_sound else "its fingerprint is not that of what it names as its maker"
    )


class PredictionStore:
    """One shard of one detector's folder `predictions/<detector>/`.

    Args:
        folder: that folder; created if missing.
        detector: the detector's name, written into each row.
        fingerprint: sha256 of all that decides its verdicts.
        identity: what the fingerprint is the sha256 of, kept for people.
        shard: which part of the image set it is about.
    """

    def __init__(
        self,
        folder: Path,
        *,
        detector: str,
        fingerprint: str,
        identity: Mapping[str, Any],
        shard: Shard = Shard(),  # noqa: B008 - frozen
    ) -> None:
        self._folder = folder
        self._shard = shard
        self._fingerprint = fingerprint
        self._detector = detector
        self._metadata = {
            FINGERPRINT_KEY: fingerprint.encode(),
            IDENTITY_KEY: json.dumps(identity, sort_keys=True).encode(),
        }
        self._schema = PREDICTIONS.with_metadata(self._metadata)
        self._pending: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*.tmp"):  # of a run that was killed while it wrote
            if shard_of_file(".".join(leftover.name.split(".")[1:-2])) in (shard, None):
                leftover.unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        """Where the detector's files lie."""
        return self._folder

    @property
    def detector(self) -> str:
        """The detector's name."""
        return self._detector

    def discard_other_versions(self) -> None:
        """Remove what another version of the detector wrote, or one with other parameters or weights."""
        for path in self._all_files():
            if not self._is_own(path):
                path.unlink()

    def finished(self) -> pa.Table:
        """Rows that are still good: of this fingerprint, without errors, each image and attribute once.

        An error is no verdict, so images with one are judged again.
        """
        table = pa.concat_tables([self._schema.empty_table(), *(_read(path) for path in self._files())])
        return without_repeats(table.filter(pc.field("status") != Status.ERROR.value))

    def add(self, predictions: Sequence[Prediction], *, sha256: Mapping[str, str | None]) -> None:
        """Take predictions in; they reach the disk with the next `flush`.

        Args:
            predictions: any number.
            sha256: content of each image, by image id; None where it could not be read.
        """
        for prediction in predictions:
            row: dict[str, Any] = {name: getattr(prediction, name) for name in _FIELDS}
            row.update(
                detector=self._detector,
                status=prediction.status.value,
                reason=_one_line(prediction.reason),
                raw=_storable(prediction.raw),
                image_sha256=sha256[prediction.image_id],
            )
            self._pending.append(row)

    @property
    def pending(self) -> int:
        """Number of rows that are not on disk yet."""
        return len(self._pending)

    def flush(self) -> None:
        """Write the rows taken in since the last flush as a new part, all or none of them."""
        if not self._pending:
            return
        table = pa.Table.from_pylist(self._pending, schema=self._schema)
        number = 1 + max((part_number(path) or 0 for path in self._all_files()), default=0)
        write_predictions(table, self._folder / self._shard.part_name(number))
        self._pending = []

    def join(self, image_ids: pa.Array, *, sha256: Mapping[str, str | None] | None = None) -> None:
        """Put all good rows into one file, in the image set's order, and remove every other file.

        Args:
            image_ids: the image set's ids; rows of other images are dropped.
            sha256: current content by image id; rows about another content are dropped. None skips the check.
        """
        self.flush()
        files = self._files()
        joined = pa.concat_tables([self._schema.empty_table(), *(_read(path) for path in files)])
        if sha256 is not None:
            current = pa.array([sha256.get(image) for image in joined["image_id"].to_pylist()], pa.string())
            same = pc.equal(joined["image_sha256"], current)
            joined = joined.filter(pc.or_kleene(same, pc.is_null(joined["image_sha256"])))
        joined = _in_order(without_repeats(joined), image_ids)
        target = self._folder / self._shard.joined_name
        if files != [target] or not _read(target).equals(joined, check_metadata=True):
            write_predictions(joined, target)
            # The oldest first: if this is cut short, no row that is left in a part is older than the joined one.
            for path in reversed(files):
                if path != target:
                    path.unlink()

    def described(self) -> ShardFile:
        """What a manifest says of the joined file."""
        path = self._folder / self._shard.joined_name
        sha256 = file_sha256(path)
        if sha256 is None:
            raise unreadable(path, "it is gone")
        rows = pq.read_metadata(path).num_rows
        return ShardFile(fingerprint=self._fingerprint, file=path.name, rows=rows, sha256=sha256)

    def drop_unreadable(self) -> list[Path]:
        """Remove files of the shard that are damaged; what stood in them is judged again.

        Returns:
            Those that were removed.
        """
        found = []
        for path in self._all_files():
            try:
                _read(path)
            except DetectorBenchError:
                found.append(path)
                path.unlink(missing_ok=True)
        return found

    def _files(self) -> list[Path]:
        return [path for path in self._all_files() if self._is_own(path)]

    def _all_files(self) -> list[Path]:
        found = self._folder.glob("*.parquet")
        return newest_first(path for path in found if shard_of_file(path.name) == self._shard)

    def _is_own(self, path: Path) -> bool:
        return (_read_metadata(path) or {}).get(FINGERPRINT_KEY) == self._metadata[FINGERPRINT_KEY]


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        names = table.column_names
    except (OSError, ValueError, pa.ArrowException) as error:  # damaged names are no text
        raise unreadable(path, error) from error
    if not table.schema.equals(PREDICTIONS):
        raise unreadable(path, f"its columns are {', '.join(names)} instead of the expected ones")
    return table


def _read_metadata(path: Path) -> Mapping[bytes, bytes] | None:
    try:
        found: Mapping[bytes, bytes] | None = pq.read_schema(path).metadata
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    return found


def unreadable(path: Path, error: Exception | str) -> DetectorBenchError:
    """What to say of a file of predictions that cannot be read."""
    why = " ".join(str(error).split())
    return DetectorBenchError(
        f"prediction file {str(path)!r} cannot be read: {why}; run the study again, which "
        "judges anew what stood in it"
    )


def _storable(text: str | None) -> str | None:
    # Half a surrogate pair, which file names and JSON may bring along, is no text that can be stored.
    return None if text is None else text.encode("utf-8", "replace").decode()


def _one_line(reason: str | None) -> str | None:
    # Exceptions may explain themselves over pages.
    if reason is None:
        return None
    line = " ".join(reason.split())
    return _storable(line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "...")


def write_predictions(table: pa.Table, path: Path) -> None:
    """Write a file of predictions, whole or not at all."""
    with replacing(path) as temporary:
        # Parts have no manifest that knows their sha256: a flipped byte is to be noticed all the same.
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _in_order(table: pa.Table, image_ids: pa.Array) -> pa.Table:
    position = pc.index_in(table["image_id"], value_set=image_ids)
    table = table.append_column("position", position).filter(pc.is_valid(position))
    return table.sort_by([("position", "ascending"), ("attribute", "ascending")]).drop_columns("position")
