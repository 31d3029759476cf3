"""Asks a T2I model for a batch, and makes an outcome of whatever it gives."""

from __future__ import annotations

import time
from collections.abc import Sequence

from detector_bench.errors import DetectorBenchError
from detector_bench.generation.image_files import checked
from detector_bench.generation.image_requests import Failed, Outcome
from detector_bench.generation.plan import PlannedRequest
from detector_bench.generation.t2i_models import LoadedT2IModel

_LONGEST_REASON = 500


def outcomes_of(loaded: LoadedT2IModel, planned: Sequence[PlannedRequest], *, may_cost: bool) -> list[Outcome]:
    """The outcomes of a batch, as they can be stored, whatever a T2I model gives.

    What fails as a whole is tried on halves, down to the one that it belongs to.

    Args:
        loaded: the T2I model.
        planned: the batch.
        may_cost: whether a request that fails may have been charged for.

    Raises:
        DetectorBenchError: no further request would go better.
    """
    began = time.monotonic()
    try:
        outcomes = list(loaded.make([each.request for each in planned]))
        if len(outcomes) != len(planned):
            raise ValueError(f"{len(outcomes)} outcomes for {len(planned)} requests")
    except DetectorBenchError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one request
        if len(planned) == 1:
            return [_failed(error, seconds=time.monotonic() - began, may_cost=may_cost)]
    else:
        return [_stored(outcome, may_cost=may_cost) for outcome in outcomes]
    # Behind the handler: what failed holds memory as long as its traceback lives.
    middle = len(planned) // 2
    first = outcomes_of(loaded, planned[:middle], may_cost=may_cost)
    return first + outcomes_of(loaded, planned[middle:], may_cost=may_cost)


def _failed(error: Exception, *, seconds: float, may_cost: bool) -> Failed:
    reason = one_line(f"{type(error).__name__}: {error}")
    return Failed(reason=reason, seconds=seconds, may_have_been_paid=may_cost)


def _stored(outcome: Outcome, *, may_cost: bool) -> Outcome:
    """An outcome as it can be stored, whatever a T2I model gave."""
    try:
        return checked(outcome, may_cost=may_cost)
    except Exception as error:  # noqa: BLE001 - an image may be damaged in any way
        return _failed(error, seconds=0.0, may_cost=may_cost)


def one_line(text: str) -> str:
    """A reason as tables have it."""
    return " ".join(text.split())[:_LONGEST_REASON]
