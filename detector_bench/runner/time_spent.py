"""What a run's time goes into: reading, decoding, each stage, and what is left for verdicts and storing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

READING = "reading"
DECODING = "decoding"
PREPARING = "resizing for a network"
REST = "verdicts and storing"


class TimeSpent:
    """Adds up seconds by what they were spent on; several threads may add.

    Attributes:
        beside: seconds of the threads that load images and compute stages ahead of who takes the results.
        main: seconds of the thread that takes them, in stages that it runs itself.
        waiting: seconds in which it had nothing to do but wait for the others.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.beside: dict[str, float] = defaultdict(float)
        self.main: dict[str, float] = defaultdict(float)
        self.waiting = 0.0

    def add(self, what: str, seconds: float, *, beside: bool) -> None:
        """Add seconds to what they were spent on."""
        with self._lock:
            (self.beside if beside else self.main)[what] += seconds

    @contextmanager
    def waited(self) -> Iterator[None]:
        """Add the time of the block to that of waiting."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waiting += time.perf_counter() - began

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self.beside.clear()
            self.main.clear()
            self.waiting = 0.0

    def waited_for(self, seconds: float) -> dict[str, float]:
        """What the run waited for, in seconds of the clock, which add up to all of them; the longest first."""
        return waited_for(seconds, beside=self.beside, main=self.main, waiting=self.waiting)


def waited_for(
    seconds: float, *, beside: Mapping[str, float], main: Mapping[str, float], waiting: float
) -> dict[str, float]:
    """Share the clock's seconds of a run among what it waited for.

    The main thread's waiting is shared in proportion to what the other threads did: whatever takes twice the time
    of their cores is waited for twice as long. Its stages count as they are; what remains is verdicts and storing.

    Args:
        seconds: of the whole run.
        beside: seconds of the other threads, added up over them.
        main: seconds of the main thread's own stages.
        waiting: seconds of the main thread's waiting.

    Returns:
        Seconds that add up to those of the run, the longest first; nothing that takes less than a millisecond.
    """
    found: dict[str, float] = defaultdict(float)
    busy = sum(beside.values())
    for what, spent in beside.items():
        found[what] += waiting * spent / busy if busy > 0 else 0.0
    for what, spent in main.items():
        found[what] += spent
    found[REST] += max(seconds - sum(found.values()), 0.0)
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {what: round(spent, 3) for what, spent in ordered if spent >= 0.001}
