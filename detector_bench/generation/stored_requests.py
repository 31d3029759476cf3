"""Reads what `generations.parquet` says of single requests, and of all of them together."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.errors import ConfigError, DataError, Problem, nearest_hint
from detector_bench.generation.journal import JOURNAL_FOLDER
from detector_bench.generation.set_tables import IMAGES_FILE
from detector_bench.vocabulary.generations import GENERATIONS, GENERATIONS_FILE, GenerationStatus

_JSON = ("parameters", "versions")
_ROWS_AT_ONCE = 65_536
_SHOWN_IDS = 5_000
"""Of so many ids the nearest one is looked for."""
_LISTED_IDS = 5
"""So many are named where none is near."""


@dataclass(frozen=True)
class StoredRequest:
    """A request, as the table has it.

    Attributes:
        row: its cells by column (`vocabulary.generations.GENERATIONS`); JSON is read, and empty where there is
            none.
        path: of its image in the image set; None: no image is listed.
    """

    row: Mapping[str, Any]
    path: str | None

    @property
    def image_id(self) -> str:
        """Of the image."""
        return str(self.row["image_id"])

    @property
    def status(self) -> GenerationStatus:
        """What became of it."""
        return GenerationStatus(self.row["status"])


@dataclass
class ModelRequests:
    """All requests to one T2I model.

    Attributes:
        t2i_model: its name.
        counts: by status, how many the recipe makes.
        not_in_recipe: rows of requests that it no longer makes, and of attempts that were repeated.
        may_have_been_paid: errors that may have been charged for all the same, over all rows.
        cost: by currency, over all rows.
        seconds: over all images that were made.
        reasons: by status and reason, how often; of a reason with details behind a colon what stands before it.
        examples: by status and reason, one in full.
    """

    t2i_model: str
    counts: Counter[str] = field(default_factory=Counter)
    not_in_recipe: int = 0
    may_have_been_paid: int = 0
    cost: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        if row["cost"] is not None:
            currency = str(row["currency"])
            self.cost[currency] = self.cost.get(currency, 0.0) + row["cost"]
        # Of an attempt that was repeated, too.
        self.may_have_been_paid += row["may_have_been_paid"] and row["status"] != GenerationStatus.MADE
        if not row["in_recipe"]:
            self.not_in_recipe += 1
            return
        self.counts[row["status"]] += 1
        if row["status"] == GenerationStatus.MADE:
            self.seconds += row["seconds"] or 0.0
        if row["reason"]:
            kind = (row["status"], row["reason"].partition(": ")[0])
            self.reasons[kind] += 1
            self.examples.setdefault(kind, row["reason"])


def requests_of_image(folder: Path, image_id: str) -> list[StoredRequest]:
    """All that the table says of an image: the request that the recipe makes first, then those that it made once.

    Raises:
        ConfigError: there is no such table, or no such image.
        DataError: the table is damaged.
    """
    path = _table(folder)
    try:
        rows = pq.read_table(path, columns=GENERATIONS.names, filters=[("image_id", "=", image_id)]).to_pylist()
    except (OSError, pa.ArrowException, KeyError) as error:
        raise _damaged(error) from error
    if not rows:
        raise ConfigError(f"{path}: there is no request for the image {image_id!r}{_nearest(path, image_id)}")
    listed = listed_path(folder, image_id)
    rows.sort(key=lambda row: not row["in_recipe"])
    return [StoredRequest(_read(row), _path_of(folder, row, listed)) for row in rows]


def requests_by_model(folder: Path) -> list[ModelRequests]:
    """Sum up the requests of every T2I model, in the order of the table; it is read piece by piece.

    Raises:
        ConfigError, DataError: see `requests_of_image`.
    """
    columns = ["t2i_model", "status", "reason", "seconds", "cost", "currency", "may_have_been_paid", "in_recipe"]
    found: dict[str, ModelRequests] = {}
    path = _table(folder)
    try:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    found.setdefault(row["t2i_model"], ModelRequests(row["t2i_model"])).add(row)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise _damaged(error) from error
    return list(found.values())


def _table(folder: Path) -> Path:
    path = folder / GENERATIONS_FILE
    if not path.is_file():
        if (folder / JOURNAL_FOLDER).is_dir():
            raise ConfigError(
                f"{GENERATIONS_FILE} is not written yet in {str(folder)!r}: `detector-bench generate` writes it "
                "when it ends; if it was killed, the same command goes on and writes it"
            )
        raise ConfigError(
            f"there is no {GENERATIONS_FILE} in {str(folder)!r}: name an image set that `detector-bench generate` "
            "made"
        )
    return path


def _damaged(error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        [Problem(GENERATIONS_FILE, f"it cannot be read ({reason})", accepted="a table of `generate`")]
    )


def _nearest(path: Path, image_id: str) -> str:
    with pq.ParquetFile(path) as table:
        ids = next(table.iter_batches(_SHOWN_IDS, columns=["image_id"]), None)
    known = [] if ids is None else list(dict.fromkeys(ids.column(0).to_pylist()))
    hint = nearest_hint(image_id, known)
    if len(known) <= _LISTED_IDS or hint.startswith("did you mean"):
        return f": {hint}" if known else ""
    return f"; there are such as {', '.join(known[:_LISTED_IDS])}"


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, **{name: json.loads(row[name]) if row[name] else {} for name in _JSON}}


def listed_path(folder: Path, image_id: str) -> str | None:
    """The path of an image in the image set; None: it is not listed, or nobody can tell."""
    try:
        with (folder / IMAGES_FILE).open(encoding="utf-8", newline="") as stream:
            return next((row["path"] for row in csv.DictReader(stream) if row.get("image_id") == image_id), None)
    except (OSError, KeyError, csv.Error, UnicodeDecodeError):
        return None


def _path_of(folder: Path, row: Mapping[str, Any], listed: str | None) -> str | None:
    if row["status"] != GenerationStatus.MADE:
        return None
    if row["in_recipe"] or not row["image_sha256"]:
        return listed
    # Where `generate --remake-changed` has put it aside.
    aside = (folder / "generation" / "replaced").glob(f"*/{row['image_sha256'][:12]}_*")
    return next((path.relative_to(folder).as_posix() for path in aside), None)
