"""How long a run will take, how much memory and disk: computed from a sample of its images; pure functions.

Images are told apart by kind: their format and the class of their size. Where not every image was looked at, the
share of each kind is estimated, too. A range is a nominal 95 % interval of the time under the load of the seconds
that were measured. A machine that others use drifts for longer than that: there it holds less often.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

EVENING = 4 * 3600.0
"""Seconds from seven to eleven."""

_LEVEL = 0.975
_BLOCKS = 6
_MEGAPIXELS = (0.1, 0.25, 1.0, 4.0, 16.0)


class ImageKind(NamedTuple):
    """What the time for an image hangs on, besides the detectors."""

    format: str
    """As Pillow calls it, such as PNG; `unreadable` for a file that is no image."""
    size: str
    """A class, such as `up to 1 megapixel`; empty for a file that is no image."""

    def __str__(self) -> str:
        return f"{self.format}, {self.size}" if self.size else self.format


UNREADABLE = ImageKind("unreadable", "")


def kind_of(image_format: str, width: int, height: int) -> ImageKind:
    """The kind of an image with a format and a size in pixels."""
    megapixels = width * height / 1_000_000
    for limit in _MEGAPIXELS:
        if megapixels <= limit:
            return ImageKind(image_format, f"up to {limit:g} megapixel{'' if limit <= 1 else 's'}")
    return ImageKind(image_format, f"above {_MEGAPIXELS[-1]:g} megapixels")


@dataclass(frozen=True)
class MeasuredPace:
    """How long images of one kind took.

    Attributes:
        images: how many were judged.
        seconds: for an image, in each of the batches that were judged one after another; at least one.
    """

    images: int
    seconds: Sequence[float]

    @property
    def mean(self) -> float:
        """Seconds for an image."""
        return fmean(self.seconds)

    @property
    def half_width(self) -> float:
        """Of the mean's 95 % interval, by Student's t over the batches; of a single batch the mean itself.

        Many batches are put together to a few longer ones first (the method of batch means): what slows a machine
        down lasts longer than a batch, and batches that follow each other are no independent witnesses.
        """
        if len(self.seconds) < 2:
            return self.mean
        means = [float(np.mean(part)) for part in np.array_split(self.seconds, min(_BLOCKS, len(self.seconds)))]
        from scipy.special import stdtrit

        return float(stdtrit(len(means) - 1, _LEVEL)) * stdev(means) / math.sqrt(len(means))


class Range(NamedTuple):
    """A number, and the limits of its 95 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Sampled:
    """What was measured.

    Attributes:
        left: images that are still to be judged.
        looked_at: how many of them were looked at for their kind, by kind; all of them, or a random sample.
        paces: of every kind that was looked at.
        loading: seconds until the first image was judged, most of it for loading networks.
        storing: seconds to store the predictions on one image and to put them in order.
        memory_mib: the largest memory of the process.
        prediction_bytes: of the predictions on one image.
        cache_bytes: of the stage results on one image; 0 where none are kept.
    """

    left: int
    looked_at: Mapping[ImageKind, int]
    paces: Mapping[ImageKind, MeasuredPace]
    loading: float = 0.0
    storing: float = 0.0
    memory_mib: float = 0.0
    prediction_bytes: float = 0.0
    cache_bytes: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Attributes:
        sampled: what it is computed from.
        workers: how many processes share the work, with the cores or the GPU that one had when it was measured.
        judging: seconds of judging by one of them alone; no loading.
    """

    sampled: Sampled
    judging: Range
    workers: int = 1
    images: Mapping[ImageKind, float] = field(default_factory=Counter)
    """How many images of each kind there are, as far as is known."""

    @property
    def seconds(self) -> Range:
        """From start to end, if the workers do not slow each other down."""
        loading = self.sampled.loading if self.sampled.left else 0.0
        middle, low, high = (each / self.workers + loading for each in self.judging)
        return Range(middle, low, high)

    @property
    def memory_mib(self) -> float:
        """Of all workers together."""
        return self.workers * self.sampled.memory_mib

    def processes_for(self, seconds: float, *, judging: float | None = None) -> int | None:
        """How many processes, each with what the measured one had, are done within a time; None: no number is.

        Args:
            seconds: the time, loading included.
            judging: seconds that one process judges; None: the middle of the range.
        """
        left = seconds - self.sampled.loading
        needed = self.judging.middle if judging is None else judging
        if needed == 0:
            return 1
        return math.ceil(needed / left) if left > 0 else None


def forecast(sampled: Sampled, *, workers: int = 1) -> Forecast:
    """Extrapolate from what was measured to all images that are left.

    The time is the sum over kinds of images x mean, and that of storing. Its interval takes in the means'
    intervals and, where only a sample was looked at for kinds, the error of their shares (multinomial, with finite
    population correction).
    """
    looked_at = sum(sampled.looked_at.values())
    if not sampled.left or not looked_at:
        return Forecast(sampled, Range(0.0, 0.0, 0.0), workers)
    images = {kind: sampled.left * count / looked_at for kind, count in sampled.looked_at.items()}
    middle = sum(number * sampled.paces[kind].mean for kind, number in images.items())
    squares = [(number * sampled.paces[kind].half_width) ** 2 for kind, number in images.items()]
    mean = middle / sampled.left
    spread = sum(count * (sampled.paces[kind].mean - mean) ** 2 for kind, count in sampled.looked_at.items())
    unseen = 1 - looked_at / sampled.left
    share_error = 1.96 * sampled.left * math.sqrt(spread * unseen) / looked_at
    half_width = math.sqrt(sum(squares) + share_error**2)
    middle += sampled.left * sampled.storing
    return Forecast(sampled, Range(middle, max(0.0, middle - half_width), middle + half_width), workers, images)
