"""Patient requests to services: paced, bounded, repeated where that is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from detector_bench.perception.answers.service_addresses import Secrets, is_on_this_machine
from detector_bench.transfers import (
    BoundedClient,
    OverdueAnswerError,
    TransferError,
    TransferLimits,
    retry_after,
)

if TYPE_CHECKING:
    import httpx

    from detector_bench.perception.answers.ledger_lines import PaidAnswer
    from detector_bench.perception.answers.paid_ledger import LedgerEntry

T = TypeVar("T")

_LONGEST_MESSAGE = 200
_LONGEST_SAID = 2_000
_MOST_BYTES = 16 * 1024**2
"""Of an answer; the longest real ones have some thousands."""
_LONGEST_CONNECTING = 30.0
_LOGGERS_OF_HTTPCORE = tuple(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))


class RequestFailure(Exception):  # noqa: N818 - a reason for an error row, not an error of the program
    """The service gave no answer to this request; the text is the reason.

    `perhaps_paid` tells whether it may charge for it all the same.
    """

    def __init__(self, reason: str, *, perhaps_paid: bool = False) -> None:
        super().__init__(reason)
        self.perhaps_paid = perhaps_paid


class ServiceGone(RequestFailure):
    """Nobody answers, after all attempts, or the service asks to be left alone for long."""


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
        most_bytes: of an answer.
        again_in_doubt: whether a request that may have been charged for, as after a timeout, is sent again.
        settings: what `httpx.AsyncClient` takes.

    Raises:
        ConfigError: a proxy or certificates that the environment names cannot be used.

    Attributes:
        ever_reached: whether anyone has answered yet.
    """

    def __init__(
        self,
        address: str,
        *,
        pace: Pace,
        secrets: Secrets,
        most_bytes: int = _MOST_BYTES,
        again_in_doubt: bool = True,
        **settings: Any,
    ) -> None:
        import httpx  # every run reads this module, and few ask anybody

        self._address = address
        self._pace = pace
        self._secrets = secrets
        secrets.hide_in_logs_of("httpx", *_LOGGERS_OF_HTTPCORE)
        # What is meant for this machine would leave it by a proxy that the environment names, key and all.
        # A service may think for minutes; whether anybody is there shows at once.
        timeout = httpx.Timeout(pace.timeout, connect=min(pace.timeout, _LONGEST_CONNECTING))
        self._http = BoundedClient(timeout=timeout, direct=is_on_this_machine(address), **settings)
        self._http.open()
        self._limits = TransferLimits(most_bytes=most_bytes, seconds=pace.deadline)
        self._again_in_doubt = again_in_doubt
        self._lock = Lock()
        self._next_turn = 0.0
        self._asked_to_wait_until = 0.0
        self._unreachable = False
        self._closed = Event()
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
            sleep=self._wait,
            reraise=True,
        )
        try:
            answer: T = attempts(self._ask_once, read, request, entry, as_paid)
        except AskAgain as gone:
            self._unreachable = not gone.reached
            tried = attempts.statistics["attempt_number"]
            reason = f"{gone} (after {tried} {'attempt' if tried == 1 else 'attempts'})"
            failure = RequestFailure if gone.reached else ServiceGone
        else:
            return answer
        # Behind the handler, so that no traceback leads to frames that hold the key.
        raise failure(reason)

    def close(self) -> None:
        """Close all connections; requests of other threads end, those that wait for their turn are not sent."""
        self._closed.set()
        self._http.close()

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
        import httpx

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
            reason = self.shown(f"{type(error).__name__}: {error}".removesuffix(": "))
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
        if not passes or (sent and not self._again_in_doubt):  # it may be paid for, and would come again
            raise RequestFailure(reason, perhaps_paid=sent)
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

    def _wait(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _await_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            seconds = self._asked_to_wait_until - now
            if seconds > self._pace.longest_wait:
                raise ServiceGone(f"the API asks to be left alone for another {seconds:,.0f} s")
            turn = max(self._next_turn, self._asked_to_wait_until, now)
            self._next_turn = turn + 1 / self._pace.requests_per_second
        if self._closed.wait(turn - now):
            raise RequestFailure("stopped before it was sent")
