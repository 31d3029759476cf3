"""Where a request goes: scheme, host and port, as the library that sends it reads an address."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from urllib.parse import urlsplit

_PORTS = {"https": 443, "http": 80}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Origin(NamedTuple):
    """Scheme, host and port; two addresses with an equal origin are the same server's."""

    scheme: str
    host: str
    """In lower case; of a name with other letters, the form that is asked for on the network (`xn--...`)."""
    port: int

    @classmethod
    def of(cls, address: str) -> Self:
        """The origin of a web address, or of a host as people write one: `llm.example`, `localhost:8000`.

        Without a scheme, it is https; on this machine, http.

        Raises:
            ValueError: neither.
        """
        import httpx

        text = address.strip()
        if not _SCHEME.match(text):
            text = f"https://{text}"
            text = f"http{text[5:]}" if (urlsplit(text).hostname or "") in _LOOPBACK else text
        try:
            # By what sends the requests, and by what checked the address: what they read differently is a trick.
            sent, checked = httpx.URL(text), urlsplit(text)
            host = sent.raw_host.decode("ascii")
            default = _PORTS.get(sent.scheme)
            same = (checked.hostname or "").lower() in (sent.host, host)
            same = same and (checked.port or default) == (sent.port or default)
        except (httpx.InvalidURL, ValueError):
            same, host = False, ""
        if not (
            same and _HOST.fullmatch(host) and sent.scheme in _PORTS and text.isprintable() and "\\" not in text
        ):
            raise ValueError(
                f"{address!r} is no host (accepted: HOST, HOST:PORT, https://HOST:PORT, http://HOST:PORT)"
            )
        if sent.userinfo:
            raise ValueError("a host has no user name and no password")
        return cls(sent.scheme, host, sent.port or _PORTS[sent.scheme])

    @classmethod
    def of_host(cls, text: str) -> Self:
        """As `of`, for what a user binds: without path, query and fragment, which would promise more than is held.

        Raises:
            ValueError: no host, or more than one.
        """
        found = cls.of(text)
        rest = urlsplit(text if _SCHEME.match(text.strip()) else f"https://{text}")
        if rest.path.strip("/") or rest.query or rest.fragment:
            raise ValueError(f"{text!r} has a path; a permission holds for a whole host: {found}")
        return found

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it is one of this machine's own addresses, where any of its users may listen."""
        return self.host in _LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"
