"""User names and passwords of the user's `.netrc`, for the servers that stand there by name."""

from __future__ import annotations

import netrc
from collections.abc import Generator

import httpx


class NamedLogins(httpx.Auth):
    """Signs in where the file has a login for just that host.

    An entry `default` is for servers that the user calls; an image set, which may be a stranger's, names any.

    Args:
        file: None: `.netrc` in the user's home.

    Raises:
        OSError: there is no such file.
        netrc.NetrcParseError: there is a mistake in it.
    """

    def __init__(self, file: str | None) -> None:
        self._hosts = netrc.netrc(file).hosts

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """As httpx calls it, once a request; behind a redirect to another host it takes the login away."""
        found = self._hosts.get(request.url.host)
        if found is not None and request.url.host != "default":
            login, _, password = found
            yield from httpx.BasicAuth(login, password or "").auth_flow(request)
        else:
            yield request
