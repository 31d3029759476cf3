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
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.answers.ledger_lines import PaidAnswer
from detector_bench.perception.answers.service_addresses import Secrets
from detector_bench.perception.answers.service_requests import Pace, PacedRequests, RequestFailure
from detector_bench.trust import key_from_environment

if TYPE_CHECKING:
    from detector_bench.perception.answers.paid_ledger import LedgerEntry

KEY_VARIABLE = "FACEPP_API_KEY"
SECRET_VARIABLE = "FACEPP_API_SECRET"  # noqa: S105 - the name of a variable, no secret


def missing_credentials() -> tuple[str, ...]:
    """Which of the two environment variables is not set, a line each."""
    return tuple(
        f"the environment variable {name} is not set; set it to the {what} of your Face++ account"
        for name, what in ((KEY_VARIABLE, "API key"), (SECRET_VARIABLE, "API secret"))
        if not os.environ.get(name, "").strip()
    )


@dataclass(frozen=True)
class Credentials:
    """Key and secret; neither shows when this is printed."""

    key: str = field(repr=False)
    secret: str = field(repr=False)

    @classmethod
    def from_environment(cls, endpoint: str) -> Credentials:
        """Read both variables, for the host that they are to be sent to.

        Raises:
            ConfigError: one is not set, or may not be sent there.
        """
        if missing := missing_credentials():
            raise ConfigError("\n".join(missing))
        key, secret = (key_from_environment(name, endpoint) for name in (KEY_VARIABLE, SECRET_VARIABLE))
        return cls(key or "", secret or "")

    @property
    def secrets(self) -> Secrets:
        """Both, to be kept out of everything that is shown."""
        return Secrets((self.key, self.secret))


ATTRIBUTES = "gender,age"


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
        self._requests = PacedRequests(endpoint, pace=pace, secrets=credentials.secrets)

    def detect(
        self,
        image: bytes,
        *,
        media_type: str,
        require_complete: Callable[[str], object] = str,
        entry: LedgerEntry | None = None,
    ) -> str:
        """Ask about the faces in an image, with gender and age; see `PacedRequests.ask`.

        Args:
            image: an encoded image.
            media_type: its kind, as `image/jpeg`.
            require_complete: raises `ValueError` for an answer that is none, or lacks something.
            entry: where attempts and answer are recorded.

        Returns:
            The answer, JSON text, as the API gave it.

        Raises:
            RequestFailure: there is no answer about this image.
            ValueError: what came is none.
            DetectorBenchError: there would be none about any image: the key is refused, or the endpoint is wrong.
        """

        def read(response: httpx.Response) -> str:
            answer = self._answer_in(response)
            require_complete(answer)
            return answer

        return self._requests.ask(
            read,
            entry=entry,
            as_paid=PaidAnswer,
            data={
                "api_key": self._credentials.key,
                "api_secret": self._credentials.secret,
                "return_attributes": ATTRIBUTES,
            },
            files={"image_file": (f"image.{media_type.rpartition('/')[2]}", image, media_type)},
        )

    def _answer_in(self, response: httpx.Response) -> str:
        status = response.status_code
        message, complaint = _error_message(response)
        reason = self._requests.shown(f"{message} (HTTP {status})")
        busy = status == HTTPStatus.TOO_MANY_REQUESTS or message.startswith("CONCURRENCY_LIMIT_EXCEEDED")
        if busy or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self._requests.busy(response, reason)
        refused = message.startswith(("AUTHENTICATION_ERROR", "AUTHORIZATION_ERROR"))
        if refused or status == HTTPStatus.UNAUTHORIZED:
            raise DetectorBenchError(
                f"Face++ refuses the key in {KEY_VARIABLE} and {SECRET_VARIABLE}: {reason}; what was judged "
                "before is kept: mend it and run the same command again"
            )
        if status == HTTPStatus.NOT_FOUND:
            raise ConfigError(f"there is no Face++ API at the endpoint {self._endpoint}: {reason}")
        if status != HTTPStatus.OK or complaint:
            raise RequestFailure(reason)
        try:
            return self._credentials.secrets.hidden_in(response.content.decode())
        except UnicodeDecodeError:
            pass
        raise RequestFailure("the answer is no text in UTF-8")


def _error_message(response: httpx.Response) -> tuple[str, bool]:
    """The message of an answer, and whether the answer itself calls it an error."""
    try:
        content: Any = json.loads(response.content)
    except (ValueError, RecursionError):  # also no text at all
        content = None
    if isinstance(content, Mapping) and isinstance(message := content.get("error_message"), str):
        return message, True
    return response.reason_phrase or "no message", False
