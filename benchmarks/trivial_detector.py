"""A plugin: a detector that costs next to nothing, so that what a run takes is the harness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from detector_bench.detectors import Prediction, detector
from detector_bench.perception.stage import STAGES, Arrays, Batch, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator


class FirstPixel(Stage):
    """The colour of the upper left pixel: `colour`, shape (3,)."""

    kind: ClassVar[str] = "benchmark_first_pixel"

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Nothing to load."""

        def first(frames: Sequence[Frame]) -> list[Arrays]:
            return [{"colour": frame.pixels[0, 0]} for frame in frames]

        return first


if FirstPixel.kind not in STAGES:
    STAGES.register(FirstPixel.kind, FirstPixel)


@detector("benchmark-trivial", attributes=["gender"], stages=[FirstPixel()])
class TrivialDetector:
    """Calls reddish images female."""

    def __init__(self, *, threshold: int = 127) -> None:
        self.threshold = threshold

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge by the red channel."""
        for frame in batch:
            red = frame[FirstPixel()]["colour"][0] > self.threshold
            yield Prediction.clear(frame, "gender", "female" if red else "male")
