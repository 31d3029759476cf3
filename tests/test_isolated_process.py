"""A process of another Python: what it says arrives unchanged, and whatever it does is told in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from isolated_parts import BRIGHTNESS
from running import noise, plain

from detector_bench.isolated.messages import GarbledError, read_message, results_of
from detector_bench.isolated.process import (
    IsolatedProcess,
    IsolatedProcessError,
    IsolatedScriptError,
    IsolatedStartError,
    Program,
)

pytestmark = pytest.mark.slow

Making = Callable[..., IsolatedProcess]
IMAGES = [plain(200, 200, 200, height=9, width=5), noise(3, 70), plain(0, 0, 0, height=1, width=1)]


@pytest.fixture
def process() -> Iterator[Making]:
    made: list[IsolatedProcess] = []

    def make(source: str = BRIGHTNESS, *, python: str = sys.executable, **more: Any) -> IsolatedProcess:
        parameters = more.pop("parameters", {})
        program = Program(Path(python), "script.py", source, parameters, **more)
        made.append(IsolatedProcess(program))
        return made[-1]

    yield make
    for each in made:
        each.close()


def is_there(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list(Path(f"/proc/{number}/task").iterdir()))
    except OSError:
        return False
    return state != "Z" or threads > 1  # the first thread may be gone before the others


def gone(number: int) -> bool:
    until = time.monotonic() + 10
    while is_there(number) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_there(number)


def test_arrays_and_texts_arrive_as_they_are(process: Making) -> None:
    source = """
import numpy as np
def load(parameters):
    return lambda images: [{
        "pixels": image, "half": np.float32(image.mean()), "yes": np.array([True, False]),
        "big": np.arange(3).astype(">i4"),
        "list": [1, 2.5], "number": 7, "text": "caf\\u00e9", "none": None, "empty": np.zeros((0, 2), np.float16),
        "inner": {"label": "x", "score": 0.25}, "strided": image[::2, ::-1, 0],
    } for image in images]
"""
    for image, found in zip(IMAGES, process(source).judge(IMAGES), strict=True):
        assert {name: each.dtype.name for name, each in found.items()} == {
            "pixels": "uint8",
            "half": "float32",
            "yes": "bool",
            "big": "int32",
            "list": "float64",
            "number": "float64",
            "text": "uint8",
            "empty": "float16",
            "inner.label": "uint8",
            "inner.score": "float64",
            "strided": "uint8",
        }
        np.testing.assert_array_equal(found["pixels"], image)
        np.testing.assert_array_equal(found["strided"], image[::2, ::-1, 0])
        assert found["half"] == np.float32(image.mean())
        assert found["text"].tobytes().decode() == "café"
        assert found["empty"].shape == (0, 2)
        assert [found["list"].tolist(), found["big"].tolist(), found["yes"].tolist()] == [
            [1, 2.5],
            [0, 1, 2],
            [1, 0],
        ]


def test_without_numpy_images_are_views_of_three_axes(process: Making) -> None:
    source = """
import sys
sys.modules["numpy"] = None
def load(parameters):
    return lambda images: [{"shape": list(image.shape), "first": image[0, 0, 0], "text": "y"} for image in images]
"""
    found = process(source).judge(IMAGES)
    assert [each["shape"].tolist() for each in found] == [list(image.shape) for image in IMAGES]
    assert [each["first"].tolist() for each in found] == [[int(image[0, 0, 0])] for image in IMAGES]


ENDS = "def load(parameters):\n    return lambda images: __import__('os').abort()"
MISTAKES: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "a missing package": (
        "import no_such",
        {},
        IsolatedStartError,
        r"^script\.py, line 1: ModuleNotFoundError: No mod",
    ),
    "no Python": ("this is no Python", {}, IsolatedStartError, r"^SyntaxError: "),
    "no load": ("x = 1", {}, IsolatedStartError, r"defines no function `load"),
    "load without a function": ("def load(p): pass", {}, IsolatedStartError, r"NoneType.*a function of a list"),
    "an end at once": (
        "print('out of luck'); raise SystemExit(3)",
        {},
        IsolatedStartError,
        r"^the process of script\.py ended with status 3; its last words: out of luck$",
    ),
    "a start without end": (
        "import time\ndef load(p): time.sleep(99)",
        {"start_timeout": 0.3},
        IsolatedStartError,
        r"was not ready within 0\.3 s",
    ),
    "a call without end": (
        "import time\ndef load(p): return lambda images: time.sleep(99)",
        {"timeout": 0.3},
        IsolatedProcessError,
        r"did not answer within 0\.3 s",
    ),
    "a crash": (ENDS, {}, IsolatedProcessError, r"ended by signal SIGABRT"),
    "an exception": (
        "def load(p): return lambda images: 1 / 0",
        {},
        IsolatedScriptError,
        r"^script\.py, line 1: ZeroDivisionError: division by zero$",
    ),
    "too few results": (
        "def load(p): return lambda i: []",
        {},
        IsolatedScriptError,
        r"gave 0 results for 1 images",
    ),
    "no dict": (
        "def load(p): return lambda i: [1]",
        {},
        IsolatedScriptError,
        r"a dict, for each image one; got int",
    ),
    "an object": (
        "def load(p): return lambda i: [{'a': load}]",
        {},
        IsolatedScriptError,
        r"'a' is no number, no ar",
    ),
    "an interpreter that prints": ("", {"python": "/bin/echo"}, IsolatedStartError, r"wrote no answer: '-I -u "),
    "no interpreter": ("", {"python": "/no/such/python"}, IsolatedStartError, r"cannot be started: No such file"),
    "another version": (
        BRIGHTNESS,
        {"pins": {"numpy": "1.0"}, "packages": ("numpy",)},
        IsolatedStartError,
        r"^numpy==1\.0 is asked for, and the other Python has \d",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_goes_wrong_is_one_line(process: Making, name: str) -> None:
    source, more, kind, line = MISTAKES[name]
    with pytest.raises(kind, match=line) as raised:
        process(source, **more).judge(IMAGES[:1])
    assert "\n" not in str(raised.value)


def test_after_an_exception_the_same_process_goes_on(process: Making) -> None:
    source = """
