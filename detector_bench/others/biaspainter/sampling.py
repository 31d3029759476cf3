"""Draws the pairs on which people check a detector's verdicts (BiasPainter's RQ2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.metrics.counts import FloatArray
from detector_bench.others.biaspainter.biased_words import DIRECTIONS
from detector_bench.others.biaspainter.formulas import BIASPAINTER_ATTRIBUTES, PRESETS, Preset
from detector_bench.others.biaspainter.pair_scores import only_pairs, pair_scores
from detector_bench.others.judgements import Judgements

UNCHANGED = "unchanged"
"""The stratum of the pairs in which nothing changed."""


class SampleSizes(NamedTuple):
    """How many pairs are drawn for each attribute."""

    changed: int = 25
    """In each of the two directions."""
    unchanged: int = 50


class Borders(NamedTuple):
    """Which image scores of age and skin tone are clear enough to ask about; those between are not drawn."""

    changed: float = 1.0
    """Beyond it a pair has changed."""
    unchanged: float = 0.2
    """Below it, in either direction, it has not."""


@dataclass(frozen=True, slots=True)
class SampledPair:
    """A pair to ask people about."""

    attribute: str
    stratum: str
    """The detector's verdict: a direction's name, such as `male_to_female`, or `unchanged`."""
    seed_image_id: str
    image_id: str
    score: float
    """The detector's image score."""


@dataclass(frozen=True)
class Sample:
    """Pairs in the order in which people see them."""

    detector: str
    pairs: tuple[SampledPair, ...]
    found: Mapping[tuple[str, str], tuple[int, int]]
    """By attribute and stratum: how many pairs were drawn, and how many there are."""
    wanted: SampleSizes

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What has to be said about strata with fewer pairs than asked for."""
        return tuple(
            f"{attribute.replace('_', ' ')}, {stratum.replace('_', ' ')}: all {there} pairs "
            f"(asked for: {self._asked(stratum)})"
            for (attribute, stratum), (_, there) in self.found.items()
            if there < self._asked(stratum)
        )

    def _asked(self, stratum: str) -> int:
        return self.wanted.unchanged if stratum == UNCHANGED else self.wanted.changed


def draw_sample(
    judgements: Judgements,
    *,
    detector: str,
    seed: int,
    sizes: SampleSizes | None = None,
    borders: Borders | None = None,
    preset: Preset | None = None,
) -> Sample:
    """Draw pairs of each stratum of each attribute that the detector measures, without replacement.

    Strata: older (image score above 1), younger (below -1), unchanged (above -0.2 and below 0.2); darker and
    lighter likewise; male to female, female to male, unchanged. A stratum with fewer pairs gives all it has.

    Args:
        judgements: answers about seeds and edited images.
        detector: whose verdicts are checked.
        seed: of the random draw; equal seeds draw equal pairs in equal order.
        sizes: pairs per stratum; None: 25, 25 and 50.
        borders: of the strata of age and skin tone; None: 1 and 0.2.
        preset: whose thresholds make the image scores; None: `as_published`.

    Raises:
        ConfigError: unknown detector, it measures nothing, sizes below 0, borders out of order, or no pair is
        left.
    """
    sizes, borders, preset = sizes or SampleSizes(), borders or Borders(), preset or PRESETS["as_published"]
    if min(sizes) < 0 or max(sizes) == 0:
        raise ConfigError(f"sample sizes: {sizes.changed} and {sizes.unchanged} (accepted: 0 or more, not both 0)")
    if not 0 < borders.unchanged <= borders.changed:
        raise ConfigError(
            f"borders: {borders.unchanged:g} and {borders.changed:g} (accepted: 0 < unchanged <= changed)"
        )
    if detector not in judgements.judges:
        raise ConfigError(f"no detector {detector!r}: {nearest_hint(detector, judgements.judges)}")
    judgements = only_pairs(judgements)
    judge = judgements.judges.index(detector)
    random = np.random.default_rng(seed)
    pairs: list[SampledPair] = []
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for attribute in BIASPAINTER_ATTRIBUTES:
        if not judgements.judged[attribute][judge]:
            continue
        scores = pair_scores(judgements, attribute, preset=preset).score[judge]
        for stratum, there in strata(attribute, scores, borders=borders).items():
            size = sizes.unchanged if stratum == UNCHANGED else sizes.changed
            drawn = np.sort(random.choice(there, size=min(size, len(there)), replace=False))
            found[attribute, stratum] = (len(drawn), len(there))
            pairs += [_pair(judgements, attribute, stratum, int(image), scores) for image in drawn]
    if not pairs:
        raise ConfigError(f"{detector!r} has no pair in any stratum: there is nothing to check")
    order = random.permutation(len(pairs))
    return Sample(detector, tuple(pairs[place] for place in order), found, sizes)


def strata(attribute: str, scores: FloatArray, *, borders: Borders) -> dict[str, NDArray[np.intp]]:
    """Which images belong to each stratum, in ascending order.

    Args:
        attribute: gender, age or skin_tone.
        scores: one judge's image scores, `[image]`; NaN belongs nowhere.
        borders: of age and skin tone; gender's are 1, 0 and -1.
    """
    if attribute == "gender":
        borders = Borders(changed=0.5, unchanged=0.5)
    directions = {
        each.name: np.flatnonzero(each.sign * scores > borders.changed) for each in DIRECTIONS[attribute]
    }
    return {**directions, UNCHANGED: np.flatnonzero(np.abs(scores) < borders.unchanged)}


def _pair(judgements: Judgements, attribute: str, stratum: str, image: int, scores: FloatArray) -> SampledPair:
    seed = judgements.image_ids[int(judgements.seed[image])]
    return SampledPair(attribute, stratum, seed, judgements.image_ids[image], float(scores[image]))
