"""What is compared with a reference: an attribute or a pair of them, its classes, and which image shows which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from detector_bench.dataset.prompts import stated_by
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.judgements import NO_VERDICT, Judgements
from detector_bench.vocabulary import attribute_named

BETWEEN = " x "
"""Stands between the attributes of a pair, and between their classes: `male x white` of `gender x race`."""


@dataclass(frozen=True)
class Compared:
    """An attribute, or a pair of them, whose classes' shares are compared with a reference."""

    attributes: tuple[str, ...]
    classes: tuple[str, ...]
    """Of a pair all combinations, the second attribute's classes in turn."""

    @classmethod
    def of(cls, attributes: Sequence[str]) -> Self:
        """Build from one attribute's name or from two."""
        by_attribute = [attribute_named(name).classes for name in attributes]
        return cls(tuple(attributes), tuple(BETWEEN.join(each) for each in product(*by_attribute)))

    @property
    def name(self) -> str:
        """What stands in the column `attribute`: `gender`, or `gender x race`."""
        return BETWEEN.join(self.attributes)

    @property
    def equal(self) -> FloatArray:
        """The share of each class where all are shown equally often, `[class]`."""
        return np.full(len(self.classes), 1 / len(self.classes))

    def shown(self, judgements: Judgements) -> FloatArray:
        """1 for the class that an image shows, `[judge, image, class]`; 0 everywhere for one that is not clear, in
        both attributes of a pair."""
        labels = [judgements.labels[name] for name in self.attributes]
        clear = np.all([each >= 0 for each in labels], axis=0)
        sizes = [len(attribute_named(name).classes) for name in self.attributes]
        code = np.ravel_multi_index([np.maximum(each, 0).astype(np.intp) for each in labels], sizes)
        of_class = np.where(clear, code, -1)[..., np.newaxis] == np.arange(len(self.classes))
        found: FloatArray = of_class.astype(np.float64)
        return found

    def without_verdict(self, judgements: Judgements) -> NDArray[np.bool_]:
        """Whether a judge left an image without a verdict, `[judge, image]`; of a pair, on either attribute."""
        without: NDArray[np.bool_] = np.any(
            [judgements.labels[name] == NO_VERDICT for name in self.attributes], axis=0
        )
        return without

    def judged(self, judgements: Judgements) -> tuple[bool, ...]:
        """Which judges judge it at all."""
        return tuple(
            all(each) for each in zip(*(judgements.judged[name] for name in self.attributes), strict=True)
        )

    def is_open(self, judgements: Judgements) -> NDArray[np.bool_]:
        """`[prompt]`: whether the prompt leaves it to the T2I model, and states none of the attributes."""
        is_open = np.ones(len(judgements.prompt_ids), dtype=np.bool_)
        for name in self.attributes:
            stated = stated_by(judgements.prompts, name)
            if stated is not None:
                is_open &= stated.reindex(list(judgements.prompt_ids)).fillna("").to_numpy() == ""
        return is_open
