"""What became of every request to one T2I model, in SQLite: it survives any stop, and says where to go on.

A request that may be charged for is recorded before it is sent. An outcome is recorded with the image's sha256
before the image's file gets its name: whatever moment a process dies at, files and journal can be brought
together again, and no image is there of which the journal knows nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from filelock import FileLock, Timeout

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.generation.plan import PlannedRequest
from detector_bench.generation.t2i_models import ModelRecord
from detector_bench.vocabulary.generations import GenerationStatus

SENT = "sent"
"""The state of a request that is on its way; it stays behind when a process dies."""

JOURNAL_FOLDER = "generation"
"""In the image set: what became of every request, as it came."""

SET_ASIDE = f"{JOURNAL_FOLDER}/replaced"
"""Where in the image set images lie whose requests were made anew."""

_LOST = "the run was stopped while the request was on its way"
_PER_QUERY = 500
_PATIENCE = 60.0  # seconds
_DIGITS_OF_MONEY = 9  # of sums of floats
_COLUMNS = (
    *("image_id", "request_sha256", "status", "reason", "prompt_id", "number", "seed_image_id", "seed", "prompt"),
    *("revised_prompt", "prompt_cut", "parameters", "record", "seconds", "cost", "currency"),
    *("may_have_been_paid", "path", "image_sha256", "provenance", "made_at"),
)
_TYPES = ("number", "seed", "record", "may_have_been_paid")
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS requests (
    {
    ", ".join(
        f"{name} {'INTEGER' if name in _TYPES else 'REAL' if name in ('seconds', 'cost') else 'TEXT'}"
        for name in _COLUMNS
    )
},
    PRIMARY KEY (image_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replaced ({", ".join(_COLUMNS)});
CREATE TABLE IF NOT EXISTS changes (number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS about (t2i_model TEXT NOT NULL);
"""


