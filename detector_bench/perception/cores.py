"""How many threads of a process one call of a network may use.

onnxruntime fixes the number when a network is opened, PyTorch and OpenCV read it when they are called. A run sets
it around both, so that the threads of several networks together are never more than its cores.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class ThreadsPerCall:
    """What is allowed here and now.

    Attributes:
        threads: how many threads a call may use.
        asked: whether anything asked for the number: then what was made here works with this number for good.
    """

    threads: int
    asked: bool = False


class _Here(threading.local):
    allowed: ThreadsPerCall | None = None


_here = _Here()
_own_threads: dict[str, int] = {}
"""How many a library takes if nobody tells it: often fewer than there are cores, for a core may count twice."""


def threads_per_call() -> int | None:
    """How many threads a network that is opened now may use in each of its calls; None: as many as it likes."""
    if _here.allowed is None:
        return None
    _here.allowed.asked = True
    return _here.allowed.threads


def threads_to_open_with() -> int:
    """The same for a session of onnxruntime; 0: as many as suit the cores, where all of them are allowed."""
    threads = threads_per_call()
    return 0 if threads is None or threads >= (os.cpu_count() or 1) > 1 else threads


@contextmanager
def computing_with(threads: int) -> Iterator[ThreadsPerCall]:
    """Let calls of this thread use so many threads: of PyTorch and OpenCV at once, of what is opened for good."""
    before, _here.allowed = _here.allowed, ThreadsPerCall(threads)
    _limit_libraries(threads)
    try:
        yield _here.allowed
    finally:
        _here.allowed = before
        if before is not None and before.threads != threads:
            _limit_libraries(before.threads)


@contextmanager
def libraries_as_before() -> Iterator[None]:
    """Give PyTorch and OpenCV back the numbers of threads that they had in this thread."""
    torch, cv2 = _imported("torch"), _imported("cv2")
    of_torch = None if torch is None else torch.get_num_threads()
    of_cv2 = None if cv2 is None else cv2.getNumThreads()
    try:
        yield
    finally:
        if torch is not None and torch.get_num_threads() != of_torch:
            torch.set_num_threads(of_torch)
        if cv2 is not None and cv2.getNumThreads() != of_cv2:
            cv2.setNumThreads(of_cv2)


def _limit_libraries(threads: int) -> None:
    # Those alone that somebody has imported. PyTorch keeps a number for each thread; OpenCV has one for all, and
    # what it is asked for here (resizing small images) gains nothing from a second thread.
    if (torch := _imported("torch")) is not None:
        own = _own_threads.setdefault("torch", torch.get_num_threads())
        if torch.get_num_threads() != min(threads, own):
            torch.set_num_threads(min(threads, own))
    if (cv2 := _imported("cv2")) is not None and cv2.getNumThreads() != 1:
        cv2.setNumThreads(1)


_LAST_THINGS = {"torch": "set_num_threads", "cv2": "setNumThreads"}


def _imported(name: str) -> Any:
    """A library that is there; None for one that another thread is importing at this moment."""
    library = sys.modules.get(name)
    spec = getattr(library, "__spec__", None)
    is_whole = hasattr(library, _LAST_THINGS[name]) and not getattr(spec, "_initializing", False)
    return library if is_whole else None
