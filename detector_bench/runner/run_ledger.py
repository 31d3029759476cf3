"""The ledger of paid answers as a run opens it: with the prices of its stages, and its budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detector_bench.errors import ConfigError
from detector_bench.perception.answers.budget import Budget
from detector_bench.perception.answers.paid_ledger import PaidLedger
from detector_bench.perception.answers.prices import Prices
from detector_bench.perception.answers.service_settings import ServiceSettings
from detector_bench.perception.stage import Stage
from detector_bench.runner.run_settings import RunSettings


def open_ledger(settings: RunSettings, fingerprints: Mapping[Stage, str]) -> PaidLedger:
    """The ledger of a run; nothing is read or written yet.

    Args:
        settings: where it lies, and the budget.
        fingerprints: of all stages of the run.

    Raises:
        ConfigError: a budget for stages whose cost nobody could tell, or in several currencies.
    """
    prices = {own: found for stage, own in fingerprints.items() if (found := prices_of(stage)) is not None}
    budget = None if settings.budget is None else _budget(settings.budget, fingerprints, prices.values())
    return PaidLedger(settings.paid_folder, session=settings.session, budget=budget, prices=prices)


def prices_of(stage: Stage) -> Prices | None:
    """What a stage's answers cost, where it says so."""
    found: Prices | None = getattr(stage, "prices", None)
    return found if asks_service(stage) else None


def asks_service(stage: object) -> bool:
    """Whether a stage asks a service, which may cost money."""
    return isinstance(stage, ServiceSettings)


def _budget(amount: float, stages: Iterable[Stage], prices: Iterable[Prices]) -> Budget:
    if not 0 <= amount < float("inf"):
        raise ConfigError(f"--budget {amount:g} (accepted: 0 or more)")
    for stage in stages:
        settings: object = stage
        if isinstance(settings, ServiceSettings):
            if lacking := settings.lacks_for_budget():
                raise ConfigError(f"--budget: the stage {stage.kind!r} ({_where(stage)}) {lacking}")
        elif type(stage).spending is not Stage.spending:
            raise ConfigError(f"--budget: the stage {stage.kind!r} tells what it costs only when it is paid")
    currencies = sorted({each.currency for each in prices})
    if len(currencies) > 1:
        raise ConfigError(f"--budget: prices in {' and '.join(currencies)}; state all in one currency")
    return Budget(amount, currencies[0] if currencies else "USD")


def _where(stage: Stage) -> str:
    found = [getattr(stage, name) for name in ("model", "base_url", "endpoint") if hasattr(stage, name)]
    return " at ".join(str(each) for each in found)
