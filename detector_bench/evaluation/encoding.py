"""Columns of words as small whole numbers, so that a million rows are counted without touching one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

NULL = -1
"""Code of an empty cell."""

UNKNOWN = -2
"""Code of a word that is not among the known ones."""


def as_arrow(column: Any) -> pa.Array | pa.ChunkedArray:
    """A pandas or Arrow column as Arrow; pd.NA, None and NaN become null."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    return pa.array(column, from_pandas=True)


def codes(column: Any, known: Sequence[str]) -> NDArray[np.int64]:
    """Position of each cell's word in `known`; `NULL` where the cell is empty, `UNKNOWN` for any other word.

    Args:
        column: pandas Series, Arrow array or chunked array of strings, dictionary-encoded or not.
        known: words without repeats.
    """
    column = as_arrow(column)
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    encoded = column.unify_dictionaries().combine_chunks()
    words = encoded.dictionary.to_pylist()
    position = {word: index for index, word in enumerate(known)} | {None: NULL}
    # One entry more than there are words: the one that empty cells are sent to.
    lookup = np.array([*(position.get(word, UNKNOWN) for word in words), NULL], dtype=np.int64)
    indices = encoded.indices.cast(pa.int32()).fill_null(len(words))
    found: NDArray[np.int64] = lookup[indices.to_numpy(zero_copy_only=False)]
    return found


def words_in_order(column: Any) -> tuple[str, ...]:
    """The distinct words of a column in the order of their first appearance, empty cells left out."""
    return tuple(word for word in pc.unique(as_arrow(column)).to_pylist() if word is not None)
