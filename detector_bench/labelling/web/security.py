"""What stands before every request: whose address was called, from which page, with which token.

Every answer, also a refusal or an error, carries the headers that keep a browser from running anything that is not
the desk's own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detector_bench.labelling.web.desk import Desk, Person, page

logger = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
LARGEST_BODY = 2 * 1024 * 1024
"""Bytes of a request; a hundred answers with long notes are less than a tenth of it."""

SIGN_IN = "/api/sign-in"
REVIEW_PAGES = ("/agreement", "/adjudication")
"""The pages that are for the coordinator alone where tokens are asked for."""
_NOT_PAGES = ("/api/", "/images/", "/static/", "/export/")


class _Refused(Exception):  # noqa: N818 - not an error of the program
    def __init__(self, status: HTTPStatus, message: str, *, needs_token: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.needs_token = needs_token


class Guard:
    """ASGI middleware; who was let in is in `request.state.person` (None where no token is asked for)."""

    def __init__(self, app: ASGIApp, *, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: there is none here
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message, scope["path"])
            await send(message)

        try:
            scope.setdefault("state", {})["person"] = self._let_in(scope)
            await self._app(scope, receive, send_with_headers)
        except _Refused as refused:
            await _refusal(scope, refused)(scope, receive, send_with_headers)
        except Exception:
            logger.exception("the labelling desk failed on %s %s", scope["method"], scope["path"])
            if started:
                raise
            failed = _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "The desk made a mistake; its window says which.")
            await _refusal(scope, failed)(scope, receive, send_with_headers)

    def _let_in(self, scope: Scope) -> Person | None:
        headers, path = Headers(scope=scope), str(scope["path"])
        if not self._desk.knows_host(headers.get("host", "")):
            raise _Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This address is not the labelling desk's. It is {self._desk.address}",
            )
        if scope["method"] in ("GET", "HEAD"):
            _check_reader(headers, path)
        else:
            _check_writer(headers, own_address=self._desk.address)
        tokens = self._desk.tokens
        if tokens is None or path == SIGN_IN or path.startswith("/static/"):
            return None
        person = tokens.person(cookie_parser(headers.get("cookie", "")).get(tokens.cookie, ""))
        if person is None:
            message = "The desk does not know you. Open the link that you were given; it holds your token."
            raise _Refused(HTTPStatus.UNAUTHORIZED, message, needs_token=True)
        if not may_use(person, path):
            message = f"This is not for {person.name}. If you are somebody else, open your own link."
            raise _Refused(HTTPStatus.FORBIDDEN, message, needs_token=True)
        return person


def may_use(person: Person, path: str) -> bool:
    """Whether an address is for this person. Annotators have their own pages; the rest is the coordinator's."""
    if path in ("/", "/api/desk") or path.startswith("/images/"):
        return True
    parts = path.split("/")
    is_own = len(parts) > 2 and parts[1] in ("label", "api") and parts[2] == person.name
    is_shared = path.startswith(("/agreement", "/adjudication", "/api/agreement", "/api/adjudication", "/export/"))
    return is_shared if person.is_coordinator else is_own


def _check_reader(headers: Headers, path: str) -> None:
    """Other sites may link to a page; they may not embed or read anything."""
    site = headers.get("sec-fetch-site", "none")
    if site in ("same-origin", "none"):
        return
    is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if not is_link or not is_page(path):
        raise _Refused(HTTPStatus.FORBIDDEN, "Another web site asked for this; only the desk's own pages may.")


def _check_writer(headers: Headers, *, own_address: str) -> None:
    origin = headers.get("origin")
    # A proxy may hand on another host than the one that the browser sees.
    is_own = origin in (None, own_address) or urlsplit(origin).netloc == headers.get("host")
    if not is_own or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _Refused(HTTPStatus.FORBIDDEN, "Another web site sent this; only the desk's own pages may.")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send this as application/json.")
    length = headers.get("content-length")
    if length is None or not length.isascii() or not length.isdigit():
        raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Say how long the request is.")
    if int(length) > LARGEST_BODY:
        raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {LARGEST_BODY:,} bytes are taken at once.")


def _add_headers(message: Message, path: str) -> None:
    headers = MutableHeaders(raw=message["headers"])
    for name, value in HEADERS.items():
        headers[name] = value
    # Static files change with the program, pictures with the image set: both are asked for again, by their ETag.
    headers.setdefault("Cache-Control", "no-cache" if path.startswith("/static/") else "no-store")


def is_page(path: str) -> bool:
    """Whether people look at this address; what only the pages' scripts ask for is answered in JSON."""
    return not path.startswith(_NOT_PAGES)


def _refusal(scope: Scope, refused: _Refused) -> Response:
    if not is_page(str(scope["path"])) or scope["method"] not in ("GET", "HEAD"):
        return JSONResponse(error_body(refused.message), status_code=refused.status)
    if refused.needs_token:
        return HTMLResponse(page("sign-in", message=refused.message), status_code=refused.status)
    return message_page(refused.message, status=refused.status)


def error_body(message: str, **more: Any) -> dict[str, Any]:
    """What every answer says that is not a success."""
    return {"error": {"message": message, **more}}


def message_page(message: str, *, status: HTTPStatus) -> HTMLResponse:
    """A page with one sentence, and the way back."""
    return HTMLResponse(page("message", message=message), status_code=status)


def keep_token(response: Response, *, name: str, token: str, secure: bool) -> None:
    """Keep a token in the browser: no script reads it, and no other site's request carries it."""
    month = 31 * 24 * 3600
    response.set_cookie(name, token, max_age=month, httponly=True, samesite="strict", secure=secure, path="/")