class Known(NamedTuple):
    """What stands in the journal about a request, in short."""

    request_sha256: str
    status: str
    may_have_been_paid: bool
    path: str | None
    image_sha256: str | None
    record: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An outcome as the journal keeps it; see `vocabulary.generations.GENERATIONS`."""

    planned: PlannedRequest
    status: GenerationStatus
    reason: str | None = None
    revised_prompt: str | None = None
    prompt_cut: str | None = None
    parameters: str = "{}"
    seconds: float | None = None
    cost: float | None = None
    currency: str | None = None
    may_have_been_paid: bool = False
    path: str | None = None
    image_sha256: str | None = None
    provenance: str | None = None
    made_at: str | None = None


class Journal:
    """The journal of one T2I model; one process writes it.

    Args:
        path: of the file; created if it is missing.
        alone: take the lock; without it, it is only read.
        t2i_model: whose journal it is; written into a new one.

    Raises:
        ConfigError: another process writes it.
        DetectorBenchError: it cannot be written, or is damaged.
    """

    def __init__(self, path: Path, *, alone: bool = True, t2i_model: str | None = None) -> None:
        self.path = path
        self.is_alone = alone
        self._lock = FileLock(path.with_suffix(".lock"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if alone:
                self._lock.acquire(timeout=0)
        except Timeout:
            raise ConfigError(
                f"another process makes images of this T2I model in {str(path.parent.parent)!r}; wait for it, or "
                "name another T2I model with --model"
            ) from None
        except OSError as error:
            raise self._unusable(error) from error
        with self._complaining():
            self._base = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode = WAL")
            # What was paid for has to outlive a power failure, too.
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.executescript(_SCHEMA)
            if alone and t2i_model is not None:
                self._base.execute(
                    "INSERT INTO about SELECT ? WHERE NOT EXISTS (SELECT * FROM about)", (t2i_model,)
                )

    def close(self) -> None:
        """Close the file, and let others write it."""
        self._base.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def t2i_model(self) -> str:
        """Whose journal it is, also where no recipe names it any more."""
        return str(self._one("SELECT t2i_model FROM about") or self.path.stem)

    @property
    def changes(self) -> int:
        """How often it was written; equal numbers mean equal content."""
        found = self._one("SELECT MAX(number) FROM changes")
        return int(found or 0)

    def known(self, image_ids: Sequence[str]) -> dict[str, Known]:
        """What stands there about requests, by image id; nothing about those that nobody made."""
        rows = self._of(
            image_ids, "image_id, request_sha256, status, may_have_been_paid, path, image_sha256, record"
        )
        return {row[0]: Known(row[1], row[2], bool(row[3]), *row[4:]) for row in rows}

    def rows(self, image_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """All that stands there about requests, by image id."""
        return {row[0]: dict(zip(_COLUMNS, row, strict=True)) for row in self._of(image_ids, ", ".join(_COLUMNS))}

    def count(self) -> int:
        """How many requests it knows."""
        return int(self._one("SELECT COUNT(*) FROM requests"))

    def others(self, image_ids: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The rows of requests that are not among these, and those that were replaced."""
        with self._complaining():
            self._base.execute("CREATE TEMP TABLE IF NOT EXISTS asked (image_id TEXT PRIMARY KEY) WITHOUT ROWID")
            self._base.execute("DELETE FROM temp.asked")
            self._base.executemany("INSERT OR IGNORE INTO temp.asked VALUES (?)", ((each,) for each in image_ids))
            columns = ", ".join(_COLUMNS)
            for query in (
                f"SELECT {columns} FROM requests WHERE image_id NOT IN (SELECT image_id FROM temp.asked) "  # noqa: S608
                "ORDER BY image_id",
                f"SELECT {columns} FROM replaced ORDER BY image_id, rowid",  # noqa: S608
            ):
                for row in self._base.execute(query):
                    yield dict(zip(_COLUMNS, row, strict=True))

    def replaced_count(self) -> int:
        """How many outcomes were replaced by others."""
        return int(self._one("SELECT COUNT(*) FROM replaced"))

    def counts(self) -> dict[str, int]:
        """How many requests there are in each state."""
        with self._complaining():
            return dict(self._base.execute("SELECT status, COUNT(*) FROM requests GROUP BY status").fetchall())

    def spent(self) -> dict[str, float]:
        """What all requests have cost together, by currency, those that were replaced included."""
        query = "SELECT currency, cost FROM requests UNION ALL SELECT currency, cost FROM replaced"
        query = f"SELECT currency, SUM(cost) FROM ({query}) WHERE cost IS NOT NULL GROUP BY currency"  # noqa: S608
        with self._complaining():
            return {str(currency): round(cost, _DIGITS_OF_MONEY) for currency, cost in self._base.execute(query)}

    def doubtful(self) -> int:
        """How many attempts may have been charged for, and nobody knows: those on their way now, and those that
        were repeated, included."""
        attempts = "SELECT status, cost, may_have_been_paid FROM {}"
        both = f"{attempts.format('requests')} UNION ALL {attempts.format('replaced')}"
        query = f"SELECT COUNT(*) FROM ({both}) WHERE cost IS NULL AND (may_have_been_paid OR status = ?)"  # noqa: S608
        return int(self._one(query, SENT))

    def largest_cost(self, currency: str) -> float:
        """The most that a request has cost; 0 where none has cost anything."""
        return float(self._one("SELECT MAX(cost) FROM requests WHERE currency = ?", currency) or 0.0)

    def mean_seconds(self) -> float | None:
        """What an image took that was made, on average; None: there is none."""
        found = self._one("SELECT AVG(seconds) FROM requests WHERE status = 'made'")
        return None if found is None else float(found)

    def latest_paths(self, number: int) -> list[str]:
        """Where the images lie that were made last."""
        query = "SELECT path FROM requests WHERE status = 'made' ORDER BY made_at DESC LIMIT ?"
        with self._complaining():
            return [path for (path,) in self._base.execute(query, (number,))]

    def paths(self) -> Iterator[str]:
        """Where all images lie that were made."""
        with self._complaining():
            for (path,) in self._base.execute("SELECT path FROM requests WHERE status = 'made'"):
                yield path

    def record_of(self, number: int) -> ModelRecord:
        """What was known of the T2I model when a request was made."""
        return ModelRecord(**json.loads(self._one("SELECT content FROM records WHERE id = ?", number)))

    def add_record(self, record: ModelRecord) -> int:
        """Write down what is known of the T2I model; gives the number that stands for it."""
        content = json.dumps(
            {
                **{name: getattr(record, name) for name in ("model", "revision", "sha256", "device")},
                "versions": dict(sorted(record.versions.items())),
            }
        )
        with self._change() as base:
            base.execute("INSERT OR IGNORE INTO records (content) VALUES (?)", (content,))
        return int(self._one("SELECT id FROM records WHERE content = ?", content))

    def take_over(self) -> int:
        """Settle what a process left behind that died: what was on its way may have been charged for.

        Returns:
            How many requests those are.
        """
        found = int(self._one("SELECT COUNT(*) FROM requests WHERE status = ?", SENT))
        if found:
            with self._change() as base:
                base.execute(
                    "UPDATE requests SET status = ?, reason = ?, may_have_been_paid = 1 WHERE status = ?",
                    (GenerationStatus.ERROR.value, _LOST, SENT),
                )
        return found

    def send(self, planned: Sequence[PlannedRequest], *, record: int, parameters: str) -> None:
        """Record requests that are about to be sent; they are on the disk when this returns."""
        with self._change() as base:
            for each in planned:
                self._keep_cost(base, each.request.image_id)
                self._write(
                    base,
                    _values(JournalEntry(planned=each, status=GenerationStatus.WAITING), record)
                    | {"status": SENT, "parameters": parameters},
                )

    def take_back(self, planned: Sequence[PlannedRequest]) -> None:
        """Undo `send` for requests that were not sent after all: what stood there before stands there again."""
        columns = ", ".join(_COLUMNS)
        with self._change() as base:
            for each in planned:
                image_id = each.request.image_id
                sent = "DELETE FROM requests WHERE image_id = ? AND status = ?"
                if not base.execute(sent, (image_id, SENT)).rowcount:
                    continue
                query = "SELECT rowid, path FROM replaced WHERE image_id = ? ORDER BY rowid DESC LIMIT 1"
                before = base.execute(query, (image_id,)).fetchone()
                if before is None or (before[1] or "").startswith(SET_ASIDE):
                    continue
                base.execute(
                    f"INSERT INTO requests ({columns}) SELECT {columns} FROM replaced WHERE rowid = ?",  # noqa: S608
                    before[:1],
                )
                base.execute("DELETE FROM replaced WHERE rowid = ?", before[:1])

    def settle(self, entries: Sequence[JournalEntry], *, record: int) -> None:
        """Record what became of requests, of all of them or of none."""
        with self._change() as base:
            for entry in entries:
                self._write(base, _values(entry, record))

    def replace(self, image_ids: Sequence[str], *, moved: Mapping[str, str]) -> None:
        """Set outcomes aside: their requests are made anew.

        Args:
            image_ids: of the requests.
            moved: by image id, where its file lies now.
        """
        with self._change() as base:
            for image_id in image_ids:
                if image_id in moved:
                    base.execute("UPDATE requests SET path = ? WHERE image_id = ?", (moved[image_id], image_id))
                columns = ", ".join(_COLUMNS)
                base.execute(
                    f"INSERT INTO replaced ({columns}) SELECT {columns} FROM requests WHERE image_id = ?",  # noqa: S608
                    (image_id,),
                )
                base.execute("DELETE FROM requests WHERE image_id = ?", (image_id,))

    def _keep_cost(self, base: sqlite3.Connection, image_id: str) -> None:
        """What an attempt has cost that is about to be repeated stays in the sum."""
        columns = ", ".join(_COLUMNS)
        base.execute(
            f"INSERT INTO replaced ({columns}) SELECT {columns} FROM requests "  # noqa: S608
            "WHERE image_id = ? AND (cost IS NOT NULL OR may_have_been_paid)",
            (image_id,),
        )

    def _write(self, base: sqlite3.Connection, values: Mapping[str, Any]) -> None:
        marks = ", ".join("?" for _ in _COLUMNS)
        base.execute(
            f"INSERT OR REPLACE INTO requests ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608
            tuple(values[name] for name in _COLUMNS),
        )

    def _of(self, image_ids: Sequence[str], columns: str) -> Iterator[tuple[Any, ...]]:
        with self._complaining():
            for start in range(0, len(image_ids), _PER_QUERY):
                part = image_ids[start : start + _PER_QUERY]
                marks = ", ".join("?" for _ in part)
                yield from self._base.execute(
                    f"SELECT {columns} FROM requests WHERE image_id IN ({marks})",  # noqa: S608
                    tuple(part),
                )

    def _one(self, query: str, *values: object) -> Any:
        with self._complaining():
            row = self._base.execute(query, values).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._complaining():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
                number = self._base.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM changes").fetchone()[0]
                self._base.execute("DELETE FROM changes")
                self._base.execute("INSERT INTO changes VALUES (?)", (number,))
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> DetectorBenchError:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        return DetectorBenchError(
            f"the journal {str(self.path)!r} cannot be used ({getattr(error, 'strerror', None) or error}); "
            + (
                "put back a copy of it, or name another folder with --out"
                if damaged
                else "what stands in it is kept: mend that, and run the same command again"
            )
        )


def _values(entry: JournalEntry, record: int) -> dict[str, Any]:
    request = entry.planned.request
    return {
        "image_id": request.image_id,
        "request_sha256": entry.planned.sha256,
        "status": entry.status.value,
        "reason": entry.reason,
        "prompt_id": request.prompt_id,
        "number": request.number,
        "seed_image_id": None if request.seed_photo is None else request.seed_photo.image_id,
        "seed": request.seed,
        "prompt": request.prompt,
        "revised_prompt": entry.revised_prompt,
        "prompt_cut": entry.prompt_cut,
        "parameters": entry.parameters,
        "record": record,
        "seconds": entry.seconds,
        "cost": entry.cost,
        "currency": entry.currency,
        "may_have_been_paid": int(entry.may_have_been_paid),
        "path": entry.path,
        "image_sha256": entry.image_sha256,
        "provenance": entry.provenance,
        "made_at": entry.made_at,
    }
