"""What an audit's simulated worlds draw images from: T2I models and detectors whose errors are known exactly.

A population says, for each cell (T2I model and prompt), how often an image has each human label, and what the
detectors say of it. `audit_worlds.py` lists the worlds that are made of these.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from measuring import REPOSITORY, shared_folder
from numpy.typing import ArrayLike, NDArray

from detector_bench.dataset import ImageSet
from detector_bench.errors import DetectorBenchError
from detector_bench.evaluation.image_verdicts import ImageVerdicts
from detector_bench.runner.stored_predictions import read_predictions

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RUN_VARIABLE = "DETECTOR_BENCH_PORTRAITS"
"""Environment variable that names the folder of a finished run over the portraits."""


@dataclass(frozen=True, eq=False)
class WorldImages:
    """A finite image set in which every human label is known, and the population that it was drawn from."""

    truth: NDArray[np.int8]
    """`[image]`: one of K classes, K for low_quality, K + 1 for others."""
    verdicts: NDArray[np.int8]
    """`[detector, image]`: one of K classes, K for filtered, K + 1 for an error."""
    cell: Integers
    """`[image]`: T2I model x prompts + prompt."""
    shares: Floats
    """`[cell, K + 2]`: how often the population has each human label."""
    detectors: tuple[str, ...]
    t2i_models: int
    prompts: int
    classes: int

    @property
    def counts(self) -> Integers:
        """`[cell, K + 2]`: how many of these images have each human label."""
        labels = self.classes + 2
        cells = self.t2i_models * self.prompts
        return np.bincount(self.cell * labels + self.truth, minlength=cells * labels).reshape(cells, labels)


class Population(Protocol):
    """Where the images of a world come from."""

    @property
    def shares(self) -> Floats:
        """`[cell, K + 2]`: chance of each human label."""

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""

    def draw(self, cell: Integers, random: np.random.Generator) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Truth `[image]` and verdicts `[detector, image]` of new images in the given cells, `[image]`."""


@dataclass(frozen=True, eq=False)
class KnownErrors:
    """Detectors whose verdict depends on the human label and the cell, by given chances.

    What they have in common is the difficulty of an image: a hard one is named wrongly, a less hard one filtered.
    Of an image that is low-quality or others, the hard one is kept.
    """

    shares: Floats
    """`[cell, K + 2]`: chance of each human label."""
    confusions: Floats
    """`[detector, cell, K + 2, K + 2]`: chance of each verdict, given cell and human label."""
    common: float
    """Share of the difficulty's variance that all detectors have in common: 0 for independent errors."""

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return tuple(f"detector {1 + number}" for number in range(len(self.confusions)))

    def draw(self, cell: Integers, random: np.random.Generator) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """See `Population`."""
        from scipy.special import ndtr

        truth = _positions(self.shares[cell], random.random(cell.size))
        difficulty = random.standard_normal(cell.size)
        verdicts = np.empty((len(self.confusions), cell.size), dtype=np.int8)
        order = _from_worst_to_best(self.shares.shape[1] - 2)
        for number, confusion in enumerate(self.confusions):
            own = random.standard_normal(cell.size)
            placed = ndtr(np.sqrt(self.common) * difficulty + np.sqrt(1 - self.common) * own)
            chances = np.take_along_axis(confusion[cell, truth], order[truth], axis=1)
            verdicts[number] = order[truth, _positions(chances, placed)]
        return truth.astype(np.int8), verdicts


@dataclass(frozen=True, eq=False)
class Resampled:
    """Real images with the verdicts of real detectors, drawn with replacement within each cell."""

    truth: NDArray[np.int8]
    verdicts: NDArray[np.int8]
    cell: Integers
    detectors: tuple[str, ...]
    classes: int

    @property
    def shares(self) -> Floats:
        """`[cell, K + 2]`: shares of the human labels among the real images."""
        labels = self.classes + 2
        counts = np.bincount(self.cell * labels + self.truth).astype(np.float64)
        counts = np.pad(counts, (0, -len(counts) % labels)).reshape(-1, labels)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def draw(self, cell: Integers, random: np.random.Generator) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """See `Population`."""
        sizes = np.bincount(self.cell)
        starts = np.cumsum(sizes) - sizes
        inside = (random.random(cell.size) * sizes[cell]).astype(np.int64)
        chosen = np.argsort(self.cell, kind="stable")[starts[cell] + inside]
        return self.truth[chosen], self.verdicts[:, chosen]


