"""A plugin as somebody else would write it: a stage and a detector that need no network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from detector_bench_next.detector import Arrays, Detector, Frame, Prediction, Stage, StageField
from detector_bench_next.registry import register


@register("stage", "mean_grey")
class MeanGrey(Stage):
    """Mean grey level of an image; `seconds` makes it slow."""

    describes: ClassVar[tuple[str, ...]] = ("seconds",)
    seconds: float = 0.0

    def load(self, where: object) -> Callable[[Sequence[Frame]], list[Arrays]]:
        def level(frame: Frame) -> Arrays:
            time.sleep(self.seconds)
            return {"grey": np.array([frame.pixels.mean()])}

        return lambda frames: [level(frame) for frame in frames]


@register("detector", "shade")
class Shade(Detector):
    """Bright images are female, dark ones male, black ones filtered."""

    grey: StageField = MeanGrey()
    bright_above: float = 140.0

    @property
    def attributes(self) -> tuple[str, ...]:
        return ("gender",)

    def predict(self, frames: Sequence[Frame]) -> Iterator[Prediction]:
        for frame in frames:
            grey = float(frame[self.grey]["grey"][0])
            if grey < 40:
                yield Prediction.filtered(frame, "gender", "no_person")
            else:
                label = "female" if grey > self.bright_above else "male"
                yield Prediction.clear(frame, "gender", label, score=0.5 + abs(grey - self.bright_above) / 512)
