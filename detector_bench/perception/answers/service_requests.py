"""What services that are sent images share: safe addresses, image files, patient requests, hidden keys."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.perception.stage import DESCRIPTIVE
from detector_bench.transfers import (
    BoundedClient,
    OverdueAnswerError,
    TransferError,
    TransferLimits,
    retry_after,
)
from detector_bench.trust import Origin

if TYPE_CHECKING:
    import httpx

    from detector_bench.perception.answers.ledger_lines import PaidAnswer
    from detector_bench.perception.answers.paid_ledger import LedgerEntry

T = TypeVar("T")

_LONGEST_MESSAGE = 200
_LONGEST_SAID = 2_000
_MOST_BYTES = 16 * 1024**2
"""Of an answer; the longest real ones have some thousands."""
_LOGGERS_OF_HTTPCORE = tuple(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))


class RequestFailure(Exception):  # noqa: N818 - a reason for an error row, not an error of the program
    """The service gave no answer about this image; the text is the reason."""


class AskAgain(Exception):  # noqa: N818 - caught by `PacedRequests` alone
    """The service could not answer this time. `reached` tells whether anyone answered at all."""

    def __init__(self, reason: str, *, reached: bool = True) -> None:
        super().__init__(reason)
        self.reached = reached


@dataclass(frozen=True)
class Pace:
    """How often and how patiently a service is asked; nothing here changes an answer.

    Attributes:
        requests_per_second: at most.
        retries: further attempts after the first one.
        timeout: seconds without a sign of life after which an attempt is given up.
        deadline: seconds after which an attempt is given up, whatever signs of life there are.
        first_wait: seconds before the first retry; each further wait is twice as long, plus a random part.
        longest_wait: seconds; waits grow no further; a service that asks for longer is left alone until then.
    """

    requests_per_second: float
    retries: int
    timeout: float
    deadline: float
    first_wait: float
    longest_wait: float


class PacedRequests:
    """Posts requests to one address; several threads may share it, and keep to one pace together.

    Redirects are not followed: they would take the key elsewhere.

    Args:
        address: where requests go.
        pace: how often and how patiently to ask.
        secrets: what no log and no message may hold.

    Raises:
        ConfigError: a proxy or certificates that the environment names cannot be used.

    Attributes:
        ever_reached: whether anyone has answered yet.
    """

    def __init__(self, address: str, *, pace: Pace, secrets: Secrets) -> None:
        self._address = address
        self._pace = pace
        self._secrets = secrets
        secrets.hide_in_logs_of("httpx", *_LOGGERS_OF_HTTPCORE)
        # What is meant for this machine would leave it by a proxy that the environment names, key and all.
        self._http = BoundedClient(timeout=pace.timeout, direct=is_on_this_machine(address))
        self._http.open()
        self._limits = TransferLimits(most_bytes=_MOST_BYTES, seconds=pace.deadline)
        self._lock = Lock()
        self._next_turn = 0.0
        self._asked_to_wait_until = 0.0
        self._unreachable = False
        self.ever_reached = False

    def ask(
        self,
        read: Callable[[httpx.Response], T],
        *,
        entry: LedgerEntry | None = None,
        as_paid: Callable[[T], PaidAnswer] | None = None,
        **request: Any,
    ) -> T:
        """Post one request, again while the service is busy, failing or out of reach.

        While nobody answers at all, further requests are tried once each, so that a run without a network comes to
        its end instead of waiting through all retries for every image.

        Args:
            read: turns a response into the answer. It raises `AskAgain` (see `busy`) to have it asked for again,
                and `ValueError` if it is none.
            entry: where each attempt is recorded before it is sent, and what became of it.
            as_paid: the answer as the ledger keeps it.
            request: what `httpx.Client.post` takes.

        Raises:
            RequestFailure: there is no answer.
            ValueError: what came is none.
        """
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

        attempts = Retrying(
            stop=stop_after_attempt(1 if self._unreachable else self._pace.retries + 1),
            wait=wait_exponential(self._pace.first_wait, max=self._pace.longest_wait)
            + wait_random(0, self._pace.first_wait),
            retry=retry_if_exception_type(AskAgain),
            reraise=True,
        )
        try:
            answer: T = attempts(self._ask_once, read, request, entry, as_paid)
        except AskAgain as gone:
            self._unreachable = not gone.reached
            tried = attempts.statistics["attempt_number"]
            reason = f"{gone} (after {tried} {'attempt' if tried == 1 else 'attempts'})"
        else:
            return answer
        # Behind the handler, so that no traceback leads to frames that hold the key.
        raise RequestFailure(reason)

    def busy(self, response: httpx.Response, reason: str) -> AskAgain:
        """What to raise for a response that asks for patience; waits as long as it says."""
        with self._lock:
            until = time.monotonic() + retry_after(response.headers)
            self._asked_to_wait_until = max(self._asked_to_wait_until, until)
        return AskAgain(reason)

    def shown(self, text: str) -> str:
        """A service's words, fit for a message: short, in one line, without secrets.

        A server may put anything into its messages, the request's own fields too.
        """
        whole = text.encode(errors="replace").decode()  # half a surrogate pair fits into no table
        text = " ".join(self._secrets.hidden_in(whole).split())
        return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."

    def _ask_once(
        self,
        read: Callable[[httpx.Response], T],
        request: Mapping[str, Any],
        entry: LedgerEntry | None,
        as_paid: Callable[[T], PaidAnswer] | None,
    ) -> T:
        import httpx  # every run reads this module, and few ask anybody

        never_sent = (
            *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol),
            *(httpx.InvalidURL, httpx.ProxyError),
        )
        self._await_turn()
        if entry is not None:
            entry.send()
        try:
            response = self._http.fetch("POST", self._address, limits=self._limits, **request)
        except (httpx.HTTPError, httpx.InvalidURL, TransferError) as error:
            reason = self.shown(f"{type(error).__name__}: {error}")
            sent, passes = not isinstance(error, never_sent), not isinstance(error, TransferError)
            passes = passes or isinstance(error, OverdueAnswerError)
            reached = isinstance(error, TransferError)
            self.ever_reached = self.ever_reached or reached
        except BaseException as error:
            if entry is not None:
                entry.failed(f"interrupted: {type(error).__name__}", perhaps_paid=True)
            raise
        else:
            self._unreachable, self.ever_reached = False, True
            return self._answer_in(response, read, entry, as_paid)
        if entry is not None:
            entry.failed(reason, perhaps_paid=sent)
        if not passes:  # perhaps it was paid for, and it would come again
            raise RequestFailure(reason)
        raise AskAgain(reason, reached=reached)

    def _answer_in(
        self,
        response: httpx.Response,
        read: Callable[[httpx.Response], T],
        entry: LedgerEntry | None,
        as_paid: Callable[[T], PaidAnswer] | None,
    ) -> T:
        try:
            answer = read(response)
        except BaseException as error:
            if entry is not None:
                no_answer = response.is_success  # perhaps one that cannot be read: it may be paid for
                said = response.content[:_LONGEST_SAID].decode(errors="replace")
                entry.failed(
                    self.shown(str(error)),
                    perhaps_paid=no_answer,
                    status=response.status_code,
                    said=self._secrets.hidden_in(said) if no_answer else None,
                )
            raise
        if entry is not None and as_paid is not None:
            entry.answered(as_paid(answer))
        return answer

    def _await_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            seconds = self._asked_to_wait_until - now
            if seconds > self._pace.longest_wait:
                raise RequestFailure(f"the API asks to be left alone for another {seconds:,.0f} s")
            turn = max(self._next_turn, self._asked_to_wait_until, now)
            self._next_turn = turn + 1 / self._pace.requests_per_second
        time.sleep(turn - now)


_HIDDEN = "(hidden)"
_SHORTEST_SECRET = 8  # a shorter text also stands in answers by chance


@dataclass(frozen=True)
class Secrets:
    """Texts that nobody may see; they do not show when this is printed."""

    values: tuple[str, ...] = field(repr=False)

    def hidden_in(self, text: str) -> str:
        """The text without the secrets, should a server repeat them."""
        for secret in sorted(self.values, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        return text

    def hide_in_logs_of(self, *loggers: str) -> None:
        """Keep them out of what these loggers write: at their most talkative they repeat what a server says."""
        for name in loggers:
            logger = logging.getLogger(name)
            if not any(isinstance(each, _Hiding) and each.secrets == self for each in logger.filters):
                logger.addFilter(_Hiding(self))


class _Hiding(logging.Filter):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self.secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.secrets.hidden_in(record.getMessage()), None
        return True


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def require_safe_address(address: str, *, allow_http: bool = False) -> None:
    """Refuse an address that would give a key away.

    Args:
        address: as it stands in a configuration.
        allow_http: also without encryption, and not only on this machine.

    Raises:
        ValueError: no web address, an unencrypted one, one that holds a user name, query or fragment, or one that
            can be read in two ways.
    """
    parts = _parts(address)
    if parts is None or parts.scheme not in ("https", "http"):
        raise ValueError("an endpoint is an address that begins with https://")
    if parts.scheme == "http" and not is_on_this_machine(address) and not allow_http:
        raise ValueError("an endpoint begins with https://, for the key would travel readable by anyone")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an endpoint has no user name, query or fragment; the key comes from the environment")
    if address != address.strip():
        raise ValueError("an endpoint has no blanks before or behind it")
    Origin.of(address)  # what no library would read as we do


def is_on_this_machine(address: str) -> bool:
    """Whether the address is one of this machine's own."""
    parts = _parts(address)
    return parts is not None and parts.hostname in _LOOPBACK


