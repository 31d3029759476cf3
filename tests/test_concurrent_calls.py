"""Several calls at the same time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from detector_bench.errors import ConfigError
from detector_bench.runner.execution import each_finished


class Calls:
    """Notes which calls began, ended, and how many ran at the same time."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function
        self.lock = threading.Lock()
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.most_at_once = self.running = 0

    def __call__(self, number: int) -> int:
        with self.lock:
            self.begun.append(number)
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        try:
            return self.function(number)
        finally:
            with self.lock:
                self.ended.append(number)
                self.running -= 1


def take(finished: Iterable[tuple[int, int]], *, into: list[int]) -> None:
    """Note the arguments of finished calls, also of those before an exception."""
    for number, _ in finished:
        into.append(number)


def slow(number: int) -> int:
    time.sleep(0.05)
    return 10 * number


@pytest.mark.parametrize("at_once", [1, 3, 20])
def test_every_call_is_made_once(at_once: int) -> None:
    calls = Calls(slow)
    assert sorted(each_finished(calls, range(9), at_once=at_once)) == [
        (number, 10 * number) for number in range(9)
    ]
    assert sorted(calls.begun) == list(range(9))
    assert calls.most_at_once == min(at_once, 9)


def test_one_at_a_time_runs_right_here_and_in_order() -> None:
    threads = [found for _, found in each_finished(lambda _: threading.get_ident(), range(3), at_once=1)]
    assert threads == [threading.get_ident()] * 3
    assert list(each_finished(slow, [], at_once=4)) == []


def test_what_is_done_first_comes_first() -> None:
    waits = [0.3, 0.0, 0.1]
    found = each_finished(lambda number: time.sleep(waits[number]), range(3), at_once=3)
    assert [number for number, _ in found] == [1, 2, 0]


def test_after_an_exception_the_others_under_way_are_handed_on() -> None:
    def second_fails(number: int) -> int:
        if number == 1:
            raise ConfigError("no")
        return slow(number)

    calls, found = Calls(second_fails), []
    with pytest.raises(ConfigError, match="no"):
        take(each_finished(calls, range(50), at_once=3), into=found)
    assert sorted(found) == sorted(set(calls.begun) - {1})
    assert len(found) < 10


def test_after_ctrl_c_the_others_under_way_are_handed_on() -> None:
    def interrupts(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return number

    calls, found = Calls(interrupts), []
    with pytest.raises(KeyboardInterrupt):
        take(each_finished(calls, range(50), at_once=3), into=found)
    assert sorted(found) == sorted(calls.begun) == sorted(calls.ended)
    assert 3 <= len(found) < 10


def test_a_second_ctrl_c_waits_for_nobody_and_the_handler_is_as_before() -> None:
    release = threading.Event()

    def interrupts_twice(number: int) -> int:
        if number == 1:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
        release.wait(20)
        return number

    calls = Calls(interrupts_twice)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        take(each_finished(calls, range(2), at_once=2), into=[])
    assert calls.ended == []
    assert signal.getsignal(signal.SIGINT) is before
    release.set()
