"""The pipes to a process, which end when the process does.

A pipe is open as long as anybody holds it: what the process forked may hold it for ever, also out of reach of
whoever ends the process. So between two parts it is asked whether the process itself is still there.
"""

from __future__ import annotations

import os
import select
import subprocess
from io import BufferedReader, BufferedWriter, RawIOBase
from typing import IO, Any

_MILLISECONDS = 200


def pipe_from(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """What the process writes; comes to its end with the process, too."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    return BufferedReader(_PipeOf(process, process.stdout)) if hasattr(select, "poll") else process.stdout


def pipe_to(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """What the process reads; broken when the process is gone."""
    assert process.stdin is not None  # noqa: S101 - it was asked for
    return BufferedWriter(_PipeOf(process, process.stdin)) if hasattr(select, "poll") else process.stdin


class _PipeOf(RawIOBase):
    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes]) -> None:
        self._process, self._pipe = process, pipe  # which closes what it holds
        self._written = pipe is process.stdin
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLOUT if self._written else select.POLLIN)
        os.set_blocking(pipe.fileno(), False)

    def readable(self) -> bool:
        return not self._written

    def writable(self) -> bool:
        return self._written

    def readinto(self, buffer: Any) -> int:
        while True:
            ended = self._process.poll() is not None  # asked first: what it wrote before its end is read
            if self._poll.poll(0 if ended else _MILLISECONDS):
                try:
                    return os.readv(self._pipe.fileno(), [buffer])
                except BlockingIOError:
                    continue
            if ended:
                return 0

    def write(self, content: Any) -> int:
        while self._process.poll() is None:
            if self._poll.poll(_MILLISECONDS):
                try:
                    return os.write(self._pipe.fileno(), content)
                except BlockingIOError:
                    continue
        raise BrokenPipeError