def _parts(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and (parts.port is None or parts.port > 0) else None
    except ValueError:  # brackets or a port that are none
        return None


ImageFormat = Literal["jpeg", "png"]
"""PNG is exact; JPEG takes fewer bytes."""


def image_form(settings: ServiceSettings) -> str:
    """In which form images are sent, in words."""
    return "PNG" if settings.image_format == "png" else f"JPEG of quality {settings.jpeg_quality}"


def encoded(
    pixels: NDArray[np.uint8],
    *,
    image_format: ImageFormat,
    jpeg_quality: int,
    size: tuple[int, int] | None = None,
) -> bytes:
    """The content of an image file.

    Args:
        pixels: (height, width, 3), RGB.
        image_format: the kind of file.
        jpeg_quality: 1 to 100; colours keep their full resolution.
        size: width and height to resize to.
    """
    image = Image.fromarray(pixels)
    if size is not None and size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    options: dict[str, Any] = {"quality": jpeg_quality, "subsampling": 0} if image_format == "jpeg" else {}
    stream = io.BytesIO()
    image.save(stream, format=image_format, **options)
    return stream.getvalue()


class ServiceSettings(Declaration):
    """How a service that takes images is asked: the form of the images, and the pace, which changes no answer.

    Declarations that differ only in what changes no answer are equal: they share answers that are paid for.
    """

    image_format: ImageFormat = "jpeg"
    """PNG is exact; JPEG takes fewer bytes."""
    jpeg_quality: int = Field(default=95, ge=1, le=100)
    """1 to 100; colours keep their full resolution."""
    requests_per_second: float = Field(default=10.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """The most requests that are sent in a second."""
    retries: int = Field(default=5, ge=0, json_schema_extra=DESCRIPTIVE)
    """Further attempts while the service is busy, failing or out of reach."""
    timeout: float = Field(default=120.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds without a sign of life after which an attempt is given up."""
    deadline: float = Field(default=600.0, gt=0, json_schema_extra=DESCRIPTIVE)
    """Seconds after which an attempt is given up, also if a byte comes now and then."""
    first_wait: float = Field(default=1.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds before the first retry; each further wait is twice as long, plus a random part."""
    longest_wait: float = Field(default=120.0, ge=0, json_schema_extra=DESCRIPTIVE)
    """Seconds; waits grow no further."""

    @property
    def costs_money(self) -> bool:
        """Whether answers may cost money; what declares no better may."""
        return True

    def lacks_for_budget(self) -> str | None:
        """What has to be set before a budget can hold; None: nothing."""
        return "does not say what its answers cost" if self.costs_money else None

    @property
    def pace(self) -> Pace:
        """How often and how patiently the service is asked."""
        return Pace(**{name: getattr(self, name) for name in Pace.__dataclass_fields__})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._decisive() == other._decisive()

    def __hash__(self) -> int:
        return hash(self._decisive())

    def _decisive(self) -> str:
        fields = type(self).model_fields
        pace = {name for name, field in fields.items() if field.json_schema_extra == DESCRIPTIVE}
        alike = {name for name, value in self if isinstance(value, ServiceSettings)}
        own = self.model_dump(exclude=pace | alike)
        return json.dumps([own, *(getattr(self, name)._decisive() for name in sorted(alike))], sort_keys=True)
