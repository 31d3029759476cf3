"""The most that paid answers may cost together."""

from __future__ import annotations

from typing import NamedTuple

from detector_bench.errors import DetectorBenchError
from detector_bench.perception.answers.spending import money


class BudgetReachedError(DetectorBenchError):
    """The next request could cost more than the budget has left; it was not sent."""


class Budget(NamedTuple):
    """The most that all requests of a result folder may cost together."""

    amount: float
    currency: str

    def reached(self, *, spent: float, doubtful: float, worst: float) -> BudgetReachedError:
        """What to raise before a request that may cost `worst`; `doubtful` may have been spent besides."""
        doubt = f" and {money({self.currency: doubtful})} in doubt" if doubtful else ""
        return BudgetReachedError(
            f"the budget of {money({self.currency: self.amount})} is reached: "
            f"{money({self.currency: spent})} spent{doubt}, and the next request may cost "
            f"{money({self.currency: worst})}"
        )
