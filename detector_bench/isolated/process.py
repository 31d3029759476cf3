"""A process of another interpreter that judges images: started when first asked, replaced when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.isolated.messages import GarbledError, Message, read_message, results_of, write_message
from detector_bench.isolated.pipes import pipe_from, pipe_to

_CHILD = Path(__file__).with_name("child.py")
_LAST_WORDS = 20
_LONGEST_LINE = 2_000
_MOST_STARTS = 2
"""So often a process is started that never gets ready; one that ran out of memory is worth a second try."""
_MOST_DEATHS = 5
"""So many images in a row that two processes each died on: then it is not the images."""

Results = list[dict[str, NDArray[Any]]]


class IsolatedProcessError(Exception):
    """The process died, hung or said what nobody understands; what it was asked may be asked again, in halves."""


class IsolatedScriptError(Exception):
    """The script raised; the process goes on."""


class IsolatedStartError(Exception):
    """No process gets ready, now and later; one line that says why."""


@dataclass(frozen=True)
class Program:
    """What runs in the process.

    Attributes:
        interpreter: of the other environment.
        name: what messages call the script.
        source: its text, which defines `load(parameters)`.
        parameters: plain data for it.
        packages: whose versions are asked for.
        without: environment variables that the process does not get: keys.
        threads: how many it may compute with; None: it decides.
        start_timeout: seconds until the script has loaded.
        timeout: seconds for one call.
        pins: of packages, the version that has to be there.
    """

    interpreter: Path
    name: str
    source: str
    parameters: Mapping[str, Any]
    packages: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    threads: int | None = None
    start_timeout: float = 600.0
    timeout: float = 300.0
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass
class IsolatedProcess:
    """One process at a time, for one caller at a time.

    Attributes:
        versions: of Python and the packages that were asked for, once it has started.
        starts: how many processes were started.
    """

    program: Program
    versions: dict[str, str | None] = field(default_factory=dict)
    starts: int = 0
    _running: _Running | None = None
    _hopeless: str | None = None
    _deaths: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, images: Sequence[NDArray[np.uint8]]) -> Results:
        """What the script says about some images, each (height, width, 3), RGB: named arrays, texts as uint8.

        An image that a process dies on alone is tried in a second one, for a process may also be killed by chance.

        Raises:
            IsolatedStartError: it does not start; the same is raised for every later call.
            IsolatedScriptError: the script raised, or gave back something else than it should.
            IsolatedProcessError: the process died, hung, or wrote something else than an answer.
        """
        with self._lock:
            try:
                try:
                    found = self._asked(images)
                except _DiedError:
                    if len(images) > 1:
                        raise
                    found = self._asked(images)
            except _DiedError as error:
                self._deaths += len(images) == 1
                if self._deaths >= _MOST_DEATHS:
                    self._hopeless = f"{_MOST_DEATHS} images in a row ended it: {error}"
                raise IsolatedProcessError(str(error)) from None
            self._deaths = 0
            return found

    @property
    def process_id(self) -> int | None:
        """Of the process that runs now; None: there is none."""
        return None if self._running is None else self._running.process_id

    def start(self) -> None:
        """Start it, if none is there; see `judge`."""
        with self._lock:
            self._started()

    def close(self) -> None:
        """End the process, if there is one."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _asked(self, images: Sequence[NDArray[np.uint8]]) -> Results:
        running = self._started()
        pixels = [np.ascontiguousarray(image) for image in images]
        head = {"images": [list(image.shape[:2]) for image in pixels]}
        try:
            with running.within(self.program.timeout, "did not answer"):
                answer = running.ask(head, [image.reshape(-1).data for image in pixels])
                found = None if "error" in answer.head else results_of(answer, images=len(images))
        except BaseException as error:
            # Also after Ctrl-C: half a message is on the way, and nobody could tell where the next begins.
            running.end()
            self._running = None
            if isinstance(error, GarbledError):
                raise IsolatedProcessError(running.last_words(f"wrote no answer: {error}")) from None
            raise
        if found is None:
            raise IsolatedScriptError(_told(answer.head))
        return found

    def _started(self) -> _Running:
        if self._hopeless is not None:
            raise IsolatedStartError(self._hopeless)
        if self._running is not None and self._running.is_alive():
            return self._running
        self.close()
        for attempt in range(1, _MOST_STARTS + 1):
            try:
                self._running = self._new()
            except (_DiedError, GarbledError, IsolatedScriptError) as error:
                # What the script says of itself, as that a package is missing, it would say again.
                if attempt == _MOST_STARTS or not isinstance(error, _DiedError):
                    self._hopeless = str(error)
                    raise IsolatedStartError(self._hopeless) from None
            else:
                return self._running
        raise AssertionError  # the last attempt gave back or raised

    def _new(self) -> _Running:
        self.starts += 1
        try:
            running = _Running(self.program)
        except OSError as error:
            raise IsolatedScriptError(f"it cannot be started: {error.strerror or error}") from error
        order = {
            "name": self.program.name,
            "source": self.program.source,
            "parameters": dict(self.program.parameters),
            "packages": list(self.program.packages),
        }
        try:
            with running.within(self.program.start_timeout, "was not ready"):
                answer = running.ask({"load": order}, [])
        except BaseException as error:
            running.end()
            if isinstance(error, GarbledError):
                raise IsolatedScriptError(running.last_words(f"wrote no answer: {error}")) from None
            raise
        if "error" in answer.head:
            running.end()
            raise IsolatedScriptError(_told(answer.head))
        packages = answer.head.get("packages")
        found = packages if isinstance(packages, dict) else {}
        self.versions = {"python": str(answer.head.get("python", "unknown")), **found}
        for name, pin in self.program.pins.items():
            if found.get(name) != pin:
                running.end()
                there = f"has {found[name]}" if found.get(name) else "lacks it"
                raise IsolatedScriptError(f"{name}=={pin} is asked for, and the other Python {there}")
        return running


