"""A server on this machine that answers in raw bytes: slowly, without end, or with lies about itself."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Speech = Callable[[socket.socket, threading.Event], None]


class RawServer:
    """Takes a connection, reads one request, and lets `speak` answer it until `over` is set."""

    def __init__(self, speak: Speech) -> None:
        self._speak = speak
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.over = threading.Event()
        self.requests = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            self.requests += 1
            self._speak(connection, self.over)
            connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.over.set()
        self._socket.close()


@contextmanager
def speaking(speak: Speech) -> Iterator[RawServer]:
    server = RawServer(speak)
    try:
        yield server
    finally:
        server.close()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def says(content: bytes) -> Speech:
    """These bytes, and the end."""
    return lambda connection, over: connection.sendall(content)


def drips(before: bytes, part: bytes = b" ", *, every: float = 0.05) -> Speech:
    """A beginning, and then a little now and then for ever."""

    def speak(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(before)
        while not over.is_set():
            connection.sendall(part)
            time.sleep(every)

    return speak


def floods(before: bytes, part: bytes = b"x" * 65536) -> Speech:
    """A beginning, and then as much as the other side takes."""
    return drips(before, part, every=0.0)


def bomb(size: int) -> bytes:
    """So many zeros as a gzip file, which is a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts = [packer.compress(bytes(1024**2)) for _ in range(size // 1024**2)]
    return b"".join([*parts, packer.flush()])


BOMB = bomb(256 * 1024**2)
assert gzip.decompress(bomb(1024**2)) == bytes(1024**2)
