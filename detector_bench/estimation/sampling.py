"""Which images to label: random draws within the cells of T2I model and prompt, with each image's probability.

A sample that is drawn at random, with known probabilities, speaks for all images. One that people pick does not.

**Across cells** labels are spread equally: each cell gets the same number, or all of its images where it has
fewer, and what a whole number leaves over goes to cells at random. With fewer labels than cells each T2I model
gets an equal part, and that many of its prompts are drawn, with one label each.

**Within a cell** with N images, n of them to be drawn, a design (`sample_design.SampleDesign`) chooses:

- `equal`: simple random sampling without replacement; each image has the probability n / N.
- `verdicts`: the images are ordered by what the detectors say, and drawn systematically from that order, at equal
  steps from a random start. Each has the probability n / N, and each pattern of verdicts its share of the sample.
- `disagreement`: the probability is proportional to `LEAST_SIZE` plus the share of the detectors that do not say
  what most say, an error counting as such; no more than 1. The images are put in a random order and drawn
  systematically (Hartley and Rao 1962), which gives exactly n images with exactly these probabilities.

A sample grows without a label being lost: a second draw takes, with equal probability, n_2 of the N - n images
that are left. Then an image's probability is n / N + (1 - n / N) n_2 / (N - n) = (n + n_2) / N. This needs the
first draw to be one of equal probabilities, so a sample by disagreement cannot grow.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError
from detector_bench.metrics import FloatArray, divide
from detector_bench.sample_design import SampleDesign

IntArray = NDArray[np.int64]

LEAST_SIZE = 0.25
"""What the probability of an image is proportional to where all detectors agree; where none has a verdict it is 1
+ `LEAST_SIZE`. So within a cell no image is more than five times as likely as another, and no label weighs more
than five times what another does."""

NO_CELL = -1
"""In place of a cell: an image that is not to be drawn."""

_NEARLY_CERTAIN = 1 - 1e-12


class Draw(NamedTuple):
    """Images that were drawn; arrays have an entry for each, in the order of the images."""

    images: IntArray
    """Which: positions among all images."""
    probability: FloatArray
    """The chance of the image, in (0, 1], given the number of labels of its cell, which is above 0."""
    cell_probability: FloatArray
    """The chance that the image's cell got a label at all, in (0, 1]: of its T2I model's prompts that have
    images, the share that did."""


class Opinions(NamedTuple):
    """What the detectors say of each image taken together."""

    majority: IntArray
    """`[image]`: what most say: a class, K for filtered; K + 1 where no detector has a verdict. Of several equally
    frequent ones the first."""
    disagreement: FloatArray
    """`[image]`: the share of the detectors that say anything else or have no verdict, 0 to 1."""


def opinions(verdicts: NDArray[np.integer], *, classes: int) -> Opinions:
    """Sum up the detectors' verdicts.

    Args:
        verdicts: `[detector, image]`: a class, K for filtered, K + 1 for no verdict; at least one detector.
        classes: K.
    """
    votes = np.stack([(verdicts == code).sum(axis=0) for code in range(classes + 1)])
    most = votes.max(axis=0)
    majority = np.where(most > 0, votes.argmax(axis=0), classes + 1).astype(np.int64)
    return Opinions(majority, 1 - most / len(verdicts))


def draw(
    cell: IntArray,
    *,
    shape: tuple[int, int],
    labels: int,
    seed: int = 0,
    design: SampleDesign = SampleDesign.EQUAL,
    said: Opinions | None = None,
    already: NDArray[np.bool_] | None = None,
    of_models: NDArray[np.bool_] | None = None,
) -> Draw:
    """Draw images to be labelled. The same arguments give the same images, with every version of numpy.

    Args:
        cell: `[image]`: its place in the flattened table `[t2i_model, prompt]`; `NO_CELL`: not to be drawn.
        shape: number of T2I models and of prompts.
        labels: how many images; with `already` how many more.
        seed: of the draw.
        design: how to draw within a cell.
        said: what the detectors say; `verdicts` and `disagreement` need it.
        already: `[image]`: those drawn before with a design of equal probabilities; they stay in the sample, and
            all probabilities are those of the whole.
        of_models: `[t2i_model]`: which T2I models get the labels; None: all.

    Raises:
        ConfigError: fewer images than labels, or no label at all.
    """
    known = np.zeros(len(cell), dtype=np.bool_) if already is None else already
    if design is SampleDesign.DISAGREEMENT and known.any():
        raise ValueError("a sample by disagreement cannot grow")
    if design is not SampleDesign.EQUAL and said is None:
        raise ValueError(f"the design {design.value!r} needs the detectors' verdicts")
    random = _Random(seed, int(known.sum()))
    sizes, before = _counted(cell, shape), _counted(cell[known], shape)
    more = quotas(sizes, labels=labels, before=before, of_models=of_models, random=random)
    chosen, probability = known.copy(), np.zeros(len(cell))
    for place in np.flatnonzero(before + more):
        number, images = int(more.flat[place]), np.flatnonzero(cell == place)
        probability[images] = (before.flat[place] + number) / len(images)
        left = images[~known[images]]
        if not number:
            continue
        order = np.argsort(random.uniform(len(left)), kind="stable")
        chance = np.full(len(left), number / len(left))
        if said is not None and design is SampleDesign.VERDICTS:
            ordered = left[order]
            order = order[np.lexsort((said.disagreement[ordered], said.majority[ordered]))]
        if said is not None and design is SampleDesign.DISAGREEMENT:
            chance = proportional(LEAST_SIZE + said.disagreement[left], number=number)
            probability[left] = chance
        taken = systematic(chance[order], start=float(random.uniform(1)[0]))
        chosen[left[order[taken]]] = True
    drawn = np.flatnonzero(chosen)
    return Draw(drawn, probability[drawn], _share_of_prompts(sizes, before + more)[cell[drawn] // shape[1]])


def quotas(
    sizes: IntArray,
    *,
    labels: int,
    before: IntArray,
    of_models: NDArray[np.bool_] | None = None,
    random: _Random,
) -> IntArray:
    """How many more images of each cell to label.

    Args:
        sizes: images, `[t2i_model, prompt]`.
        labels: how many there are to spread.
        before: images of each cell that were drawn before.
        of_models: `[t2i_model]`: which T2I models get the labels; None: all.
        random: what is left to chance.

    Raises:
        ConfigError: fewer images than labels, or no label at all.
    """
    limits = sizes if of_models is None else np.where(of_models[:, np.newaxis], sizes, before)
    left = int((limits - before).sum())
    if not 1 <= labels <= left:
        accepted = f"1 to {left:,}, the images that are left" if left else "none: no image is left to draw"
        raise ConfigError(f"{labels:,} labels (accepted: {accepted})")
    bare = (limits > 0) & (before == 0)
    if labels >= bare.sum():
        model = np.repeat(np.arange(len(sizes)), sizes.shape[1])
        found = _spread(limits.ravel(), labels=labels, before=before.ravel(), group=model, random=random)
        return found.reshape(sizes.shape)
    # Fewer labels than cells without one: every T2I model gets its part, and each label goes to a prompt of its
    # own.
    with_label = (before > 0).sum(axis=1)
    of_model = _spread(
        bare.sum(axis=1) + with_label, labels=labels, before=with_label, group=np.zeros(len(sizes)), random=random
    )
    more = np.zeros(sizes.shape, dtype=np.int64)
    for place, number in enumerate(of_model):
        prompts = np.flatnonzero(bare[place])
        more[place, prompts[np.argsort(random.uniform(len(prompts)), kind="stable")[:number]]] = 1
    return more


def _spread(
    limits: IntArray, *, labels: int, before: IntArray, group: NDArray[np.number], random: _Random
) -> IntArray:
    """Spread labels so that all places have as equal numbers as their limits, and what they have, allow.

    Where a whole number leaves some over, groups of places get them in equal parts, and places at random.
    """

    def up_to(level: int) -> IntArray:
        return np.maximum(np.minimum(limits, level) - before, 0)

    level = bisect_right(range(int(limits.max()) + 1), labels, key=lambda level: int(up_to(level).sum())) - 1
    more = up_to(level)
    over = labels - int(more.sum())
    if over:
        places = np.flatnonzero(up_to(level + 1) > more)
        places = places[np.lexsort((random.uniform(len(places)), group[places]))]
        chance = np.full(len(places), over / len(places))
        more[places[systematic(chance, start=float(random.uniform(1)[0]))]] += 1
    return more


def proportional(size: FloatArray, *, number: int) -> FloatArray:
    """Probabilities in proportion to a size, which add up to `number`; where one would be above 1 it is 1, and the
    others share the rest.

    Args:
        size: `[image]`, above 0.
        number: how many images are to be drawn, at most as many as there are.
    """
    chance = np.ones(len(size))
    open_ = np.ones(len(size), dtype=np.bool_)
    while open_.any():
        chance[open_] = (number - (~open_).sum()) * size[open_] / size[open_].sum()
        certain = open_ & (chance >= _NEARLY_CERTAIN)
        if not certain.any():
            break
        chance[certain], open_[certain] = 1, False
    return chance


def systematic(chance: FloatArray, *, start: float) -> IntArray:
    """Draw in order at equal steps of the summed probabilities: positions, exactly as many as these add up to.

    Args:
        chance: `[image]`, each in (0, 1]; their sum is a whole number.
        start: where the first step begins, drawn uniformly from [0, 1).
    """
    is_certain = chance >= _NEARLY_CERTAIN
    others = np.flatnonzero(~is_certain)
    ends = np.cumsum(chance[others])
    passed = np.ceil(ends - start)
    passed[-1:] = np.rint(ends[-1:])  # a whole number but for rounding
    steps = np.diff(passed, prepend=0)
    taken: IntArray = np.sort(np.concatenate([np.flatnonzero(is_certain), others[steps > 0]]))
    return taken


def _counted(cell: IntArray, shape: tuple[int, int]) -> IntArray:
    return np.bincount(cell[cell != NO_CELL], minlength=shape[0] * shape[1]).reshape(shape)


def _share_of_prompts(sizes: IntArray, drawn: IntArray) -> FloatArray:
    """`[t2i_model]`: of the prompts with images, the share from which any image was drawn."""
    return divide((drawn > 0).sum(axis=1), (sizes > 0).sum(axis=1))


class _Random:
    """Numbers at random. numpy promises the raw ones in every version, and does not promise those of
    `Generator`."""

    def __init__(self, *seeds: int) -> None:
        self._raw = np.random.PCG64(np.random.SeedSequence(seeds))

    def uniform(self, number: int) -> FloatArray:
        """So many numbers in [0, 1)."""
        raw: NDArray[np.uint64] = self._raw.random_raw(number)
        found: FloatArray = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return found
