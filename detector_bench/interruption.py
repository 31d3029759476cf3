"""What a process does when it is told to stop, by a person or by a job scheduler."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


def listen_for_stop() -> None:
    """Treat a job scheduler's SIGTERM like Ctrl-C: finish writing, and say how to go on."""
    signal.signal(signal.SIGTERM, stop_once)


def stop_once(_number: int, _frame: FrameType | None) -> NoReturn:
    """Interrupt as Ctrl-C does, the first time; what comes behind it is not heard."""
    # Schedulers repeat themselves; what is being stored since the first time is not to be disturbed.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
