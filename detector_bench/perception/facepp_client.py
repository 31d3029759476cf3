"""Asks the Face++ Detect API about one image: paced, patient with a busy server, and silent about the key.

What the API answers, as its documentation has it (Detect API and its table of common errors,
https://console.faceplusplus.com/documents/5679127):

| status | error_message | here |
|---|---|---|
| 401 | AUTHENTICATION_ERROR | the run stops |
| 403 | AUTHORIZATION_ERROR:<reason>: denied by client or administrator, or no money left | the run stops |
| 404 | API_NOT_FOUND | the run stops |
| 403 | CONCURRENCY_LIMIT_EXCEEDED: more requests a second than the key has paid for | asked again |
| 500 | INTERNAL_ERROR | asked again |
| 400 | IMAGE_ERROR_UNSUPPORTED_FORMAT, INVALID_IMAGE_SIZE, IMAGE_FILE_TOO_LARGE, ... | an error of this image |
| 413 | Request Entity Too Large, in plain text | an error of this image |

Statuses 429 and 5xx, a lost connection and a timeout are asked again, too. A request whose answer is lost may have
been paid for all the same; nothing on this side can tell.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Any
from weakref import finalize

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.facepp_credentials import KEY_VARIABLE, SECRET_VARIABLE, Credentials

ATTRIBUTES = "gender,age"

_LONGEST_MESSAGE = 200
_LOGGERS_OF_HTTPCORE = tuple(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))


class FaceppFailure(Exception):  # noqa: N818 - a reason for an error row, not an error of the program
    """The API gave no answer about this image; the text is the reason."""


class _AskAgain(Exception):  # noqa: N818 - never leaves this module
    """The API could not answer this time. `reached` tells whether anyone answered at all."""

    def __init__(self, reason: str, *, reached: bool) -> None:
        super().__init__(reason)
        self.reached = reached


@dataclass(frozen=True)
class Pace:
    """How often and how patiently the API is asked; nothing here changes an answer.

    Attributes:
        requests_per_second: at most.
        retries: further attempts after the first one.
        timeout: seconds without a sign of life after which an attempt is given up.
        first_wait: seconds before the first retry; each further wait is twice as long, plus a random part.
        longest_wait: seconds; waits grow no further; an API that asks for a longer one is left alone until then.
    """

    requests_per_second: float
    retries: int
    timeout: float
    first_wait: float
    longest_wait: float


class FaceppClient:
    """A connection to one endpoint.

    Args:
        endpoint: the address of the Detect API.
        credentials: key and secret.
        pace: how often and how patiently to ask.
    """

    def __init__(self, endpoint: str, credentials: Credentials, *, pace: Pace) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._pace = pace
        credentials.hide_in_logs_of("httpx", *_LOGGERS_OF_HTTPCORE)
        self._http = httpx.Client(timeout=pace.timeout, follow_redirects=False)
        # A stage has no end of its own: the connection goes when the last reference to it does.
        finalize(self, self._http.close)
        self._next_turn = 0.0
        self._asked_to_wait_until = 0.0
        self._unreachable = False

    def detect(self, image: bytes, *, media_type: str) -> str:
        """Ask about the faces in an image, with gender and age.

        While nobody answers at all, further images are tried once each, so that a run without a network comes to
        its end instead of waiting through all retries for every image.

        Args:
            image: an encoded image.
            media_type: its kind, as `image/jpeg`.

        Returns:
            The answer, JSON text, as the API gave it.

        Raises:
            FaceppFailure: there is no answer about this image.
            DetectorBenchError: there would be none about any image: the key is refused, or the endpoint is wrong.
        """
        attempts = Retrying(
            stop=stop_after_attempt(1 if self._unreachable else self._pace.retries + 1),
            wait=wait_exponential(self._pace.first_wait, max=self._pace.longest_wait)
            + wait_random(0, self._pace.first_wait),
            retry=retry_if_exception_type(_AskAgain),
            reraise=True,
        )
        try:
            answer: str = attempts(self._ask_once, image, media_type)
        except _AskAgain as gone:
            self._unreachable = not gone.reached
            tried = attempts.statistics["attempt_number"]
            reason = f"{gone} (after {tried} {'attempt' if tried == 1 else 'attempts'})"
        else:
            return answer
        # Behind the handler, so that no traceback leads to frames that hold the key.
        raise FaceppFailure(reason)

    def _ask_once(self, image: bytes, media_type: str) -> str:
        self._await_turn()
        try:
            response = self._http.post(
                self._endpoint,
                data={
                    "api_key": self._credentials.key,
                    "api_secret": self._credentials.secret,
                    "return_attributes": ATTRIBUTES,
                },
                files={"image_file": (f"image.{media_type.rpartition('/')[2]}", image, media_type)},
            )
        except httpx.HTTPError as error:
            reason = self._shown(f"{type(error).__name__}: {error}")
        else:
            return self._answer_in(response)
        raise _AskAgain(reason, reached=False)

    def _await_turn(self) -> None:
        now = time.monotonic()
        if self._asked_to_wait_until - now > self._pace.longest_wait:
            seconds = self._asked_to_wait_until - now
            raise FaceppFailure(f"the API asks to be left alone for another {seconds:,.0f} s")
        turn = max(self._next_turn, self._asked_to_wait_until, now)
        time.sleep(turn - now)
        self._next_turn = turn + 1 / self._pace.requests_per_second

    def _answer_in(self, response: httpx.Response) -> str:
        self._unreachable = False
        status = response.status_code
        message, complaint = _error_message(response)
        reason = self._shown(f"{message} (HTTP {status})")
        busy = status == HTTPStatus.TOO_MANY_REQUESTS or message.startswith("CONCURRENCY_LIMIT_EXCEEDED")
        if busy or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._asked_to_wait_until = time.monotonic() + _retry_after(response.headers)
            raise _AskAgain(reason, reached=True)
        refused = message.startswith(("AUTHENTICATION_ERROR", "AUTHORIZATION_ERROR"))
        if refused or status == HTTPStatus.UNAUTHORIZED:
            raise DetectorBenchError(
                f"Face++ refuses the key in {KEY_VARIABLE} and {SECRET_VARIABLE}: {reason}; what was judged "
                "before is kept: mend it and run the same command again"
            )
        if status == HTTPStatus.NOT_FOUND:
            raise ConfigError(f"there is no Face++ API at the endpoint {self._endpoint}: {reason}")
        if status != HTTPStatus.OK or complaint:
            raise FaceppFailure(reason)
        try:
            return self._credentials.hidden_in(response.content.decode())
        except UnicodeDecodeError:
            pass
        raise FaceppFailure("the answer is no text in UTF-8")

    def _shown(self, text: str) -> str:
        # A server may put anything into its messages, the request's own fields too.
        text = " ".join(self._credentials.hidden_in(text).split())
        return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."


def _error_message(response: httpx.Response) -> tuple[str, bool]:
    """The message of an answer, and whether the answer itself calls it an error."""
    try:
        content: Any = json.loads(response.content)
    except ValueError:  # also no text at all
        content = None
    if isinstance(content, Mapping) and isinstance(message := content.get("error_message"), str):
        return message, True
    return response.reason_phrase or "no message", False


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the header Retry-After asks to wait: a number or a date; 0 without one."""
    text = headers.get("Retry-After", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return 0.0
    return max(seconds, 0.0) if isfinite(seconds) else 0.0
