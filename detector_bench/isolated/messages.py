"""The messages between a run and a process of another interpreter, as `child.py` reads and writes them.

A message is a line of JSON, and behind it as many raw bytes as its `bytes` says: pixels one way, numbers back.
Each has a `number`, which its answer repeats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LONGEST_HEAD = 64 << 20
_MOST_BYTES = 4 << 30
_PART_BYTES = 16 << 20
_TEXT = "text"
_KINDS = frozenset("biuf")


class GarbledError(Exception):
    """What came is no message."""


class Message(NamedTuple):
    """A line of JSON, and the bytes behind it."""

    head: dict[str, Any]
    body: bytearray


def write_message(pipe: IO[bytes], head: Mapping[str, Any], parts: Sequence[memoryview]) -> None:
    """Send a message.

    Raises:
        OSError: nobody reads any more.
    """
    whole = {**head, "bytes": sum(part.nbytes for part in parts)}
    pipe.write(json.dumps(whole).encode() + b"\n")
    for part in parts:
        pipe.write(part)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> Message | None:
    """The next message; None where the other side has ended, also in the middle of one.

    Raises:
        GarbledError: something else came.
        OSError: the pipe is closed.
    """
    line = pipe.readline(_LONGEST_HEAD)
    if not line:
        return None
    if not line.endswith(b"\n"):
        if len(line) >= _LONGEST_HEAD:
            raise GarbledError(f"a line of more than {_LONGEST_HEAD:,} bytes")
        if not line.startswith(b"{"):
            raise GarbledError(_quoted(line))
        return None  # its writer did not live to end it
    head = _head(line)
    body = bytearray()
    while left := head["bytes"] - len(body):
        part = pipe.read(min(left, _PART_BYTES))  # what is only announced takes no memory
        if not part:
            return None
        body += part
    return Message(head, body)


def _head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        raise GarbledError(_quoted(line)) from None
    if not isinstance(head, dict):
        raise GarbledError(_quoted(line))
    count = head.get("bytes")
    if not isinstance(count, int) or not 0 <= count <= _MOST_BYTES:
        raise GarbledError(f"a message of {count!r} bytes")
    return head


def _quoted(line: bytes) -> str:
    text = line[:80].decode("utf-8", "replace").strip()
    return f"{text!r}"


def results_of(answer: Message, *, images: int) -> list[dict[str, NDArray[Any]]]:
    """The named arrays of each image; a text is its UTF-8 as uint8.

    Raises:
        GarbledError: they are not what the message says.
    """
    described = answer.head.get("results")
    if not isinstance(described, list) or len(described) != images:
        raise GarbledError(f"no results for {images} images")
    try:
        return list(_arrays(described, answer.body))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise GarbledError(f"arrays that do not fit their description: {error}") from None


def _arrays(described: Sequence[Any], body: bytearray) -> Any:
    begin = 0
    for of_image in described:
        found: dict[str, NDArray[Any]] = {}
        for name, kind, shape in of_image:
            dtype = np.dtype(np.uint8 if kind == _TEXT else kind)
            if dtype.kind not in _KINDS or any(size < 0 for size in shape):
                raise ValueError(f"{name!r} is of kind {kind!r} and shape {shape}")
            end = begin + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            found[str(name)] = np.frombuffer(bytes(body[begin:end]), dtype).reshape(shape)
            begin = end
        yield found
    if begin != len(body):
        raise ValueError(f"{len(body)} bytes, of which {begin} are described")
