"""Stored predictions as numbers: read piece by piece, so that no more text is in memory than that of a few pieces.

What counts images asks for verdicts, one byte each; whole tables are read again when somebody asks for reasons or
scores.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from detector_bench.dataset.image_ids import Hashes, hash_texts, one_array
from detector_bench.errors import DataError, Problem
from detector_bench.evaluation.image_index import NULL, ImageIndex, codes, words_in_order
from detector_bench.runner.stored_predictions import Piece, StoredPredictions
from detector_bench.vocabulary import Attribute, Status, attribute_named

Codes = NDArray[np.int8]

STATUSES = tuple(status.value for status in Status)

_LISTED_PER_KIND = 20
"""Mistakes of one kind in one detector's predictions; more are only counted."""

_ONE_ROW = "one row per image and attribute; an interrupted run leaves more, run `detector-bench run` again"

_UNKNOWN_CONTENT = np.uint64(1)

_KEPT_ROWS = 5_000_000
"""Rows of all tables together up to which a table stays in memory once it is asked for."""


class JudgedRows(NamedTuple):
    """Rows of one detector's predictions about one attribute, as numbers."""

    position: NDArray[np.int64]
    """`[row]`: of the image in the set; `NULL` for an unknown one."""
    verdict: Codes
    """`[row]`: a class, K for filtered, K + 1 for an error; right where there is no mistake."""
    mistakes: tuple[_Mistakes, ...]

    @classmethod
    def of(cls, table: pa.Table, position: NDArray[np.int64], attribute: Attribute) -> JudgedRows:
        """Code rows that are all about an attribute.

        Args:
            table: image_id, status and label.
            position: of the image of each row.
            attribute: which one.
        """
        classes = attribute.classes
        status, label = codes(table["status"], STATUSES), codes(table["label"], classes)
        clear = status == STATUSES.index(Status.CLEAR)
        filtered = status == STATUSES.index(Status.FILTERED)
        verdict = np.select([clear, filtered], [label, len(classes)], len(classes) + 1).astype(np.int8)
        needs_class = f"a clear image needs a class of {attribute.name}"
        return cls(
            position,
            verdict,
            (
                _Mistakes.of(table, position == NULL, "image_id", "not an image of the set", _KNOWN_ID),
                _Mistakes.of(table, status < 0, "status", "unknown status", ", ".join(STATUSES)),
                _Mistakes.of(table, clear & (label < 0), "label", needs_class, ", ".join(classes)),
            ),
        )


_KNOWN_ID = "an image_id of the image set"


@dataclass(slots=True)
class _Mistakes:
    """Mistakes of one kind in a detector's predictions: the first ones, and how many there are."""

    column: str
    message: str
    accepted: str
    listed: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    @classmethod
    def of(cls, table: pa.Table, wrong: NDArray[np.bool_], column: str, message: str, accepted: str) -> _Mistakes:
        """The rows of a table where something is wrong."""
        found = cls(column, message, accepted)
        if wrong.any():
            rows = np.flatnonzero(wrong)
            names = list(dict.fromkeys(["image_id", column]))
            found.listed = table.select(names).take(pa.array(rows[:_LISTED_PER_KIND])).to_pylist()
            found.number = len(rows)
        return found

    def add(self, others: _Mistakes) -> None:
        """Take in those of later rows."""
        self.listed += others.listed[: _LISTED_PER_KIND - len(self.listed)]
        self.number += others.number

    def problems(self, detector: str) -> list[Problem]:
        """Describe the mistakes so that they can be mended; beyond a number they are only counted."""
        file, column = f"predictions of {detector}", self.column
        found = [
            Problem(
                file=file,
                column=column,
                message=self.message if column == "image_id" else f"image {record['image_id']!r}: {self.message}",
                value="(empty)" if record[column] is None else record[column],
                accepted=self.accepted,
            )
            for record in self.listed
        ]
        if (rest := self.number - len(self.listed)) > 0:
            message = f"... and {rest:,} more of this kind ({self.message})"
            found.append(Problem(file=file, column=column, message=message))
        return found


