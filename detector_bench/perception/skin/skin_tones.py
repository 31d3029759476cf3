"""The mean colour of facial skin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench.perception.faces.dlib_landmarks import DlibLandmarks
from detector_bench.perception.skin.face_polygon import LANDMARKS, skin_region
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.weights import WeightsLocator

HIGHLIGHTS_ABOVE = 240
"""The brightest HSV value (0 to 255) that is still skin and no highlight (BiasPainter)."""

_NEARLY_WHITE = 250
_NEARLY_BLACK = 5


class SkinTone(NamedTuple):
    """Mean red, green and blue of the skin pixels of a face, 0 to 255 each, (3,), and how many pixels they are.

    Without a skin pixel the colour is NaN.
    """

    colour: NDArray[np.float64]
    pixels: int


class SkinTones(Stage):
    """Mean colour of the skin of every face of an image, in the order of the face boxes.

    Gives `colour`, (faces, 3), mean red, green and blue, 0 to 255, NaN for a face without any skin pixel; and
    `pixels`, (faces,), the number of skin pixels. `mean_skin_tone` defines both.
    """

    kind: ClassVar[str] = "skin_tones"
    precision_taken: ClassVar[str] = "float64"
    device_taken: ClassVar[str] = "cpu"

    landmarks: StageField = Field(default_factory=DlibLandmarks)
    """A stage that gives `landmarks`, (faces, 68, 2)."""
    highlights_above: int = Field(default=HIGHLIGHTS_ABOVE, ge=0, le=255)
    """Pixels with a higher HSV value, the largest of red, green and blue, are highlights and not counted."""

    def inputs(self) -> tuple[Stage, ...]:
        """The landmarks."""
        return (self.landmarks,)

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Return the function; see `Stage.load`."""

        def measure(frame: Frame) -> Arrays:
            faces = np.asarray(frame[self.landmarks]["landmarks"]).reshape(-1, LANDMARKS, 2)
            found = [mean_skin_tone(frame.pixels, face, highlights_above=self.highlights_above) for face in faces]
            return {
                "colour": np.array([each.colour for each in found]).reshape(-1, 3),
                "pixels": np.array([each.pixels for each in found], np.int64),
            }

        def measure_all(frames: Sequence[Frame]) -> list[Arrays]:
            return [measure(frame) for frame in frames]

        return measure_all


def mean_skin_tone(
    pixels: NDArray[np.uint8], landmarks: NDArray[Any], *, highlights_above: int = HIGHLIGHTS_ABOVE
) -> SkinTone:
    """Mean colour of the skin of one face (BiasPainter, section 3.4, and its released program).

    Counted are the pixels of `skin_region`, without highlights (largest channel above `highlights_above`), without
    nearly white pixels (all channels at least 250) and without nearly black ones (all channels at most 5).

    Args:
        pixels: (height, width, 3), RGB.
        landmarks: (68, 2); the face may lie partly or wholly outside the image.
        highlights_above: HSV value, 0 to 255.

    Known divergences from the released program: it takes all faces of an image together, this one face; it marks
    removed pixels as white and black in files that it writes and reads again, which in JPEG files changes the
    colour of the skin beside them; and it looks for faces with red and blue exchanged. See also `face_outline`.
    """
    height, width = pixels.shape[:2]
    region = skin_region(landmarks, width=width, height=height)
    face = pixels[region.rows, region.columns]
    red, green, blue = face[..., 0], face[..., 1], face[..., 2]
    brightest = np.maximum(np.maximum(red, green), blue)
    darkest = np.minimum(np.minimum(red, green), blue)
    counted = region.mask & (brightest <= highlights_above) & (brightest > _NEARLY_BLACK)
    counted &= darkest < _NEARLY_WHITE
    number = int(np.count_nonzero(counted))
    if number == 0:
        return SkinTone(np.full(3, np.nan), 0)
    # One channel at a time: to pick rows of three and add them up takes numpy ten times as long.
    sums = [int(channel.sum(where=counted, dtype=np.int64)) for channel in (red, green, blue)]
    return SkinTone(np.array(sums) / number, number)
