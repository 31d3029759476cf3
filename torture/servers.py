"""Servers on this machine that misbehave in some forty ways, as judges and as places of weights files.

    python -m torture.servers --seed 1          every misbehaviour against every client

A client may fail, with a reason; it may not hang, fill the memory, end in a traceback, or give a verdict that the
answer does not hold.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from torture.cases import Case, RefusedError, WrongAnswerError, expect, main
from torture.small_studies import MODULES, image_set

SERVER_MODULES = (
    *MODULES,
    "httpx",
    "tenacity",
    "detector_bench.detectors.vlm_judge",
    "detector_bench.cli.weights",
)
PATIENCE = 40.0
"""Seconds after which a command that talks to a bad server must have ended."""


def answer(text: Any = "It is a man.", **changes: Any) -> dict[str, Any]:
    """A chat completion, with some of its parts replaced."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 300, "completion_tokens": 5}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage, **changes}


def _raw(content: bytes) -> Callable[[Any], None]:
    def behave(handler: Any) -> None:
        handler.wfile.write(content)
        handler.close_connection = True

    return behave


def _says(status: int, content: Any, **headers: str) -> Callable[[Any], None]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    def behave(handler: Any) -> None:
        handler.reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return behave


def _stalls(handler: Any) -> None:
    time.sleep(60)


def _resets(handler: Any) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def _drips(head: bytes, drop: bytes) -> Callable[[Any], None]:
    def behave(handler: Any) -> None:
        handler.wfile.write(head)
        for _ in range(600):
            handler.wfile.write(drop)
            handler.wfile.flush()
            time.sleep(0.2)

    return behave


def _floods(handler: Any) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    for _ in range(8_000):
        handler.wfile.write(b'{"a": "' + b"x" * 1_000_000)
    handler.close_connection = True


_GIGABYTES = 1_500_000_000
_STATED_BYTES = 100_000_000


