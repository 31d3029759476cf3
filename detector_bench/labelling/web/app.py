"""The labelling desk as a web app, and serving it.

`make_app` gives an ASGI application on a store that is already open; `serve` answers requests until Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from http import HTTPStatus

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from detector_bench.errors import ConfigError
from detector_bench.labelling import AnswerConflictError, LabelStore, RefusedAnswerError, StoreError
from detector_bench.labelling.web import review, routes
from detector_bench.labelling.web.desk import STATIC, Desk
from detector_bench.labelling.web.pictures import Pictures
from detector_bench.labelling.web.security import Guard, error_body, is_page, message_page
from detector_bench.labelling.worth import Worth

_STATUSES: dict[type[Exception], HTTPStatus] = {
    RefusedAnswerError: HTTPStatus.UNPROCESSABLE_ENTITY,
    AnswerConflictError: HTTPStatus.CONFLICT,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    ConfigError: HTTPStatus.BAD_REQUEST,
}


def make_app(store: LabelStore, desk: Desk, *, worth: Worth | None = None) -> FastAPI:
    """Make the web app.

    Args:
        store: open for writing; the caller closes it.
        desk: who labels, and who may come in.
        worth: says what the labels so far are worth, on the coordinator's page; None: nothing is said.
    """
    # No generated documentation: its pages load scripts from other sites.
    app = FastAPI(title="Labelling desk", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.store = store
    app.state.desk = desk
    app.state.pictures = Pictures(store)
    for router in (review.make_router(store, desk, worth), routes.router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for kind in _STATUSES:
        app.add_exception_handler(kind, _refused_by_the_store)
    app.add_exception_handler(HTTPException, _refused_by_http)
    app.add_exception_handler(RequestValidationError, _refused_request)
    app.add_middleware(Guard, desk=desk)
    return app


def _refused_by_the_store(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(error_body(str(error)), status_code=_STATUSES[type(error)])


def _refused_by_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    text = "There is no such page." if error.detail == "Not Found" else str(error.detail)
    if is_page(request.url.path):
        return message_page(text, status=HTTPStatus(error.status_code))
    return JSONResponse(error_body(text), status_code=error.status_code)


def _refused_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    mistakes = [f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}" for found in error.errors()]
    return JSONResponse(error_body("; ".join(mistakes)), status_code=HTTPStatus.UNPROCESSABLE_ENTITY)


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
