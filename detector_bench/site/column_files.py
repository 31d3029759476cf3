"""Columns for the browser: words as codes, numbers as bytes, in script files that a page may load from a disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from detector_bench.atomic_files import write_text

Column: TypeAlias = dict[str, Any]
"""JSON data. Words: `{"words": [...], "codes": NUMBERS}`, where the largest number of the type stands for an empty
cell. Numbers: `{"type": "u1", "bytes": BASE64}`, little-endian; types as in numpy, without the byte order."""


def numbers(values: NDArray[Any], kind: str) -> Column:
    """A column of numbers.

    Args:
        values: one for each image, say.
        kind: numpy's name of the type without byte order: u1, u2, u4, i2 or f4.
    """
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"type": kind, "bytes": base64.b64encode(data).decode("ascii")}


def codes(values: NDArray[Any], *, words: int) -> Column:
    """A column of positions in a list of words, in the smallest type; negative ones become its largest number."""
    kind = "u1" if words < 0xFF else "u2" if words < 0xFFFF else "u4"
    largest = int(np.iinfo(f"<{kind}").max)
    return numbers(np.where(values < 0, largest, values), kind)


def coded(column: Any, *, words: Sequence[str] | None = None) -> Column:
    """A column of words, each distinct one stored once; empty cells and texts are no words.

    Args:
        column: pandas, Arrow or Python sequence of texts and None.
        words: the words in a fixed order, which must hold all that occur; None: in the order of appearance.
    """
    array = (
        column
        if isinstance(column, pa.Array | pa.ChunkedArray)
        else pa.array(column, pa.string(), from_pandas=True)
    )
    array = array.cast(pa.string())
    array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    known = [word for word in pc.unique(array).to_pylist() if word is not None] if words is None else list(words)
    found = pc.index_in(array, value_set=pa.array(known, pa.string()))
    # An empty cell would be found as a null among the words, if they had one.
    positions = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return {"words": known, "codes": codes(positions, words=len(known))}


def write_data(path: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a script that hands data over to the page: `detectorBenchReport.add(name, content)`.

    A page that is opened from a disk may not fetch files, but it may load scripts. All text is escaped to ASCII,
    so that no character set and no line separator can make it anything but data.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    data = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Parsed as JSON, not read as a program: faster for large texts, and `__proto__` is a key like any other.
    text = json.dumps(data, ensure_ascii=True)
    write_text(path, f"window.detectorBenchReport.add({json.dumps(name)}, {text});\n")
