"""Reads files of PyTorch as tensors, numbers and text, so that none of their code runs.

A `.pt` file is a pickle, which may name any function of any package and have it called. PyTorch's restricted
reader calls only what is on a list. Published checkpoints also keep the options of their training and a score or
two; these few sorts are read here by stand-ins of ours, which hold values and do nothing. Everything else is
refused by name.
"""

from __future__ import annotations

import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from detector_bench.errors import WeightsError
from detector_bench.installation import require

_NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")


class _NumpyNumberType:
    """Stands in for `numpy.dtype`: the sort of one number, as a pickle describes it."""

    def __init__(self, name: object, *_: object) -> None:
        if name not in _NUMBERS:
            raise ValueError(f"numpy numbers of the sort {str(name)[:40]!r} are not read")
        self.dtype = np.dtype(str(name))

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if len(state) > 1 and state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


def _numpy_number(sort: _NumpyNumberType, content: bytes) -> float | int | bool:
    """Stands in for numpy's own maker of single numbers."""
    if not isinstance(sort, _NumpyNumberType) or len(content) != sort.dtype.itemsize:
        raise ValueError("a numpy number with another length than its sort has")
    number: float | int | bool = np.frombuffer(content, sort.dtype)[0].item()
    return number


READ_BESIDES: tuple[tuple[Callable[..., Any], str], ...] = (
    (Namespace, "argparse.Namespace"),
    (_NumpyNumberType, "numpy.dtype"),
    (_numpy_number, "numpy.core.multiarray.scalar"),
    (_numpy_number, "numpy._core.multiarray.scalar"),
)
"""What is read besides PyTorch's own list, and by what: the options of a training, and single numbers of numpy."""


class TensorFile(NamedTuple):
    """What a file holds.

    Attributes:
        content: of a pickle, what was saved; of a `.safetensors` file, its tensors by name.
        notes: what a `.safetensors` file says about itself, text by name; of a pickle nothing.
    """

    content: Any
    notes: Mapping[str, str]


def read_tensors(path: Path, *, extra: str) -> TensorFile:
    """Read a `.safetensors` file, or another one by PyTorch's restricted reader, into main memory.

    Args:
        path: the file.
        extra: the extra of detector-bench that brings PyTorch here, for the message where it is missing.

    Raises:
        MissingExtraError: PyTorch, or for `.safetensors` safetensors, is not installed.
        WeightsError: it cannot be read, or names something that could run code.
    """
    torch = require("torch", extra=extra)
    if path.suffix == ".safetensors":
        return _safetensors(path, extra=extra)
    _require_ordinary_size(path)
    with _READING, _only_ours(torch.serialization):
        try:
            return TensorFile(torch.load(path, weights_only=True, map_location="cpu"), {})
        except Exception as error:  # torch and pickle raise many sorts, for a damaged file and for a refused one
            raise WeightsError(_why(torch, path, error)) from error


_MOST_UNPACKED = 10
_ALWAYS_UNPACKED_BYTES = 256 * 1024**2


def _require_ordinary_size(path: Path) -> None:
    """Refuse a small archive that is a very large one when it is unpacked; PyTorch itself packs nothing.

    Raises:
        WeightsError: it is one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except Exception:  # noqa: BLE001 - an older form, or damaged: who reads it says so
        return
    packed = path.stat().st_size
    if unpacked > max(_MOST_UNPACKED * packed, _ALWAYS_UNPACKED_BYTES):
        raise WeightsError(
            f"{str(path)!r} has {packed:,} bytes and unpacks to {unpacked:,}: PyTorch writes no such file"
        )


_READING = Lock()


@contextmanager
def _only_ours(serialization: Any) -> Iterator[None]:
    """PyTorch's list with ours, and without what other packages have put on it, which would stand in for ours."""
    others = serialization.get_safe_globals()
    serialization.clear_safe_globals()
    serialization.add_safe_globals(list(READ_BESIDES))
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(others)


def _safetensors(path: Path, *, extra: str) -> TensorFile:
    safetensors = require("safetensors", extra=extra)
    try:
        with safetensors.safe_open(path, framework="pt") as held:
            names = list(held.keys())  # a method of its own: this is no mapping
            return TensorFile({name: held.get_tensor(name) for name in names}, held.metadata() or {})
    except Exception as error:  # safetensors' own sort, and the system's
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WeightsError(f"{str(path)!r} cannot be read as safetensors: {first}") from error


def _why(torch: Any, path: Path, error: Exception) -> str:
    try:
        named = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # noqa: BLE001 - no file of PyTorch, an old one, or damaged
        named = []
    if named:
        names = ", ".join(repr(name[:100]) for name in named[:3]) + (", ..." if len(named) > 3 else "")
        accepted = ", ".join(sorted({name for _, name in READ_BESIDES}))
        return (
            f"PyTorch cannot read {str(path)!r} as a file of tensors: it names {names}, which could run code "
            f"(accepted besides tensors: {accepted}); docs/weights.md says how to convert such a file"
        )
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return f"PyTorch cannot read {str(path)!r} as a file of tensors: {first[:300]}"
