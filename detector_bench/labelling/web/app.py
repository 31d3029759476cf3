"""The labelling desk as a web app: an ASGI application on a store that is already open."""

from __future__ import annotations

from http import HTTPStatus

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
