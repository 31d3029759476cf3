"""The most that the requests of an image set may cost together, whatever becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from detector_bench.errors import ConfigError
from detector_bench.perception.answers.budget import Budget

if TYPE_CHECKING:
    from filelock import BaseFileLock

_MARGIN = 1e-9  # of sums of floats


class Spending(NamedTuple):
    """What requests have cost, and what they may have cost besides: those in doubt, and those on their way."""

    spent: float
    doubtful: float


class SpendingLimit:
    """Keeps count of what is spent, in doubt and on its way; without a budget it lets everything pass.

    Args:
        amount: the most that all requests may cost together; None: no limit.
        currency: of the amount.
        spent: what they have cost so far, by currency.
        doubtful: what requests that gave no image may have cost besides.
        elsewhere: what requests to the other T2I models of the image set cost, which other processes may make.
        lock: of all processes that make images of the set.
    """

    def __init__(
        self,
        amount: float | None,
        *,
        currency: str = "USD",
        spent: Mapping[str, float],
        doubtful: float = 0.0,
        elsewhere: Callable[[], Spending] | None = None,
        lock: BaseFileLock | None = None,
    ) -> None:
        self._budget = None if amount is None else Budget(amount, currency)
        self._spent = spent.get(currency, 0.0)
        self._doubtful = doubtful
        self._on_the_way = 0.0
        self._elsewhere = elsewhere
        self._lock = lock

    def alone(self) -> AbstractContextManager[object]:
        """With a budget, no other process reserves until what is reserved here stands in a journal."""
        return nullcontext() if self._budget is None or self._lock is None else self._lock

    def reserve(self, worst: Sequence[float | None]) -> None:
        """Take what requests may cost at most out of what is left.

        Raises:
            ConfigError: nobody can say what they cost.
            BudgetReachedError: it is not left.
        """
        if self._budget is None:
            return
        if any(each is None for each in worst):
            raise ConfigError("--budget: nobody can say what a request may cost; state its price")
        asked = sum(each for each in worst if each is not None)
        others = Spending(0.0, 0.0) if self._elsewhere is None else self._elsewhere()
        spent = self._spent + others.spent
        doubtful = self._doubtful + others.doubtful + self._on_the_way
        if spent + doubtful + asked > self._budget.amount + _MARGIN:
            # What is on its way may turn out cheaper; the next run will know.
            raise self._budget.reached(spent=spent, doubtful=doubtful, worst=asked)
        self._on_the_way += asked

    def settle(self, worst: float | None, cost: float | None, *, doubtful: bool) -> None:
        """Put what a request cost in the place of what it might have."""
        if self._budget is None or worst is None:
            return
        self._on_the_way -= worst
        if self._on_the_way < _MARGIN:
            self._on_the_way = 0.0
        if cost is not None:
            self._spent += cost
        elif doubtful:
            self._doubtful += worst
