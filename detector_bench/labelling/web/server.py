"""Serving the desk: a port, TLS, and uvicorn behind a door that counts.

uvicorn's own settings bound idle connections and requests that are being answered, not those that say nothing, nor
those of one address. Its protocol for HTTP is therefore handed each connection only after `DoorKeeper` let it in.
TLS is begun here as well: uvicorn would count a connection only once it is encrypted.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from detector_bench.errors import ConfigError
from detector_bench.labelling.web.connections import (
    CONNECTION,
    Connection,
    ConnectionLimits,
    DoorKeeper,
    TurnKeeper,
)

_SECONDS_TO_FINISH = 3
_BACKLOG = 128
"""Connections that the system keeps until the desk takes them: all at once, and then they are counted."""
FILES_BESIDE = 2 * _BACKLOG + 128
"""Files beside counted connections: what was taken but not counted yet, pictures, the store, the program."""


def listen(host: str, port: int) -> socket.socket:
    """Take a port, so that its number is known before anybody is told; 0: any free one.

    Raises:
        ConfigError: the port is in use or not for everybody, or the host is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # restarted after a crash, the desk gets its port back at once
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(_in_words(error, host=host, port=port)) from error
    return listening


def make_server(
    app: ASGIApp, *, limits: ConnectionLimits | None = None, tls: ssl.SSLContext | None = None
) -> uvicorn.Server:
    """The server of an app; `run(sockets=[...])` answers until `should_exit`."""
    limits = limits or ConnectionLimits()
    keeper = DoorKeeper(limits)

    def door(
        config: uvicorn.Config, server_state: Any, app_state: dict[str, Any], _loop: Any = None
    ) -> asyncio.Protocol:
        def make_http(connection: Connection) -> _Http:
            return _Http(config, server_state, {**app_state, CONNECTION: connection}, _loop, keeper=keeper)

        return _Door(keeper, tls, make_http)

    # Addresses are not logged: uvicorn would write every picture that somebody looks at. Nor are requests that are
    # no HTTP: a flood of them would fill the log.
    config = uvicorn.Config(
        TurnKeeper(app, limits),
        http=cast("type[asyncio.Protocol]", door),
        loop="asyncio",
        access_log=False,
        log_level="error",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=max(1, round(limits.seconds_idle)),
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        ws="none",
    )
    return _Server(config, keeper)


def serve(
    app: ASGIApp,
    listening: socket.socket,
    *,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer requests until Ctrl-C or a stop signal; what was being answered is finished.

    Args:
        app: what answers.
        listening: the port, from `listen`.
        limits: on connections; None: the usual ones.
        tls: encrypts; None: in the clear.
    """
    with suppress(KeyboardInterrupt), listening:
        make_server(app, limits=limits, tls=tls).run(sockets=[listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, keeper: DoorKeeper) -> None:
        super().__init__(config)
        self._keeper = keeper

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for every connection, and does not know of those that have not begun.
        self._keeper.cut_strangers()
        await super().shutdown(sockets)


class _Http(H11Protocol):
    """uvicorn's HTTP, which says when a client begins to send, and when it takes nothing of an answer."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: Any,
        app_state: dict[str, Any],
        loop: Any,
        *,
        keeper: DoorKeeper,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self._connection: Connection = app_state[CONNECTION]
        self._keeper = keeper
        self._limits = keeper.limits
        self._has_begun = False
        self._early = b""
        self._was_served = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._has_begun = True
        super().connection_made(transport)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if not self._has_begun:  # the first bytes behind a TLS handshake may be faster than its end
            self._early += data
            return
        if self._connection.is_resting:
            self._connection.awaits_client(self._limits.seconds_to_send)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.leave(self._connection)
        if self._has_begun:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._was_served = self._connection.deadline is None
        if self._was_served:
            self._connection.awaits_client(self._limits.seconds_idle)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._was_served and not self._connection.is_resting:
            self._connection.is_served()
        self._was_served = False


class _Door(asyncio.Protocol):
    """Stands before HTTP and before TLS: counts a connection, and hands it on."""

    def __init__(
        self, keeper: DoorKeeper, tls: ssl.SSLContext | None, make_http: Callable[[Connection], _Http]
    ) -> None:
        self._keeper = keeper
        self._tls = tls
        self._make_http = make_http
        self._handing_on: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        line = cast("asyncio.Transport", transport)
        connection = self._keeper.admit(line)
        if connection is None:
            line.abort()
            return
        http = self._make_http(connection)
        if self._tls is None:
            line.set_protocol(http)
            http.connection_made(line)
            return
        line.pause_reading()
        self._handing_on = asyncio.get_running_loop().create_task(self._encrypt(line, http, connection))

    async def _encrypt(self, line: asyncio.Transport, http: _Http, connection: Connection) -> None:
        assert self._tls is not None  # noqa: S101 - asked before
        try:
            secured = await asyncio.get_running_loop().start_tls(
                line, http, self._tls, server_side=True, ssl_handshake_timeout=self._keeper.limits.seconds_to_send
            )
        except OSError:  # no TLS, too slow, or gone; TLS errors are of this kind
            secured = None
        if secured is None or secured.is_closing():
            self._keeper.leave(connection)
            line.abort()
            return
        connection.secured = secured
        http.connection_made(secured)


def _in_words(error: Exception, *, host: str, port: int) -> str:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another labelling desk (look at http://{host}:{port}/); "
            "give another one with --port, or --port 0 for any that is free"
        )
    if code == errno.EACCES:
        return f"port {port} is not open to you; give one above 1023 with --port"
    return f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"
