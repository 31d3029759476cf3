"""The skin-tone detector and its stages: counted by hand, against dlib, on portraits, and through the runner."""

from __future__ import annotations

import csv
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image
from running import Pixels, frames_of, noise, plain, read_image, run_stages
from skin_faces import HEIGHT, WIDTH, coloured, square_face
from small_parts import write_csv

from detector_bench.dataset import ImageSet
from detector_bench.detectors import Prediction, build_detector
from detector_bench.detectors.skin_tone import MONK_SHADES, SkinToneDetector, grey_value
from detector_bench.errors import MissingExtraError, WeightsError
from detector_bench.perception.boxes import boxes
from detector_bench.perception.faces.dlib_faces import DlibHogFaces, DlibLandmarks
from detector_bench.perception.faces.small_networks import YuNetFaces
from detector_bench.perception.skin_tones import SkinTones, mean_skin_tone
from detector_bench.perception.stage import Batch, Frame
from detector_bench.runner.run import run_detectors
from detector_bench.runner.run_settings import RunSettings
from detector_bench.vocabulary import Status
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import FACE_LANDMARKS_5, FACE_LANDMARKS_68

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
FACES, LANDMARKS, TONES = DlibHogFaces(upsample=1), DlibLandmarks(), SkinTones()
RACES = ("white", "black")
HIGHLIGHT = (250, 240, 230)
BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


# The mean colour of a face's skin


def tone(image: Pixels, **settings: int) -> tuple[list[float], int]:
    found = mean_skin_tone(image, square_face(), **settings)
    return found.colour.tolist(), found.pixels


def test_eyes_mouth_and_background_do_not_count() -> None:
    image = coloured((0, 255, 0))
    image[5:72, 8:53] = (200, 150, 100)
    image[39:43, 17:23] = image[39:43, 37:43] = (20, 20, 20)
    image[56:61, 23:39] = (120, 10, 10)
    assert tone(image)[0] == [200, 150, 100]


def test_the_mean_of_a_few_pixels_by_hand() -> None:
    image = coloured(HIGHLIGHT)
    image[35, 12:18] = (200, 100, 50)
    image[65:67, 48:50] = (100, 50, 0)
    # Not skin: in an eye, in the mouth, left of the face, above it.
    image[40, 20] = image[58, 30] = image[50, 10] = image[10, 30] = (9, 9, 9)
    # (6 x 200 + 4 x 100) / 10, (6 x 100 + 4 x 50) / 10, 6 x 50 / 10.
    assert tone(image) == ([160, 80, 30], 10)


@pytest.mark.parametrize(
    ("colour", "settings", "counts"),
    [
        ((240, 100, 100), {}, True),
        ((241, 100, 100), {}, False),
        ((100, 100, 241), {}, False),
        ((241, 100, 100), {"highlights_above": 255}, True),
        ((250, 250, 250), {"highlights_above": 255}, False),
        ((255, 255, 249), {"highlights_above": 255}, True),
        ((5, 5, 5), {}, False),
        ((5, 6, 5), {}, True),
        ((0, 0, 0), {}, False),
        ((100, 100, 100), {"highlights_above": 99}, False),
    ],
)
def test_which_pixels_are_highlights_nearly_white_and_nearly_black(
    colour: tuple[int, int, int], settings: dict[str, int], counts: bool
) -> None:
    found, pixels = tone(coloured(colour), **settings)
    assert (pixels > 0) is counts
    np.testing.assert_equal(found, list(colour) if counts else [np.nan] * 3)


