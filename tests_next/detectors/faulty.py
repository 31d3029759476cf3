"""Detectors with a fault each, which the check has to find; none needs a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from detector_bench_next.detector import Arrays, Detector, Frame, Prediction, Stage, StageField
from detector_bench_next.registry import register


@register("stage", "colour")
class Colour(Stage):
    """Mean red, green and blue; with a fault, if one is named."""

    fault: str = ""

    def load(self, where: object) -> Callable[[Sequence[Frame]], list[Arrays]]:
        seen: list[float] = []

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            found = [frame.pixels.mean(axis=(0, 1)) / 255 for frame in frames]
            if self.fault == "batch":
                found = [own - np.mean(found) + 0.5 for own in found]
            if self.fault == "memory":
                seen.extend(float(own[0]) for own in found)
                found = [own + 0.01 * len(seen) for own in found]
            if self.fault == "writes":
                frames[0].pixels[0, 0] = 0
            if self.fault == "hash":
                found = [own + hash("text") % 1000 / 1000 for own in found]
            return [{"colour": own} for own in found]

        return run


@register("detector", "red", attributes=("gender",), card={"licence": "MIT", "source": "here"})
class Red(Detector):
    """Red pictures are female, blue ones male; black ones are filtered."""

    colour: StageField = Colour()
    persons: StageField | None = None
    classes: tuple[str, str] = ("female", "male")
    sure: bool = False
    smallest: int = 1
    needs_pixels: ClassVar[bool] = True

    def predict(self, frames: Sequence[Frame]) -> Iterator[Prediction]:
        for frame in frames:
            red, _, blue = (float(v) for v in frame[self.colour]["colour"])
            share = red / (red + blue + 1e-9)
            if red + blue < 0.05:
                yield Prediction.filtered(frame, "gender", "no_person")
                continue
            _ = 1 / (frame.pixels.shape[1] // self.smallest)
            label = self.classes[0] if share > 0.5 else self.classes[1]
            score = 1.0 if self.sure else max(share, 1 - share)
            yield Prediction.clear(frame, "gender", label, score=score, raw=json.dumps({"red": red}))
