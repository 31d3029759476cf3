"""Skin tone of the largest face: mean brightness of the facial skin, and the nearest Monk shade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.perception.boxes import largest
from detector_bench.perception.faces.dlib_faces import DlibHogFaces, DlibLandmarks
from detector_bench.perception.skin_tones import HIGHLIGHTS_ABOVE, SkinTones
from detector_bench.perception.stage import Batch, Frame, Stage, StageField
from detector_bench.vocabulary.monk_scale import nearest_shade

Grey = Literal["mean_of_channels", "luma"]

GREY_WEIGHTS: dict[Grey, tuple[float, float, float]] = {
    "mean_of_channels": (1 / 3, 1 / 3, 1 / 3),
    "luma": (0.299, 0.587, 0.114),
}
"""Weights of red, green and blue; `luma` is ITU-R BT.601, which Pillow and OpenCV turn images to grey with."""

_NO_SKIN = "no_skin"


@detector(
    "skin-tone",
    attributes=("skin_tone",),
    stages=(DlibHogFaces(upsample=1), SkinTones()),
    extra="dlib-cnn",
    modules=("dlib",),
    card=Card(
        summary="Mean colour of the largest face's skin by dlib's 68 landmarks: brightness, nearest Monk shade",
        licence="CC0-1.0 (landmarks; trained on iBUG 300-W, whose licence excludes commercial use)",
        source="https://github.com/davisking/dlib-models; https://skintone.google",
        paper="BiasPainter, ACM MM 2024, section 3.4",
        hardware="CPU, about 0.1 s per image of 480 pixels, nearly all for the faces",
    ),
)
class SkinToneDetector(Declaration):
    """Measures the skin of one face per image, as BiasPainter does.

    dlib's HOG detector (image doubled once) finds faces; of the largest one, 68 landmarks give the outline, the
    eyes and the mouth; the rest of the face without highlights is its skin (`mean_skin_tone` tells how, and where
    this differs from BiasPainter's program). `value` is the brightness of its mean colour, 0 to 255, higher is
    lighter; the label is the Monk shade nearest to that colour, which also depends on its hue. `raw` keeps mean
    red, green and blue and the number of skin pixels, as JSON. There is no score: nothing here is a probability.

    No face means `no_face`; a face without a pixel that counts as skin means `no_skin`. Beards, glasses, headwear
    and hair inside the outline are counted as skin: the pipeline has no way to tell them.

    Leaving highlights out hits light skin, whose red alone often exceeds 240. On 153 portraits by Stable Diffusion
    3.5 it takes away 12 % of the skin of faces labelled black and 31 % of those labelled white, and brings their
    mean brightness from 52 grey values apart to 37. `highlights_above: 255` keeps highlights.
    """

    faces: StageField = Field(default_factory=lambda: DlibHogFaces(upsample=1))
    highlights_above: int = Field(default=HIGHLIGHTS_ABOVE, ge=0, le=255)
    """Pixels with a higher HSV value are highlights and not counted."""
    grey: Grey = "mean_of_channels"
    """How brightness weighs the channels. BiasPainter's paper says "grayscale value" and no more; its program,
    which gave the published numbers, takes the plain mean of red, green and blue."""
    filters: tuple[Filter, ...] = ()

    @property
    def tones(self) -> SkinTones:
        """The stage that measures skin."""
        return SkinTones(landmarks=DlibLandmarks(faces=self.faces), highlights_above=self.highlights_above)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The faces, their skin, and what the filters read."""
        return (self.faces, self.tones, *(each.stage() for each in self.filters))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        for frame in batch:
            yield self._judged(frame)

    def _judged(self, frame: Frame) -> Prediction:
        face = largest(frame[self.faces])
        reason = "no_face" if face is None else first_reason(self.filters, frame)
        if face is None or reason is not None:
            return Prediction.filtered(frame, "skin_tone", reason or "no_face")
        found = frame[self.tones]
        colour, number = found["colour"][face], int(found["pixels"][face])
        if number == 0:
            return Prediction.filtered(frame, "skin_tone", _NO_SKIN)
        red, green, blue = (round(float(channel), 3) for channel in colour)
        raw = json.dumps({"red": red, "green": green, "blue": blue, "pixels": number})
        brightness = grey_value(colour, grey=self.grey)
        return Prediction.clear(frame, "skin_tone", nearest_shade(colour), value=brightness, raw=raw)


def grey_value(colour: ArrayLike, *, grey: Grey = "mean_of_channels") -> float:
    """Brightness of a colour, 0 to 255, higher is lighter.

    It is linear, so that of a mean colour it is the mean brightness of the pixels.

    Args:
        colour: (3,), red, green and blue, 0 to 255.
        grey: the weights, by name.
    """
    return float(np.dot(colour, GREY_WEIGHTS[grey]))
