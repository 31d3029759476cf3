"""Sums over the ledger of paid answers: answers, tokens and money, by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from detector_bench.perception.answers.ledger_lines import LedgerLine, PaidAnswer
from detector_bench.perception.answers.prices import Prices

Record = dict[str, float | str]

Amounts = dict[str, float]
"""Money, by currency."""


@dataclass
class StageSpending:
    """What one stage has asked for.

    Attributes:
        counts_tokens: whether its service charges by tokens.
        answers: that came.
        prompt_tokens: of questions and images, as far as they were told.
        completion_tokens: of the answers.
        untold: answers whose tokens were not told: their cost is in no sum.
        cost: of the answers, by currency, as it was known when they came.
        unpriced: answers that came when no prices were given, and their tokens.
        failures: requests without an answer.
        perhaps_paid: those of them that may have been paid for all the same.
        doubtful: the most that requests without an answer, and answers without a cost, may have cost, by currency.
        unknown: how many of those had no prices.
        asked_again: requests that were sent though an earlier one of the same content may have been paid for.
    """

    counts_tokens: bool = False
    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    untold: int = 0
    cost: Amounts = field(default_factory=dict)
    unpriced: list[PaidAnswer] = field(default_factory=list)
    failures: int = 0
    perhaps_paid: int = 0
    doubtful: Amounts = field(default_factory=dict)
    unknown: int = 0
    asked_again: int = 0

    def take(self, line: LedgerLine, *, request: LedgerLine | None) -> None:
        """Count a line; `request` is the one that an outcome belongs to, if that line is whole."""
        self.counts_tokens = line.counts_tokens
        if line.kind == "request":
            self.asked_again += bool(line.after)
        elif line.answer is not None:
            self._take_answer(line, line.answer, request)
        else:
            self.failures += 1
            if line.perhaps_paid:
                self.perhaps_paid += 1
                self.doubt(request)

    def _take_answer(self, line: LedgerLine, answer: PaidAnswer, request: LedgerLine | None) -> None:
        self.answers += 1
        self.prompt_tokens += answer.prompt_tokens or 0
        self.completion_tokens += answer.completion_tokens or 0
        untold = answer.prompt_tokens is None or answer.completion_tokens is None
        if line.counts_tokens:
            self.untold += untold
        if line.cost is not None and line.currency is not None:
            _add(self.cost, line.currency, line.cost)
        elif request is not None and request.worst is not None:
            self.doubt(request)
        else:
            self.unpriced.append(answer._replace(text=""))

    def doubt(self, request: LedgerLine | None) -> None:
        """Count a request that may have been paid for."""
        if request is not None and request.worst is not None and request.currency is not None:
            _add(self.doubtful, request.currency, request.worst)
        elif request is None or request.may_cost:
            self.unknown += 1

    def add(self, other: StageSpending) -> None:
        """Take in what another session has asked for."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                for currency, amount in theirs.items():
                    _add(mine, currency, amount)
            else:
                setattr(self, each.name, mine or theirs if isinstance(mine, bool) else mine + theirs)

    def costs(self, prices: Prices | None) -> Amounts:
        """What the answers cost; those that came without prices by the present ones."""
        found = dict(self.cost)
        if prices is not None:
            for answer in self.unpriced:
                _add(found, prices.currency, prices.cost(answer) or 0)
        return found

    def as_record(self, prices: Prices | None) -> Record:
        """Named numbers, for `run.json`; what is nothing and says nothing is left out."""
        found: Record = {"answers": self.answers}
        if self.counts_tokens:
            found |= {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
            found["untold"] = self.untold
        costs = self.costs(prices)
        if len(costs) == 1:
            ((currency, cost),) = costs.items()
            found |= {"cost": cost, "currency": currency}
        else:
            found |= {f"cost in {currency}": cost for currency, cost in sorted(costs.items())}
        further = {
            "answers_without_price": len(self.unpriced) if costs and prices is None else 0,
            "requests_without_answer": self.failures,
            "perhaps_paid": self.perhaps_paid,
            "perhaps_paid_twice": self.asked_again,
        }
        return found | {name: number for name, number in further.items() if number}


def _add(amounts: Amounts, currency: str, amount: float) -> None:
    amounts[currency] = amounts.get(currency, 0.0) + amount


def spending_record(
    in_all: Mapping[str, StageSpending],
    in_session: Mapping[str, StageSpending],
    prices: Mapping[str, Prices],
) -> dict[str, Record]:
    """By stage, what was paid in all, and for this session.

    Args:
        in_all: by the stage's label.
        in_session: the same, of one session.
        prices: those of the present study, by the stage's label.
    """
    found = {}
    for label, spent in sorted(in_all.items()):
        record = spent.as_record(prices.get(label))
        now = in_session.get(label, StageSpending()).as_record(prices.get(label))
        record["answers_this_session"] = now["answers"]
        if "cost" in record:
            record["cost_this_session"] = now.get("cost", 0.0)
        found[label] = record
    return found


def money(amounts: Mapping[str, float]) -> str:
    """Amounts in words, `0.0123 USD`; empty for none."""
    return " and ".join(f"{amount:,.4f} {currency}" for currency, amount in sorted(amounts.items()))
