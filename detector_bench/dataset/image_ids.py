"""Finds images by their ids among millions, in 12 bytes an image beside the ids themselves.

A dictionary of a million texts takes more memory than the texts. Here each id is hashed to 64 bits, the hashes are
sorted, and what is found by its hash is compared with the text itself: different ids of one hash, which are rare
but can be made, cost time and change nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

UNKNOWN_ID = -1
"""In place of the position of an id that is not there."""

_BLOCK = 1 << 16
"""Texts hashed at a time, so that all steps stay in the processor's cache."""

_LOOKED_UP = 1 << 20
"""Ids looked up at a time."""

_WORD = 8
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
"""The odd constants of SplitMix64 (Steele, Lea and Flood 2014)."""
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], dtype=np.uint64)
_HALF, _THIRD = np.uint64(32), np.uint64(29)

Hashes = NDArray[np.uint64]


def one_array(column: Any) -> pa.LargeStringArray:
    """A column of texts as one Arrow array with 64-bit offsets; the text itself is copied only if it is in pieces.

    Args:
        column: pandas Series, Arrow array or chunked array.
    """
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, from_pandas=True)  # chunked already, where pandas keeps an Arrow column
    if isinstance(column, pa.ChunkedArray):
        column = column.cast(pa.large_string())
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column.cast(pa.large_string())


def hash_texts(texts: pa.LargeStringArray) -> Hashes:
    """The 64-bit hash of each text: the same on every machine, and for every way to cut a column into arrays."""
    _, offset_buffer, text_buffer = texts.buffers()
    if not len(texts):
        return np.empty(0, dtype=np.uint64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(text_buffer or b"", dtype=np.uint8)
    if content.size < _WORD:
        content = np.concatenate([content, np.zeros(_WORD, dtype=np.uint8)])
    # Every 8 neighbouring bytes as one number, wherever they begin.
    words = np.ndarray((content.size - _WORD + 1,), dtype="<u8", buffer=content, strides=(1,))
    hashes = np.empty(len(texts), dtype=np.uint64)
    for begin in range(0, len(texts), _BLOCK):
        part = offsets[begin : begin + _BLOCK + 1]
        hashes[begin : begin + _BLOCK] = _hash_block(words, part[:-1], np.diff(part))
    return hashes


def _hash_block(words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Hashes:
    state = lengths.astype(np.uint64) * _FACTORS[0]
    longer, last = np.arange(len(starts)), len(words) - 1
    for done in range(0, int(lengths.max(initial=0)), _WORD):
        if done:
            longer = longer[lengths[longer] > done]
        whole = len(longer) == len(starts)
        at = (starts if whole else starts[longer]) + done
        left = np.minimum((lengths if whole else lengths[longer]) - done, _WORD)
        # The end of the text may be nearer than a word's length: then the word begins earlier, and is shifted.
        beyond = np.maximum(at - last, 0)
        word = (words[at - beyond] >> (beyond * 8).astype(np.uint64)) & _FIRST_BYTES[left]
        if whole:
            state = _mixed(state ^ word)
        else:
            state[longer] = _mixed(state[longer] ^ word)
    return _mixed(state)


def _mixed(state: Hashes) -> Hashes:
    state = (state ^ (state >> _HALF)) * _FACTORS[1]
    state = (state ^ (state >> _THIRD)) * _FACTORS[2]
    return state ^ (state >> _HALF)


def _text_address(texts: pa.LargeStringArray) -> tuple[int, int]:
    text = texts.buffers()[2]
    return (0 if text is None else text.address), len(texts)


class ImageIds:
    """The ids of an image set in the order of its images.

    Args:
        ids: as `one_array` takes them.
    """

    def __init__(self, ids: Any) -> None:
        self.texts = one_array(ids)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def are_distinct(self) -> bool:
        """Whether no id stands there twice."""
        hashes, order = self._sorted
        same = np.flatnonzero(hashes[1:] == hashes[:-1])
        if not len(same):
            return True
        rows = np.unique(np.concatenate([order[same], order[same + 1]]))
        return int(pc.count_distinct(self.texts.take(pa.array(rows))).as_py()) == len(rows)

    def positions(self, wanted: Any) -> NDArray[np.int64]:
        """Where each of these ids stands, as ids that are all distinct; `UNKNOWN_ID` for one that is not there."""
        texts = one_array(wanted)
        found = np.empty(len(texts), dtype=np.int64)
        for begin in range(0, len(texts), _LOOKED_UP):
            part = texts.slice(begin, _LOOKED_UP)
            # Mostly ids come in the order of the images, from some image on.
            first = int(self._look_up(part.slice(0, 1))[0])
            if first != UNKNOWN_ID and self.texts.slice(first, len(part)).equals(part):
                found[begin : begin + _LOOKED_UP] = np.arange(first, first + len(part))
            else:
                found[begin : begin + _LOOKED_UP] = self._look_up(part)
        return found

    def as_codes(self, wanted: Any) -> pa.DictionaryArray | None:
        """A column of ids as positions in the ids themselves, which are their texts; None if one is not there."""
        found = [
            self.positions(chunk.slice(begin, _LOOKED_UP)).astype(np.int32)
            for chunk in wanted.chunks
            for begin in range(0, len(chunk), _LOOKED_UP)
        ]
        positions = np.concatenate([np.empty(0, dtype=np.int32), *found])
        if (positions == UNKNOWN_ID).any():
            return None
        return pa.DictionaryArray.from_arrays(positions, self.texts)

    def is_dictionary_of(self, column: pa.DictionaryArray) -> bool:
        """Whether a column was made by `as_codes`."""
        return _text_address(column.dictionary) == _text_address(self.texts)

    def stand_at(self, positions: NDArray[Any], wanted: pa.LargeStringArray) -> bool:
        """Whether just these ids stand at these positions."""
        return len(positions) == len(wanted) and self.texts.take(pa.array(positions)).equals(wanted)

    def _look_up(self, wanted: pa.LargeStringArray) -> NDArray[np.int64]:
        known, order = self._sorted
        hashes = hash_texts(wanted)
        # In ascending order neighbours are looked for at neighbouring places, which are in the cache by then.
        rows = np.argsort(hashes)
        places = np.searchsorted(known, hashes[rows])
        found = np.full(len(wanted), UNKNOWN_ID, dtype=np.int64)
        while len(rows):
            # A row leaves as soon as its text is found, or no further id has its hash.
            possible = places < len(known)
            rows, places = rows[possible], places[possible]
            possible = known[places] == hashes[rows]
            rows, places = rows[possible], places[possible]
            same = pc.equal(self.texts.take(pa.array(order[places])), wanted.take(pa.array(rows)))
            is_same = same.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's signature
            found[rows[is_same]] = order[places[is_same]]
            rows, places = rows[~is_same], places[~is_same] + 1
        return found

    @cached_property
    def _sorted(self) -> tuple[Hashes, NDArray[np.int32]]:
        """The hashes in ascending order, and whose they are."""
        hashes = hash_texts(self.texts)
        order = np.argsort(hashes).astype(np.int32)
        return hashes[order], order
