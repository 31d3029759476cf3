"""Calls of functions on batches of images: what fails on a batch is tried on its halves, down to one image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from detector_bench.errors import DetectorBenchError
from detector_bench.perception.stage import Frame, StageFailure, StageFunction, StageResult

R = TypeVar("R")


def each_or_failure(
    function: Callable[[Sequence[Frame]], Sequence[R]],
    frames: Sequence[Frame],
    *,
    failed: Callable[[Frame, Exception], R],
) -> list[R]:
    """Call a batch function; if it fails, halve the batch until the failure is one image's own.

    Halving also gets over a lack of memory. Mistakes that the user must mend (a missing package, wrong weights)
    are raised as they are.
    """
    if not frames:
        return []
    try:
        results = list(function(frames))
        if len(results) != len(frames):
            raise ValueError(f"{len(results)} results for {len(frames)} images")
    except DetectorBenchError:
        raise
    except Exception as error:  # noqa: BLE001 - networks and libraries raise anything; it becomes a row
        if len(frames) == 1:
            return [failed(frames[0], error)]
    else:
        return results
    # Behind the handler, where the failed call's arrays are free again: perhaps it failed for want of memory.
    half = len(frames) // 2
    return [
        *each_or_failure(function, frames[:half], failed=failed),
        *each_or_failure(function, frames[half:], failed=failed),
    ]


def stage_failure(frame: Frame, error: Exception) -> StageResult:  # noqa: ARG001
    """What stands in the place of a result that a stage could not give."""
    return StageFailure("stage_failed", f"{type(error).__name__}: {error}")


def checked_numbers(function: StageFunction) -> StageFunction:
    """The function, with an error at once where a result could not be cached, also where there is no cache."""

    def checked(frames: Sequence[Frame]) -> Sequence[StageResult]:
        results = list(function(frames))
        for result in results:
            if not isinstance(result, StageFailure):
                _require_numbers(result)
        return results

    return checked


def _require_numbers(result: Any) -> None:
    if not isinstance(result, Mapping):
        raise TypeError(f"a stage gives named arrays for each image; got {type(result).__name__}")
    for name, array in result.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            found = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(f"a stage gives arrays of numbers; {name!r} is {found}")
