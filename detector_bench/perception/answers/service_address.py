"""Addresses of services that are sent a key."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def require_safe_address(address: str, *, allow_http: bool = False) -> None:
    """Refuse an address that would give a key away.

    Args:
        address: as it stands in a configuration.
        allow_http: also without encryption, and not only on this machine.

    Raises:
        ValueError: no web address, an unencrypted one, or one that holds a user name, query or fragment.
    """
    parts = _parts(address)
    if parts is None or parts.scheme not in ("https", "http"):
        raise ValueError("an endpoint is an address that begins with https://")
    if parts.scheme == "http" and not is_on_this_machine(address) and not allow_http:
        raise ValueError("an endpoint begins with https://, for the key would travel readable by anyone")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an endpoint has no user name, query or fragment; the key comes from the environment")


def is_on_this_machine(address: str) -> bool:
    """Whether the address is one of this machine's own."""
    parts = _parts(address)
    return parts is not None and parts.hostname in _LOOPBACK


def _parts(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and (parts.port is None or parts.port > 0) else None
    except ValueError:  # brackets or a port that are none
        return None
