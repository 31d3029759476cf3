"""Files on web servers: https:// and http://."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from netrc import NetrcParseError
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import sentence, shown, without_secrets
from detector_bench.dataset.image_sources.patience import NotNowError, Patience, PatientCalls
from detector_bench.dataset.image_sources.places import ContentMark, changed, require_size
from detector_bench.transfers import (
    BoundedClient,
    OverdueAnswerError,
    OversizedAnswerError,
    TransferError,
    TransferLimits,
    content_length,
    retry_after,
)

if TYPE_CHECKING:
    import httpx

AT_ONCE = 32
"""Requests that are under way at the same time."""

_LONGEST_TRANSFER = 600.0  # seconds: a server that sends a byte now and then would hold a run forever
_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_OF_WHOLE = re.compile(r"bytes \d+-\d+/(\d+)")
_AS_IT_IS = {"Accept-Encoding": "identity"}
"""Packed for the way, a file would have another size, other parts and often another ETag."""

_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NOT_THERE = (404, 410)
_FORBIDDEN = (401, 403, 407)


class WebFiles:
    """Web servers, whichever an address names; redirects are followed, also to other servers.

    User names and passwords come from the user's `.netrc` (or the file that `NETRC` names), and go to the server
    that is named there only; an entry `default` goes to none. Proxies and certificates are those of the
    environment, as `httpx` reads it.
    """

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._calls: dict[str, PatientCalls] = {}
        self._lock = Lock()
        self._opened: BoundedClient | None = None

    def mark(self, address: str) -> ContentMark:
        """ETag, size and time of change, as the server states them."""

        def attempt() -> ContentMark:
            with _errors(address):
                limits = TransferLimits(most_bytes=0, seconds=2 * self._patience.timeout)
                response = self._client().fetch("HEAD", address, headers=_AS_IT_IS, limits=limits)
                if response.status_code in (405, 501):  # no HEAD here: every image has to be read
                    return ContentMark(None, None)
                _require_success(address, response)
                return _mark_of(response.headers, size=_length(response.headers))

        return self._patient(address).call(attempt)

    def marks(self, addresses: Sequence[str]) -> list[ContentMark | None]:
        """The marks of files, asked for side by side."""

        def mark(address: str) -> ContentMark | None:
            try:
                return self.mark(address)
            except ImageError:
                return None

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="marks") as pool:
            return list(pool.map(mark, addresses))

    def read(
        self,
        address: str,
        *,
        max_bytes: int,
        start: int | None = None,
        end: int | None = None,
        mark: ContentMark | None = None,
    ) -> bytes:
        """Download a file, or a part of it; see `FilePlace.read`."""
        headers = dict(_AS_IT_IS)
        if start is not None:
            require_size(shown(address), None if end is None else end - start, max_bytes)
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"

        def refuse(response: httpx.Response) -> None:
            _require_success(address, response)
            if start is not None and response.status_code != 206:
                detail = f"{shown(address)}: the server sends no parts of files; put a copy on a disk"
                raise ImageError("no_ranges", detail)
            length = _length(response.headers)
            whole = length if start is None else _whole_size(response.headers)
            if not _is_same(mark, _mark_of(response.headers, size=whole)):
                raise changed(shown(address))
            require_size(shown(address), length, max_bytes)

        def attempt() -> bytes:
            limits = TransferLimits(most_bytes=max_bytes, seconds=_LONGEST_TRANSFER)
            with _errors(address):
                response = self._client().fetch("GET", address, headers=headers, limits=limits, begin=refuse)
            return response.content

        return self._patient(address).call(attempt)

    def _patient(self, address: str) -> PatientCalls:
        place = urlsplit(address).netloc
        with self._lock:
            return self._calls.setdefault(place, PatientCalls(self._patience))

    def _client(self) -> BoundedClient:
        import httpx

        from detector_bench.dataset.image_sources.netrc_logins import NamedLogins

        with self._lock:
            if self._opened is None:
                for name in _LOGGERS:
                    _hide_secrets_in(logging.getLogger(name))
                try:
                    auth: httpx.Auth | None = NamedLogins(os.environ.get("NETRC"))
                except (
                    OSError,
                    NetrcParseError,
                ):  # there is none, or a mistake in it that concerns other programs
                    auth = None
                limits = httpx.Limits(max_connections=2 * AT_ONCE, max_keepalive_connections=AT_ONCE)
                self._opened = BoundedClient(
                    timeout=self._patience.timeout, follow_redirects=True, auth=auth, limits=limits
                )
            return self._opened


@contextmanager
def _errors(address: str) -> Iterator[None]:
    """Whatever goes wrong below becomes an `ImageError`, or passes."""
    import httpx

    try:
        yield
        return
    except httpx.RemoteProtocolError as error:
        failure: Exception = NotNowError("truncated_transfer", f"{shown(address)}: {sentence(error)}")
    except httpx.TransportError as error:
        detail = f"{shown(address)}: {type(error).__name__}: {sentence(error)}"
        # A server that is slow or breaks off was there.
        gone = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
        failure = NotNowError("unreachable", detail, reached=not gone)
    except OversizedAnswerError as error:
        failure = ImageError("too_large", f"{shown(address)}: {error}")
    except OverdueAnswerError as error:
        failure = ImageError("unreachable", f"{shown(address)}: {error}")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, TransferError) as error:
        failure = ImageError("unreadable", f"{shown(address)}: {sentence(error)}")
    # Behind the handlers, so that no traceback leads to frames that hold a secret.
    raise failure


def _require_success(address: str, response: httpx.Response) -> None:
    status = response.status_code
    if response.is_success:
        return
    said = f"{shown(address)}: the server answers {status} {response.reason_phrase}".rstrip()
    if status in _PASSING:
        raise NotNowError("unreachable", said, wait=retry_after(response.headers))
    if status in _NOT_THERE:
        raise ImageError("missing_file", said)
    if status in _FORBIDDEN:
        raise ImageError("no_permission", said)
    if status in (412, 416):
        raise changed(shown(address))
    raise ImageError("unreadable", said)


def _mark_of(headers: Mapping[str, str], *, size: int | None) -> ContentMark:
    tag, modified = headers.get("ETag"), headers.get("Last-Modified")
    if tag:
        return ContentMark(tag.removeprefix("W/"), size)
    if modified is None:
        return ContentMark(None, size)
    try:
        changed_at = int(parsedate_to_datetime(modified).timestamp() * 1e9)
    except (TypeError, ValueError):
        return ContentMark(None, size)
    return ContentMark(modified, size, changed_at)


def _is_same(mark: ContentMark | None, now: ContentMark) -> bool:
    """Whether an answer is about the file that was marked, as far as both tell; not every server tells all."""
    if mark is None:
        return True
    has_other_text = None not in (mark.text, now.text) and mark.text != now.text
    has_other_size = None not in (mark.size, now.size) and mark.size != now.size
    return not has_other_text and not has_other_size


def _length(headers: Mapping[str, str]) -> int | None:
    if headers.get("Content-Encoding", "identity") != "identity":
        return None
    return content_length(headers)


def _whole_size(headers: Mapping[str, str]) -> int | None:
    found = _OF_WHOLE.fullmatch(headers.get("Content-Range", ""))
    return int(found[1]) if found else None


class _WithoutSecrets(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_secrets(record.getMessage()), None
        return True


def _hide_secrets_in(logger: logging.Logger) -> None:
    if not any(isinstance(each, _WithoutSecrets) for each in logger.filters):
        logger.addFilter(_WithoutSecrets())