class _DiedError(Exception):
    """A process ended, or was ended for taking too long."""


class _Running:
    """One process, and the pipes to it."""

    def __init__(self, program: Program) -> None:
        # Isolated mode: neither the working directory, nor the folders and variables of this Python, are its own.
        command = [str(program.interpreter), "-I", "-u", str(_CHILD)]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(program),
            start_new_session=True,  # Ctrl-C comes to the parent, which ends it; with what it started itself
        )
        self._to_it, self._from_it = pipe_to(self._process), pipe_from(self._process)
        self._number = 0
        self._name = program.name
        self._late: str | None = None
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        stderr = self._process.stderr
        self._listener = threading.Thread(target=_listen, args=(stderr, self._words), daemon=True)
        self._listener.start()
        # Ends it, too, when its owner is forgotten or Python comes to its end.
        self._finalizer = weakref.finalize(self, _end, self._process)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, head: Mapping[str, Any], parts: Sequence[memoryview]) -> Message:
        """Send a message, and wait for the answer to it.

        Raises:
            _DiedError: it ended.
            GarbledError: what it wrote is no message.
        """
        self._number += 1
        with suppress(OSError):  # it may have said why before it went
            write_message(self._to_it, {**head, "number": self._number}, parts)
        while True:
            answer = read_message(self._from_it)
            if answer is None:
                raise _DiedError(self._end_described())
            number = answer.head.get("number")
            if number == self._number:
                return answer
            # A script that forks may have answered twice; the second answer is none to this message.
            if not isinstance(number, int) or number > self._number:
                raise GarbledError(f"an answer to message {number!r}, and message {self._number} was sent")

    @contextmanager
    def within(self, seconds: float, what: str) -> Iterator[None]:
        """End the process if the block takes longer."""

        def late() -> None:
            self._late = f"{what} within {seconds:g} s"
            _kill(self._process)

        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self) -> None:
        self._finalizer()

    def _end_described(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        if self._late is not None:
            return self.last_words(self._late)
        code = self._process.returncode
        if code is None:
            return self.last_words("closed its output")
        return self.last_words(f"ended {_how(code)}")

    def last_words(self, what: str) -> str:
        """What happened, with the last line of what the process wrote for people."""
        self._listener.join(timeout=1.0)
        last = next((line for line in reversed(self._words) if line.strip()), "")
        said = f"; its last words: {_short(last.strip(), 300)}" if last else ""
        return f"the process of {self._name} {what}{said}"


def _told(head: Mapping[str, Any]) -> str:
    place = str(head.get("trace") or "")
    text = _short(str(head["error"]), 500)
    return f"{place}: {text}" if place else text


def _short(text: str, most: int) -> str:
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _listen(stderr: IO[bytes], words: deque[str]) -> None:
    with suppress(OSError, ValueError):
        while line := stderr.readline(_LONGEST_LINE):
            words.append(line.decode("utf-8", "replace").rstrip())


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10.0)
    for pipe in (process.stdin, process.stdout):
        # What was not yet sent to it cannot be sent any more.
        with suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()


def _how(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"by signal {signal.Signals(-code).name}"
    return f"with status {code}"


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def _environment(program: Program) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name not in program.without}
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        found.pop(name, None)
    if program.threads is not None:
        found |= dict.fromkeys(_THREAD_VARIABLES, str(program.threads))
    return found
