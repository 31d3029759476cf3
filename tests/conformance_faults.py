"""Stages and detectors with the mistakes that the conformance suite is there to find; importable anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from detector_bench.detectors import Prediction, detector
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator


def mean(frame: Frame) -> Any:
    return frame.pixels.mean(axis=(0, 1))


class Sound(Stage):
    """The mean colour; nothing is wrong with it."""

    kind: ClassVar[str] = "sound"

    def load(self, weights: WeightsLocator) -> StageFunction:
        return lambda frames: [{"mean": mean(frame)} for frame in frames]


class SecondCallFails(Stage):
    """As a context manager does that is entered again."""

    kind: ClassVar[str] = "second_call_fails"

    def load(self, weights: WeightsLocator) -> StageFunction:
        calls: list[int] = []

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            calls.append(1)
            if len(calls) > 1:
                raise RuntimeError("generator didn't yield")
            return [{"mean": mean(frame)} for frame in frames]

        return run


class BatchCentred(Stage):
    """As a network does whose batch normalisation was left in training."""

    kind: ClassVar[str] = "batch_centred"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def run(frames: Sequence[Frame]) -> list[Arrays]:
            means = np.stack([mean(frame) for frame in frames])
            return [{"mean": row} for row in means - means.mean(axis=0)]

        return run


class Draws(Stage):
    """Numbers at random, from a seed that is set once."""

    kind: ClassVar[str] = "draws"

    def load(self, weights: WeightsLocator) -> StageFunction:
        random = np.random.default_rng(0)
        return lambda frames: [{"mean": mean(frame) + random.normal()} for frame in frames]


class RemembersTheFirst(Stage):
    """Whatever it sees first is its measure for all that follow."""

    kind: ClassVar[str] = "remembers_the_first"

    def load(self, weights: WeightsLocator) -> StageFunction:
        first: list[Any] = []

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            first.extend([mean(frames[0])] if not first else [])
            return [{"mean": mean(frame) - first[0]} for frame in frames]

        return run


class Paints(Stage):
    """Draws into the picture that others look at, too."""

    kind: ClassVar[str] = "paints"

    def load(self, weights: WeightsLocator) -> StageFunction:
        def run(frames: Sequence[Frame]) -> list[Arrays]:
            for frame in frames:
                frame.pixels[:2] = 0
            return [{"mean": mean(frame)} for frame in frames]

        return run


class Masked(Stage):
    """A mask does not outlast being kept."""

    kind: ClassVar[str] = "masked"

    def load(self, weights: WeightsLocator) -> StageFunction:
        return lambda frames: [{"mean": np.ma.masked_less(mean(frame), 120)} for frame in frames]


class HashedText(Stage):
    """Python hashes text in another way in each process."""

    kind: ClassVar[str] = "hashed_text"

    def load(self, weights: WeightsLocator) -> StageFunction:
        return lambda frames: [{"mean": np.array([hash(frame.image_id) % 1000])} for frame in frames]


@detector("fault-counts", attributes=["gender"], stages=[Sound()])
class Counts:
    """Calls every third image female, whichever it is."""

    def __init__(self, **more: int) -> None:
        self.more = more
        self.asked = 0

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            self.asked += 1
            yield Prediction.clear(frame, "gender", "male" if self.asked % 3 else "female")


@detector("fault-sums", attributes=["gender"], stages=[Masked()])
class Sums:
    """Reads a sum that a mask decides."""

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            total = frame[Masked()]["mean"].sum()
            score = 0.0 if total is np.ma.masked else float(total) / 765
            yield Prediction.clear(frame, "gender", "male", score=score)


@detector("sound-colour", attributes=["gender"], stages=[Sound()])
class Colour:
    """Nothing is wrong with it, and it takes any parameter."""

    def __init__(self, *, green: float = 200.0, **more: float) -> None:
        self.green, self.more = green, more

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        for frame in batch:
            red, green, blue = frame[Sound()]["mean"]
            if green > self.green:
                yield Prediction.filtered(frame, "gender", "green")
            else:
                yield Prediction.clear(frame, "gender", "male" if red > blue else "female", score=float(red) / 255)