def test_a_face_half_outside_the_image_is_measured_by_its_other_half() -> None:
    image = coloured((90, 60, 30))
    image[:, WIDTH // 2 :] = (180, 120, 60)
    half = mean_skin_tone(image[:, : WIDTH // 2], square_face())
    assert half.colour.tolist() == [90, 60, 30]
    whole = mean_skin_tone(image, square_face())
    assert 0 < half.pixels < whole.pixels
    outside = mean_skin_tone(image, square_face(WIDTH, 0))
    assert (np.isnan(outside.colour).all(), outside.pixels) == (True, 0)


def test_the_stage_measures_every_face_in_the_order_of_the_boxes() -> None:
    image = np.concatenate([coloured((90, 60, 30)), coloured((180, 120, 60))], axis=1)
    both = np.stack([square_face(WIDTH, 0), square_face(), square_face(0, 200)])
    run = TONES.load(ANYWHERE)
    (found, none) = run(
        [
            Frame("three", pixels=image, results={LANDMARKS: {"landmarks": both}}),
            Frame("none", pixels=image, results={LANDMARKS: {"landmarks": np.zeros((0, 68, 2), np.float32)}}),
        ]
    )
    np.testing.assert_equal(found["colour"], [[180, 120, 60], [90, 60, 30], [np.nan] * 3])  # type: ignore[index]
    number = mean_skin_tone(image, square_face()).pixels
    assert found["pixels"].tolist() == [number, number, 0]  # type: ignore[index]
    assert (none["colour"].shape, none["pixels"].shape) == ((0, 3), (0,))  # type: ignore[index]


# dlib's landmarks


@pytest.fixture(scope="module")
def people(shared: Path) -> dict[str, list[Frame]]:
    """The first portraits labelled white and black, by label, with their faces and skin."""
    folder = shared / "data" / "t2i_portraits"
    with (folder / "labels.csv").open(encoding="utf-8") as file:
        race = {row["image_id"]: row["label"] for row in csv.DictReader(file) if row["attribute"] == "race"}
    chosen = {label: sorted(image for image, known in race.items() if known == label)[:5] for label in RACES}
    images = [read_image(folder / "images" / f"{image}.jpg") for some in chosen.values() for image in some]
    frames = frames_of(images)
    run_stages([TONES], frames, weights=ANYWHERE)
    return dict(zip(RACES, (frames[:5], frames[5:]), strict=True))


@pytest.fixture(scope="module")
def portrait(people: dict[str, list[Frame]]) -> Frame:
    """A portrait with one face."""
    return next(frame for frame in people["black"] if len(frame[LANDMARKS]["landmarks"]) == 1)


def test_landmarks_are_dlibs(portrait: Frame) -> None:
    dlib = pytest.importorskip("dlib")
    predictor = dlib.shape_predictor(str(ANYWHERE.locate(FACE_LANDMARKS_68)))
    rectangles = dlib.get_frontal_face_detector()(portrait.pixels, 1)
    expected = [[(p.x, p.y) for p in predictor(portrait.pixels, each).parts()] for each in rectangles]
    assert len(expected) == 1
    np.testing.assert_array_equal(portrait[LANDMARKS]["landmarks"], expected)


def test_boxes_over_the_border_of_one_pixel_and_none() -> None:
    pytest.importorskip("dlib")
    places = [[-40, -50, 60, 60], [30, 20, 31, 21], [500, 500, 600, 600]]
    frames = [
        Frame("three", pixels=noise(80, 64), results={FACES: boxes(places, [1, 1, 1])}),
        Frame("none", pixels=noise(80, 64), results={FACES: boxes([], [])}),
    ]
    run_on = LANDMARKS.load(ANYWHERE)(frames)
    found, nobody = (each["landmarks"] for each in run_on)  # type: ignore[index]
    assert (found.shape, nobody.shape) == ((3, 68, 2), (0, 68, 2))
    # Its own box holds each face, or nearly so: landmarks were looked for where the boxes are.
    middles = np.array(places).reshape(3, 2, 2).mean(axis=1)
    assert (np.abs(found.mean(axis=1) - middles) < [[30, 30], [1, 1], [30, 30]]).all()


def test_a_file_that_is_no_predictor_of_68_landmarks_is_named(tmp_path: Path) -> None:
    pytest.importorskip("dlib")
    (tmp_path / "broken.dat").write_bytes(b"no landmarks")
    five = ANYWHERE.locate(FACE_LANDMARKS_5)
    for path, message in ((tmp_path / "broken.dat", "cannot read .*broken"), (five, "finds 5 landmarks")):
        with pytest.raises(WeightsError, match=message):
            DlibLandmarks.model_validate({"network": str(path)}).load(ANYWHERE)


def test_without_dlib_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'detector-bench\[dlib-cnn\]'$"):
        LANDMARKS.load(ANYWHERE)


# Verdicts


def measured(
    colours: list[tuple[float, ...]], *, faces: list[list[float]] | None = None, pixels: list[int] | None = None
) -> Frame:
    """An image with these faces, and what was measured on them."""
    faces = [[0, 0, 10, 10]] if faces is None else faces
    tones: dict[str, NDArray[Any]] = {
        "colour": np.array(colours, np.float64).reshape(-1, 3),
        "pixels": np.array([100] * len(faces) if pixels is None else pixels),
    }
    return Frame("one", results={FACES: boxes(faces, [1.0] * len(faces)), TONES: tones})


def verdict(frame: Frame, **parameters: object) -> Prediction:
    (found,) = build_detector("skin-tone", parameters=parameters).predict(Batch([frame]))
    return found


@pytest.mark.parametrize(("label", "shade"), MONK_SHADES.items())
def test_a_face_in_a_monk_shade_has_that_shade(label: str, shade: tuple[int, int, int]) -> None:
    found = verdict(measured([shade]))
    assert (found.status, found.label, found.score) == (Status.CLEAR, label, None)
    assert found.value == pytest.approx(sum(shade) / 3)


def test_value_and_raw_by_hand() -> None:
    frame = measured([(200, 100.00041, 30)], pixels=[17])
    assert verdict(frame).value == pytest.approx(110, abs=1e-3)
    # 0.299 x 200 + 0.587 x 100 + 0.114 x 30
    assert verdict(frame, grey="luma").value == pytest.approx(121.92, abs=1e-3)
    assert json.loads(verdict(frame).raw or "") == {"red": 200, "green": 100, "blue": 30, "pixels": 17}


@pytest.mark.parametrize("grey", ["mean_of_channels", "luma"])
def test_grey_runs_from_0_to_255(grey: Any) -> None:
    assert grey_value((0, 0, 0), grey=grey) == 0
    assert grey_value((255, 255, 255), grey=grey) == pytest.approx(255)


def test_the_largest_face_counts() -> None:
    found = verdict(measured([(80, 60, 40), (180, 160, 140)], faces=[[0, 0, 10, 10], [20, 0, 32, 12]]))
    assert found.value == pytest.approx(160)


def test_why_an_image_is_filtered() -> None:
    crowd = measured([(80, 60, 40), (180, 160, 140)], faces=[[0, 0, 10, 10], [20, 0, 31, 11]])
    single = {"kind": "single_subject", "boxes": {"kind": "dlib_hog_faces", "upsample": 1}}
    for frame, parameters, reason in (
        (measured([], faces=[]), {}, "no_face"),
        (measured([(np.nan,) * 3], pixels=[0]), {}, "no_skin"),
        (crowd, {"filters": [single]}, "several_people"),
    ):
        found = verdict(frame, **parameters)
        assert (found.status, found.reason, found.label, found.value) == (Status.FILTERED, reason, None, None)
    assert verdict(crowd).status is Status.CLEAR


def test_stages_follow_the_parameters() -> None:
    built = SkinToneDetector.model_validate({"faces": "yunet_faces", "highlights_above": 250})
    tones = SkinTones(landmarks=DlibLandmarks(faces=YuNetFaces()), highlights_above=250)
    assert built.stages == (YuNetFaces(), tones)
    assert build_detector("skin-tone").stages == (FACES, TONES)


# Portraits


def test_a_lighter_picture_has_a_higher_value(portrait: Frame) -> None:
    values = []
    for share in (0.2, 0.4, 0.6, 0.8):
        pixels = np.round(portrait.pixels * share).astype(np.uint8)
        frame = Frame("one", pixels=pixels, results={FACES: portrait[FACES], LANDMARKS: portrait[LANDMARKS]})
        (frame.results[TONES],) = TONES.load(ANYWHERE)([frame])
        values.append(verdict(frame).value or 0)
    assert np.all(np.diff(values) > 10)


def test_the_loop_over_all_pixels_gives_the_same(portrait: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    loop = import_module("skin_tone_speed").pixel_by_pixel
    (landmarks,) = portrait[LANDMARKS]["landmarks"]
    colour, pixels = loop(portrait.pixels, landmarks, everywhere=False)
    assert pixels > 1000
    # A pixel whose centre lies on an edge may fall to either side by rounding.
    assert abs(pixels - portrait[TONES]["pixels"][0]) <= 2
    np.testing.assert_allclose(portrait[TONES]["colour"][0], colour, atol=0.02)


def test_portraits_labelled_white_are_lighter_than_those_labelled_black(people: dict[str, list[Frame]]) -> None:
    values = {}
    for label, frames in people.items():
        found = build_detector("skin-tone").predict(Batch(frames))
        values[label] = [each.value for each in found if each.value is not None]
    assert min(map(len, values.values())) >= 4
    # 37 grey values over all portraits.
    assert np.mean(values["white"]) - np.mean(values["black"]) > 20


def test_every_image_gets_its_row_also_a_corrupt_one(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    source = shared / "data/t2i_portraits/images/sd35_0004.jpg"
    (folder / "portrait.jpg").write_bytes(source.read_bytes())
    (folder / "corrupt.jpg").write_bytes(source.read_bytes()[:2000])
    Image.fromarray(plain(200, 180, 160, height=HEIGHT, width=WIDTH)).save(folder / "nobody.png")
    names = ("portrait.jpg", "corrupt.jpg", "nobody.png")
    write_csv(folder / "images.csv", IMAGE_COLUMNS[:4], [(Path(name).stem, name, "A", "p") for name in names])
    write_csv(folder / "prompts.csv", PROMPT_COLUMNS, [("p", "profession", "nurse", "a photo of a nurse")])
    labels = [(Path(name).stem, "ann", "skin_tone", "monk_05", "") for name in names]
    write_csv(folder / "labels.csv", LABEL_COLUMNS[:5], labels)
    detectors = [build_detector("skin-tone")]
    run_detectors(ImageSet.load(folder), detectors, tmp_path / "out", weights=ANYWHERE, settings=RunSettings())
    table = pq.read_table(tmp_path / "out" / "skin-tone").to_pylist()
    rows = {row["image_id"]: row for row in table}
    assert {name: row["status"] for name, row in rows.items()} == {
        "portrait": "clear",
        "corrupt": "error",
        "nobody": "filtered",
    }
    assert rows["nobody"]["reason"] == "no_face"
    assert rows["portrait"]["label"] in MONK_SHADES
    assert 0 < rows["portrait"]["value"] < 255
