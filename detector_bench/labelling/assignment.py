"""Which items a desk asks for, and of whom: a sample in place of everything, shared out between annotators."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from detector_bench.errors import ConfigError
from detector_bench.labelling.items import DeskItem


@dataclass(frozen=True)
class Shares:
    """What each annotator is asked for.

    Attributes:
        of_everybody: items that all annotators see; agreement is measured on them.
        of: by annotator, the items that are theirs alone.
    """

    of_everybody: frozenset[str]
    of: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def asked(self, annotator: str) -> frozenset[str]:
        """The items that an annotator is asked for; of somebody who has none of their own, those of everybody."""
        return self.of_everybody | self.of.get(annotator, frozenset())


@dataclass(frozen=True)
class Assignment:
    """Which items are asked for.

    Attributes:
        item_ids: these; None: all.
        annotators: who shares them out.
        overlap: the share of them that everybody sees, 0 to 1; the others have one annotator each. Items of the
            calibration round are always everybody's.
        calibration: the items of the calibration round; None: they are drawn among those that are asked for.
    """

    item_ids: frozenset[str] | None = None
    annotators: tuple[str, ...] = ()
    overlap: float = 1.0
    calibration: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.overlap <= 1:
            raise ConfigError(f"the overlap is {self.overlap:g} (accepted: a share, 0 to 1)")

    def deal(self, items: Sequence[DeskItem], done: Mapping[str, Collection[str]]) -> Shares:
        """Share the items out.

        Who gets what hangs on the items' ids and the annotators' names alone, so it is the same after a restart.
        Only what is one annotator's and done already stays with whoever did it: a larger sample, or a further
        annotator, costs no label.

        Args:
            items: everything that there is to judge.
            done: by annotator, the items that they have answered.

        Raises:
            ConfigError: none of the items is asked for.
        """
        asked = [item for item in items if self.item_ids is None or item.item_id in self.item_ids]
        if items and not asked:
            raise ConfigError("nothing to label: the desk has none of the images of the sample")
        order = sorted((item.item_id for item in asked), key=_place)
        number = math.floor(self.overlap * len(order) + 0.5) if self.annotators else len(order)
        calibration = [item.item_id for item in asked if item.in_calibration]
        others = [item_id for item_id in order if item_id not in set(calibration)]
        shared = [*calibration, *others[: max(number - len(calibration), 0)]]
        alone: dict[str, set[str]] = {name: set() for name in {*self.annotators, *done}}
        owners = {item_id: name for name in sorted(done, reverse=True) for item_id in done[name]}
        names = sorted(self.annotators)
        for place, item_id in enumerate(others[max(number - len(calibration), 0) :]):
            alone[owners.get(item_id, names[place % len(names)])].add(item_id)
        return Shares(frozenset(shared), {name: frozenset(ids) for name, ids in alone.items()})


def _place(item_id: str) -> tuple[bytes, str]:
    # At random, and always the same: neither T2I models nor prompts are to be one annotator's.
    return hashlib.sha256(f"overlap|{item_id}".encode()).digest(), item_id
