"""What the requests of an image set have cost together, and whether a budget can be kept to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from detector_bench.errors import ConfigError
from detector_bench.generation.journal import Journal
from detector_bench.generation.plan import ModelPlan
from detector_bench.generation.spending_limit import Spending


def check_budget(budget: float | None, plans: Iterable[ModelPlan]) -> None:
    """Refuse a budget that cannot be kept to, before anything is sent.

    Raises:
        ConfigError: the prices are in several currencies, or nobody knows one.
    """
    if budget is None:
        return
    paid = [plan for plan in plans if plan.t2i_model.costs_money]
    for plan in paid:
        if any(plan.t2i_model.most_it_costs(each) is None for each in islice(plan.requests(), 1)):
            raise ConfigError(
                f"--budget: nobody can say what a request to {plan.name!r} may cost; state its price"
            )
    currencies = sorted({plan.t2i_model.currency for plan in paid})
    if len(currencies) > 1:
        raise ConfigError(
            f"--budget: the prices are in {' and '.join(currencies)}, which cannot be added up; name T2I models "
            "of one currency with --model"
        )


def most_of_one(plan: ModelPlan) -> float:
    """The most that a request to a T2I model may cost; 0: nobody can say."""
    return max((plan.t2i_model.most_it_costs(each) or 0.0 for each in islice(plan.requests(), 1)), default=0.0)


def spending_of(journals: Mapping[str, Journal], plans: Iterable[ModelPlan], *, currency: str) -> Spending:
    """What the requests of several journals cost.

    Args:
        journals: by T2I model, also of those that the recipe no longer has.
        plans: of the recipe, for the price of a request in doubt; without one it counts as the dearest.
        currency: of which costs are added up.
    """
    prices = {plan.name: most_of_one(plan) for plan in plans if plan.t2i_model.currency == currency}
    spent = doubtful = 0.0
    for name, journal in journals.items():
        spent += journal.spent().get(currency, 0.0)
        doubtful += journal.doubtful() * max(prices.get(name, 0.0), journal.largest_cost(currency))
    return Spending(spent, doubtful)
