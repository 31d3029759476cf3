"""What is asked of a run that makes images, and which of a recipe's requests that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from detector_bench.generation.plan import ModelPlan
from detector_bench.generation.standing import RequestStanding, Standings


@dataclass(frozen=True, kw_only=True)
class GenerationOrder:
    """What is asked of a run.

    Attributes:
        t2i_models: only these; none named: all of the recipe.
        device: see `GenerationPlace`.
        budget: the most that all requests of the image set may cost together; None: no limit.
        most: images that this run asks for; None: all.
        ask_again: also what may have been charged for and gave no image.
        remake_changed: also images of requests that the recipe has changed since.
        weights_dir: see `WeightsLocator`.
        allow_download: see `WeightsLocator`.
    """

    t2i_models: Sequence[str] = ()
    device: str | None = None
    budget: float | None = None
    most: int | None = None
    ask_again: bool = False
    remake_changed: bool = False
    weights_dir: Path | None = None
    allow_download: bool = True


class ModelStanding(NamedTuple):
    """Where the requests to a T2I model stand."""

    plan: ModelPlan
    standings: Standings
    spent: dict[str, float]

    def todo(self, order: GenerationOrder) -> int:
        """How many a run asks for."""
        return sum(self.standings.of(each) for each in wanted(order))


def wanted(order: GenerationOrder) -> tuple[RequestStanding, ...]:
    """Which requests a run makes."""
    return (
        *(RequestStanding.NEW, RequestStanding.AGAIN),
        *((RequestStanding.DOUBTFUL,) if order.ask_again else ()),
        *((RequestStanding.CHANGED,) if order.remake_changed else ()),
    )