class GatheredVerdicts:
    """One detector's verdicts on one attribute, filled piece by piece."""

    def __init__(
        self, index: ImageIndex, attribute: Attribute, detector: str, *, row: Codes | None = None
    ) -> None:
        """`row`: where the verdicts are put, `[image]`; None: in an array of their own."""
        self.detector = detector
        self.verdicts: Codes = np.empty(len(index.cells), dtype=np.int8) if row is None else row
        self.verdicts[:] = NULL
        """`[image]`: a class, K for filtered, K + 1 for an error, `NULL` where it was never run; right if there is
        no problem."""
        self._index = index
        message = f"predicted more than once for {attribute.name}"
        self._repeated = _Mistakes("image_id", message, _ONE_ROW)
        self._mistakes: tuple[_Mistakes, ...] = ()

    def add(self, rows: JudgedRows) -> None:
        """Take in further rows."""
        known = np.flatnonzero(rows.position != NULL)
        position = rows.position[known]
        repeated = self.verdicts[position] != NULL
        if not (np.diff(position) > 0).all():
            first = np.unique(position, return_index=True)[1]
            later = np.ones(len(position), dtype=np.bool_)
            later[first] = False
            repeated |= later
        if repeated.any():
            again = position[repeated]
            listed = self._index.ids.texts.take(pa.array(again[:_LISTED_PER_KIND])).to_pylist()
            self._repeated.add(
                _Mistakes("image_id", "", "", [{"image_id": image_id} for image_id in listed], len(again))
            )
        self.verdicts[position] = rows.verdict[known]
        for before, others in zip(self._mistakes, rows.mistakes, strict=False):
            before.add(others)
        self._mistakes = self._mistakes or rows.mistakes

    def problems(self) -> list[Problem]:
        """What is wrong with the detector's predictions of the attribute, the repeated images second."""
        kinds = [*self._mistakes[:1], self._repeated, *self._mistakes[1:]]
        return [problem for each in kinds for problem in each.problems(self.detector)]


class _CodedPiece(NamedTuple):
    """A piece of a detector's predictions as numbers."""

    piece: Piece
    position: NDArray[np.int32]
    judged: dict[str, JudgedRows]
    """By attribute; of those that are asked for."""
    statuses: Counter[tuple[str, str]]
    """Rows by attribute and status, of all attributes."""
    rows: int
    problems: list[Problem]

    @property
    def worth_keeping(self) -> bool:
        """Whether its positions may serve for another detector: all known, and not just the file's rows."""
        position, first = self.position, self.piece.first_row
        if not len(position) or position.min() == NULL:
            return False
        return bool(position[0] != first or position[-1] != first + len(position) - 1)


