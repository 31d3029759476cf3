"""How a service that makes images goes wrong: refusals, busy times, and replies that are no images."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from service_pictures import chunk

if TYPE_CHECKING:
    from image_service import Exchange

Behaviour = Callable[["Exchange"], Awaitable[None] | None]


def says(status: int, content: Any, **headers: str) -> Behaviour:
    """Reply with a status and a text, or anything else as JSON."""
    return lambda exchange: exchange.say(status, content, **headers)


def complains(status: int, message: str, *, code: str | None = None, kind: str = "", **headers: str) -> Behaviour:
    """Reply with an error as OpenAI's API gives it."""
    kind = kind or "invalid_request_error"
    return lambda exchange: exchange.complain(status, message, code=code, kind=kind, **headers)


def sends(image: bytes | str) -> Behaviour:
    """Charge for an image, and send something else in its place."""

    def behave(exchange: Exchange) -> None:
        exchange.make()
        exchange.send(image.encode() if isinstance(image, str) else image)

    return behave


def proper(exchange: Exchange) -> None:
    exchange.send()


async def stalls(exchange: Exchange) -> None:
    """Make the image, and say nothing until the client has gone."""
    exchange.make()
    with suppress(TimeoutError):
        await asyncio.wait_for(exchange.reader.read(), exchange.service.patience)
    exchange.writer.close()


def cuts(exchange: Exchange) -> None:
    """Make the image, and close the connection in the middle of it."""
    image = json.dumps({"created": 1, "data": [{"b64_json": base64.b64encode(exchange.make()).decode()}]})
    exchange.say(200, image[:60], promised=len(image))
    exchange.writer.close()


def resets(exchange: Exchange) -> None:
    """Make the image, and close the connection without a word."""
    exchange.make()
    wire = exchange.writer.get_extra_info("socket")
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.writer.transport.abort()


def charges(status: int, content: Any) -> Behaviour:
    """Make the image, and say something else."""

    def behave(exchange: Exchange) -> None:
        exchange.make()
        exchange.say(status, content)

    return behave


def fills(count: int) -> Behaviour:
    """Charge for an image, and send so many bytes."""

    async def behave(exchange: Exchange) -> None:
        exchange.make()
        exchange.say(200, b'{"created": 1, "data": [{"b64_json": "', promised=count + 100)
        for _ in range(count // 65_536 + 1):
            if exchange.writer.is_closing():
                return
            exchange.writer.write(b"A" * 65_536)
            await exchange.writer.drain()
        exchange.writer.close()

    return behave


def once(first: Behaviour) -> Behaviour:
    """Misbehave when an image is asked for first, and never again."""

    def behave(exchange: Exchange) -> Awaitable[None] | None:
        first_time = exchange.service.asked[exchange.identity] == 1
        return first(exchange) if first_time else proper(exchange)

    return behave


def filtered(*, image: bool) -> Behaviour:
    """A reply as Azure gives it where its filter found something."""

    def behave(exchange: Exchange) -> None:
        found = {"sexual": {"filtered": True, "severity": "high"}, "hate": {"filtered": False, "severity": "safe"}}
        entry: dict[str, Any] = {"content_filter_results": found}
        if image:
            entry["b64_json"] = base64.b64encode(exchange.make()).decode()
        exchange.say(200, {"created": 1, "data": [entry]})

    return behave


def black(exchange: Exchange) -> None:
    """A black image, with the word of a safety checker."""
    exchange.make()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\x00" * 9 * 8)) + chunk(b"IEND", b"")
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + body).decode()
    exchange.say(200, {"created": 1, "data": [{"b64_json": image, "nsfw_content_detected": True}]})


_SAFETY = (
    "Your request was rejected by the safety system. If you believe this is an error, contact us at "
    "help.openai.com and include the request ID req_1. safety_violations=[sexual]."
)
_POLICY = "Your request was rejected as a result of our safety system."
_BOMB = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))

FAULTS: dict[str, Behaviour] = {
    "moderation": complains(400, _SAFETY, code="moderation_blocked", kind="image_generation_user_error"),
    "policy": complains(400, _POLICY, code="content_policy_violation"),
    "no_image": says(200, {"created": 1, "data": []}),
    "finish_reason": says(200, {"created": 1, "data": [{"b64_json": None, "finish_reason": "content_filter"}]}),
    "filtered": filtered(image=False),
    "filtered_image": filtered(image=True),
    "black": black,
    "busy": once(
        complains(429, "Rate limit reached", code="rate_limit_exceeded", kind="requests", Retry_After="1")
    ),
    "busy_without_date": once(complains(429, "Rate limit reached", code="rate_limit_exceeded", kind="requests")),
    "overloaded": once(says(503, "upstream connect error", kind="text/plain")),
    "broken": once(complains(500, "The server had an error", kind="server_error")),
    "gateway": charges(502, "<html>Bad Gateway</html>"),
    "stalls": stalls,
    "cut": cuts,
    "reset": resets,
    "unreadable": charges(200, "no JSON"),
    "nested": charges(200, "[" * 100_000),
    "not_base64": charges(200, {"created": 1, "data": [{"b64_json": "*no base64*"}]}),
    "html": sends("<!DOCTYPE html><html><body>Sign in</body></html>"),
    "svg": sends('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    "json": sends('{"detail": "not found"}'),
    "bomb": sends(_BOMB + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")),
    "huge": fills(200 * 1024**2),
    "wrong_size": complains(400, "Invalid value: '100x100'.", code="invalid_value", param="size"),
    "too_long": complains(
        400, "Invalid 'prompt': string too long.", code="string_above_max_length", param="prompt"
    ),
}
"""What `fault:NAME` in a prompt makes of the request."""
