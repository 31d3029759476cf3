"""Images that are faces already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator


class WholeImage(Stage):
    """The image itself in the place of an aligned face: for image sets of faces that somebody cut out before.

    Gives `chip`, (height, width, 3), RGB, 0 to 255, for every image.
    """

    kind: ClassVar[str] = "whole_image"
    cached: ClassVar[bool] = False
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "uint8"
    device_taken: ClassVar[str] = "cpu"

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002 - it has none
        """See `Stage.load`."""

        def whole(frames: Sequence[Frame]) -> list[Arrays]:
            return [{"chip": frame.pixels.copy()} for frame in frames]

        return whole
