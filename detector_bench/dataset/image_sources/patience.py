"""Asks a distant place again when it is busy, failing or out of reach, and knows when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from detector_bench.dataset.decoding import ImageError
from detector_bench.installation import require

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How often and how long a place is asked; nothing here changes what is read.

    Attributes:
        attempts: in all.
        first_wait: seconds before the second one; each further wait is twice as long, plus a random part.
        longest_wait: seconds; waits grow no further.
        timeout: seconds without a sign of life after which an attempt is given up.
    """

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 20.0
    timeout: float = 30.0


class NotNowError(Exception):
    """An attempt failed in a way that passes: `reason` and `detail` are for the `ImageError` if none succeeds.

    `reached` tells whether anybody answered at all, `wait` how many seconds the place asks for.
    """

    def __init__(self, reason: str, detail: str, *, reached: bool = True, wait: float = 0.0) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.reached = reached
        self.wait = wait


class PatientCalls:
    """Calls that are repeated. While nobody answers at all, each is tried once, so that a run comes to its end."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._unreachable = False

    def call(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that raises no `NotNowError`.

        Raises:
            ImageError: all attempts failed, or one in a way that does not pass.
        """
        tenacity = require("tenacity", extra="remote")
        patience = self._patience
        own_wait = tenacity.wait_exponential(patience.first_wait, max=patience.longest_wait)
        own_wait += tenacity.wait_random(0, patience.first_wait)

        def wait(state: object) -> float:
            error = state.outcome.exception()  # type: ignore[attr-defined]
            return float(max(own_wait(state), min(error.wait, patience.longest_wait)))

        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 if self._unreachable else patience.attempts),
            wait=wait,
            retry=tenacity.retry_if_exception_type(NotNowError),
            reraise=True,
        )
        try:
            result: T = attempts(attempt)
        except NotNowError as error:
            self._unreachable = not error.reached
            tried = attempts.statistics["attempt_number"]
            count = f"{tried} {'attempt' if tried == 1 else 'attempts'}"
            failure = ImageError(error.reason, f"{error.detail} (after {count})")
        else:
            self._unreachable = False
            return result
        # Behind the handler, so that no traceback leads to frames that hold a secret.
        raise failure
