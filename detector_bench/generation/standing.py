"""How far a recipe has come in a folder: what is there, what is left, and what a changed recipe would replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from detector_bench.generation.image_files import PlacedFile
from detector_bench.generation.journal import SENT, Journal, Known
from detector_bench.generation.plan import ModelPlan, PlannedRequest, in_parts
from detector_bench.generation.setting_aside import set_aside
from detector_bench.vocabulary.generations import GenerationStatus

_AT_ONCE = 1_000


class RequestStanding(StrEnum):
    """Where a request stands before a run."""

    MADE = "made"
    """There is its image."""
    BLOCKED = "blocked"
    """It was refused, and is not made again."""
    NEW = "new"
    """Nobody has asked for it."""
    AGAIN = "again"
    """It failed, or its image is gone; it is asked for again."""
    DOUBTFUL = "doubtful"
    """It may have been charged for and gave no image; it is asked for again only if the user says so."""
    CHANGED = "changed"
    """There is an image, or a refusal, of another request: the recipe was another when it was made."""


class Standings(NamedTuple):
    """How many requests of a T2I model stand where."""

    counts: dict[RequestStanding, int]
    no_longer: int
    """Requests that the journal knows and the recipe no longer makes."""
    record: int | None = None
    """The latest of the journal's records by which images were made that are there; None: there are none."""

    def of(self, standing: RequestStanding) -> int:
        """How many stand there."""
        return self.counts.get(standing, 0)


def standings(plan: ModelPlan, journal: Journal, folder: Path) -> Standings:
    """Count the requests of a T2I model by where they stand.

    Args:
        plan: what the recipe asks for.
        journal: what became of it.
        folder: of the image set; files that a process left behind are given their names, if nobody else writes
            the journal.
    """
    counts: dict[RequestStanding, int] = {}
    known = 0
    record: int | None = None
    for _, standing, entry in _standing_of_each(plan, journal, folder):
        counts[standing] = counts.get(standing, 0) + 1
        if entry is not None:
            known += 1
            if standing is RequestStanding.MADE:
                record = max(record or 0, entry.record)
    return Standings(counts, journal.count() - known, record)


def with_standing(
    plan: ModelPlan, journal: Journal, folder: Path, wanted: Iterable[RequestStanding]
) -> Iterator[PlannedRequest]:
    """The requests that stand at one of the places `wanted`, in the plan's order."""
    kept = frozenset(wanted)
    for planned, standing, _ in _standing_of_each(plan, journal, folder):
        if standing in kept:
            yield planned


def _standing_of_each(
    plan: ModelPlan, journal: Journal, folder: Path
) -> Iterator[tuple[PlannedRequest, RequestStanding, Known | None]]:
    costs_money = plan.t2i_model.costs_money
    for part in in_parts(plan, _AT_ONCE):
        known = journal.known([each.request.image_id for each in part])
        for planned in part:
            entry = known.get(planned.request.image_id)
            if entry is None:
                yield planned, RequestStanding.NEW, None
                continue
            is_there = partial(_is_there, entry, folder, is_alone=journal.is_alone)
            yield planned, _standing(planned, entry, is_there, costs_money=costs_money), entry


def _standing(
    planned: PlannedRequest, known: Known, is_there: Callable[[], bool], *, costs_money: bool
) -> RequestStanding:
    if known.status in (SENT, GenerationStatus.ERROR):
        return (
            RequestStanding.DOUBTFUL if known.status == SENT or known.may_have_been_paid else RequestStanding.AGAIN
        )
    if known.request_sha256 != planned.sha256:
        return RequestStanding.CHANGED
    if known.status == GenerationStatus.BLOCKED or is_there():
        return RequestStanding(known.status)
    return RequestStanding.DOUBTFUL if costs_money else RequestStanding.AGAIN


def _is_there(known: Known, folder: Path, *, is_alone: bool) -> bool:
    if known.path is None:
        return False
    file = PlacedFile(folder / known.path)
    # A process that is at work names its files itself.
    return file.recover(known.image_sha256, set_aside(folder, known)) if is_alone else file.is_written()
