"""Does the same to many image files, in several processes or threads, and gives the answers in order."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, resource_tracker
from typing import Any, TypeVar

from detector_bench.errors import DetectorBenchError

FEWEST_FOR_PROCESSES = 2_000
"""Fewer files are done before processes have started."""

_GROUP_SIZE = 64
# So many groups per worker wait for it or for their turn: nobody idles, and a million files need little memory.
_GROUPS_AHEAD = 4

Answer = TypeVar("Answer")


def each_file(
    work: Callable[[str], Answer], paths: Sequence[str], *, workers: int | None = None, in_processes: bool = False
) -> Iterator[Answer]:
    """Do the same to every file; answers come in the order of `paths`.

    What Python does for a tiny image takes longer than its decoding, and threads only take turns with it;
    processes share the cores for images of any size.

    Args:
        work: is given a path. For processes it must be picklable: a function of a module, or a `partial` of one.
            It is handed to each process once.
        paths: of the files.
        workers: how many processes or threads; None: one per processor core, at most 16.
        in_processes: whether to use processes where there are many files. A script that asks for them has to
            guard its entry with `if __name__ == "__main__"`.

    Raises:
        DetectorBenchError: a process was killed, for want of memory perhaps.
    """
    workers = workers or min(16, os.cpu_count() or 1)
    groups = [paths[start : start + _GROUP_SIZE] for start in range(0, len(paths), _GROUP_SIZE)]
    if workers == 1:
        for group in groups:
            yield from _do_group(work, group)
        return
    are_processes = in_processes and len(paths) >= FEWEST_FOR_PROCESSES
    pool = _processes(work, workers) if are_processes else ThreadPoolExecutor(workers)
    task = _do_group_in_process if are_processes else partial(_do_group, work)
    try:
        if are_processes:
            with _not_interrupted():
                for _ in range(workers):  # each task starts one
                    pool.submit(_nothing)
        yield from _in_order(pool, task, groups, ahead=workers * _GROUPS_AHEAD)
    except BrokenExecutor as error:
        message = "a process that reads images ended without a word; is there enough memory?"
        raise DetectorBenchError(message) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _processes(work: Callable[[str], Any], workers: int) -> Executor:
    # A fresh process each: a fork would inherit the threads of Arrow and numpy in any state.
    return ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin_process, initargs=(work,)
    )


def _in_order(
    pool: Executor, task: Callable[[Sequence[str]], list[Answer]], groups: Sequence[Sequence[str]], *, ahead: int
) -> Iterator[Answer]:
    waiting: deque[Future[list[Answer]]] = deque()
    for group in groups:
        waiting.append(pool.submit(task, group))
        if len(waiting) >= ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def _do_group(work: Callable[[str], Answer], group: Sequence[str]) -> list[Answer]:
    return [work(path) for path in group]


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Processes that are started here are never interrupted, and Ctrl-C waits until all of them are.

    It reaches every process of a terminal; the one that started the others ends them, without tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    resource_tracker.ensure_running()  # what starts it later would undo the next line
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt


def _nothing() -> None:
    """Does nothing."""


_work_of_process: Callable[[str], Any] | None = None


def _begin_process(work: Callable[[str], Any]) -> None:
    global _work_of_process  # noqa: PLW0603 - a process of the pool does one thing all its life
    _work_of_process = work


def _do_group_in_process(group: Sequence[str]) -> list[Any]:
    assert _work_of_process is not None  # noqa: S101 - the pool's initializer ran
    return _do_group(_work_of_process, group)
