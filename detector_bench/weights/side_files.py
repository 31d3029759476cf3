"""Which files an ONNX network takes numbers from: those of its tensors that do not stand in its own file.

Read from the file's own bytes (protobuf, as onnx.proto numbers its fields), without the packages onnx and
onnxruntime: tensors' numbers are skipped, so that a network of gigabytes takes as long as one of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from detector_bench.errors import WeightsError

_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "tensor": {13: "external data"},
}
"""By message, the fields in which tensors that lie elsewhere can stand, directly or further down."""

_KEY, _VALUE = 1, 2
_LONGEST_HEAD = 20  # bytes of a field's number and length
_WINDOW = 8192
_TOO_LONG = 4096
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


class DamagedNetworkError(WeightsError):
    """A file that is no ONNX network, or one cut off."""


def side_files(network: Path) -> tuple[str, ...]:
    """The files that a network refers to (ONNX's external data), as paths relative to its folder, sorted.

    Looks at tensors everywhere: initializers, sparse ones, those of nodes, of graphs inside nodes, of functions.

    Raises:
        DamagedNetworkError: no ONNX network.
        WeightsError: the file cannot be read, or refers to a file outside its folder.
    """
    try:
        with network.open("rb") as stream:
            found = {_checked(network, place) for place in _locations(stream, network.stat().st_size)}
    except _DamagedError as error:
        raise DamagedNetworkError(f"weights file {str(network)!r} is no ONNX network: {error}") from error
    except OSError as error:
        raise WeightsError(f"weights file {str(network)!r} cannot be read: {error}") from error
    return tuple(sorted(found))


class _DamagedError(ValueError):
    pass


def _checked(network: Path, place: bytes) -> str:
    text = place.decode(errors="backslashreplace")
    seen = PureWindowsPath(text)  # which takes both slashes for separators
    inside = not seen.anchor and ".." not in seen.parts and "\0" not in text and seen.parts
    if not inside or len(place) > _TOO_LONG:
        raise WeightsError(
            f"weights file {str(network)!r} refers to a file outside its folder: {text[:80]!r} (accepted: a path "
            "below the network's folder)"
        )
    return str(PurePosixPath(text))


def _locations(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """What the file gives as `location` of a tensor's numbers."""
    open_messages = [_inner(stream, "model", 0, size)]
    while open_messages:
        found = next(open_messages[-1], None)
        if found is None:
            open_messages.pop()
        elif found[0] == "external data":
            yield from _location(stream, found[1], found[2])
        else:
            open_messages.append(_inner(stream, *found))


def _inner(stream: IO[bytes], message: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The messages inside one in which tensors can stand: sort, first byte and end."""
    inner = _FIELDS[message]
    return ((inner[number], first, last) for number, first, last in _fields(stream, start, end) if number in inner)


def _location(stream: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """The value of an entry whose key is `location`; of repeated keys and values the last counts."""
    parts = {_KEY: b"", _VALUE: b""}
    for number, first, last in _fields(stream, start, end):
        if number in parts:
            stream.seek(first)
            parts[number] = stream.read(min(last - first, _TOO_LONG + 1))
    if parts[_KEY] == b"location":
        yield parts[_VALUE]


def _fields(stream: IO[bytes], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, first byte and end of those fields of a message that hold bytes."""
    window, at = b"", start
    while start < end:
        if len(window) - (start - at) < _LONGEST_HEAD and at + len(window) < end:
            stream.seek(start)
            window, at = stream.read(min(_WINDOW, end - start)), start
        head = window[start - at : start - at + _LONGEST_HEAD]
        key, used = _varint(head, 0)
        number, kind = (key & 0xFFFFFFFF) >> 3, key & 7  # more than 32 bits are cut off, as protobuf does it
        if kind == _BYTES:
            length, used = _varint(head, used)
            first, start = start + used, start + used + length
            if start <= end:
                yield number, first, start
        elif kind == _VARINT:
            start += _varint(head, used)[1]
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            start += used + (8 if kind == _EIGHT_BYTES else 4)
        else:
            raise _DamagedError(f"a field of an unknown kind ({kind}) at byte {start}")
        if start > end or number == 0:
            raise _DamagedError("it ends too early")


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """A number of 7 bits per byte, lowest first, and where it ends."""
    value = 0
    for place in range(start, min(start + 10, len(data))):
        value |= (data[place] & 0x7F) << (7 * (place - start))
        if data[place] < 0x80:
            return value, place + 1
    raise _DamagedError("a number without an end")
