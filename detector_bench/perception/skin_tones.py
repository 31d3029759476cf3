"""Facial skin: which pixels of a face are skin, by its 68 landmarks, and their mean colour.

Landmarks are those of iBUG 300-W, (68, 2), x and y in pixels, where a pixel's centre has whole coordinates: 0-16
the jaw line from ear to ear, 36-41 and 42-47 the eyes, 48-59 the outer line of the mouth.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from detector_bench.perception.faces.dlib_faces import DlibLandmarks
from detector_bench.perception.stage import ADDED_LATER, Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.weights import WeightsLocator

LANDMARKS = 68
JAW = slice(0, 17)
HOLES = (slice(36, 42), slice(42, 48), slice(48, 60))
"""What is on a face and is no skin: both eyes and the mouth."""

_ARC_STEPS = 18

Forehead = Literal["with_head", "upright"]
"""Where the semicircle over the forehead points: up as the head is turned, or to the top of the image."""


class FaceRegion(NamedTuple):
    """A part of an image, and which of its pixels are meant; `mask` is (rows, columns)."""

    rows: slice
    columns: slice
    mask: NDArray[np.bool_]


def face_outline(landmarks: NDArray[Any], *, forehead: Forehead = "with_head") -> NDArray[np.float64]:
    """The outline of a face, (34, 2): the jaw line, closed by a semicircle over the forehead.

    `with_head`: the semicircle stands on the chord between the ends of the jaw line, |x16 - x0| across, on the
    side that the jaw does not hang down to; so it turns with the head, and a face upside down is outlined like
    any other.

    `upright`: it points to the top of the image, and its diameter is the horizontal distance of the two points, as
    in BiasPainter's released program. For an upright head both are the same.

    It is drawn in 18 straight pieces of 10 degrees, as in that program.
    """
    jaw = np.asarray(landmarks[JAW], dtype=np.float64)
    middle, radius = (jaw[0] + jaw[-1]) / 2, (jaw[-1] - jaw[0]) / 2
    if forehead == "upright":
        radius = np.array([abs(radius[0]), 0.0])
    up = np.array([radius[1], -radius[0]])
    if forehead == "with_head" and float(((jaw - middle) @ up).sum()) > 0:
        up = -up
    angle = np.linspace(0, np.pi, _ARC_STEPS + 1)[1:-1, None]
    return np.concatenate([jaw, middle + np.cos(angle) * radius + np.sin(angle) * up])


def pixels_inside(polygon: NDArray[Any], *, left: int, top: int, width: int, height: int) -> NDArray[np.bool_]:
    """Which pixels of a rectangle lie inside a polygon, (height, width).

    A pixel is inside if its centre is, by the even-odd rule: a ray to the left crosses an odd number of edges. Of
    pixels that lie on an edge, those at the right and at the bottom are inside, so that of two polygons with a
    common edge each pixel belongs to one. Drawing functions, as OpenCV's or Pillow's, also take every pixel that
    the edge touches: OpenCV makes an eye 30 pixels wide some 14 % larger.

    Args:
        polygon: (corners, 2), x and y; the last corner is joined to the first. It may reach over the rectangle.
        left: column of the rectangle's first pixel in the coordinates of the polygon.
        top: likewise its row.
        width: of the rectangle.
        height: of the rectangle.
    """
    start = np.asarray(polygon, dtype=np.float64)
    end = np.roll(start, -1, axis=0)
    rows = top + np.arange(height)
    edges, lines = np.nonzero((start[:, 1, None] < rows) != (end[:, 1, None] < rows))
    (x, y), (across, down) = start[edges].T, (end - start)[edges].T
    crossings = x + (rows[lines] - y) * across / down
    first_right = np.clip(np.floor(crossings).astype(np.int64) + 1 - left, 0, width)
    # One column more takes the crossings that lie right of the rectangle.
    crossed = np.bincount(lines * (width + 1) + first_right, minlength=height * (width + 1))
    counts = np.cumsum(crossed.astype(np.uint8).reshape(height, width + 1), axis=1, dtype=np.uint8)
    inside: NDArray[np.bool_] = (counts[:, :width] & 1).astype(np.bool_)
    return inside


def skin_region(
    landmarks: NDArray[Any], *, width: int, height: int, forehead: Forehead = "with_head"
) -> FaceRegion:
    """The skin of a face in an image: inside of the outline, outside of both eyes and the mouth.

    Args:
        landmarks: (68, 2); they may lie outside the image.
        width: of the image.
        height: of the image.
        forehead: see `face_outline`.

    Returns:
        The part of the image around the face, with the mask of its skin; it is empty for a face outside the image.
    """
    outline = face_outline(landmarks, forehead=forehead)
    lowest, highest = np.floor(outline.min(axis=0)), np.ceil(outline.max(axis=0)) + 1
    left, top = (int(value) for value in np.clip(lowest, 0, (width, height)))
    right, bottom = (int(value) for value in np.clip(highest, 0, (width, height)))
    place = {"left": left, "top": top, "width": right - left, "height": bottom - top}
    mask = pixels_inside(outline, **place)
    for hole in HOLES:
        mask &= ~pixels_inside(landmarks[hole], **place)
    return FaceRegion(slice(top, bottom), slice(left, right), mask)


HIGHLIGHTS_ABOVE = 240
"""The brightest HSV value (0 to 255) that is still skin and no highlight (BiasPainter)."""

_NEARLY_WHITE = 250
_NEARLY_BLACK = 5
_WHITEST = 255


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
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = "float64"
    device_taken: ClassVar[str] = "cpu"

    landmarks: StageField = Field(default_factory=DlibLandmarks)
    """A stage that gives `landmarks`, (faces, 68, 2)."""
    highlights_above: int = Field(default=HIGHLIGHTS_ABOVE, ge=0, le=255)
    """Pixels with a higher HSV value, the largest of red, green and blue, are highlights and not counted."""
    forehead: Forehead = Field(default="with_head", json_schema_extra=ADDED_LATER)
    """Where the semicircle over the forehead points; `upright`: as in BiasPainter's released program."""
    through_jpeg: bool = Field(default=False, json_schema_extra=ADDED_LATER)
    """Whether the cut-out face goes through two JPEG files before it is averaged, as in BiasPainter's released
    program (`skin_tone_through_jpeg`). It makes skin look darker: only for comparing with that program."""

    def load(self, weights: WeightsLocator) -> StageFunction:  # noqa: ARG002
        """Return the function; see `Stage.load`."""

        def measure(frame: Frame) -> Arrays:
            faces = np.asarray(frame[self.landmarks]["landmarks"]).reshape(-1, LANDMARKS, 2)
            measured = skin_tone_through_jpeg if self.through_jpeg else mean_skin_tone
            found = [
                measured(frame.pixels, face, highlights_above=self.highlights_above, forehead=self.forehead)
                for face in faces
            ]
            return {
                "colour": np.array([each.colour for each in found]).reshape(-1, 3),
                "pixels": np.array([each.pixels for each in found], np.int64),
            }

        def measure_all(frames: Sequence[Frame]) -> list[Arrays]:
            return [measure(frame) for frame in frames]

        return measure_all


