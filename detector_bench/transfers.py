"""Answers from the web within limits: so many bytes, unpacked, and so many seconds, whatever a server does.

A server that is broken or means ill may send a byte now and then for days, headers without end, a body without
end, or a few kilobytes that unpack to gigabytes. A timeout between two bytes stops none of it.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isnan
from typing import TYPE_CHECKING, Any
from weakref import finalize

from detector_bench.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    import httpx

LONGEST_RETRY_AFTER = 7 * 86_400.0
"""Seconds: a server that asks for more patience than a week is taken to ask for a week."""

_MOST_REDIRECTS = 20
_MOST_DIGITS = 18  # of a Content-Length: more are no size of anything, and Python refuses to read thousands


class TransferError(Exception):
    """A server broke a limit; the text says which."""


class OversizedAnswerError(TransferError):
    """More bytes than are taken, as they came or unpacked."""


class OverdueAnswerError(TransferError):
    """The answer is not complete in time, or comes too slowly. Later it may be otherwise."""


class StoppedTransferError(TransferError):
    """The client was closed before the answer was complete."""


class PackedAnswerError(TransferError):
    """The answer is packed in a way that nobody asked for, or does not unpack."""


@dataclass(frozen=True)
class TransferLimits:
    """What an answer may take.

    Attributes:
        most_bytes: of its body, as it comes and unpacked.
        seconds: from the first step of the request to the last byte; None: `head_seconds` until the headers are
            there, and then for as long as it comes quickly enough.
        head_seconds: as said.
        least_bytes: that come in every `window` seconds; 0 asks for none.
        window: seconds.
    """

    most_bytes: int
    seconds: float | None = None
    head_seconds: float = 120.0
    least_bytes: int = 0
    window: float = 60.0


Sink = Callable[[bytes], object]
"""Takes the parts of a body as they come."""


class BoundedClient:
    """An HTTP client whose every exchange ends. Several threads may share it.

    Exchanges run in one thread of its own, where they can be given up at any step: while a name is looked up,
    while headers drip, in the middle of the body. The connection of one that is given up is closed.

    Args:
        follow_redirects: go where the server says, at most 20 times; credentials stay with the first server.
        direct: through no proxy, whatever the environment names.
        settings: what `httpx.AsyncClient` takes.
    """

    def __init__(self, *, follow_redirects: bool = False, direct: bool = False, **settings: Any) -> None:
        self._follows = follow_redirects
        self._direct = direct
        self._settings = settings
        self._lock = threading.Lock()
        self._own: _Exchanges | None = None

    def fetch(
        self,
        method: str,
        address: str,
        *,
        limits: TransferLimits,
        begin: Callable[[httpx.Response], Sink | None] | None = None,
        **request: Any,
    ) -> httpx.Response:
        """Send a request and take the answer.

        Args:
            method: such as `GET`.
            address: where to.
            limits: what the answer may take.
            begin: is shown status and headers before the body comes, and may raise to refuse it. What it returns
                takes the body's parts; with None they are collected.
            request: what `httpx.AsyncClient.build_request` takes.

        Returns:
            Status, headers and, where nobody else has taken it, the unpacked body.

        Raises:
            TransferError: the answer broke a limit.
            ConfigError: as `open`.
            httpx.HTTPError: no connection, or no HTTP.
            Others: what `begin` and its sink raise.
        """
        exchanges = self._exchanges()
        work = exchanges.exchange(method, address, limits, begin, request, follows=self._follows)
        return exchanges.run(work)

    def open(self) -> None:
        """Get ready to send; no connection is made yet.

        Raises:
            ConfigError: a proxy or a file of certificates that the environment names cannot be used.
        """
        self._exchanges()

    def close(self) -> None:
        """Close all connections; exchanges of other threads end with `StoppedTransferError`."""
        with self._lock:
            if self._own is not None:
                self._own.end()
                self._own = None

    def _exchanges(self) -> _Exchanges:
        with self._lock:
            # In a process that was forked from this one the thread does not run.
            if self._own is None or self._own.process != os.getpid():
                import httpx

                try:
                    self._own = _Exchanges(self._settings, direct=self._direct)
                except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
                    raise ConfigError(_unusable(error)) from error
            return self._own


_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def _unusable(error: Exception) -> str:
    names = _CERTIFICATES if isinstance(error, OSError) else _PROXIES
    found = [name for each in names for name in (each, each.lower()) if os.environ.get(name)]
    # A proxy's address may hold a password, which some of the messages repeat.
    why = error.strerror if isinstance(error, OSError) else type(error).__name__
    if isinstance(error, ImportError):
        why = "a SOCKS proxy takes pip install 'httpx[socks]'"
    return (
        f"no connection can be made, because of {' and '.join(found) or 'the proxies'} in the environment: {why}"
    )


class _Exchanges:
    """An event loop in a thread, and the client that lives there."""

    def __init__(self, settings: Mapping[str, Any], *, direct: bool) -> None:
        import asyncio  # both take long, and most commands reach no network

        import httpx

        self.process = os.getpid()
        # A client that is given its way takes none from HTTP_PROXY and the like.
        pool = {name: settings[name] for name in ("limits",) if name in settings}
        way: dict[str, Any] = {"transport": httpx.AsyncHTTPTransport(**pool)} if direct else {}
        self._client = httpx.AsyncClient(follow_redirects=False, **way, **settings)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="transfers", daemon=True).start()
        # Whoever holds the client may have no end of its own: it goes when the last reference does.
        self.end = finalize(self, _end, self._loop, self._client, self.process)

    def run(self, work: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        import asyncio
        import concurrent.futures

        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise StoppedTransferError("it was broken off on this side") from None
        finally:
            future.cancel()  # of one that is done, nothing happens; after Ctrl-C the request goes

    async def exchange(
        self,
        method: str,
        address: str,
        limits: TransferLimits,
        begin: Callable[[httpx.Response], Sink | None] | None,
        request: Mapping[str, Any],
        *,
        follows: bool,
    ) -> httpx.Response:
        import asyncio

        import httpx

        patience = limits.head_seconds if limits.seconds is None else limits.seconds
        headers = {"Accept-Encoding": "identity", **request.get("headers", {})}
        sent = self._client.build_request(method, address, **{**request, "headers": headers})
        try:
            async with asyncio.timeout(patience) as deadline:
                response = await self._answered(sent, follows=follows)
                try:
                    sink = begin(response) if begin is not None else None
                    if limits.seconds is None:
                        deadline.reschedule(None)
                    parts: list[bytes] = []
                    await _take_body(response, limits, sink or parts.append)
                finally:
                    await response.aclose()
        except TimeoutError:
            failure: Exception = OverdueAnswerError(f"no complete answer after {patience:,.0f} s")
        except httpx.ConnectError as error:
            failure = httpx.ConnectError(_first_cause(error), request=sent)
        else:
            return _plain(response, b"".join(parts))
        raise failure

    async def _answered(self, sent: httpx.Request, *, follows: bool) -> httpx.Response:
        import httpx

        response = await self._client.send(sent, stream=True)
        for _ in range(_MOST_REDIRECTS):
            if not follows or response.next_request is None:
                return response
            # httpx itself would read the body first, however long.
            await response.aclose()
            response = await self._client.send(response.next_request, stream=True, auth=None)
        await response.aclose()
        raise httpx.TooManyRedirects("Exceeded maximum allowed redirects.", request=sent)


def _first_cause(error: BaseException) -> str:
    """What the system said: libraries between make "All connection attempts failed" of it."""
    found, said = error, str(error)
    while (deeper := found.__cause__ or found.__context__) is not None:
        found = deeper.exceptions[0] if isinstance(deeper, BaseExceptionGroup) else deeper
        if isinstance(found, OSError) and found.errno is not None:
            # asyncio puts words of its own in the place of the system's.
            said = f"[Errno {found.errno}] {os.strerror(found.errno)}" if found.errno > 0 else str(found)
    return said


def _end(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient, process: int) -> None:
    async def close() -> None:
        import asyncio

        # Whoever waits for an answer is told, instead of waiting for a loop that has stopped.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        try:
            await asyncio.gather(*others, return_exceptions=True)
            await client.aclose()
        finally:
            loop.stop()

    if process == os.getpid() and loop.is_running():
        loop.call_soon_threadsafe(lambda: loop.create_task(close()))


async def _take_body(response: httpx.Response, limits: TransferLimits, sink: Sink) -> None:
    if response.request.method == "HEAD":
        return
    length = content_length(response.headers)
    if length is not None and length > limits.most_bytes:
        raise OversizedAnswerError(f"an answer of {length:,} bytes; the limit is {limits.most_bytes:,}")
    unpacking = _Unpacking(response.headers.get("Content-Encoding", ""), most=limits.most_bytes)
    came = in_window = 0
    window_began = time.monotonic()
    async for part in response.aiter_raw():
        came += len(part)
        if came > limits.most_bytes:
            raise OversizedAnswerError(f"more than {limits.most_bytes:,} bytes came, the limit")
        unpacked = unpacking.take(part)
        if unpacked:
            sink(unpacked)
        in_window += len(part)
        now = time.monotonic()
        if limits.least_bytes and now - window_began >= limits.window:
            if in_window < limits.least_bytes:
                raise OverdueAnswerError(
                    f"only {in_window:,} bytes came in {now - window_began:,.0f} s (least: {limits.least_bytes:,})"
                )
            window_began, in_window = now, 0
    unpacking.finish()


class _Unpacking:
    """Unpacks gzip and deflate without ever holding more than is allowed."""

    def __init__(self, encoding: str, *, most: int) -> None:
        self._encoding = encoding.strip().lower()
        self._left = most
        self._most = most
        self._stream: Any = None
        if self._encoding in ("gzip", "x-gzip"):
            self._stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif self._encoding == "deflate":
            self._stream = zlib.decompressobj()
        elif self._encoding not in ("", "identity"):
            raise PackedAnswerError(f"the answer is packed as {self._encoding[:40]!r}, which nobody asked for")

    def take(self, part: bytes) -> bytes:
        if self._stream is None:
            return part
        try:
            found: bytes = self._stream.decompress(part, self._left + 1)
        except zlib.error as error:
            raise PackedAnswerError(f"the answer does not unpack: {error}") from None
        self._left -= len(found)
        if self._left < 0:
            raise OversizedAnswerError(f"unpacked, the answer has more than {self._most:,} bytes, the limit")
        return found

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise PackedAnswerError("the packed answer ends in the middle")


def _plain(response: httpx.Response, content: bytes) -> httpx.Response:
    """The response with its unpacked body, and no trace of how it travelled."""
    import httpx

    travel = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.raw if name.decode().lower() not in travel]
    if response.request.method == "HEAD":
        headers = response.headers.raw
    said = {name: response.extensions[name] for name in ("reason_phrase",) if name in response.extensions}
    return httpx.Response(
        response.status_code, headers=headers, content=content, request=response.request, extensions=said
    )


def content_length(headers: Mapping[str, str]) -> int | None:
    """The bytes that an answer promises; None where it says nothing that could be a size."""
    text = headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a server asks to wait: Retry-After, a number or a date, or Retry-After-Ms, which OpenAI sends
    besides; 0 without one, at most a week."""
    finer, text = headers.get("Retry-After-Ms", "").strip(), headers.get("Retry-After", "").strip()
    try:
        seconds = float(finer) / 1000 if finer.isascii() and finer.isdecimal() else float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return 0.0 if isnan(seconds) else min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
