"""A server on this machine that makes images as OpenAI's Images API, vLLM-Omni and SGLang document it.

It is one asyncio loop that keeps connections open, so that 100,000 requests are no burden. In a test it runs in
a thread (`serving_images`); `python tests/image_service.py --port 0` runs it in a process of its own and prints
the address up to `/v1`, beside which `GET /counts` tells what was asked for and paid.

What goes wrong is asked for by a word of the prompt (`fault:NAME`, see `FAULTS`), or by `script` for the next
requests.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from image_faults import FAULTS, Behaviour, proper
from service_pictures import SIDE, picture

_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass
class Exchange:
    """A request, and the way back."""

    service: ImageService
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    path: str
    headers: dict[str, str]
    fields: dict[str, Any]
    photo: bytes | None = None

    @property
    def identity(self) -> str:
        """Of the image that is asked for: a service that pays attention would make it once."""
        asked = [self.fields.get(name) for name in ("model", "prompt", "seed", "size")]
        photo = None if self.photo is None else sha256(self.photo).hexdigest()
        return sha256(json.dumps([*asked, photo]).encode()).hexdigest()

    def make(self) -> bytes:
        """The image; from here on the service charges for it."""
        self.service.paid[self.identity] += 1
        size = re.fullmatch(r"(\d+)x(\d+)", str(self.fields.get("size", "")))
        width, height = (int(size[1]), int(size[2])) if size else (SIDE, SIDE)
        return picture(self.identity.encode(), width, height, c2pa=self.service.c2pa)

    def say(
        self,
        status: int,
        content: Any,
        *,
        promised: int | None = None,
        kind: str = "application/json",
        **headers: str,
    ) -> None:
        """Reply with bytes, with text, or with anything else as JSON; `promised` bytes, if not what comes."""
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}", f"Content-Type: {kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(content) if promised is None else promised}", "", ""]
        self.writer.write("\r\n".join(lines).encode() + content)

    def complain(self, status: int, message: str, *, code: str | None = None, kind: str, **headers: str) -> None:
        """An error as OpenAI's API gives it; `param` is among the headers' names only for this function."""
        param = headers.pop("param", None)
        error = {"message": message, "type": kind, "param": param, "code": code}
        self.say(status, {"error": error}, **headers)

    def send(self, image: bytes | None = None, **entry: Any) -> None:
        """The reply of the documentation, with an image that is made now if none is given."""
        content = self.make() if image is None else image
        if not entry:
            entry = {"b64_json": base64.b64encode(content).decode()}
            if self.fields.get("response_format") == "url":
                self.service.kept[self.identity] = content
                entry = {"url": f"{self.service.address}/files/{self.identity}.png"}
        if self.service.revises:
            entry["revised_prompt"] = f"{self.fields['prompt']}, in detail"
        self.say(200, {"created": 1_700_000_000, "data": [entry], **self.service.told})


_FAULT = re.compile(r"fault:(\w+)")


@dataclass
class ImageService:
    """What the server is told, and what it notes.

    Attributes:
        latency: seconds before a reply.
        key: that is wanted; None: none.
        c2pa: whether images carry a manifest.
        revises: whether it tells a revised prompt.
        told: what stands beside the images in a reply, such as `usage`.
        script: what to do with the next requests, one entry each.
        notes: whether `requests` and `times` are kept.
        asked: how often each image was asked for.
        paid: how often each was made, whether it arrived or not.
        keys: how often each idempotency key came.
        kept: images that are fetched by an address.
        fetched: the headers of requests for them.
    """

    latency: float = 0.0
    key: str | None = None
    c2pa: bool = False
    revises: bool = False
    told: dict[str, Any] = field(default_factory=dict)
    script: list[Behaviour] = field(default_factory=list)
    notes: bool = True
    patience: float = 30.0
    address: str = ""
    requests: list[Exchange] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    kept: dict[str, bytes] = field(default_factory=dict)
    fetched: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0

    def counts(self) -> dict[str, int]:
        """What was asked for and paid, in numbers."""
        return {
            "requests": sum(self.asked.values()),
            "images": len(self.paid),
            "paid": sum(self.paid.values()),
            "most_paid_of_one": max(self.paid.values(), default=0),
            "keys": len(self.keys),
            "connections": self.connections,
            "most_at_once": self.most_at_once,
        }

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after the other."""
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").rstrip().split("\r\n")
                method, path, _ = first.split(" ")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                exchange = Exchange(self, reader, writer, path, headers, {})
                if method == "POST":
                    await self._answer(exchange, body)
                elif path == "/counts":
                    exchange.say(200, self.counts())
                else:
                    self.fetched.append(headers)
                    image = self.kept.get(path.removeprefix("/files/").removesuffix(".png"))
                    exchange.say(404, "") if image is None else exchange.say(200, image, kind="image/png")
                await writer.drain()
        writer.close()

    async def _answer(self, exchange: Exchange, body: bytes) -> None:
        if exchange.path not in ("/v1/images/generations", "/v1/images/edits"):
            exchange.say(404, {"detail": "Not Found"})
            return
        if self.key is not None and exchange.headers.get("authorization") != f"Bearer {self.key}":
            exchange.complain(
                401, "Incorrect API key provided", code="invalid_api_key", kind="invalid_request_error"
            )
            return
        _read(exchange, body)
        if self.notes:
            self.requests.append(exchange)
            self.times.append(time.monotonic())
        self.asked[exchange.identity] += 1
        self.keys[exchange.headers.get("idempotency-key", "")] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            done = self._behaviour(exchange)(exchange)
            if done is not None:
                await done
        finally:
            self.at_once -= 1

    def _behaviour(self, exchange: Exchange) -> Behaviour:
        if self.script:
            return self.script.pop(0)
        found = _FAULT.search(exchange.fields["prompt"])
        return FAULTS[found[1]] if found else proper


def _read(exchange: Exchange, body: bytes) -> None:
    """Fields and photo of a request, which is JSON or a form."""
    kind = exchange.headers.get("content-type", "")
    if kind.startswith("application/json"):
        exchange.fields = json.loads(body)
        return
    form = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    for part in form.iter_parts():  # type: ignore[attr-defined]
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if part.get_filename() is None:
            exchange.fields[name] = content.decode()
        else:
            exchange.photo = content
            exchange.fields[name] = (part.get_filename(), part.get_content_type())


async def serve(service: ImageService, port: int = 0) -> asyncio.Server:
    """Listen on this machine."""
    server = await asyncio.start_server(service.converse, "127.0.0.1", port, backlog=1024, limit=1 << 20)
    service.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    return server


@contextmanager
def serving_images(**options: Any) -> Iterator[ImageService]:
    """A service in a thread of this process."""
    service = ImageService(**options)
    ready, loop = threading.Event(), asyncio.new_event_loop()

    def run() -> None:
        server = loop.run_until_complete(serve(service))
        ready.set()
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def main(arguments: list[str] | None = None) -> None:
    """Serve in this process until it is killed; the address is the first line of what is printed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before a reply")
    parser.add_argument("--key", help="that is wanted")
    parser.add_argument("--c2pa", action="store_true", help="images carry a manifest")
    options = parser.parse_args(arguments)
    service = ImageService(latency=options.latency, key=options.key, c2pa=options.c2pa, notes=False)

    async def forever() -> None:
        server = await serve(service, options.port)
        print(f"{service.address}/v1", flush=True)  # noqa: T201 - that is how others find it
        await server.serve_forever()

    with suppress(KeyboardInterrupt):
        asyncio.run(forever())


if __name__ == "__main__":
    main(sys.argv[1:])
