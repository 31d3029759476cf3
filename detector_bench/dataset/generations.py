"""Reads `generations.parquet` of an image set: how many requests each T2I model answered, refused or failed.

The file is read piece by piece: of each row a hash stays, so that millions of requests take little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from detector_bench.dataset.image_ids import ImageIds, hash_texts, one_array
from detector_bench.dataset.image_set import ImageSet
from detector_bench.dataset.text_table import LISTED_PER_KIND, Findings, shorten
from detector_bench.errors import Problem
from detector_bench.vocabulary.generations import GENERATIONS, GENERATIONS_FILE, GenerationStatus

STATUSES = tuple(GenerationStatus)
"""The last axis of `Generations.counts`."""

_WORDS = ("image_id", "t2i_model", "prompt_id", "status")
_COLUMNS = (*_WORDS, "in_recipe")
_ROWS_AT_ONCE = 65_536
_FIRST_ROW = 2
"""As in a spreadsheet: the names of the columns are row 1."""

_LISTED_IMAGE = "an image_id that images.csv lists, with this T2I model and prompt"


@dataclass(frozen=True, eq=False)
class Generations:
    """What became of the requests that an image set's recipe makes.

    Attributes:
        t2i_models: in the order of their first request.
        prompt_ids: in the order of the prompt table; prompts that nobody was asked for are among them.
        categories: of each prompt.
        counts: requests, `[t2i_model, prompt, status]`, statuses in the order of `STATUSES`; those that the recipe
            no longer makes are left out.
        not_in_recipe: so many were left out.
    """

    t2i_models: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    categories: tuple[str, ...]
    counts: NDArray[np.int64]
    not_in_recipe: int = 0

    @property
    def table(self) -> pd.DataFrame:
        """Columns `t2i_model, prompt_id, status, requests`: a row for each count that is not 0."""
        model, prompt, status = np.nonzero(self.counts)
        return pd.DataFrame(
            {
                "t2i_model": [self.t2i_models[place] for place in model],
                "prompt_id": [self.prompt_ids[place] for place in prompt],
                "status": [STATUSES[place].value for place in status],
                "requests": self.counts[model, prompt, status],
            }
        )

    def of(self, status: GenerationStatus) -> NDArray[np.int64]:
        """Requests of one status, `[t2i_model, prompt]`."""
        found: NDArray[np.int64] = self.counts[..., STATUSES.index(status)]
        return found


def read_generations(image_set: ImageSet) -> Generations | None:
    """Count the requests of an image set by T2I model, prompt and status.

    Args:
        image_set: its prompts are those that requests may name.

    Returns:
        None where the set has no `generations.parquet`: nobody knows then what was refused.

    Raises:
        DataError: with all mistakes at once: a damaged file, a column that is not there or of another type, an
            empty cell, an unknown status or prompt, or an image that two requests of the recipe share.
    """
    findings = Findings()
    found = _Reading(image_set, findings).read()
    findings.raise_if_any()
    return found


def check_generations(image_set: ImageSet, findings: Findings) -> Generations | None:
    """What `read_generations` refuses, and where the file and images.csv contradict each other.

    Args:
        image_set: the images, and their prompts.
        findings: gets the mistakes: a request that made an image that is not there, an image of a request that
            made none, an image of these T2I models that no request made.

    Returns:
        None where the set has no such file, or a damaged one.
    """
    return _Reading(image_set, findings, compares=True).read()


def answered_rows(path: Path) -> Iterator[pa.Table]:
    """Image, T2I model, prompt and status of the requests that an answer came to, piece by piece: what was made or
    refused stays so, while errors and what waits may become something else.

    Raises:
        DataError: a damaged file.
    """
    findings = Findings()
    for piece in _pieces(path, findings):
        rows = pa.table({name: piece.cells[name] for name in _WORDS})
        answered = pc.is_in(rows["status"], pa.array([GenerationStatus.MADE, GenerationStatus.BLOCKED]))
        yield rows.filter(pc.and_(answered, pa.array(piece.in_recipe)))
    findings.raise_if_any()


class _Piece(NamedTuple):
    start: int
    """Number of its first record in the file."""
    cells: dict[str, pa.LargeStringArray]
    in_recipe: NDArray[np.bool_]


@dataclass
class _Reading:
    """One look at a file."""

    image_set: ImageSet
    findings: Findings
    compares: bool = False
    """Also with images.csv."""
    _models: dict[str, int] = field(default_factory=dict)
    _hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    _faults: dict[str, tuple[list[Problem], int]] = field(default_factory=dict)
    """By kind: the first ones, and how many there are."""

    def read(self) -> Generations | None:
        path = self.image_set.root / GENERATIONS_FILE
        if not path.exists():
            return None
        prompts = self.image_set.table("prompts")
        prompt_ids = tuple(prompts.column("prompt_id").to_pylist())
        ids = ImageIds(prompts.column("prompt_id"))
        counts = np.zeros((0, len(prompt_ids), len(STATUSES)), dtype=np.int64)
        images = _Images.of(self.image_set) if self.compares else None
        left_out = 0
        for piece in _pieces(path, self.findings):
            prompt, status = ids.positions(piece.cells["prompt_id"]), _status_codes(piece.cells["status"])
            asked = piece.in_recipe
            model = self._model_codes(piece)
            accepted = f"a prompt_id of prompts.csv, which has {len(prompt_ids):,}"
            self._tell(piece, "prompt_id", asked & (prompt < 0), "unknown prompt", accepted)
            self._tell(piece, "status", status < 0, "unknown status", ", ".join(STATUSES))
            for name in _WORDS[:3]:
                empty = pc.equal(piece.cells[name], "").to_numpy(zero_copy_only=False)
                self._tell(piece, name, empty, "empty cell", "some text")
            self._hashes.append(hash_texts(piece.cells["image_id"].filter(pa.array(asked))))
            chosen = asked & (prompt >= 0) & (status >= 0)
            if images is not None:
                self._compare(piece, images, status, chosen)
            left_out += int((~asked).sum())
            counts = _longer(counts, len(self._models))
            np.add.at(counts, (model[chosen], prompt[chosen], status[chosen]), 1)
        self._tell_repeated(path)
        if images is not None:
            self._tell_unclaimed(images)
        for listed, total in self._faults.values():
            self.findings.add_kind(listed)
            if rest := total - len(listed):
                message = f"... and {rest:,} more of this kind ({listed[0].message})"
                self.findings.add(Problem(GENERATIONS_FILE, message, column=listed[0].column))
        if self.findings:
            return None
        categories = tuple(prompts.column("category").to_pylist())
        return Generations(tuple(self._models), prompt_ids, categories, counts, left_out)

    def _model_codes(self, piece: _Piece) -> NDArray[np.int64]:
        """Position of each T2I model among those that the recipe asks; 0 in rows that it does not make."""
        cells = pc.if_else(pa.array(piece.in_recipe), piece.cells["t2i_model"], None)
        encoded = cells.dictionary_encode()
        places = [self._models.setdefault(name, len(self._models)) for name in encoded.dictionary.to_pylist()]
        codes = encoded.indices.fill_null(-1).to_numpy()
        found: NDArray[np.int64] = np.array([*places, 0], dtype=np.int64)[codes]
        return found

    def _compare(
        self, piece: _Piece, images: _Images, status: NDArray[np.int64], chosen: NDArray[np.bool_]
    ) -> None:
        """What rows of the recipe say of images.csv."""
        at = images.ids.positions(piece.cells["image_id"])
        is_made = chosen & (status == STATUSES.index(GenerationStatus.MADE))
        of_it = images.made_by(at, piece.cells["t2i_model"], piece.cells["prompt_id"])
        message = "a request made this image, and it is not there"
        self._tell(piece, "image_id", is_made & ~of_it, message, _LISTED_IMAGE)
        unexpected = chosen & ~is_made & (at >= 0)
        self._tell(piece, "image_id", unexpected, "a request without an image has one", "made as its status")
        images.claimed[at[is_made & (at >= 0)]] = True

    def _tell(self, piece: _Piece, column: str, wrong: NDArray[np.bool_], message: str, accepted: str) -> None:
        rows = np.flatnonzero(wrong)
        if not len(rows):
            return
        kind = f"{message} {column}"
        listed, total = self._faults.get(kind, ([], 0))
        for index in rows[: LISTED_PER_KIND - len(listed)].tolist():
            value = shorten(piece.cells[column][index].as_py())
            row = piece.start + index + _FIRST_ROW
            listed.append(Problem(GENERATIONS_FILE, message, row, column, value, accepted))
        self._faults[kind] = listed, total + len(rows)

    def _tell_repeated(self, path: Path) -> None:
        """Images that two requests share: rows of equal hashes are looked at once more."""
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *self._hashes])
        kinds, times = np.unique(hashes, return_counts=True)
        twice = kinds[times > 1]
        if not len(twice):
            return
        seen: set[str] = set()
        for piece in _pieces(path, Findings()):
            cells = piece.cells["image_id"]
            repeated = np.zeros(len(cells), dtype=bool)
            for index in np.flatnonzero(np.isin(hash_texts(cells), twice) & piece.in_recipe).tolist():
                text = cells[index].as_py()
                repeated[index] = text in seen
                seen.add(text)
            self._tell(piece, "image_id", repeated, "image listed twice", "each image once")

    def _tell_unclaimed(self, images: _Images) -> None:
        """Images of T2I models that the file knows, and that no request made."""
        known = np.isin(images.model_texts, list(self._models))[images.model_codes]
        unclaimed = np.flatnonzero(known & ~images.claimed)
        table = self.image_set.table("images")
        message = "no request made this image"
        accepted = f"an image_id that {GENERATIONS_FILE} lists as made, or a T2I model that it does not have"
        self.findings.add_rows(table, "image_id", unclaimed, message=message, accepted=accepted)


@dataclass(frozen=True)
class _Images:
    """The images of a set, and which of them a request made."""

    ids: ImageIds
    model_texts: NDArray[np.object_]
    model_codes: NDArray[np.int64]
    prompts: pa.LargeStringArray
    claimed: NDArray[np.bool_]

    @classmethod
    def of(cls, image_set: ImageSet) -> _Images:
        table = image_set.table("images")
        encoded = table.encoded("t2i_model")
        return cls(
            image_set.image_ids,
            np.array(encoded.texts, dtype=object),
            np.asarray(encoded.codes, dtype=np.int64),
            one_array(table.column("prompt_id")),
            np.zeros(len(table), dtype=bool),
        )

    def made_by(
        self, at: NDArray[np.int64], models: pa.LargeStringArray, prompts: pa.LargeStringArray
    ) -> NDArray[np.bool_]:
        """Whether the images at these places are of these T2I models and prompts; a place may be -1."""
        is_there = at >= 0
        same = is_there.copy()
        place = at[is_there]
        names = np.array(models.to_pylist(), dtype=object)[is_there]
        said = self.prompts.take(pa.array(place))
        of_prompt = pc.equal(said, prompts.filter(pa.array(is_there))).to_numpy(zero_copy_only=False)
        same[is_there] = (self.model_texts[self.model_codes[place]] == names) & of_prompt
        return same


def _pieces(path: Path, findings: Findings) -> Iterator[_Piece]:
    """The rows of a file that has the columns it needs."""
    start = 0
    try:
        with pq.ParquetFile(path) as file:
            if not _has_columns(file.schema_arrow, findings):
                return
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(_COLUMNS)):
                batch.validate(full=True)
                cells = {name: one_array(batch.column(name)).fill_null("") for name in _WORDS}
                # What an older file does not say is not left out.
                asked = pc.fill_null(batch.column("in_recipe"), fill_value=True)
                yield _Piece(start, cells, asked.to_numpy(zero_copy_only=False))
                start += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        after = "" if not start else f" after row {start + 1:,}"
        message = f"cannot be read as Parquet{after} ({reason})"
        findings.add(Problem(GENERATIONS_FILE, message, accepted="a whole Parquet file, as `generate` writes it"))


def _has_columns(schema: pa.Schema, findings: Findings) -> bool:
    for name in _COLUMNS:
        wanted = GENERATIONS.field(name).type
        if name not in schema.names:
            accepted = ", ".join(_COLUMNS)
            findings.add(Problem(GENERATIONS_FILE, "the column is missing", 1, name, accepted=accepted))
            continue
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        fits = pa.types.is_boolean(kind) if pa.types.is_boolean(wanted) else _is_text(kind)
        if not fits:
            findings.add(Problem(GENERATIONS_FILE, "wrong column type", None, name, str(kind), str(wanted)))
    return not findings


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _status_codes(cells: pa.LargeStringArray) -> NDArray[np.int64]:
    """Position of each status in `STATUSES`; -1 for another word."""
    known = pa.array([each.value for each in STATUSES], pa.large_string())
    codes: NDArray[np.int64] = (
        pc.fill_null(pc.index_in(cells, value_set=known), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return codes


def _longer(counts: NDArray[np.int64], models: int) -> NDArray[np.int64]:
    if len(counts) == models:
        return counts
    return np.concatenate([counts, np.zeros((models - len(counts), *counts.shape[1:]), dtype=np.int64)])
