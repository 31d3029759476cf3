"""A web server on this machine that has files, and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from local_server import resets


class FileServer(ThreadingHTTPServer):
    """Serves `files` by path, with ETags and parts unless told otherwise.

    Attributes:
        script: what to do with the next requests for a content, one entry each.
        requests: method, path with query, and headers of each request.
        has_parts: whether `Range` is understood.
        has_tags: whether files have an ETag.
        has_head: whether HEAD is understood.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FileHandler)
        self.files: dict[str, bytes] = {}
        self.script: list[Behaviour] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.has_parts = self.has_tags = self.has_head = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, handler: Any) -> bool:
        """Answer a request in another way than with a file; False: a file is wanted."""
        return False

    def asked(self, method: str) -> list[str]:
        return [path for name, path, _ in self.requests if name == method]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that have gone."""


class _FileHandler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_HEAD(self) -> None:
        self.note()
        if not self.server.has_head:
            self.say(405)
        elif not self.server.answer(self):
            self.send_file(with_body=False)

    def do_GET(self) -> None:
        self.note()
        behave = self.server.script.pop(0) if self.server.script else None
        if behave is not None:
            behave(self)
        elif not self.server.answer(self):
            self.send_file(with_body=True)

    def do_POST(self) -> None:
        self.note()
        self.server.answer(self)

    def send_json(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def note(self) -> None:
        self.server.requests.append((self.command, self.path, dict(self.headers)))

    def say(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_file(self, *, with_body: bool, cut_to: int | None = None) -> None:
        data = self.server.files.get(urlsplit(self.path).path)
        if data is None:
            self.say(404)
            return
        wanted = self.headers.get("Range")
        if wanted is not None and self.server.has_parts:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1 if last else None]
            self.send_response(206)
            end = int(first) + len(part) - 1
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(data)}")
        else:
            part = data
            self.send_response(200)
        if self.server.has_tags:
            # As servers do that pack what they send: the packed file is another one.
            packed = "" if self.headers.get("Accept-Encoding") == "identity" else "-packed"
            self.send_header("ETag", f'"{_tag(data)}{packed}"')
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if with_body:
            self.wfile.write(part[:cut_to])
        if cut_to is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


@lru_cache
def _tag(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()  # noqa: S324 - a name, no secret


Behaviour = Callable[[Any], None]


def answers(status: int, **headers: str) -> Behaviour:
    """Answer with a status and nothing else."""
    return lambda handler: handler.say(status, **headers)


def breaks_off(handler: Any) -> None:
    """Promise the whole file, and send a few bytes of it."""
    handler.send_file(with_body=True, cut_to=10)


def hangs_up(handler: Any) -> None:
    """Close the connection without an answer."""
    resets(handler)


@contextmanager
def serving_files(server: FileServer | None = None) -> Iterator[FileServer]:
    server = server or FileServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
