"""A server on this machine that plays the Face++ API, well and badly, as its documentation says."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest
from running import frames_of, noise

from detector_bench.detectors import Detector, build_detector
from detector_bench.perception.facepp_answers import FaceppAnswers
from detector_bench.weights import WeightsLocator

NOWHERE = WeightsLocator()
IMAGE = noise(60, 80)
KEY = "KEY-0123456789abcdefghijklmnop"
SECRET = "SECRET-ponmlkjihgfedcba9876543"  # noqa: S105


def face(left: int, top: int, width: int, height: int, gender: str = "Female", age: int = 25) -> dict[str, Any]:
    """A face as the documentation shows it."""
    return {
        "face_token": "c2fc0ad7c8da3af5a34b9c70ff764da0",
        "face_rectangle": {"left": left, "top": top, "width": width, "height": height},
        "attributes": {"gender": {"value": gender}, "age": {"value": age}},
    }


def answer(*faces: dict[str, Any]) -> str:
    """An answer as the documentation shows it."""
    return json.dumps(
        {"request_id": "1470472868,dacf2ff1", "time_used": 89, "faces": faces, "face_num": len(faces)}
    )


class Server(ThreadingHTTPServer):
    """Answers with one face unless told otherwise, and keeps what it was sent.

    Attributes:
        script: what to do with the next requests, one entry each.
        always: what to do with the others.
        requests: the fields of each request.
        times: when each came.
        paid: how often each image, by the sha256 of its file, got a proper answer.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script: list[Callable[[Handler], None]] = []
        self.always: Callable[[Handler], None] = faces(face(10, 20, 30, 30))
        self.requests: list[dict[str, bytes]] = []
        self.times: list[float] = []
        self.paid: Counter[str] = Counter()
        self.released = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/facepp/v3/detect"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that have gone."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece, or each answer waits 40 ms for the client's acknowledgement

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        fields: dict[str, bytes] = {"path": self.path.encode()}
        for part in message_from_bytes(head + body).get_payload():
            fields[part.get_param("name", header="Content-Disposition")] = part.get_payload(decode=True)
        self.fields = fields
        self.server.requests.append(fields)
        self.server.times.append(time.monotonic())
        (self.server.script.pop(0) if self.server.script else self.server.always)(self)

    def reply(self, status: int, content: str, *, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


Behaviour = Callable[[Handler], None]


def faces(*found: dict[str, Any]) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.server.paid[sha256(handler.fields["image_file"]).hexdigest()] += 1
        handler.reply(200, answer(*found))

    return behave


def says(status: int, content: str, **headers: str) -> Behaviour:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.reply(status, content, headers=named)


def fails(status: int, message: str, **headers: str) -> Behaviour:
    return says(status, json.dumps({"time_used": 5, "error_message": message, "request_id": "1"}), **headers)


def stalls(handler: Handler) -> None:
    handler.server.released.wait(10)
    handler.close_connection = True


def resets(handler: Handler) -> None:
    # With no time to linger, closing sends a reset instead of an orderly end.
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RD)
    handler.connection.close()
    handler.close_connection = True


def serving(server: Server) -> threading.Thread:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    return thread


def stop(server: Server, thread: threading.Thread) -> None:
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def playing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Server]:
    """A running server, with key and secret in the environment."""
    # A list of authorities that is quick to read; the server speaks no TLS anyway.
    end = "-----END CERTIFICATE-----\n"
    (folder / "one.pem").write_text(Path(certifi.where()).read_text(encoding="utf-8").split(end)[0] + end)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "one.pem"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("FACEPP_API_KEY", KEY)
    monkeypatch.setenv("FACEPP_API_SECRET", SECRET)
    running = Server()
    thread = serving(running)
    yield running
    stop(running, thread)


def hasty(server: Server, **options: Any) -> dict[str, Any]:
    """The stage's parameters with waits that a test can afford."""
    quick = {"requests_per_second": 1000, "first_wait": 0.01, "longest_wait": 2, "timeout": 5, "retries": 3}
    return {"endpoint": server.endpoint, **quick, **options}


def facepp(server: Server, name: str = "facepp", **options: Any) -> Detector:
    return build_detector("facepp", name=name, parameters={"answers": hasty(server, **options)})


def ask(server: Server, *images: Any, **options: Any) -> list[Any]:
    """The stage's results, failures too, by one loaded function."""
    function = FaceppAnswers(**hasty(server, **options)).load(NOWHERE)
    return list(function(frames_of(images or (IMAGE,))))
