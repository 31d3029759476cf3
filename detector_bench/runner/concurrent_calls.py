"""Several calls at the same time, for work that waits on a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Thread
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
    # In a thread of its own, for Ctrl-C interrupts only this one, and may come between any two steps.
    thread = Thread(target=call_all, name="calls", daemon=True)
    started = False
    try:
        while True:
            try:
                if not started:
                    started = True
                    thread.start()
                outcome = outcomes.get()
            except KeyboardInterrupt as pressed:
                if isinstance(problem, KeyboardInterrupt) or thread.ident is None:
                    raise
                problem = pressed
                stop.set()
                continue
            if outcome is None:
                break
            problem = problem or outcome.error
            yield from ((outcome.argument, result) for result in outcome.results)
    finally:
        stop.set()
    if problem is not None:
        raise problem
