"""What the labels given so far are worth: how surely they say a T2I model's score, and how many more it takes.

The numbers come from whoever opens the desk, as a function of the labels: the desk knows no detector. They are for
the coordinator's page alone, and never beside a picture: somebody who sees a score move with each key press is led
by it, and may stop as soon as it pleases.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pandas as pd

from detector_bench.dataset.consensus import consensus
from detector_bench.errors import DetectorBenchError
from detector_bench.labelling.store import LabelStore

logger = logging.getLogger(__name__)

_SHORTEST_REST = 5.0
_REST_FOR_WORK = 10

NOT_YET = "it is being worked out"


@dataclass(frozen=True, slots=True)
class LabelsWorth:
    """What the labels of one T2I model say so far.

    Attributes:
        attribute: what the labels are about.
        t2i_model: whose images.
        score_name: the metric, such as `model_bias_score`.
        estimate: of the score over all images of the T2I model; NaN where nothing can be said yet.
        half_width: of its interval; NaN where nothing can be said yet.
        labels: how many labelled images it rests on.
        more_labels: how many further labels take the half-width to the target, 0 where it is reached; None:
            unknown.
        target_half_width: the half-width that is wanted.
    """

    attribute: str
    t2i_model: str
    score_name: str
    estimate: float
    half_width: float
    labels: int
    more_labels: int | None
    target_half_width: float


class Worth(Protocol):
    """Says what labels are worth. It may take seconds, and is called in a thread of its own."""

    def __call__(self, labels: pd.DataFrame, /) -> list[LabelsWorth]:
        """One entry for each T2I model, attribute and score.

        Args:
            labels: the consensus so far, with the columns `image_id, attribute, label`.

        Raises:
            DetectorBenchError: nothing can be said; the message says why.
        """


class WorthNow(NamedTuple):
    """What is known at this moment.

    Attributes:
        found: of the labels of a moment ago; empty where there is nothing.
        problem: why nothing newer can be said; "" if nothing is wrong.
    """

    found: tuple[LabelsWorth, ...]
    problem: str


class WorthSoFar:
    """Keeps what the labels of a store are worth up to date, in the background.

    Asking never waits. A new answer is worked out when labels have changed, one at a time, and not before ten
    times as long as the last one took, or `shortest_rest`: labelling goes before.

    Args:
        store: whose labels.
        worth: what they are worth.
        shortest_rest: seconds between two answers, at least.
    """

    def __init__(self, store: LabelStore, worth: Worth, *, shortest_rest: float = _SHORTEST_REST) -> None:
        self._store = store
        self._worth = worth
        self._shortest_rest = shortest_rest
        self._lock = threading.Lock()
        self._now = WorthNow((), NOT_YET)
        self._version: int | None = None
        self._is_busy = False
        self._rest_until = 0.0

    def now(self) -> WorthNow:
        """What is known; if labels have changed, something newer is worked out from here on."""
        with self._lock:
            is_due = not self._is_busy and time.monotonic() >= self._rest_until
            self._is_busy = self._is_busy or is_due
            now = self._now
        if is_due:
            threading.Thread(target=self._work, daemon=True).start()
        return now

    def _work(self) -> None:
        started = time.monotonic()
        now = self._newer()
        took = time.monotonic() - started
        with self._lock:
            self._now = now
            self._rest_until = time.monotonic() + max(self._shortest_rest, _REST_FOR_WORK * took)
            self._is_busy = False

    def _newer(self) -> WorthNow:
        # Whatever goes wrong here is no reason to keep anybody from labelling.
        try:
            version = self._store.version()
            if version == self._version:
                return self._now
            labels = consensus(self._store.labels())
            found = tuple(self._worth(labels[["image_id", "attribute", "label"]]))
        except DetectorBenchError as error:
            logger.warning("what the labels are worth cannot be said: %s", error)
            return WorthNow((), " ".join(str(error).split()))
        except Exception as error:
            logger.exception("what the labels are worth could not be worked out")
            return WorthNow((), f"an unexpected error ({type(error).__name__}); the desk's log says more")
        self._version = version
        return WorthNow(found, "")
