"""Runs an iterator in a thread of its own, some items ahead of who takes them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Semaphore, Thread
from typing import Protocol, TypeVar

from detector_bench.runner.time_spent import TimeSpent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Closable(Protocol[T_co]):
    """An iterator that can be closed, as generators can; with a `cancel`, that is called from another thread."""

    def __next__(self) -> T_co:
        """The next item."""

    def close(self) -> None:
        """Nobody wants the rest."""


def ahead(iterator: Closable[T], *, depth: int = 1, spent: TimeSpent | None = None) -> Generator[T, None, None]:
    """Run an iterator in a thread, at most `depth` items ahead of who takes them.

    An exception in the iterator is raised here, after the items before it. Closing this generator ends the thread.

    Args:
        iterator: what is run.
        depth: how many items may lie ready.
        spent: is told how long items were waited for.
    """
    queue: Queue[T | _End] = Queue()
    free = Semaphore(depth)
    stop = Event()

    def work() -> None:
        end = _End()
        try:
            with closing(iterator):
                while _acquired(free, stop):
                    queue.put(next(iterator))
        except StopIteration:
            pass
        except BaseException as error:  # noqa: BLE001 - handed on to the thread that takes the items
            end = _End(error)
        queue.put(end)

    thread = Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := _taken(queue, thread, spent), _End):
            free.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        getattr(iterator, "cancel", lambda: None)()
        thread.join()


def _taken(queue: Queue[T | _End], thread: Thread, spent: TimeSpent | None) -> T | _End:
    with nullcontext() if spent is None else spent.waited():
        return _take(queue, thread)


@dataclass(frozen=True, slots=True)
class _End:
    """Nothing comes any more; because of an error, if there is one."""

    error: BaseException | None = None


def _acquired(free: Semaphore, stop: Event) -> bool:
    while not stop.is_set():
        if free.acquire(timeout=0.1):
            return True
    return False


def _take(queue: Queue[T | _End], thread: Thread) -> T | _End:
    # With a timeout, so that Ctrl-C gets through on every system.
    while True:
        try:
            return queue.get(timeout=0.5)
        except Empty:
            if not thread.is_alive() and queue.empty():
                return _End(RuntimeError("the loading thread ended without a word"))
