"""Serves the labelling desk: takes the port, says where it is, and stops at Ctrl-C."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from detector_bench.errors import ConfigError

_SECONDS_TO_FINISH = 3


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
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(_in_words(error, host=host, port=port)) from error
    return listening


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C or a stop signal; what was being answered is finished."""
    # Addresses are not logged: uvicorn would write every picture that somebody looks at.
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        ws="none",
    )
    with suppress(KeyboardInterrupt), listening:
        uvicorn.Server(config).run(sockets=[listening])


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
