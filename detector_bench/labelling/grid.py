"""Pages of many pictures with a proposed label each, which annotators confirm or change: an option of the desk.

A proposal leads: who confirms what is shown may agree with it, and so with other annotators, more than somebody
who looks at one picture alone. Which pictures are shown in a grid is therefore drawn at random, the same for all
annotators; the others are asked one at a time, so that both ways can be compared (`ways.py`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.labelling.questions import DeskSettings, Task
from detector_bench.vocabulary import ATTRIBUTES, LOW_QUALITY, Status

if TYPE_CHECKING:
    import pyarrow as pa

    from detector_bench.labelling.records import Item

FEWEST, MOST = 2, 48
"""Pictures on a page."""


@dataclass(frozen=True)
class Grid:
    """Pages of pictures with proposed labels.

    Attributes:
        proposals: the proposed label, by image.
        proposed_by: who proposed it, for annotators and for the log.
        size: pictures on a page.
        alone: the share of the pictures with a proposal that are asked one at a time all the same, 0 to 1.
    """

    proposals: Mapping[str, str]
    proposed_by: str
    size: int = 12
    alone: float = 0.2

    def __post_init__(self) -> None:
        if not FEWEST <= self.size <= MOST:
            raise ConfigError(f"a grid of {self.size} pictures (accepted: {FEWEST} to {MOST})")
        if not 0 <= self.alone <= 1:
            raise ConfigError(f"the share that is asked alone is {self.alone:g} (accepted: 0 to 1)")

    def proposal(self, item: Item) -> str:
        """The label that is proposed for an item in a grid; "": it is asked alone.

        That holds for the calibration round, and for what was sent back, too.
        """
        if item.in_calibration or item.asked_again or _place(item.item_id) < self.alone:
            return ""
        return self.proposals.get(item.item_id, "")


def _place(item_id: str) -> float:
    # By the id alone: the same for all annotators and after a restart, and independent of the order.
    number = int.from_bytes(hashlib.sha256(f"grid|{item_id}".encode()).digest()[:8], "big")
    return number / 2**64


def proposals_of(
    predictions: Mapping[str, pa.Table], *, attribute: str, detector: str | None
) -> tuple[dict[str, str], str]:
    """What detectors propose: by image, the class that is named, or `low_quality` where it was filtered.

    Args:
        predictions: verdicts by detector.
        attribute: of what.
        detector: whose; None: what most of them say. Where two verdicts are equally frequent, nothing is proposed.

    Returns:
        The proposals, and who made them.

    Raises:
        ConfigError: there is no such detector, or none judges the attribute.
    """
    if detector is not None and detector not in predictions:
        raise ConfigError(f"no predictions of the detector {detector!r}: {nearest_hint(detector, predictions)}")
    chosen = {detector: predictions[detector]} if detector is not None else dict(predictions)
    said: dict[str, Counter[str]] = {}
    judges = set()
    for name, table in chosen.items():
        columns = (table.column(column).to_pylist() for column in ("image_id", "attribute", "status", "label"))
        for image_id, about, status, label in zip(*columns, strict=True):
            if about != attribute or status == Status.ERROR:
                continue
            judges.add(name)
            verdict = LOW_QUALITY if status == Status.FILTERED else label
            if verdict in ATTRIBUTES[attribute].labels:
                said.setdefault(image_id, Counter())[verdict] += 1
    if not judges:
        raise ConfigError(f"nothing to propose: no verdict on {attribute} by {', '.join(chosen)}")
    found = {}
    for image_id, counts in said.items():
        (label, times), *others = counts.most_common(2)
        if not others or others[0][1] < times:
            found[image_id] = label
    return found, detector or f"most of {len(judges)} detectors"


def check_grid(settings: DeskSettings) -> str:
    """The attribute that a grid asks about.

    Raises:
        ConfigError: the desk is one of pairs, or asks several questions.
    """
    if settings.task is not Task.IMAGES or len(settings.attributes) != 1:
        asked = "pairs" if settings.task is Task.PAIRS else ", ".join(settings.attributes)
        raise ConfigError(
            f"a grid asks one question about single images, and this desk asks {asked}; accepted: a store of its "
            "own with one attribute (--attributes gender --store FILE)"
        )
    return settings.attributes[0]
