"""From judges' answers to the numbers that are added up by T2I model and prompt, and back to counts by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.metrics.counts import FloatArray
from detector_bench.others.bigbench.classes import PROTECTED, class_mapping
from detector_bench.others.judgements import NO_VERDICT, OTHERS, UNJUDGED, Judgements
from detector_bench.vocabulary import ALL
from detector_bench.vocabulary.taxonomies import Mapping as ClassMapping

_REST = 3
"""Behind the classes: outside of them, unjudged or `others`, no verdict."""

NOT_ASKED = -1
"""A prompt that asks for no class of an attribute."""


class Answers(NamedTuple):
    """Numbers of images of one attribute, `[..., t2i_model, prompt, ...]`."""

    by_class: FloatArray
    """With a known answer, `[..., class]`."""
    outside: FloatArray
    """Of a class that BIGbench does not have."""
    unjudged: FloatArray
    """Filtered, low-quality or `others`."""
    no_verdict: FloatArray
    """An error, not run, or without a human label."""

    @property
    def unknown(self) -> FloatArray:
        """All images that are in no share."""
        return self.outside + self.unjudged + self.no_verdict


@dataclass(frozen=True)
class Layout:
    """Which feature is where, for some attributes and what prompts ask for."""

    attributes: tuple[str, ...]
    asked: Mapping[str, NDArray[np.intp]]
    """By attribute that some prompt asks for: `[prompt]`, position of the class, or `NOT_ASKED`."""
    closed: NDArray[np.bool_]
    """`[prompt]`: whether it states what BIGbench has no class for, and is in no score."""

    @property
    def asks(self) -> NDArray[np.bool_]:
        """`[prompt]`: whether it asks for any class."""
        asks: NDArray[np.bool_] = np.zeros_like(self.closed)
        for asked in self.asked.values():
            asks = asks | (asked >= 0)
        return asks

    @property
    def requests(self) -> tuple[str, ...]:
        """What explicit scores there are: each attribute that is asked for, then all at once."""
        return (*self.asked, ALL) if self.asked else ()

    def features(self, judgements: Judgements, *, race_mapping: Mapping[str, str | None] | None) -> FloatArray:
        """`[judge, image, feature]`; seed photos have features, too, and are left out later."""
        codes = {
            name: _codes(class_mapping(name, race_mapping), judgements.labels[name]) for name in self.attributes
        }
        blocks = [np.eye(len(PROTECTED[name].classes) + _REST)[code] for name, code in codes.items()]
        known = np.ones(next(iter(codes.values())).shape, dtype=np.bool_)
        right, asks = known.copy(), np.zeros(len(judgements.image_ids), dtype=np.bool_)
        for name, of_prompt in self.asked.items():
            wanted = of_prompt[judgements.prompt]
            of_image = codes[name] < len(PROTECTED[name].classes)
            blocks.append(_two((codes[name] == wanted) & (wanted >= 0), of_image & (wanted >= 0)))
            known &= of_image | (wanted < 0)
            right &= (codes[name] == wanted) | (wanted < 0)
            asks |= wanted >= 0
        if self.asked:
            blocks.append(_two(right & known & asks, known & asks))
        return np.concatenate(blocks, axis=-1)

    def answers(self, sums: FloatArray) -> dict[str, Answers]:
        """By attribute, from sums of the features."""
        found, start = {}, 0
        for name in self.attributes:
            classes = len(PROTECTED[name].classes)
            block = sums[..., start : start + classes + _REST]
            outside, unjudged, no_verdict = (block[..., classes + place] for place in range(_REST))
            found[name] = Answers(block[..., :classes], outside, unjudged, no_verdict)
            start += classes + _REST
        return found

    def requested(self, sums: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
        """By request: images that show what is asked for, and images with a known answer to it."""
        start = sums.shape[-1] - 2 * len(self.requests)
        return {
            name: (sums[..., start + 2 * place], sums[..., start + 2 * place + 1])
            for place, name in enumerate(self.requests)
        }


def _codes(to_bigbench: ClassMapping, labels: NDArray[np.int8]) -> NDArray[np.intp]:
    """Positions among BIGbench's classes, then those of the rest."""
    outside, unjudged, no_verdict = (len(to_bigbench.target.classes) + place for place in range(_REST))
    places = np.where(to_bigbench.positions < 0, outside, to_bigbench.positions)
    return np.select(
        [labels >= 0, (labels == UNJUDGED) | (labels == OTHERS), labels == NO_VERDICT],
        [places[np.maximum(labels, 0)], unjudged, no_verdict],
    ).astype(np.intp)


def _two(right: NDArray[np.bool_], known: NDArray[np.bool_]) -> FloatArray:
    return np.stack([right, known], axis=-1).astype(np.float64)