def mean_skin_tone(
    pixels: NDArray[np.uint8],
    landmarks: NDArray[Any],
    *,
    highlights_above: int = HIGHLIGHTS_ABOVE,
    forehead: Forehead = "with_head",
) -> SkinTone:
    """Mean colour of the skin of one face (BiasPainter, section 3.4, and its released program).

    Counted are the pixels of `skin_region`, without highlights (largest channel above `highlights_above`), without
    nearly white pixels (all channels at least 250) and without nearly black ones (all channels at most 5).

    Args:
        pixels: (height, width, 3), RGB.
        landmarks: (68, 2); the face may lie partly or wholly outside the image.
        highlights_above: HSV value, 0 to 255.
        forehead: see `face_outline`.

    Known divergences from the released program: it takes all faces of an image together, this one face; it marks
    removed pixels as white and black in files that it writes and reads again, which in JPEG files changes the
    colour of the skin beside them (`skin_tone_through_jpeg` does so, too); and it looks for faces with red and
    blue exchanged. See also `face_outline`.
    """
    height, width = pixels.shape[:2]
    region = skin_region(landmarks, width=width, height=height, forehead=forehead)
    face = pixels[region.rows, region.columns]
    return _mean_of(face, region.mask, highlights_above=highlights_above)


_BLOCK = 16
"""Side of the squares that a JPEG file with halved colour is made of."""

