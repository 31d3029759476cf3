"""What runs in the other interpreter: reads images from its parent, asks a script about them, answers.

This file is all that the other environment gets of this program. It needs the standard library of Python 3.7 and
no package; where NumPy is there, images are its arrays.

Both ways go messages: a line of JSON, and behind it as many raw bytes as its `bytes` says. The parent sends one
message and waits for the answer to it. The last message is the end of the input, also when the parent was killed.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

_TEXT = "text"


def main() -> None:
    """Answer until the input ends."""
    parent = _own_output()
    messages = _Messages()
    functions: dict[str, Any] = {}
    parts: list[bytes]
    while True:
        head, body = messages.next()
        try:
            if "load" in head:
                functions["script"] = _loaded(head["load"])
                answer, parts = _versions(head["load"]["packages"]), []
            else:
                answer, parts = _answers(functions["script"], head["images"], body)
        except Exception as error:  # noqa: BLE001 - scripts and packages raise anything; it is told
            answer, parts = {"error": _described(error), "trace": _last_line(error)}, []
        answer["number"] = head["number"]
        answer["bytes"] = sum(len(part) for part in parts)
        parent.write(json.dumps(answer).encode() + b"\n")
        for part in parts:
            parent.write(part)
        parent.flush()


def _own_output() -> Any:
    """The standard output for the parent alone: what scripts and libraries print goes to the standard error."""
    parent = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return parent


class _Messages:
    """The parent's messages, read by a thread of their own: the process ends with its parent, also in a call."""

    def __init__(self) -> None:
        self._source: Any = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)  # a script that asks a question gets no answer, and takes none of the images
        self._queue: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Any:
        return self._queue.get()

    def _read(self) -> None:
        while True:
            line = self._source.readline()
            if not line.endswith(b"\n"):
                os._exit(0)
            head = json.loads(line.decode())
            body = bytearray(head["bytes"])
            view = memoryview(body)
            while view:
                count = self._source.readinto(view)
                if not count:
                    os._exit(0)
                view = view[count:]
            self._queue.put((head, body))


def _loaded(order: dict[str, Any]) -> Any:
    """Run the script's text, and let it load what it needs."""
    names: dict[str, Any] = {"__name__": "detector_script", "__file__": order["name"]}
    exec(compile(order["source"], order["name"], "exec"), names)  # noqa: S102 - it is what this process is for
    if not callable(names.get("load")):
        raise TypeError("the script defines no function `load(parameters)`")
    function = names["load"](order["parameters"])
    if not callable(function):
        raise TypeError(f"`load` gives back {type(function)}, where a function of a list of images is expected")
    return function


def _versions(packages: list[str]) -> dict[str, Any]:
    try:
        metadata = importlib.import_module("importlib.metadata")
    except ImportError:  # Python 3.7
        return {"python": sys.version.split()[0], "packages": {}}
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return {"python": sys.version.split()[0], "packages": found}


def _answers(function: Any, shapes: list[list[int]], body: bytearray) -> tuple[dict[str, Any], list[bytes]]:
    images = list(_images(shapes, body))
    found = list(function(images))
    if len(found) != len(images):
        raise ValueError(f"the script gave {len(found)} results for {len(images)} images")
    described, parts = [], []
    for result in found:
        if not isinstance(result, dict):
            raise TypeError(f"a result is a dict, for each image one; got {type(result).__name__}")
        arrays = []
        for name, value in _flat(result):
            kind, shape, part = _bytes_of(name, value)
            arrays.append([name, kind, shape])
            parts.append(part)
        described.append(arrays)
    return {"results": described}, parts


def _images(shapes: list[list[int]], body: bytearray) -> Iterator[Any]:
    numpy = _numpy()
    view, begin = memoryview(body), 0
    for height, width in shapes:
        end = begin + height * width * 3
        if numpy is None:
            yield view[begin:end].cast("B", [height, width, 3])
        else:
            # A copy would cost as much as the way here did; the script may write into it.
            yield numpy.frombuffer(view[begin:end], numpy.uint8).reshape(height, width, 3)
        begin = end


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _flat(result: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """A label with its score, `{"label": ..., "score": ...}`, as two values with a dot in their names."""
    for name, value in result.items():
        if not isinstance(name, str):
            raise TypeError(f"a result's names are text; got {name!r}")
        if isinstance(value, dict):
            for part, inner in value.items():
                yield f"{name}.{part}", inner
        elif value is not None:
            yield name, value


def _bytes_of(name: str, value: Any) -> tuple[str, list[int], bytes]:
    """A value's kind, shape and bytes; the numbers of lists are float64."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return _TEXT, [len(text)], text
    numpy = _numpy()
    if numpy is None:
        import array

        numbers = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise TypeError(f"{name!r} is no number, no list of numbers and no text: {value!r}")
        return "<f8", [len(numbers)], _little(array.array("d", numbers))
    found = numpy.asarray(value)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"{name!r} is no number, no array of numbers and no text, but of type {found.dtype}")
    if found.dtype.kind == "f" and found.dtype.itemsize > 8:
        found = found.astype(numpy.float64)
    if isinstance(value, (int, float, list, tuple)):
        found = found.astype(numpy.float64)
    found = numpy.ascontiguousarray(found.astype(found.dtype.newbyteorder("<"), copy=False))
    return found.dtype.str, list(numpy.shape(value)) or [1], found.tobytes()


def _little(numbers: Any) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return bytes(numbers.tobytes())


def _described(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _last_line(error: Exception) -> str:
    """Where in the script it happened."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    return f"{PurePath(frames[0].filename).name}, line {frames[0].lineno}" if frames else ""


if __name__ == "__main__":
    main()