def _positions(chances: Floats, placed: Floats) -> Integers:
    """Which entry of `[image, entry]` a number in [0, 1), `[image]`, falls to."""
    limits = chances.cumsum(axis=1)[:, :-1]
    found: Integers = (placed[:, np.newaxis] >= limits).sum(axis=1)
    # Chances that add up to a little less than 1 must not lead to an entry of chance 0.
    last = chances.shape[1] - 1 - (chances[:, ::-1] > 0).argmax(axis=1)
    return np.asarray(np.minimum(found, last))


def _from_worst_to_best(classes: int) -> Integers:
    """`[truth, place]`: the verdicts from the one of the hardest image to that of the easiest."""
    filtered, error = classes, classes + 1
    rows = [
        [error, *((truth + step) % classes for step in range(1, classes)), filtered, truth]
        for truth in range(classes)
    ]
    unclear = [error, *range(classes), filtered]
    return np.array([*rows, unclear, unclear])


def confusion(
    cells: int,
    classes: int,
    *,
    recall: ArrayLike,
    accuracy: ArrayLike,
    keeps: ArrayLike,
    errors: float = 0.0,
    named: ArrayLike = 1.0,
) -> Floats:
    """Chance of each verdict, `[cell, K + 2, K + 2]`.

    Args:
        cells: how many.
        classes: K.
        recall: share of the clear images that is kept; one number, `[K]` or `[cell, K]`.
        accuracy: share of the kept clear images that is named rightly; likewise.
        keeps: share of the low-quality and others that is kept; one number or `[cell, 1]`.
        errors: share of all images that the detector fails on.
        named: weight of each class, `[K]` or `[cell, K]`, where a wrong class is named, or any of a kept image
            that is low-quality or others.
    """
    kept, right, weight = (np.broadcast_to(each, (cells, classes)) for each in (recall, accuracy, named))
    found = np.zeros((cells, classes + 2, classes + 2))
    for truth in range(classes):
        others = np.where(np.arange(classes) == truth, 0.0, weight)
        wrong = (1 - right[:, truth, np.newaxis]) * others / others.sum(axis=1, keepdims=True)
        wrong[:, truth] = right[:, truth]
        found[:, truth, :classes] = kept[:, truth, np.newaxis] * wrong
        found[:, truth, classes] = 1 - kept[:, truth]
    unclear = np.broadcast_to(keeps, (cells, 1)) * weight / weight.sum(axis=1, keepdims=True)
    found[:, classes:, :classes] = unclear[:, np.newaxis]
    found[:, classes:, classes] = 1 - unclear.sum(axis=1)[:, np.newaxis]
    found *= 1 - errors
    found[:, :, classes + 1] = errors
    return found


def with_unclear(clear: Floats, *, low_quality: ArrayLike = 0.14, others: ArrayLike = 0.0) -> Floats:
    """Shares of all labels, `[cell, K + 2]`, of the classes' shares among clear images, `[cell, K]`."""
    first, second = (np.broadcast_to(each, len(clear))[:, np.newaxis] for each in (low_quality, others))
    return np.concatenate([clear * (1 - first - second), first, second], axis=1)


def portraits(attribute: str, *detectors: str) -> Resampled:
    """The developers' portraits with the verdicts of a finished run.

    An image without a label of age or race, which no annotator could tell, is low-quality here.

    Args:
        attribute: gender, age or race.
        detectors: by name; none: all that judge the attribute.
    """
    found = _portrait_verdicts(attribute)
    chosen = [found.detectors.index(name) for name in detectors or found.detectors]
    classes = len(found.attribute.classes)
    return Resampled(
        truth=np.where(found.truth < 0, classes, found.truth).astype(np.int8),
        verdicts=found.counted[chosen],
        cell=found.index.cells,
        detectors=tuple(found.detectors[place] for place in chosen),
        classes=classes,
    )


@lru_cache
def _portrait_verdicts(attribute: str) -> ImageVerdicts:
    folder = Path(os.environ.get(RUN_VARIABLE) or REPOSITORY / "results" / "t2i_portraits")
    image_set = ImageSet.load(shared_folder() / "data" / "t2i_portraits")
    try:
        predictions = read_predictions(folder)
    except DetectorBenchError as error:
        sys.exit(
            f"{error}\nMake it: detector-bench run configs/t2i_portraits.yaml --out results/t2i_portraits "
            f"--weights-dir ../shared/weights; or name another folder in {RUN_VARIABLE}."
        )
    return ImageVerdicts.read(image_set, predictions, attribute=attribute)
