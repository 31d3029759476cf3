"""Answers within limits, from servers that keep to none: slow, endless, packed, with lies about themselves."""

from __future__ import annotations

import gzip
import resource
import time
import zlib
from typing import Any

import httpx
import pytest
from misbehaving_server import BOMB, Speech, drips, floods, head, says, speaking

from detector_bench.transfers import (
    BoundedClient,
    OverdueAnswerError,
    OversizedAnswerError,
    PackedAnswerError,
    TransferError,
    TransferLimits,
)

CHUNKED = "Transfer-Encoding: chunked"
CHUNK = b"ffff\r\n" + b"x" * 65535 + b"\r\n"
CUT_OFF = gzip.compress(b"x" * 99)[:20]
PACKED = [("gzip", gzip.compress(b"hello", mtime=0)), ("deflate", zlib.compress(b"hello")), ("identity", b"hello")]
LIMITS = TransferLimits(most_bytes=1_000_000, seconds=1.0)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def fetched(speak: Speech, limits: TransferLimits = LIMITS, **options: Any) -> httpx.Response:
    with speaking(speak) as server:
        client = BoundedClient(timeout=5, **options)
        try:
            return client.fetch("GET", server.address, limits=limits)
        finally:
            client.close()


@pytest.mark.parametrize(
    "speak",
    [
        drips(b""),
        drips(b"HTTP/1.1 200 OK\r\nX-Long: "),
        drips(b"", head(status="100 Continue")),
        drips(head("Content-Length: 100000")),
        drips(head(CHUNKED), b"1\r\nx\r\n"),
    ],
    ids=["status line", "header", "informational answers", "body", "chunks"],
)
@pytest.mark.slow
def test_a_byte_now_and_then_does_not_hold_a_request(speak: Speech) -> None:
    began = time.monotonic()
    with pytest.raises((OverdueAnswerError, httpx.RemoteProtocolError)):
        fetched(speak)
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("speak", "error"),
    [
        (floods(head("Content-Length: 99999999999")), OversizedAnswerError),
        (floods(head("Connection: close")), OversizedAnswerError),
        (floods(head(CHUNKED), CHUNK), OversizedAnswerError),
        (says(head("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}") + BOMB), OversizedAnswerError),
        (says(head("Content-Encoding: br", "Content-Length: 4") + b"abcd"), PackedAnswerError),
        (says(head("Content-Encoding: gzip", "Content-Length: 4") + b"abcd"), PackedAnswerError),
        (
            says(head("Content-Encoding: gzip", "Content-Length: 20") + CUT_OFF),
            PackedAnswerError,
        ),
        (floods(b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"y" * 1000 + b"\r\n"), httpx.RemoteProtocolError),
        (says(head("Content-Length: 50") + b"short"), httpx.RemoteProtocolError),
        (says(head("Content-Length: -5") + b"short"), httpx.RemoteProtocolError),
        (says(head("Content-Length: 3", "Content-Length: 5") + b"short"), httpx.RemoteProtocolError),
        (says(head(f"Content-Length: {'9' * 5000}") + b"short"), (httpx.RemoteProtocolError, TransferError)),
    ],
)
def test_an_answer_that_breaks_a_limit_ends_there(speak: Speech, error: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(error):
        fetched(speak, TransferLimits(most_bytes=1_000_000, seconds=20.0))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


@pytest.mark.parametrize(
    ("encoding", "body"),
    PACKED,
    ids=[encoding for encoding, _ in PACKED],
)
def test_what_is_packed_though_nobody_asked_is_unpacked(encoding: str, body: bytes) -> None:
    response = fetched(says(head(f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}") + body))
    assert (response.status_code, response.content) == (200, b"hello")


def test_a_redirect_with_an_endless_body_is_followed_without_it() -> None:
    with speaking(says(head("Content-Length: 2") + b"ok")) as end:
        moved = floods(
            head(f"Location: {end.address}", CHUNKED, status="302 Found"), b"ffff\r\n" + b"x" * 65535 + b"\r\n"
        )
        assert fetched(moved, follow_redirects=True).content == b"ok"


def test_a_circle_of_redirects_ends() -> None:
    with pytest.raises(httpx.TooManyRedirects):
        fetched(says(head("Location: /again", "Content-Length: 0", status="302 Found")), follow_redirects=True)


@pytest.mark.slow
def test_who_asks_for_a_least_speed_waits_a_window_for_it() -> None:
    slow = drips(head("Content-Length: 100000"), b"x" * 10)
    with pytest.raises(OverdueAnswerError, match="bytes came in"):
        fetched(slow, TransferLimits(most_bytes=1_000_000, least_bytes=5_000, window=0.4))
    quick = TransferLimits(most_bytes=1_000_000, least_bytes=10, window=0.2)
    few = drips(head("Content-Length: 100"), b"x" * 10)
    assert len(fetched(few, quick).content) == 100
