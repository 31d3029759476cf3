"""The skin's brightness beside what BiasPainter's released program gives for the same portraits.

The program's values are in the developers' data, not the program. Its seed photos are not there, so that of the
seeds only their values are used (tests/test_biaspainter_sheets.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from running import Pixels, frames_of, read_image, run_stages

from detector_bench.perception import skin_tones
from detector_bench.perception.faces.dlib_faces import DlibHogFaces, DlibLandmarks
from detector_bench.perception.skin_tones import HOLES, JAW, SkinTones, mean_skin_tone, pixels_inside
from detector_bench.weights import WeightsLocator

FACES = DlibHogFaces(upsample=1)
LANDMARKS = DlibLandmarks(faces=FACES)
TONES = SkinTones(landmarks=LANDMARKS)
WHITE, BLACK = 255, 0


class Portrait(NamedTuple):
    """A portrait with its faces, and what the released program says."""

    pixels: Pixels
    landmarks: NDArray[Any]
    brightness: NDArray[np.float64]
    """Ours, of each face."""
    faces: int
    as_released: float
    without_jpeg: float


def portraits(shared: Path, *, first: int) -> list[Portrait]:
    pytest.importorskip("dlib")
    data = shared / "data"
    values = pd.read_csv(data / "biaspainter_skin" / "portraits.csv").head(first)
    frames = frames_of(
        [read_image(data / "t2i_portraits" / "images" / f"{each}.jpg") for each in values["image_id"]]
    )
    run_stages([TONES], frames, weights=WeightsLocator(cache=Path("nowhere")))
    return [
        Portrait(frame.pixels, frame[LANDMARKS]["landmarks"], frame[TONES]["colour"].mean(axis=1), *numbers)
        for frame, numbers in zip(
            frames,
            values[["faces", "grey_as_released", "grey_without_jpeg"]].itertuples(index=False),
            strict=True,
        )
    ]


def upright_outline(landmarks: NDArray[Any]) -> NDArray[np.float64]:
    """The program's outline: its semicircle points to the top of the image, however the head is turned."""
    jaw = np.asarray(landmarks[JAW], dtype=np.float64)
    middle, radius = (jaw[0] + jaw[-1]) / 2, abs(jaw[-1, 0] - jaw[0, 0]) / 2
    angle = np.linspace(0, np.pi, 19)[1:-1]
    return np.concatenate([jaw, middle + radius * np.stack([np.cos(angle), -np.sin(angle)], axis=1)])


def through_jpeg(pixels: Pixels) -> Pixels:
    """Written as a JPEG file with OpenCV's usual settings, and read again."""
    cv2 = pytest.importorskip("cv2")
    _, file = cv2.imencode(".jpg", np.ascontiguousarray(pixels[..., ::-1]))
    return np.asarray(cv2.imdecode(file, cv2.IMREAD_COLOR)[..., ::-1])


def brightness_through_jpeg(pixels: Pixels, landmarks: NDArray[Any]) -> float:
    """The program's two files: all but the skin white, then the brightest pixels, that white too, black."""
    height, width = pixels.shape[:2]
    place = {"left": 0, "top": 0, "width": width, "height": height}
    skin = pixels_inside(upright_outline(landmarks), **place)
    for hole in HOLES:
        skin &= ~pixels_inside(landmarks[hole], **place)
    cut_out = through_jpeg(np.where(skin[..., None], pixels, WHITE).astype(np.uint8))
    is_highlight = cut_out.max(axis=-1, keepdims=True) > 240
    kept = through_jpeg(np.where(is_highlight, BLACK, cut_out).astype(np.uint8))
    counted = (kept.min(axis=-1) < 250) & (kept.max(axis=-1) > 5)
    return float(kept[counted].mean())


def compare(found: list[Portrait], monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """Check what has to be equal, and give how far ours lies from the program's without JPEG, per face."""
    assert [len(each.landmarks) for each in found] == [each.faces for each in found]
    with_face = [each for each in found if each.faces == 1]
    monkeypatch.setattr(skin_tones, "face_outline", upright_outline)
    for each in with_face:
        same = mean_skin_tone(each.pixels, each.landmarks[0]).colour.mean()
        assert same == pytest.approx(each.without_jpeg, abs=1e-6)
        # Another version of the JPEG library may round otherwise.
        released = brightness_through_jpeg(each.pixels, each.landmarks[0])
        assert released == pytest.approx(each.as_released, abs=0.05)
    return np.array([each.brightness[0] - each.without_jpeg for each in with_face])


def test_some_portraits_have_the_released_brightness(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    off = compare(portraits(shared, first=4), monkeypatch)
    assert len(off) == 3
    assert np.median(np.abs(off)) < 0.1


@pytest.mark.slow
def test_all_portraits_have_the_released_brightness(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours turns the forehead with the head: 4.2 grey values at most, hardly anything for an upright head."""
    found = portraits(shared, first=77)
    off = np.abs(compare(found, monkeypatch))
    assert (len(found), len(off)) == (77, 60)
    assert np.median(off) < 0.05
    assert np.count_nonzero(off > 0.5) == 6
    assert off.max() < 4.2
    darker = [each.as_released - each.without_jpeg for each in found if each.faces]
    assert np.mean(darker) == pytest.approx(-12.6, abs=0.05)
