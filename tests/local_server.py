"""A server on this machine that plays a paid service, and can be told to misbehave."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest


class LocalServer(ThreadingHTTPServer):
    """Answers properly unless told otherwise, and keeps what it was sent.

    Attributes:
        script: what to do with the next requests, one entry each.
        always: what to do with the others.
        requests: what each request held, as the handler reads it.
        times: when each came.
        paid: how often each image, by the sha256 of its file, got a proper answer.
        released: set when stalled requests may go.
        most_at_once: the largest number of requests that were there at the same time.
    """

    daemon_threads = True

    def __init__(self, handler: type[LocalHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.script: list[Behaviour] = []
        self.always: Behaviour = says(200, "{}")
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.paid: Counter[str] = Counter()
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.most_at_once = self._at_once = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def note(self, fields: dict[str, Any]) -> Behaviour:
        """Note a request, and decide what becomes of it."""
        with self.lock:
            self.requests.append(fields)
            self.times.append(time.monotonic())
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.script.pop(0) if self.script else self.always

    def done(self) -> None:
        with self.lock:
            self._at_once -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that have gone."""


class LocalHandler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece, or each answer waits 40 ms for the client's acknowledgement

    def read(self, body: bytes) -> dict[str, Any]:
        """What a request holds."""
        raise NotImplementedError

    def do_POST(self) -> None:
        self.fields = self.read(self.rfile.read(int(self.headers["Content-Length"])))
        behave = self.server.note(self.fields)
        try:
            behave(self)
        finally:
            self.server.done()

    def reply(self, status: int, content: str, *, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


Behaviour = Callable[[Any], None]


def says(status: int, content: Any, **headers: str) -> Behaviour:
    """Reply with text, or with anything else as JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda handler: handler.reply(status, text, headers=named)


def stalls(handler: LocalHandler) -> None:
    handler.server.released.wait(10)
    handler.close_connection = True


def resets(handler: LocalHandler) -> None:
    # With no time to linger, closing sends a reset instead of an orderly end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RD)
    handler.connection.close()
    handler.close_connection = True


def garbles(handler: LocalHandler) -> None:
    """An answer that is no text."""
    handler.send_response(200)
    handler.send_header("Content-Length", "2")
    handler.end_headers()
    handler.wfile.write(b"\xff\xfe")


def pulls_the_plug(handler: LocalHandler) -> None:
    """Nobody can connect from here on, and open connections are of no use."""
    handler.server.always = resets
    handler.server.socket.close()
    resets(handler)


def serving(server: LocalServer) -> threading.Thread:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    return thread


def stop(server: LocalServer, thread: threading.Thread) -> None:
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def prepare_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No proxy, and a list of authorities that is quick to read; the server speaks no TLS anyway."""
    end = "-----END CERTIFICATE-----\n"
    (folder / "one.pem").write_text(Path(certifi.where()).read_text(encoding="utf-8").split(end)[0] + end)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "one.pem"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
