"""Decides into how many shards a result folder is cut, and cuts it anew without losing a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.errors import ConfigError
from detector_bench.runner.prediction_store import FINGERPRINT_KEY, newest_first, unreadable, write_predictions
from detector_bench.runner.run_settings import RunSettings
from detector_bench.runner.shard_ledger import ShardLayout, ShardLedger, ShardTakenError
from detector_bench.runner.shards import MOST_SHARDS, Shard, sensible_count, shard_numbers, shard_of_file

_ROWS_CUT_AT_ONCE = 1_000_000


def decide_layout(
    ledger: ShardLedger, *, images: int, settings: RunSettings, fingerprints: Mapping[str, str]
) -> ShardLayout:
    """The layout for a run of all shards: what is asked for, what the folder has, or what suits its size.

    A folder that is cut otherwise is cut anew.

    Args:
        ledger: of the result folder.
        images: how many the image set has.
        settings: may ask for shards and workers.
        fingerprints: of the detectors, by name.

    Raises:
        ConfigError: a number of shards that is not possible.
        ShardTakenError: the folder would have to be cut anew while somebody judges.
    """
    if settings.shards is not None and not 1 <= settings.shards <= MOST_SHARDS:
        raise ConfigError(f"{settings.shards} shards: a number from 1 to {MOST_SHARDS:,} is expected")
    with ledger.deciding():
        present = ledger.layout()
        by_size = sensible_count(images, workers=settings.workers)
        if settings.shards is not None:
            count = settings.shards
        elif present is not None and (settings.workers == 1 or present.shards > 1):
            count = present.shards
        else:
            count = by_size
        before = {} if present is None else present.detectors
        layout = ShardLayout(shards=count, detectors={**before, **fingerprints}, asked=tuple(sorted(fingerprints)))
        if present is not None and present.shards != count:
            _cut_anew(ledger, old=present.shards, layout=layout)
        elif layout != present:
            ledger.write_layout(layout)
    return layout


def join_layout(ledger: ShardLedger, shard: Shard, *, fingerprints: Mapping[str, str]) -> None:
    """Check that a process that judges one shard fits the others, or say for the first time how the folder is cut.

    Args:
        ledger: of the result folder.
        shard: the one to judge.
        fingerprints: of the detectors, by name, as this process has them.

    Raises:
        ConfigError: the folder is cut otherwise, or others judge by other versions of a detector; one line.
    """
    folder = str(ledger.predictions)
    present = ledger.layout()
    if present is not None and present.shards == shard.count and fingerprints.items() <= present.detectors.items():
        return  # a task among many: nothing to write, and no lock to wait for
    with ledger.deciding():
        present = ledger.layout()
        if present is None:
            ledger.write_layout(_joined(ShardLayout(shards=shard.count), fingerprints))
            return
        if present.shards != shard.count:
            raise ConfigError(
                f"{folder!r} is cut into {present.shards} shards, not {shard.count}: ask for one of those, "
                f"--shard 1/{present.shards} to {present.shards}/{present.shards}, or name another --out"
            )
        known = present.detectors
        other = [name for name, own in fingerprints.items() if known.get(name, own) != own]
        if other:
            name = other[0]
            raise ConfigError(
                f"detector {name!r} is another version here ({fingerprints[name][:12]}) than in {folder!r} "
                f"({known[name][:12]}): use the same study, package and weights on every machine; or, to judge "
                "all anew by this version, run the study once without --shard, or write its job script again"
            )
        if fingerprints.items() - known.items():
            ledger.write_layout(_joined(present, fingerprints))


def _joined(layout: ShardLayout, fingerprints: Mapping[str, str]) -> ShardLayout:
    return ShardLayout(
        shards=layout.shards,
        detectors={**layout.detectors, **fingerprints},
        asked=tuple(sorted({*layout.asked, *fingerprints})),
    )


def _cut_anew(ledger: ShardLedger, *, old: int, layout: ShardLayout) -> None:
    """Write all verdicts into files of the new layout, name it as the one that counts, and remove the old files.

    Until the new layout is named, the new files count for nothing, and afterwards the old ones: if this is cut
    short, each verdict counts once.
    """
    taken = [shard for shard in Shard.all(old) if ledger.is_running(shard)]
    if taken:
        raise ShardTakenError(
            f"{str(ledger.predictions)!r} is cut into {old} shards, and {taken[0]} is being judged right now: "
            "wait for it, or go on without --shards and --workers"
        )
    folders = [path for path in ledger.predictions.glob("*") if path.is_dir() and any(path.glob("*.parquet"))]
    for folder in folders:
        _remove(folder, but=old)
        _split_files(folder, old=old, new=layout.shards)
    ledger.write_layout(layout)
    for folder in folders:
        _remove(folder, but=layout.shards)
    ledger.forget(old)


def _remove(folder: Path, *, but: int) -> None:
    for path in folder.glob("*.parquet"):
        shard = shard_of_file(path.name)
        if shard is not None and shard.count != but:
            path.unlink()


def _split_files(folder: Path, *, old: int, new: int) -> None:
    """Cut each file into one part of each new shard, the newest rows into the parts with the highest numbers."""
    shards = {path: shard_of_file(path.name) for path in folder.glob("*.parquet")}
    files = [path for path, shard in shards.items() if shard is not None and shard.count == old]
    for number, table in enumerate(_gathered(list(reversed(newest_first(files)))), start=1):
        numbers = shard_numbers(table["image_id"].to_pylist(), new)
        for shard in Shard.all(new):
            rows = np.flatnonzero(numbers == shard.number)
            if rows.size:
                write_predictions(table.take(pa.array(rows)), folder / shard.part_name(number))


def _gathered(oldest_first: Sequence[Path]) -> Iterator[pa.Table]:
    """The files' rows in larger tables, the newest rows first in each: few files are cut into few parts.

    A thousand shards that become five hundred would otherwise be half a million files for a while.
    """
    waiting: list[pa.Table] = []
    for path in oldest_first:
        try:
            table = pq.read_table(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise unreadable(path, error) from error
        if FINGERPRINT_KEY not in (table.schema.metadata or {}):
            continue
        rows = sum(each.num_rows for each in [table, *waiting])
        is_other = bool(waiting) and not table.schema.equals(waiting[0].schema, check_metadata=True)
        if waiting and (is_other or rows > _ROWS_CUT_AT_ONCE):
            yield pa.concat_tables(waiting)
            waiting = []
        waiting.insert(0, table)
    if waiting:
        yield pa.concat_tables(waiting)
