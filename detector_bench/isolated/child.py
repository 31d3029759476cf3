"""What runs in the other interpreter: reads images from its parent, asks a script about them, answers.

This file is all that the other environment gets of this program. It needs the standard library of Python 3.7 and
no package; where NumPy is there, images are its arrays.

Both ways go messages: a line of JSON, and behind it as many raw bytes as its `bytes` says. The parent sends one
message and waits for the answer to it. The last message is the end of the input, also when the parent was killed.
"""

import importlib
import json
import os
import queue
import sys
import threading
import traceback

_TEXT = "text"


def main():
    """Answer until the input ends."""
    parent = _own_output()
    messages = _Messages()
    functions = {}
    while True:
        head, body = messages.next()
        try:
            if "load" in head:
                functions["script"] = _loaded(head["load"])
                answer, parts = _versions(head["load"].get("packages", [])), []
            else:
                answer, parts = _answers(functions["script"], head["images"], body)
        except Exception as error:
            answer, parts = {"error": _described(error), "trace": _last_line(error)}, []
        answer["bytes"] = sum(len(part) for part in parts)
        parent.write(json.dumps(answer).encode() + b"\n")
        for part in parts:
            parent.write(part)
        parent.flush()


def _own_output():
    """The standard output for the parent alone: what scripts and libraries print goes to the standard error."""
    parent = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return parent


class _Messages:
    """The parent's messages, read by a thread of their own: the process ends with its parent, also in a call."""

    def __init__(self):
        self._source = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)  # a script that asks a question gets no answer, and takes none of the images
        self._queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self):
        return self._queue.get()

    def _read(self):
        while True:
            line = self._source.readline()
            if not line.endswith(b"\n"):
                os._exit(0)
            head = json.loads(line.decode())
            body = bytearray(head["bytes"])
            view = memoryview(body)
            while len(view):
                count = self._source.readinto(view)
                if not count:
                    os._exit(0)
                view = view[count:]
            self._queue.put((head, body))


def _loaded(order):
    """Run the script's text, and let it load what it needs."""
    names = {"__name__": "detector_script", "__file__": order["name"]}
    exec(compile(order["source"], order["name"], "exec"), names)  # noqa: S102 - it is what this process is for
    if not callable(names.get("load")):
        raise TypeError("the script defines no function `load(parameters)`")
    function = names["load"](order["parameters"])
    if not callable(function):
        raise TypeError("`load` gives back %s, where a function of a list of images is expected" % type(function))
    return function


def _versions(packages):
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


def _answers(function, shapes, body):
    images = list(_images(shapes, body))
    found = list(function(images))
    if len(found) != len(images):
        raise ValueError("the script gave %d results for %d images" % (len(found), len(images)))
    described, parts = [], []
    for result in found:
        if not isinstance(result, dict):
            raise TypeError("a result is a dict, for each image one; got %s" % type(result).__name__)
        arrays = []
        for name, value in _flat(result):
            kind, shape, part = _bytes_of(name, value)
            arrays.append([name, kind, shape])
            parts.append(part)
        described.append(arrays)
    return {"results": described}, parts


def _images(shapes, body):
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


def _numpy():
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _flat(result):
    """A label with its score, `{"label": ..., "score": ...}`, as two values with a dot in their names."""
    for name, value in result.items():
        if not isinstance(name, str):
            raise TypeError("a result's names are text; got %r" % (name,))
        if isinstance(value, dict):
            for part, inner in value.items():
                yield "%s.%s" % (name, part), inner
        elif value is not None:
            yield name, value


def _bytes_of(name, value):
    """A value's kind, shape and bytes; the numbers of lists are float64."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return _TEXT, [len(text)], text
    numpy = _numpy()
    if numpy is None:
        import array

        numbers = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise TypeError("%r is no number, no list of numbers and no text: %r" % (name, value))
        return "<f8", [len(numbers)], _little(array.array("d", numbers))
    found = numpy.asarray(value)
    if found.dtype.kind not in "biuf":
        raise TypeError("%r is no number, no array of numbers and no text, but of type %s" % (name, found.dtype))
    if found.dtype.kind == "f" and found.dtype.itemsize > 8:
        found = found.astype(numpy.float64)
    if isinstance(value, (int, float, list, tuple)):
        found = found.astype(numpy.float64)
    found = numpy.ascontiguousarray(found.astype(found.dtype.newbyteorder("<"), copy=False))
    return found.dtype.str, list(numpy.shape(value)) or [1], found.tobytes()


def _little(numbers):
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _described(error):
    first = (str(error).splitlines() or [""])[0]
    return "%s: %s" % (type(error).__name__, first) if first else type(error).__name__


def _last_line(error):
    """Where in the script it happened."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    return "" if not frames else "%s, line %d" % (os.path.basename(frames[0].filename), frames[0].lineno)


if __name__ == "__main__":
    main()
