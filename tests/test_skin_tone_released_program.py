"""The skin's brightness beside what BiasPainter's released program gives for the same portraits.

The program's values are in the developers' data, not the program. Its seed photos are not there, so that of the
seeds only their values are used (tests/test_biaspainter_sheets.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image
from running import Pixels, frames_of, read_image, run_stages
from skin_faces import HEIGHT, WIDTH, coloured, square_face

from detector_bench.detectors import build_detector
from detector_bench.detectors.skin_tone import SkinToneDetector
from detector_bench.perception.faces.dlib_faces import DlibHogFaces, DlibLandmarks
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.skin_tones import (
    SkinTones,
    mean_skin_tone,
    skin_region,
    skin_tone_through_jpeg,
)
from detector_bench.weights import WeightsLocator

LANDMARKS = DlibLandmarks(faces=DlibHogFaces(upsample=1))
STAGES = {
    "ours": SkinTones(landmarks=LANDMARKS),
    "without_jpeg": SkinTones(landmarks=LANDMARKS, forehead="upright"),
    "as_released": SkinTones(landmarks=LANDMARKS, forehead="upright", through_jpeg=True),
}
"""Ours, and the two whose values the released program gives."""


def brightness(shared: Path, *, first: int) -> pd.DataFrame:
    """Columns: the stages of `STAGES` and the program's two values, of the portraits with one face."""
    pytest.importorskip("dlib")
    data = shared / "data"
    values = pd.read_csv(data / "biaspainter_skin" / "portraits.csv").head(first)
    names = [data / "t2i_portraits" / "images" / f"{each}.jpg" for each in values["image_id"]]
    frames = frames_of([read_image(name) for name in names])
    run_stages(list(STAGES.values()), frames, weights=WeightsLocator(cache=Path("nowhere")))
    assert [len(frame[LANDMARKS]["landmarks"]) for frame in frames] == values["faces"].tolist()
    found = {
        name: [float(frame[stage]["colour"].mean()) if len(frame[stage]["colour"]) else np.nan for frame in frames]
        for name, stage in STAGES.items()
    }
    return values.assign(**found)[values["faces"] == 1]


def off(found: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return np.abs((found[name] - found[f"grey_{name}"]).to_numpy())


def test_some_portraits_have_the_released_brightness(shared: Path) -> None:
    found = brightness(shared, first=4)
    assert len(found) == 3
    assert off(found, "without_jpeg").max() < 1e-6
    # Another version of the JPEG library may round otherwise.
    assert off(found, "as_released").max() < 0.05


@pytest.mark.slow
def test_all_portraits_have_the_released_brightness(shared: Path) -> None:
    """Ours turns the forehead with the head: 4.2 grey values at most, hardly anything for an upright head."""
    found = brightness(shared, first=77)
    assert len(found) == 60
    assert off(found, "without_jpeg").max() < 1e-6
    assert off(found, "as_released").max() < 0.05
    turned = np.abs(found["ours"] - found["grey_without_jpeg"])
    assert np.median(turned) < 0.05
    assert np.count_nonzero(turned > 0.5) == 6
    assert turned.max() < 4.2
    assert (found["as_released"] - found["without_jpeg"]).mean() == pytest.approx(-12.6, abs=0.05)


def through_a_file(pixels: Pixels, file: Path) -> Pixels:
    """Written with OpenCV, as the program does, and read again."""
    cv2 = pytest.importorskip("cv2")
    cv2.imwrite(str(file), np.ascontiguousarray(pixels[..., ::-1]))
    return np.asarray(cv2.imread(str(file))[..., ::-1])


@pytest.mark.parametrize("place", [(0, 0), (37, 21), (200, 150)])
def test_a_part_of_the_image_gives_what_files_of_the_whole_image_give(
    tmp_path: Path, place: tuple[int, int]
) -> None:
    noise = np.random.default_rng(1).integers(30, 235, (90, 120, 3), dtype=np.uint8)
    pixels = np.asarray(Image.fromarray(noise).resize((331, 251), Image.Resampling.BICUBIC))
    landmarks = square_face(*place)
    region = skin_region(landmarks, width=331, height=251)
    skin = np.zeros((251, 331, 1), dtype=bool)
    skin[region.rows, region.columns, 0] = region.mask
    cut_out = through_a_file(np.where(skin, pixels, 255).astype(np.uint8), tmp_path / "skin.jpg")
    is_highlight = cut_out.max(axis=-1, keepdims=True) > 240
    kept = through_a_file(np.where(is_highlight, 0, cut_out).astype(np.uint8), tmp_path / "kept.jpg")
    counted = (kept.min(axis=-1) < 250) & (kept.max(axis=-1) > 5)
    found = skin_tone_through_jpeg(pixels, landmarks)
    assert found.pixels == np.count_nonzero(counted)
    assert found.colour == pytest.approx(kept[counted].mean(axis=0), abs=0.02)


def test_jpeg_makes_plain_skin_darker_at_the_edge() -> None:
    """A face of one colour: without files its mean is that colour; in them, some of the black beside it counts."""
    image = coloured((200, 150, 120))
    plain, smeared = (f(image, square_face()) for f in (mean_skin_tone, skin_tone_through_jpeg))
    assert plain.colour.tolist() == [200, 150, 120]
    assert smeared.pixels > 1.1 * plain.pixels
    assert (smeared.colour < 0.95 * plain.colour).all()
    outside = skin_tone_through_jpeg(image, square_face(WIDTH * 4, HEIGHT * 4))
    assert (outside.pixels, np.isnan(outside.colour).all()) == (0, True)


def test_fields_of_the_released_program_leave_older_results_valid() -> None:
    nowhere = WeightsLocator(cache=Path("nowhere"))
    stages = [SkinTones(), SkinTones(forehead="with_head", through_jpeg=False), SkinTones(forehead="upright")]
    usual, same, other = (fingerprint(stage, weights=nowhere) for stage in stages)
    assert usual == same != other
    detector = build_detector("skin-tone", parameters={"forehead": "upright", "through_jpeg": True})
    assert isinstance(detector.implementation, SkinToneDetector)
    assert detector.implementation.tones == SkinTones(landmarks=LANDMARKS, forehead="upright", through_jpeg=True)