class CodedPredictions(Mapping[str, pa.Table]):
    """The predictions of some detectors about an image set; as a mapping, their tables.

    Everything that takes predictions by detector takes these too. Verdicts are read once, by several threads, and
    stay: a byte for each image, detector and attribute.

    Args:
        index: of the image set.
        stored: the files.
        detectors: whose predictions; in this order.
        attributes: those that verdicts are asked of.
    """

    def __init__(
        self, index: ImageIndex, stored: StoredPredictions, *, detectors: Sequence[str], attributes: Sequence[str]
    ) -> None:
        self.index = index
        self._stored = stored
        self._detectors = tuple(detectors)
        self._attributes = tuple(attributes)
        self._tables: dict[str, pa.Table] = {}
        self._compared: dict[tuple[str, str], Hashes] = {}
        self._positions: dict[tuple[str, int], NDArray[np.int32]] = {}
        """Of the images of each piece, by the file's name and the first row: detectors judged the same images."""

    def __getitem__(self, detector: str) -> pa.Table:
        """A detector's table; of many images it is read anew each time.

        Raises:
            DataError: files that cannot be read, or not any more.
        """
        if detector not in self._detectors:
            raise KeyError(detector)
        if detector in self._tables:
            return self._tables[detector]
        table = self._stored[detector]
        if table.num_rows * len(self._detectors) <= _KEPT_ROWS:
            self._tables[detector] = table
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._detectors)

    def __len__(self) -> int:
        return len(self._detectors)

    @cached_property
    def judged_attributes(self) -> frozenset[str]:
        """What any detector judges, known to the vocabulary or not."""
        return frozenset(attribute for counts in self.status_counts.values() for attribute in counts)

    @cached_property
    def status_counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """How many predictions each detector has, by attribute and status; every status is there, with 0 if need
        be."""
        return {
            detector: {
                attribute: {status: counted[attribute, status] for status in STATUSES}
                for attribute in sorted({attribute for attribute, _ in counted})
            }
            for detector, counted in self._read.statuses.items()
        }

    def knows(self, index: ImageIndex, attribute: str) -> bool:
        """Whether verdicts on an attribute of just these images can be asked for."""
        return index.ids is self.index.ids and attribute in self._attributes

    def verdicts(self, attribute: str) -> tuple[tuple[str, ...], Codes]:
        """The verdicts of the detectors that judge an attribute, and of those without any prediction.

        Returns:
            Names, and `[detector, image]` as in `GatheredVerdicts`.

        Raises:
            DataError: predictions that contradict the image set or the attribute's classes; all of them at once.
        """
        block, found = self._read.blocks[attribute], self._read.found[attribute]
        judging = [name for name in self._detectors if name in found or not self._read.rows[name]]
        if problems := [problem for name in judging if name in found for problem in found[name].problems()]:
            raise DataError(problems)
        places = [place for place, name in enumerate(self._detectors) if name in judging]
        for place, name in zip(places, judging, strict=True):
            if name not in found:
                block[place] = NULL
        return tuple(judging), block if len(judging) == len(block) else block[places]

    def numbers(self, detector: str, attribute: str, column: str) -> NDArray[np.float64]:
        """A column of numbers, such as `value`: `[image]`; NaN where there is none.

        Raises:
            DataError: files that cannot be read any more.
        """
        problems: list[Problem] = []
        numbers = np.full(len(self.index.cells), np.nan)
        for piece in self._stored.pieces(detector, ("image_id", "attribute", column), problems):
            table = piece.read(problems)
            own = np.equal(codes(table["attribute"], [attribute]), 0)
            position = self._positions_of(piece, one_array(table["image_id"]))[own]
            found = table[column].cast(pa.float64()).to_numpy()[own]
            numbers[position[position != NULL]] = found[position != NULL]
        if problems:
            raise DataError(problems)
        return numbers

    def evidently_same_images(self, first: str, second: str, attribute: str) -> bool:
        """Whether two detectors judged the same images, and no file had changed between them.

        False where it is not evident: the tables say what is different, if anything is.

        Raises:
            DataError: files that cannot be read any more.
        """
        one, other = self._contents(first, attribute), self._contents(second, attribute)
        known = (one > _UNKNOWN_CONTENT) & (other > _UNKNOWN_CONTENT)
        return bool(((one == 0) == (other == 0)).all() and not (known & (one != other)).any())

    def _contents(self, detector: str, attribute: str) -> Hashes:
        """`[image]`: the hash of what the file held; `_UNKNOWN_CONTENT` where nobody knows, 0 where the detector
        did not judge it."""
        if (detector, attribute) in self._compared:
            return self._compared[detector, attribute]
        problems: list[Problem] = []
        contents = np.zeros(len(self.index.cells), dtype=np.uint64)
        for piece in self._stored.pieces(detector, ("image_id", "attribute", "image_sha256"), problems):
            table = piece.read(problems)
            own = np.flatnonzero(np.equal(codes(table["attribute"], [attribute]), 0))
            position = self._positions_of(piece, one_array(table["image_id"]))[own]
            held = one_array(table["image_sha256"]).take(pa.array(own))
            hashes = np.maximum(hash_texts(held), _UNKNOWN_CONTENT + 1)
            hashes[held.is_null().to_numpy(zero_copy_only=False)] = _UNKNOWN_CONTENT
            contents[position[position != NULL]] = hashes[position != NULL]
        if problems:
            raise DataError(problems)
        if not self._compared:  # all others are compared with the first one
            self._compared[detector, attribute] = contents
        return contents

    @cached_property
    def _read(self) -> _Read:
        columns = ("image_id", "attribute", "status", "label")
        problems: list[Problem] = []
        shape = (len(self._detectors), len(self.index.cells))
        read = _Read(
            # Memory that nobody writes to is none: rows of detectors that do not judge an attribute cost nothing.
            blocks={name: np.empty(shape, dtype=np.int8) for name in self._attributes},
            found={name: {} for name in self._attributes},
            statuses={name: Counter() for name in self._detectors},
            rows=dict.fromkeys(self._detectors, 0),
        )
        self._stored.compare(self._detectors)
        pieces = [piece for name in self._detectors for piece in self._stored.pieces(name, columns, problems)]
        for coded in self._coded(pieces):
            problems += coded.problems
            read.add(coded, self.index)
            if coded.worth_keeping:
                self._positions.setdefault((coded.piece.name, coded.piece.first_row), coded.position)
        if problems:
            raise DataError(list(dict.fromkeys(problems)))  # several pieces of one file may have the same
        pa.default_memory_pool().release_unused()
        return read

    def _coded(self, pieces: Sequence[Piece]) -> Iterator[_CodedPiece]:
        """The pieces in their order, a few of them read ahead."""
        workers = os.cpu_count() or 1
        # Arrow and numpy let go of the interpreter for most of it.
        with ThreadPoolExecutor(max_workers=workers) as threads:
            ahead: deque[Future[_CodedPiece]] = deque()
            for piece in pieces:
                ahead.append(threads.submit(self._code, piece))
                if len(ahead) > workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _code(self, piece: Piece) -> _CodedPiece:
        problems: list[Problem] = []
        table = piece.read(problems)
        position = self._positions_of(piece, one_array(table["image_id"]))
        words = words_in_order(table["attribute"])
        about, status = codes(table["attribute"], words), codes(table["status"], STATUSES)
        statuses = {
            (word, name): int(np.count_nonzero((about == place) & (status == code)))
            for place, word in enumerate(words)
            for code, name in enumerate(STATUSES)
        }
        judged = {}
        for place, word in enumerate(words):
            if word in self._attributes:
                rows = np.flatnonzero(about == place)
                own = table if len(rows) == len(table) else table.take(pa.array(rows))
                judged[word] = JudgedRows.of(own, position[rows].astype(np.int64), attribute_named(word))
        return _CodedPiece(piece, position, judged, Counter(statuses), len(table), problems)

    def _positions_of(self, piece: Piece, image_ids: pa.LargeStringArray) -> NDArray[np.int32]:
        """Where the images of a piece stand: mostly they are those of the same piece of another detector."""
        before = self._positions.get((piece.name, piece.first_row))
        if before is not None and self.index.ids.stand_at(before, image_ids):
            return before
        return self.index.positions(image_ids).astype(np.int32)


class _Read(NamedTuple):
    """What all pieces say."""

    blocks: dict[str, Codes]
    """By attribute, `[detector, image]`; rows of detectors that are not in `found` hold anything."""
    found: dict[str, dict[str, GatheredVerdicts]]
    """By attribute and detector, each with its row of the block."""
    statuses: dict[str, Counter[tuple[str, str]]]
    """By detector: rows by attribute and status."""
    rows: dict[str, int]
    """By detector."""

    def add(self, coded: _CodedPiece, index: ImageIndex) -> None:
        """Take in one piece."""
        detector = coded.piece.detector
        self.rows[detector] += coded.rows
        # Also with a count of 0: an attribute of which every status is unknown is one that is judged.
        for key, number in coded.statuses.items():
            self.statuses[detector][key] += number
        for attribute, rows in coded.judged.items():
            found = self.found[attribute]
            if detector not in found:
                row = self.blocks[attribute][list(self.rows).index(detector)]
                found[detector] = GatheredVerdicts(index, attribute_named(attribute), detector, row=row)
            found[detector].add(rows)
