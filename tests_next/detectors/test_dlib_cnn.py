"""dlib's CNN face detector without dlib: its weights, its tiled pyramid, and the boxes of dlib itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detector_bench_next.detector import Pixels, fingerprint
from detector_bench_next.detectors.dlib_cnn import (
    DlibCnnFaces,
    Pyramid,
    double,
    find_boxes,
    plan,
    resize,
    resize_to_longest,
    strips,
)
from detector_bench_next.errors import WeightsError
from tests_next.detectors.pictures import HERE, files, noise, plain, read, results

dlib = pytest.importorskip("dlib")
RUNTIMES = ["onnx", pytest.param("torch", marks=pytest.mark.slow)]
TORCH = find_spec("torch") is not None


def stage(runtime: str = "onnx", **fields: Any) -> DlibCnnFaces:
    if runtime == "torch" and not TORCH:
        pytest.skip("torch is not installed")
    return DlibCnnFaces(runtime=runtime, device="cpu" if runtime == "torch" else "auto", **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def small(shared: Path) -> list[Pixels]:
    """Portraits and a group of at most 240 pixels, some cut to odd sizes, so that dlib is quick."""
    a, b, c = (read(path, 240) for path in files(shared, "t2i_portraits", 100)[:3])
    return [a, b[:203, 20:], c[30:], read(files(shared, "group_scenes", 1)[0], 240), a[:, 40:171]]


def of_dlib(image: Pixels, upsample: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Corners and scores by dlib's own detector."""
    model = dlib.cnn_face_detection_model_v1(str(HERE.locate(DlibCnnFaces().network)))
    found = model(np.ascontiguousarray(image), upsample)
    corners = [(f.rect.left(), f.rect.top(), f.rect.right() + 1, f.rect.bottom() + 1) for f in found]
    return np.array(corners, float).reshape(-1, 4), np.array([f.confidence for f in found])


# The pyramid


def test_layout_of_a_small_image_by_hand() -> None:
    down = [(11, 11, 100, 60), (11, 81, 83, 50), (11, 141, 69, 41), (11, 192, 57, 34), (11, 236, 47, 28)]
    # Down at the left, 10 pixels apart, until the sixth fits beside the fifth: 39 + 10 + 47 < 100; then up at
    # the right.
    up = [(72, 241, 39, 23), (79, 212, 32, 19), (85, 187, 26, 15), (90, 165, 21, 12), (94, 145, 17, 10)]
    up += [(97, 127, 14, 8), (100, 111, 11, 6), (102, 96, 9, 5)]
    assert plan(100, 60) == Pyramid(122, 275, (*down, *up))


def found_at(*cells: tuple[int, int, float], upsample: int = 0) -> Any:
    """Corners and scores of an image of 100 x 60 pixels whose network gives these scores, and else -1."""
    scores = np.full((31, 12), -1, np.float32)
    for row, column, score in cells:
        scores[row, column] = score
    return [own.tolist() for own in find_boxes(scores, plan(100, 60), upsample)]


@pytest.mark.parametrize(
    ("cell", "upsample", "box"),
    [
        # Centre (8 x 5 + 14) - 11 = 43 in the image itself: 43 - 39.5 = 3.5 rounds to 4, 82.5 to 83, plus 1.
        ((5, 5), 0, [4, 4, 84, 84]),
        # Centre (46, 118) is (35, 37) in the second level; edges -4.5, -2.5, 74.5, 76.5 times 1.2 plus 0.3.
        ((13, 4), 0, [-5, -3, 91, 93]),
        # 4 / 2 - 1.25, 4 / 2 - 0.75, 83 / 2 - 1.25, 83 / 2 - 0.75, rounded; the last two plus 1.
        ((5, 5), 1, [1, 1, 41, 42]),
    ],
)
def test_a_window_becomes_a_box_of_the_image(cell: tuple[int, int], upsample: int, box: list[int]) -> None:
    assert found_at((*cell, 0.75), upsample=upsample) == [[box], [0.75]]


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (((2, 2, 0.5), (5, 4, 0.75)), [0.75]),  # 16 and 24 pixels apart: 64 x 56 of 96 x 104 is 0.359
        (((2, 2, 0.5), (5, 5, 0.75)), [0.75, 0.5]),  # 56 x 56 of 104 x 104 is 0.29, below 0.338
        (((5, 5, 0.0),), []),  # above 0 is a face
    ],
)
def test_the_weaker_of_two_overlapping_boxes_goes(cells: Any, kept: list[float]) -> None:
    assert found_at(*cells)[1] == kept


def test_strips_cover_each_output_row_once() -> None:
    for height in (28, 29, 36, 37, 500, 1782):
        found = list(strips(height, 502, 100_000))
        assert sum(good.stop - good.start for _, good in found) == max(0, (height - 29) // 8 + 1)
        assert all(rows.stop <= height for rows, _ in found)


# Resizing in 8 bits


def test_pixels_are_resized_as_by_dlib() -> None:
    sizes = np.random.default_rng(0).integers(2, 150, (60, 4))
    for rows, columns, height, width in sizes.tolist():
        for image in (noise(rows, columns), plain(201, 7, 255, height=rows, width=columns)):
            ours = resize(image, height=height, width=width)
            np.testing.assert_array_equal(ours, dlib.resize_image(image, height, width))
    image = noise(70, 91)
    np.testing.assert_array_equal(double(image), dlib.resize_image(image, 141, 184))


def test_the_shorter_side_is_cut_off() -> None:
    sizes = {(667, 1000): (533, 800), (300, 300): (800, 800), (2000, 1): (800, 1)}
    assert {size: resize_to_longest(noise(*size), 800).shape[:2] for size in sizes} == sizes
    assert resize_to_longest(noise(9, 8), None).shape == (9, 8, 3)


# Faces


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("upsample", [0, 1])
def test_faces_are_dlibs(small: list[Pixels], runtime: str, upsample: int) -> None:
    images = [np.asarray(Image.fromarray(own).resize((121, 110))) for own in small[:2]] if upsample else small
    total = 0
    for image, ours in zip(images, results(stage(runtime, upsample=upsample), images), strict=True):
        corners, scores = of_dlib(image, upsample)
        np.testing.assert_array_equal(ours["corners"], corners)
        np.testing.assert_allclose(ours["scores"], scores, atol=1e-4)
        total += len(scores)
    assert total >= 2


def test_an_image_below_32_pixels_has_no_face() -> None:  # there dlib itself damages the process's memory
    assert [len(one["scores"]) for one in results(stage(), [noise(1, 1), noise(31, 200)])] == [0, 0]


# Fields


def test_the_runtime_decides_no_result() -> None:
    prints = {fingerprint(stage(runtime), HERE) for runtime in ("onnx", "torch")}
    assert len(prints) == 1
    assert fingerprint(stage(upsample=1), HERE) not in prints


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.dat").write_bytes(b"no network")
    with pytest.raises(WeightsError, match=r"mine\.dat is not dlib's mmod_human_face_detector\.dat"):
        stage(network={"path": str(tmp_path / "mine.dat")}).load(HERE)
