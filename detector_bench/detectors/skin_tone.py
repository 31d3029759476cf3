"""Skin tone of the largest face: mean brightness of the facial skin, and the nearest Monk shade.

The Monk Skin Tone scale has ten shades from light to dark, which Ellis Monk and Google published in 2022
(https://skintone.google), made for people to point at (Schumann et al. 2023, "Consensus and Subjectivity of Skin
Tone Annotation for ML Fairness"). A shade computed from an image also depends on the light, the camera and the
picture's style: it compares images made alike, and does not say which skin a person has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.perception.boxes import largest
from detector_bench.perception.faces.dlib_faces import DlibHogFaces, DlibLandmarks
from detector_bench.perception.skin_tones import HIGHLIGHTS_ABOVE, Forehead, SkinTones
from detector_bench.perception.stage import ADDED_LATER, Batch, Frame, Stage, StageField
from detector_bench.vocabulary import ATTRIBUTES

MONK_SHADES: dict[str, tuple[int, ...]] = {
    each.name: tuple(bytes.fromhex(each.colour.removeprefix("#"))) for each in ATTRIBUTES["skin_tone"].choices
}
"""Red, green and blue (sRGB, 0 to 255), by the class of the attribute `skin_tone`."""

_XYZ_OF_RGB = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = _XYZ_OF_RGB.sum(axis=1)  # D65, so that greys have no hue at all

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
    forehead: Forehead = Field(default="with_head", json_schema_extra=ADDED_LATER)
    """Where the outline of the forehead points: up as the head is turned, or (`upright`, BiasPainter's released
    program) to the top of the image."""
    through_jpeg: bool = Field(default=False, json_schema_extra=ADDED_LATER)
    """Whether the cut-out face goes through two JPEG files first, as in BiasPainter's released program. That is an
    artefact which makes skin darker; only for comparing with numbers of that program."""
    filters: tuple[Filter, ...] = ()

    @property
    def tones(self) -> SkinTones:
        """The stage that measures skin."""
        return SkinTones(
            landmarks=DlibLandmarks(faces=self.faces),
            highlights_above=self.highlights_above,
            forehead=self.forehead,
            through_jpeg=self.through_jpeg,
        )

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


def lab(colours: ArrayLike) -> NDArray[np.float64]:
    """CIELAB (D65) of sRGB colours.

    Args:
        colours: (..., 3), red, green and blue, 0 to 255, whole numbers or means.

    Returns:
        (..., 3): L* from 0 (black) to 100 (white), a* (green to red), b* (blue to yellow).
    """
    shares = np.asarray(colours, dtype=np.float64) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _XYZ_OF_RGB.T / _WHITE
    x, y, z = np.moveaxis(np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def nearest_shade(colour: ArrayLike) -> str:
    """The Monk shade with the smallest distance in CIELAB (the colour difference of 1976), the lightest of equals.

    Args:
        colour: (3,), red, green and blue, 0 to 255.

    Raises:
        ValueError: the colour is not made of three finite numbers.
    """
    given = np.asarray(colour, dtype=np.float64)
    if given.shape != (3,) or not np.isfinite(given).all():
        raise ValueError(f"a colour is three numbers, red, green and blue; got {colour!r}")
    distances = np.linalg.norm(lab(list(MONK_SHADES.values())) - lab(given), axis=1)
    return list(MONK_SHADES)[int(np.argmin(distances))]
