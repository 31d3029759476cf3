"""Addresses that keys and images may be sent to, and keys that nobody gets to see."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.trust import Origin

_HIDDEN = "(hidden)"
_SHORTEST_SECRET = 8  # a shorter text also stands in answers by chance


@dataclass(frozen=True)
class Secrets:
    """Texts that nobody may see; they do not show when this is printed."""

    values: tuple[str, ...] = field(repr=False)

    def hidden_in(self, text: str) -> str:
        """The text without the secrets, should a server repeat them."""
        for secret in sorted(self.values, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text

    def hide_in_logs_of(self, *loggers: str) -> None:
        """Keep them out of what these loggers write: at their most talkative they repeat what a server says."""
        for name in loggers:
            logger = logging.getLogger(name)
            if not any(isinstance(each, _Hiding) and each.secrets == self for each in logger.filters):
                logger.addFilter(_Hiding(self))


class _Hiding(logging.Filter):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self.secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.secrets.hidden_in(record.getMessage()), None
        return True


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def require_safe_address(address: str, *, allow_http: bool = False) -> None:
    """Refuse an address that would give a key away.

    Args:
        address: as it stands in a configuration.
        allow_http: also without encryption, and not only on this machine.

    Raises:
        ValueError: no web address, an unencrypted one, one that holds a user name, query or fragment, or one that
            can be read in two ways.
    """
    parts = _parts(address)
    if parts is None or parts.scheme not in ("https", "http"):
        raise ValueError("an endpoint is an address that begins with https://")
    if parts.scheme == "http" and not is_on_this_machine(address) and not allow_http:
        raise ValueError("an endpoint begins with https://, for the key would travel readable by anyone")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an endpoint has no user name, query or fragment; the key comes from the environment")
    if address != address.strip():
        raise ValueError("an endpoint has no blanks before or behind it")
    Origin.of(address)  # what no library would read as we do


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


class ServiceAddress(Declaration):
    """Where a service is asked."""

    base_url: str
    """The address that all paths of the service begin with."""
    allow_http: bool = Field(default=False, json_schema_extra=DESCRIPTIVE)
    """Also to other machines without encryption: whoever is on the way can read key, prompts and images."""

    @field_validator("base_url")
    @classmethod
    def _without_last_slash(cls, base_url: str) -> str:
        return base_url.rstrip("/")

    @model_validator(mode="after")
    def _address_is_safe(self) -> Self:
        try:
            require_safe_address(self.base_url, allow_http=self.allow_http)
        except ValueError as error:
            remedy = "" if self.allow_http else " (`allow_http: true` allows it)"
            raise ValueError(f"base_url: {error}{remedy if 'readable' in str(error) else ''}") from None
        return self
