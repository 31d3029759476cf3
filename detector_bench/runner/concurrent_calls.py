"""Several calls at the same time, for work that waits on a network."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class _Outcome(NamedTuple, Generic[T, R]):
    argument: T
    results: tuple[R, ...]
    error: BaseException | None = None


def each_finished(function: Callable[[T], R], arguments: Sequence[T], *, at_once: int) -> Iterator[tuple[T, R]]:
    """Call a function for each argument, and yield argument and result as soon as the call is done.

    After an exception, or Ctrl-C, no further call begins; those under way come to their end and are yielded before
    it is raised, so that no answer that was paid for is lost. A second Ctrl-C does not wait for them.

    Args:
        function: with more than one call at once, it runs in several threads.
        arguments: what to call it with.
        at_once: how many calls may run at the same time. With 1, each runs right here, in order.
    """
    if at_once == 1:
        for argument in arguments:
            yield argument, function(argument)
        return
    outcomes: SimpleQueue[_Outcome[T, R] | None] = SimpleQueue()
    stop = Event()

    def call(argument: T) -> None:
        if stop.is_set():
            return
        try:
            outcomes.put(_Outcome(argument, (function(argument),)))
        except BaseException as error:  # noqa: BLE001 - raised again where the results are taken
            stop.set()
            outcomes.put(_Outcome(argument, (), error))

    def call_all() -> None:
        try:
            with ThreadPoolExecutor(at_once, thread_name_prefix="call") as pool:
                for argument in arguments:
                    pool.submit(call, argument)
        except BaseException as error:  # noqa: BLE001 - no thread to be had; raised again below
            outcomes.put(_Outcome(arguments[0], (), error))
        outcomes.put(None)

    problem: BaseException | None = None
    with _interrupts_held_back(stop) as interrupted:
        try:
            Thread(target=call_all, name="calls", daemon=True).start()
            while (outcome := outcomes.get()) is not None:
                problem = problem or outcome.error
                yield from ((outcome.argument, result) for result in outcome.results)
        finally:
            stop.set()
    if interrupted.is_set():
        raise KeyboardInterrupt
    if problem is not None:
        raise problem


@contextmanager
def _interrupts_held_back(stop: Event) -> Iterator[Event]:
    """Let the first Ctrl-C set `stop` and the event that is given, and only the second interrupt at once.

    An interrupt could else come between any two steps of whoever takes the results, and an answer would be lost.
    """
    interrupted = Event()
    held = {}
    if current_thread() is main_thread():  # signals come to no other
        held = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        held = {number: found for number, found in held.items() if found is signal.default_int_handler}

    def give_back() -> None:
        for number, handler in held.items():
            signal.signal(number, handler)

    def hold_back(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if interrupted.is_set():
            give_back()
            raise KeyboardInterrupt
        interrupted.set()
        stop.set()

    for number in held:
        signal.signal(number, hold_back)
    try:
        yield interrupted
    finally:
        give_back()