_JPEG_QUALITY = 95
"""OpenCV's, which the released program writes its files with; the colour has half of the resolution."""


def skin_tone_through_jpeg(
    pixels: NDArray[np.uint8],
    landmarks: NDArray[Any],
    *,
    highlights_above: int = HIGHLIGHTS_ABOVE,
    forehead: Forehead = "with_head",
) -> SkinTone:
    """Mean colour of the skin of one face after the two JPEG files of BiasPainter's released program.

    The first file holds the skin and white around it, the second that with all highlights black, so that the white
    around the face is black in it. What is neither nearly white nor nearly black in the second one is averaged.
    Compression smears the black into the edge of the face: these pixels, and those just outside the face that are
    no longer black, count as skin. The result is nearly always darker than `mean_skin_tone`.

    Args:
        pixels: (height, width, 3), RGB.
        landmarks: (68, 2); the face may lie partly or wholly outside the image.
        highlights_above: HSV value, 0 to 255.
        forehead: see `face_outline`; the program's is upright.

    Known divergence from the released program: it takes all faces of an image together, this one face.
    """
    height, width = pixels.shape[:2]
    region = skin_region(landmarks, width=width, height=height, forehead=forehead)
    if not region.mask.any():
        return SkinTone(np.full(3, np.nan), 0)
    # Whole squares with one more on each side: these are the same bytes as in a file of the whole image.
    rows, columns = _whole_squares(region.rows, height), _whole_squares(region.columns, width)
    is_skin = np.zeros((height, width), dtype=bool)
    is_skin[region.rows, region.columns] = region.mask
    is_skin = is_skin[rows, columns, None]
    cut_out = _through_jpeg(np.where(is_skin, pixels[rows, columns], np.uint8(255)))
    is_highlight = cut_out.max(axis=-1, keepdims=True) > highlights_above
    kept = _through_jpeg(np.where(is_highlight, np.uint8(0), cut_out))
    return _mean_of(kept, np.ones(kept.shape[:2], dtype=bool), highlights_above=_WHITEST)


def _whole_squares(part: slice, size: int) -> slice:
    first = max(part.start // _BLOCK - 1, 0) * _BLOCK
    return slice(first, min((-(-part.stop // _BLOCK) + 1) * _BLOCK, size))


def _through_jpeg(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=_JPEG_QUALITY, subsampling="4:2:0")
    with Image.open(file) as image:
        return np.asarray(image)


def _mean_of(face: NDArray[np.uint8], is_skin: NDArray[np.bool_], *, highlights_above: int) -> SkinTone:
    """Mean colour of the pixels that are skin, no highlights, and neither nearly white nor nearly black."""
    red, green, blue = face[..., 0], face[..., 1], face[..., 2]
    brightest = np.maximum(np.maximum(red, green), blue)
    darkest = np.minimum(np.minimum(red, green), blue)
    counted = is_skin & (brightest <= highlights_above) & (brightest > _NEARLY_BLACK)
    counted &= darkest < _NEARLY_WHITE
    number = int(np.count_nonzero(counted))
    if number == 0:
        return SkinTone(np.full(3, np.nan), 0)
    # One channel at a time: to pick rows of three and add them up takes numpy ten times as long.
    sums = [int(channel.sum(where=counted, dtype=np.int64)) for channel in (red, green, blue)]
    return SkinTone(np.array(sums) / number, number)