@cache
def _packed(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)  # gzip
    begin = packer.compress(b'{"a": "')
    parts = [packer.compress(b"x" * 10_000_000) for _ in range(size // 10_000_000)]
    return b"".join([begin, *parts, packer.flush()])


def _says_packed(size: int) -> Callable[[Any], None]:
    """An answer that is packed when it is first asked for, which takes seconds: who imports this may never ask."""

    def behave(handler: Any) -> None:
        _says(200, _packed(size), Content_Encoding="gzip")(handler)

    return behave


_BEGINS = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"

BEHAVIOURS: dict[str, Callable[[Any], None]] = {
    "good": _says(200, answer()),
    "no HTTP": _raw(b"\0\1\2\xff" * 100),
    "nothing": _raw(b""),
    "resets": _resets,
    "stalls": _stalls,
    "headers drip": _drips(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "body drips": _drips(_BEGINS, b" "),
    "endless body": _floods,
    "packed gigabytes": _says_packed(_GIGABYTES),
    "endless headers": _raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"b" * 5_000_000),
    "redirects in a circle": _says(302, b"", Location="?again"),
    "redirects to a file": _says(302, b"", Location="file:///etc/passwd"),
    "broken redirect": _says(302, b"", Location="http://[::1/"),
    "500": _says(500, b"oops"),
    "429 for ever": _says(429, b"{}", Retry_After="9999999999"),
    "429, time in words": _says(429, b"{}", Retry_After="soon\x7f"),
    "429, time past": _says(429, b"{}", Retry_After="Mon, 01 Jan 1900 00:00:00 GMT"),
    "401": _says(401, {"error": {"message": "no\x1b[31m", "type": None}}),
    "a web page": _says(200, b"<html>Sign in</html>", Content_Type="text/html"),
    "a list": _says(200, [1, 2]),
    "deep JSON": _says(200, b"[" * 200_000),
    "a large number": _says(200, b"9" * 100_000),
    "no choices": _says(200, answer(choices=[])),
    "choices of another kind": _says(200, answer(choices=[{"message": {"content": {"a": 1}}}])),
    "nothing said": _says(200, answer(None)),
    "half a character": _says(200, answer("a man \ud800")),
    "control characters": _says(200, answer("\0\x1b[2J man")),
    "a long answer": _says(200, answer("man " * 5_000_000)),
    "tokens without end": _says(200, json.dumps(answer()).replace("300", "9" * 400).encode()),
    "negative tokens": _says(200, answer(usage={"prompt_tokens": -5, "completion_tokens": "x"})),
    "tokens that are no number": _says(200, json.dumps(answer()).replace("300", "NaN").encode()),
    "not UTF-8": _says(200, b'{"choices": "\xff\xfe"}'),
    "too short": _raw(b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"choices": ['),
    "negative length": _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"),
    "broken chunks": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"),
    "an unknown encoding": _says(200, b"\0\1\2", Content_Encoding="gzip"),
    "204": _says(204, b""),
}
"""What the servers do, by a name in words."""


class Handler(BaseHTTPRequestHandler):
    """Does what the first part of the path says; writes down who asked for what."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        """A judge's or Face++'s question."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = sha256(body).hexdigest()[:16]
        self.server.note("received", name)
        if self.server.seconds:
            time.sleep(self.server.seconds)
        with suppress(OSError):
            self._behave()
            self.wfile.flush()
            self.server.note("answered", name)

    def do_GET(self) -> None:
        """A download."""
        self.server.note("received", self.path)
        with suppress(OSError):
            self._behave()
            self.server.note("answered", self.path)

    def _behave(self) -> None:
        number = int(self.path.split("/")[1])
        list(BEHAVIOURS.values())[number](self)

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send an answer with its length."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet."""


class Server(ThreadingHTTPServer):
    """Keeps a list of what came and what was answered, a JSON line each, with the time of the machine's clock."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, log: Path, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seconds = seconds
        self.parent = os.getpid()
        self._log = log.open("a", buffering=1)

    def note(self, event: str, name: str) -> None:
        """Append a line."""
        self._log.write(json.dumps({"event": event, "name": name, "at": time.monotonic()}) + "\n")

    def service_actions(self) -> None:
        """End with the case that started it, however that ends."""
        if os.getppid() != self.parent:
            os._exit(0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that have gone."""


@contextmanager
def serving(log: Path, *, seconds: float = 0.0) -> Iterator[int]:
    """A server in a process of its own; its port.

    Args:
        log: where it writes down requests.
        seconds: how long it thinks about each.
    """
    server = Server(log, seconds)
    process = os.fork()
    if process == 0:
        try:
            server.serve_forever(0.05)
        finally:
            os._exit(0)
    port = server.server_address[1]
    server.socket.close()
    try:
        yield port
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def judge_study(port: int, behaviour: str = "good", *, retries: int = 1) -> str:
    """A study of a judge behind the server."""
    number = list(BEHAVIOURS).index(behaviour)
    model = (
        f"{{kind: openai, base_url: 'http://127.0.0.1:{port}/{number}/v1', model: m, key_variable: null, "
        f"timeout: 2, deadline: 3, retries: {retries}, first_wait: 0.01, longest_wait: 1, "
        "requests_per_second: 1000, concurrency: 4, prices: {prompt: 1, completion: 2}}"
    )
    return f"image_set: {image_set()}\ndetectors: [{{name: judge, kind: vlm_judge, model: {model}}}]\n"


_CLIENTS = ("judge", "weights")


def run(case: Case) -> None:
    """One client and one behaviour, by the number of the case."""
    client = _CLIENTS[case.number % len(_CLIENTS)]
    behaviour = list(BEHAVIOURS)[case.number // len(_CLIENTS) % len(BEHAVIOURS)]
    case.note(f"{client}: {behaviour}")
    os.environ["NO_PROXY"] = "127.0.0.1"
    began = time.monotonic()
    with serving(case.folder / "requests.jsonl") as port:
        try:
            (_judge if client == "judge" else _download)(case, port, behaviour)
        finally:
            took = time.monotonic() - began
            case.note(f"{took:.1f} s")
    if took > PATIENCE:
        raise WrongAnswerError(f"it took {took:.0f} s")


def _judge(case: Case, port: int, behaviour: str) -> None:
    from pyarrow import parquet

    Path("study.yaml").write_text(judge_study(port, behaviour))
    expect(case.command("run", "study.yaml", "--out", "out", "--cache-dir", "cache", "--quiet", timed=False), 1)
    rows = [
        row
        for file in Path("out/predictions/judge").glob("*.parquet")
        for row in parquet.read_table(file).to_pylist()
    ]
    if rows and behaviour not in _TRUTHFUL and (verdicts := [row for row in rows if row["status"] != "error"]):
        raise WrongAnswerError(f"a verdict without an answer: {verdicts[0]}")
    if Path("out/results.json").exists():
        expect(case.command("evaluate", "out", "--quiet", "--allow-incomplete"), 1)


_TRUTHFUL = (
    *("good", "nothing said", "half a character", "control characters", "a long answer"),
    *("tokens without end", "negative tokens", "tokens that are no number"),
)
"""Answers that hold some text; what is read from it is the detector's affair."""


def _download(case: Case, port: int, behaviour: str) -> None:
    """Downloads have hours where something comes; here they get seconds, or nobody would wait for the end."""
    from detector_bench.errors import WeightsError
    from detector_bench.weights import download as room
    from detector_bench.weights.files import WeightsFile

    number = list(BEHAVIOURS).index(behaviour)
    url = f"http://127.0.0.1:{port}/{number}/net.onnx"
    # Without a stated size 64 GiB may come; to write and hash that many is the disk's and the processor's case.
    file = WeightsFile(path="net.onnx", sha256="0" * 64, url=url, download_bytes=_STATED_BYTES)
    room._SECONDS = 3.0
    try:
        room.download(file, Path("weights"), timeout=2.0)
    except WeightsError as error:
        sys.stderr.write(f"error: {error}\n")
        raise RefusedError from None
    raise WrongAnswerError("a file with another sha256 was taken")


if __name__ == "__main__":
    image_set()
    _packed(_GIGABYTES)  # before cases are forked: the time for it is not theirs
    with tempfile.TemporaryDirectory():
        main("bad servers", run, modules=SERVER_MODULES, cases=2 * len(BEHAVIOURS), about="Misbehaving servers.")
