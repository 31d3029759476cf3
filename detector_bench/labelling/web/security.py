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
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detector_bench.labelling.web.connections import connection_of
from detector_bench.labelling.web.desk import Desk, Person, page

logger = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
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
LARGEST_BODY_OF_STRANGERS = 4096
"""Bytes of a request that needs no sign-in: a token, and what stands around it."""

SIGN_IN = "/api/sign-in"
REVIEW_PAGES = ("/agreement", "/adjudication")
"""The pages that are for the coordinator alone where tokens are asked for."""
_WITHOUT_BODY = ("GET", "HEAD")
_NOT_PAGES = ("/api/", "/images/", "/static/", "/export/")


class _Refused(Exception):  # noqa: N818 - not an error of the program
    def __init__(
        self, status: HTTPStatus, message: str, *, needs_token: bool = False, closes: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.needs_token = needs_token
        self.closes = closes
        """Whether nothing more is read from this connection: where its request ends is not known, or far off."""


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
            connection = connection_of(scope)
            if connection is not None:
                connection.is_known = connection.is_known or self._is_from_somebody(scope)
            if scope["method"] not in _WITHOUT_BODY:
                receive = await _whole_body(receive, most=_largest_body(str(scope["path"])))
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
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
        if scope["method"] in _WITHOUT_BODY:
            _check_reader(headers, path)
        else:
            _check_writer(headers, own_address=self._desk.address)
        _check_length(headers, method=scope["method"], path=path)
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

    def _is_from_somebody(self, scope: Scope) -> bool:
        """Whether the request shows that its sender belongs here; where no token is asked for, all do."""
        return self._desk.tokens is None or scope["state"]["person"] is not None


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


def _largest_body(path: str) -> int:
    return LARGEST_BODY_OF_STRANGERS if path == SIGN_IN else LARGEST_BODY


def _check_length(headers: Headers, *, method: str, path: str) -> None:
    """Every request says once, and plainly, how long it is; then nobody can disagree where it ends."""
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is not None and coding is not None:
        raise _Refused(HTTPStatus.BAD_REQUEST, "The request says in two ways how long it is.", closes=True)
    if method in _WITHOUT_BODY:
        if coding is not None or length not in (None, "0"):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"{method} takes nothing along.", closes=True)
        return
    if length is None or not length.isascii() or not length.isdigit():
        raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Say how long the request is.", closes=True)
    if int(length) > _largest_body(path):
        raise _too_large(_largest_body(path))


def _too_large(most: int) -> _Refused:
    return _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"At most {most:,} bytes are taken at once.", closes=True)


async def _whole_body(receive: Receive, *, most: int) -> Receive:
    """Read what a request takes along, counting what arrives and not what it says; gives it to whoever asks.

    Raises:
        _Refused: it is too large; not more than that, and one piece of the network's, was kept.
        ClientDisconnect: the client went away.
    """
    parts, size, is_whole = [], 0, False
    while not is_whole:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        is_whole = not message.get("more_body", False)
    whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

    async def receive_again() -> Message:
        return whole.pop() if whole else await receive()

    return receive_again


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
    headers = {"Connection": "close"} if refused.closes else {}
    if not is_page(str(scope["path"])) or scope["method"] not in _WITHOUT_BODY:
        return JSONResponse(error_body(refused.message), status_code=refused.status, headers=headers)
    if refused.needs_token:
        return HTMLResponse(page("sign-in", message=refused.message), status_code=refused.status)
    return message_page(refused.message, status=refused.status, headers=headers)


def error_body(message: str, **more: Any) -> dict[str, Any]:
    """What every answer says that is not a success."""
    return {"error": {"message": message, **more}}


def message_page(message: str, *, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """A page with one sentence, and the way back."""
    return HTMLResponse(page("message", message=message), status_code=status, headers=headers)


def keep_token(response: Response, *, name: str, token: str, secure: bool) -> None:
    """Keep a token in the browser: no script reads it, and no other site's request carries it."""
    month = 31 * 24 * 3600
    response.set_cookie(name, token, max_age=month, httponly=True, samesite="strict", secure=secure, path="/")
