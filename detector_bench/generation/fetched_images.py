"""Fetches images that a service made and left somewhere: without its key, within limits, from nowhere private."""

from __future__ import annotations

import socket
import time
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urljoin, urlsplit

from detector_bench.generation.image_replies import MOST_IMAGE_BYTES
from detector_bench.perception.answers.service_requests import Pace
from detector_bench.transfers import BoundedClient, TransferError, TransferLimits
from detector_bench.trust import Origin

_MOST_SHOWN = 80
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Of networks that speak IPv6 alone: the last four bytes are an address of IPv4."""


class NotFetchedError(Exception):
    """The image did not come; the text says why."""


class FetchedImages:
    """Gets images by the addresses that a service gives. Several threads may share it.

    An address may name a file of the service itself. Any other has to begin with https:// and to lead to a public
    address of the internet: a service has no say in what this machine asks its own network for. No redirect is
    followed, and no key is sent.

    Args:
        base_url: of the service.
        pace: how patiently to ask; a file that is there already costs nothing to ask for again.
    """

    def __init__(self, base_url: str, *, pace: Pace) -> None:
        self._base_url = base_url
        self._service = Origin.of(base_url)
        self._pace = pace
        self._limits = TransferLimits(most_bytes=MOST_IMAGE_BYTES, seconds=pace.deadline)
        self._http = BoundedClient(timeout=pace.timeout, direct=self._service.is_on_this_machine)

    def fetch(self, address: str) -> bytes:
        """The file at an address, which may be relative to the service.

        Raises:
            NotFetchedError: it is refused, or did not come after all attempts.
        """
        whole = urljoin(self._base_url + "/", address)
        self._require_allowed(whole)
        for attempt in range(self._pace.retries + 1):
            if attempt:
                time.sleep(min(self._pace.first_wait * 2 ** (attempt - 1), self._pace.longest_wait))
            try:
                return self._fetch_once(whole)
            except _ComesLaterError as error:
                reason = str(error)
        raise NotFetchedError(f"the image at {_shown(whole)} did not come: {reason}")

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _require_allowed(self, whole: str) -> None:
        try:
            origin = Origin.of(whole)
        except ValueError as error:
            raise NotFetchedError(f"the service names no address of an image: {error}") from None
        if origin == self._service:
            return
        if origin.scheme != "https":
            raise NotFetchedError(f"the service left the image at {_shown(whole)}, which is not https://")
        if not _is_public(origin):
            raise NotFetchedError(
                f"the service left the image at {_shown(whole)}, in a private network: nothing is asked for there"
            )

    def _fetch_once(self, address: str) -> bytes:
        import httpx

        try:
            response = self._http.fetch("GET", address, limits=self._limits)
        except (httpx.HTTPError, httpx.InvalidURL, TransferError) as error:
            raise _ComesLaterError(f"{type(error).__name__}: {error}") from None
        if response.status_code != HTTPStatus.OK:
            raise _ComesLaterError(f"HTTP {response.status_code}")
        return response.content


class _ComesLaterError(Exception):
    """This attempt failed."""


def _is_public(origin: Origin) -> bool:
    """Whether all addresses of a host are public ones; a host without any is left to fail by itself."""
    try:
        found = socket.getaddrinfo(origin.host, origin.port, proto=socket.IPPROTO_TCP)
    except OSError:
        return True
    return all(_leads_outside(ip_address(str(each[4][0]).partition("%")[0])) for each in found)


def _leads_outside(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is a public one; also of those of IPv6 that stand for one of IPv4."""
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return True
    inner = address.ipv4_mapped or address.sixtofour
    if address in _TRANSLATED:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return address.teredo is None and (inner is None or inner.is_global)


def _shown(address: str) -> str:
    """An address without what may be a secret in it: storage services sign with the query."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"[:_MOST_SHOWN]