def load(parameters):
    def judge(images):
        if len(images) > 1:
            raise ValueError("one by one, please")
        return [{"mean": float(images[0].mean())}]
    return judge
"""
    made = process(source)
    with pytest.raises(IsolatedScriptError, match="one by one"):
        made.judge(IMAGES)
    assert made.judge(IMAGES[:1])[0]["mean"].tolist() == [200.0]
    assert made.starts == 1


def test_a_killed_process_is_replaced_and_one_image_tried_twice(process: Making) -> None:
    made = process()
    first = made.judge(IMAGES)
    assert made.process_id is not None
    os.kill(made.process_id, signal.SIGKILL)
    assert gone(made.process_id)
    assert [each["age"].tolist() for each in made.judge(IMAGES)] == [each["age"].tolist() for each in first]
    assert made.starts == 2


def test_it_gives_up_where_image_after_image_ends_it(process: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detector_bench.isolated.process._MOST_DEATHS", 2)
    made = process(ENDS)
    for _ in range(2):
        with pytest.raises(IsolatedProcessError):
            made.judge(IMAGES[:1])
    with pytest.raises(IsolatedStartError, match=r"^2 images in a row ended it: .*SIGABRT"):
        made.judge(IMAGES[:1])
    assert made.starts == 4


def test_its_surroundings_are_its_own(process: Making, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the working directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MY_KEY", "secret")
    source = """
import os, sys
def load(parameters):
    names = {name: os.environ.get(name) for name in ("MY_KEY", "PYTHONPATH", "OMP_NUM_THREADS")}
    def judge(images):
        return [{"said": repr(names), "bench": "detector_bench" in sys.modules, "read": sys.stdin.read()}]
    return judge
"""
    (found,) = process(source, without=frozenset({"MY_KEY"}), threads=3).judge(IMAGES[:1])
    assert found["said"].tobytes().decode() == repr({"MY_KEY": None, "PYTHONPATH": None, "OMP_NUM_THREADS": "3"})
    assert not found["bench"].any()
    assert len(found["read"]) == 0


PARENT = """
import sys, time
from pathlib import Path
import numpy as np
from detector_bench.isolated.process import IsolatedProcess, Program
source = "import time\\ndef load(p): return lambda images: time.sleep(99)"
process = IsolatedProcess(Program(Path(sys.executable), "script.py", source, {}))
process.start()
print(process.process_id, flush=True)
if sys.argv[1] == "asking":
    process.judge([np.zeros((2, 2, 3), np.uint8)])
time.sleep(99)
"""


@pytest.mark.slow
@pytest.mark.parametrize("state", ["idle", "asking"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_parent(state: str, how: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        assert is_there(child)
        parent.send_signal(how)
        assert gone(child)


def test_an_answer_to_an_earlier_question_is_nobody_elses(process: Making) -> None:
    """A script that forks answers twice: what comes second would be taken for the next image's, and so on."""
    source = """
import os, time
def load(parameters):
    def judge(images):
        found = [{"mean": float(image.mean())} for image in images]
        if images[0].mean() == 10 and os.fork():
            time.sleep(0.3)
        return found
    return judge
"""
    one = process(source)
    for value in (10, 20, 30):
        ((found),) = one.judge([plain(value, value, value)])
        assert found["mean"] == value
    assert one.starts == 1


@pytest.mark.slow
def test_a_process_that_is_gone_is_waited_for_by_nobody(process: Making) -> None:
    """What it left behind, out of reach, holds its pipes open: also to write to them would take for ever."""
    source = """
import os, time
def load(parameters):
    def judge(images):
        if not os.fork():
            os.setsid()
            time.sleep(20)
            os._exit(0)
        os._exit(3)
    return judge
"""
    one = process(source, timeout=60.0)
    began = time.monotonic()
    with pytest.raises(IsolatedProcessError, match="ended with status 3"):
        one.judge([noise(1, 40)])
    late = """
import os, signal, time
def load(parameters):
    if not os.fork():
        os.setsid()
        time.sleep(20)
        os._exit(0)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return lambda images: time.sleep(20)
"""
    with pytest.raises(IsolatedProcessError, match="ended by signal SIGALRM"):
        process(late, timeout=60.0).judge([np.zeros((4000, 4000, 3), np.uint8)] * 2)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("said", ["[" * 200_000, '[[["a", "<f8", [1' + "0" * 30 + "]]]]"])
def test_what_no_program_would_answer_is_told_as_such(said: str) -> None:
    import io

    text = f'{{"bytes": 0, "number": 1, "results": {said}}}\n'.replace("[" * 200_000 + "}", "[" * 200_000)
    with pytest.raises(GarbledError):
        results_of(read_message(io.BytesIO(text.encode())), images=1)  # type: ignore[arg-type]
