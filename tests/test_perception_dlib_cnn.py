"""dlib's CNN face detector without dlib: its file, its tiled pyramid, and the same boxes as dlib's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dlib
import numpy as np
import pytest
from PIL import Image
from running import Pixels, found_by, noise, plain, read_image

from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.perception.faces.dlib_cnn_network import OnnxFaceNetwork, strips
from detector_bench.perception.faces.dlib_cnn_pyramid import (
    Level,
    find_boxes,
    plan_pyramid,
    resize_bilinear,
    tile,
)
from detector_bench.perception.faces.dlib_cnn_stages import DlibCnnOnnxFaces, DlibCnnTorchFaces
from detector_bench.perception.faces.dlib_cnn_weights import DetectorWeights, read_detector
from detector_bench.perception.faces.dlib_faces import DlibCnnFaces
from detector_bench.perception.faces.dlib_resizing import double, resize, resize_to_longest, sides_for
from detector_bench.perception.stage import Arrays, Stage
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES

pytestmark = pytest.mark.slow

ANYWHERE = WeightsLocator(cache=Path("nowhere"))


@pytest.fixture(scope="module")
def file() -> Path:
    # Importing the package that carries it needs setuptools, which may be missing; finding its files does not.
    found = ANYWHERE.find(DLIB_CNN_FACES)
    if found is None:
        pytest.skip("the package face-recognition-models, which carries dlib's network, is not installed")
    return found


@pytest.fixture(scope="module")
def weights(file: Path) -> DetectorWeights:
    return read_detector(file)


def shrunk(path: Path, side: int) -> Pixels:
    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((side, side))
        return np.asarray(small)


@pytest.fixture(scope="module")
def small_images(shared: Path) -> list[Pixels]:
    """Portraits and group scenes of at most 240 pixels, some of them cut to odd sizes, so that dlib is quick."""
    portraits = sorted((shared / "data" / "t2i_portraits" / "images").iterdir())
    scenes = sorted((shared / "data" / "group_scenes" / "images").iterdir())
    images = [shrunk(path, 240) for path in (*portraits[:300:100], *scenes[:6:5])]
    return [images[0], images[1][:203, 20:], images[2][30:], images[3], images[4], images[0][:, 40:171]]


@pytest.fixture(scope="module")
def dlibs(small_images: list[Pixels]) -> list[Arrays]:
    return found_by(DlibCnnFaces(), small_images, weights=ANYWHERE)


def assert_same_faces(found: list[Arrays], expected: list[Arrays]) -> None:
    assert sum(len(faces["scores"]) for faces in expected) > 0
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(ours["corners"], theirs["corners"], err_msg=f"image {number}")
        np.testing.assert_allclose(ours["scores"], theirs["scores"], atol=1e-4, err_msg=f"image {number}")


# The file


def test_the_file_holds_dlibs_window_colours_and_thresholds(weights: DetectorWeights) -> None:
    assert weights.window == (80, 80)
    assert weights.mean_colour == pytest.approx((122.782, 117.001, 104.298), abs=1e-5)
    assert weights.overlap_iou == pytest.approx(0.338276, abs=1e-6)
    assert weights.overlap_covered == 1
    sizes = [layer.filters.shape for layer in weights.convolutions]
    assert sizes[0] == (16, 3, 5, 5)
    assert sizes[3:] == [(45, 32, 5, 5), (45, 45, 5, 5), (45, 45, 5, 5), (1, 45, 9, 9)]
    # The last layer has no normalisation after it: its first weight and its bias stand in the file as they are.
    assert weights.convolutions[-1].filters[0, 0, 0, 0] == pytest.approx(-0.00076075, rel=1e-4)
    assert weights.convolutions[-1].biases[0] == pytest.approx(-0.24727094, rel=1e-6)


@pytest.mark.parametrize("end", [0, 1, 12, 60, 150, 5000, 300_000, -1])
def test_a_file_that_ends_early_is_damaged(file: Path, tmp_path: Path, end: int) -> None:
    short = tmp_path / "short.dat"
    short.write_bytes(file.read_bytes()[:end])
    with pytest.raises(WeightsError, match=r"short\.dat is damaged: it ends at byte"):
        read_detector(short)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (4, b"x", "the outermost layer is 'xoss_mmod_'"),
        (17, b"\x51", r"the face window is \(81, 80\)"),
        (2, b"\x00", "the length of a number is 0 bytes"),
        (2, b"\x7f", "the length of a number is 127 bytes"),
        (137, b"f", "a layer is 'fon_4'"),
        (152, b"\xff", r"the shape of a tensor is \(1216, 1, 1, 255\) \(accepted: 1216 values\)"),
        (153, b"\x00\x00\xc0\x7f", "infinite or not a number"),
        (153, b"\x00\x00\x80\x7f", "infinite or not a number"),
        (729_940, b"\x00", "1 more bytes"),
    ],
)
def test_changed_bytes_are_named(file: Path, tmp_path: Path, at: int, value: bytes, message: str) -> None:
    content = bytearray(file.read_bytes())
    content[at : at + len(value)] = value
    changed = tmp_path / "changed.dat"
    changed.write_bytes(content)
    with pytest.raises(WeightsError, match=message):
        read_detector(changed)


def test_damage_anywhere_in_the_structure_never_ends_in_another_error(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    changed = tmp_path / "changed.dat"
    refused = 0
    for at in (*range(153), *range(5018, 5130), *range(len(content) - 90, len(content))):
        changed.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            read_detector(changed)
        except WeightsError:
            refused += 1
    assert refused > 200


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be read"):
        read_detector(tmp_path / "missing.dat")
    other = tmp_path / "other.dat"
    other.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(WeightsError, match="not dlib's CNN face detector"):
        read_detector(other)


# The pyramid


def test_the_layout_of_a_small_image_worked_out_by_hand() -> None:
    pyramid = plan_pyramid(width=100, height=60)
    assert (pyramid.width, pyramid.height) == (122, 275)
    assert pyramid.levels == (
        # Down at the left, 10 pixels apart, until the sixth fits beside the fifth: 39 + 10 + 47 < 100 ...
        Level(11, 11, 100, 60),
        Level(11, 81, 83, 50),
        Level(11, 141, 69, 41),
        Level(11, 192, 57, 34),
        Level(11, 236, 47, 28),
        # ... and up at the right, from the same last row, each ending in the same last column.
        Level(72, 241, 39, 23),
        Level(79, 212, 32, 19),
        Level(85, 187, 26, 15),
        Level(90, 165, 21, 12),
        Level(94, 145, 17, 10),
        Level(97, 127, 14, 8),
        Level(100, 111, 11, 6),
        Level(102, 96, 9, 5),
    )


def test_a_tiled_image_has_levels_at_their_places_and_zeros_between() -> None:
    pyramid = plan_pyramid(width=100, height=60)
    canvas = tile(plain(228, 117, 40, height=60, width=100), pyramid, mean_colour=(100.0, 117.0, 104.0))
    assert canvas.shape == (3, 275, 122)
    covered = np.zeros((275, 122), bool)
    for left, top, width, height in pyramid.levels:
        covered[top : top + height, left : left + width] = True
    np.testing.assert_allclose(canvas[:, covered].T, np.tile([0.5, 0, -0.25], (covered.sum(), 1)), atol=1e-6)
    assert not canvas[:, ~covered].any()


@pytest.mark.parametrize("size", [(30, 44), (12, 7), (1, 1)])
def test_resizing_is_dlibs(weights: DetectorWeights, size: tuple[int, int]) -> None:
    planes = np.random.default_rng(0).random((3, 37, 53), dtype=np.float32)
    expected = np.stack([dlib.resize_image(plane, *size) for plane in planes])
    np.testing.assert_allclose(resize_bilinear(planes, *size), expected, atol=1e-5)
    np.testing.assert_allclose(OnnxFaceNetwork(weights).resize(planes, *size), expected, atol=1e-5)


@pytest.mark.parametrize("image", [noise(70, 91), plain(201, 7, 255, height=130, width=60), noise(1, 1)])
def test_doubling_is_dlibs(image: Pixels) -> None:
    height, width = image.shape[:2]
    np.testing.assert_array_equal(double(image), dlib.resize_image(image, 2 * height + 1, 2 * width + 2))


@pytest.mark.parametrize("side", [33, 47, 240, 301, 800])
def test_pixels_are_resized_as_by_dlib(small_images: list[Pixels], side: int) -> None:
    for image in (*small_images[1:4], noise(61, 200), plain(201, 7, 255, height=130, width=60)):
        resized = resize_to_longest(image, side)
        assert max(resized.shape) == side
        expected = dlib.resize_image(np.ascontiguousarray(image), *resized.shape[:2])
        np.testing.assert_array_equal(resized, expected)


def test_pixels_are_resized_as_by_dlib_to_any_size() -> None:
    sizes = np.random.default_rng(0).integers(2, 150, (60, 4))
    for rows, columns, height, width in sizes:
        image = noise(rows, columns)
        np.testing.assert_array_equal(
            resize(image, height=height, width=width), dlib.resize_image(image, int(height), int(width))
        )


def test_the_shorter_side_is_cut_off_to_whole_pixels() -> None:
    assert sides_for(width=1000, height=667, longest_side=800) == (800, 533)
    assert sides_for(width=667, height=1000, longest_side=800) == (533, 800)
    assert sides_for(width=300, height=300, longest_side=800) == (800, 800)
    assert sides_for(width=1, height=2000, longest_side=800) == (1, 800)


# From scores to boxes


def scores_at(*cells: tuple[int, int, float]) -> Any:
    scores = np.full((31, 12), -1, np.float32)
    for row, column, score in cells:
        scores[row, column] = score
    return scores


def test_a_window_becomes_a_box_of_the_image(weights: DetectorWeights) -> None:
    pyramid = plan_pyramid(width=100, height=60)
    # Centre (8 x 5 + 14) - 11 = 43 in the image itself: 43 - 39.5 = 3.5 rounds to 4, 43 + 39.5 = 82.5 to 83.
    corners, found = find_boxes(scores_at((5, 5, 0.75)), pyramid, weights, upsample=0)
    np.testing.assert_array_equal(corners, [[4, 4, 84, 84]])
    np.testing.assert_array_equal(found, np.float32([0.75]))
    # Centre (46, 118) is (35, 37) in the second level; edges -4.5, -2.5, 74.5, 76.5 times 1.2 plus 0.3.
    corners, _ = find_boxes(scores_at((13, 4, 0.75)), pyramid, weights, upsample=0)
    np.testing.assert_array_equal(corners, [[-5, -3, 91, 93]])
    # 4 / 2 - 1.25, 4 / 2 - 0.75, 83 / 2 - 1.25, 83 / 2 - 0.75, rounded; the last two plus 1.
    corners, _ = find_boxes(scores_at((5, 5, 0.75)), pyramid, weights, upsample=1)
    np.testing.assert_array_equal(corners, [[1, 1, 41, 42]])


def test_the_weaker_of_two_overlapping_boxes_goes(weights: DetectorWeights) -> None:
    pyramid = plan_pyramid(width=100, height=60)
    # 16 and 24 pixels apart: 64 x 56 in common, of 96 x 104 around both: 0.359.
    _, found = find_boxes(scores_at((2, 2, 0.5), (5, 4, 0.75)), pyramid, weights, upsample=0)
    np.testing.assert_array_equal(found, np.float32([0.75]))
    # 24 and 24 apart: 56 x 56 of 104 x 104 around both is 0.29, though 0.32 of the area that they cover.
    near = replace(weights, overlap_iou=0.3)
    _, found = find_boxes(scores_at((2, 2, 0.5), (5, 5, 0.75)), pyramid, near, upsample=0)
    np.testing.assert_array_equal(found, np.float32([0.75, 0.5]))


def test_no_score_above_zero_is_no_box(weights: DetectorWeights) -> None:
    corners, found = find_boxes(scores_at((5, 5, 0.0)), plan_pyramid(width=100, height=60), weights, upsample=0)
    assert corners.shape == (0, 4)
    assert found.shape == (0,)


# The network


def test_strips_cover_every_output_row_once() -> None:
    for height in (28, 29, 36, 37, 500, 1782):
        found = strips(height=height, width=502, pixels_at_once=100_000)
        rows = [strip.good.stop - strip.good.start for strip in found]
        assert sum(rows) == max(0, (height - 29) // 8 + 1)
        assert all(strip.pixel_rows.stop <= height for strip in found)


def test_a_score_map_in_strips_is_the_one_at_once(weights: DetectorWeights) -> None:
    image = noise(200, 150)
    pyramid = plan_pyramid(width=150, height=200)
    (whole,) = OnnxFaceNetwork(weights).scores([image], pyramid)
    (cut,) = OnnxFaceNetwork(weights, pixels_at_once=20_000).scores([image], pyramid)
    assert len(strips(height=pyramid.height, width=pyramid.width, pixels_at_once=20_000)) > 4
    np.testing.assert_allclose(cut, whole, atol=1e-5)


def test_a_missing_package_is_named(weights: DetectorWeights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="'onnx'"):
        OnnxFaceNetwork(weights)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="'torch'"):
        DlibCnnTorchFaces().load(ANYWHERE)


def test_a_missing_gpu_is_named(weights: DetectorWeights) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ConfigError, match="device 'cuda' is asked for"):
        DlibCnnTorchFaces(device="cuda").load(ANYWHERE)


# The stages


def stages(**fields: Any) -> Iterator[Stage]:
    yield DlibCnnOnnxFaces(**fields)
    try:
        import torch  # type: ignore[import-not-found,unused-ignore] # noqa: F401
    except ModuleNotFoundError:
        return
    yield DlibCnnTorchFaces(device="cpu", **fields)


def test_faces_are_dlibs(small_images: list[Pixels], dlibs: list[Arrays]) -> None:
    for stage in stages():
        assert_same_faces(found_by(stage, small_images, weights=ANYWHERE), dlibs)


def test_faces_of_doubled_images_are_dlibs(small_images: list[Pixels]) -> None:
    tiny = [np.asarray(Image.fromarray(image).resize((121, 110))) for image in small_images[:2]]
    expected = found_by(DlibCnnFaces(upsample=1), tiny, weights=ANYWHERE)
    for stage in stages(upsample=1):
        assert_same_faces(found_by(stage, tiny, weights=ANYWHERE), expected)


def test_faces_of_resized_images_are_dlibs_in_pixels_of_the_original(small_images: list[Pixels]) -> None:
    longest_side = 230
    images = [np.ascontiguousarray(image) for image in small_images[1:3]]
    expected = []
    for image in images:
        height, width = image.shape[:2]
        new_width, new_height = sides_for(width=width, height=height, longest_side=longest_side)
        (found,) = found_by(DlibCnnFaces(), [dlib.resize_image(image, new_height, new_width)], weights=ANYWHERE)
        factors = np.array([width / new_width, height / new_height] * 2)
        expected.append({**found, "corners": found["corners"] * factors})
    for stage in (*stages(longest_side=longest_side), DlibCnnFaces(longest_side=longest_side)):
        for ours, theirs in zip(found_by(stage, images, weights=ANYWHERE), expected, strict=True):
            assert len(theirs["scores"]) > 0
            np.testing.assert_allclose(ours["corners"], theirs["corners"], atol=1e-3)
            np.testing.assert_allclose(ours["scores"], theirs["scores"], atol=1e-4)


def test_results_do_not_depend_on_the_other_images(small_images: list[Pixels]) -> None:
    mixed = [small_images[0], small_images[3], small_images[0][::-1].copy(), small_images[0]]
    for stage in stages():
        together = found_by(stage, mixed, weights=ANYWHERE)
        alone = [found_by(stage, [image], weights=ANYWHERE)[0] for image in mixed]
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(one["corners"], other["corners"])
            np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (31, 200), (200, 31), (32, 32), (33, 400)])
def test_images_of_any_size_run(weights: DetectorWeights, size: tuple[int, int]) -> None:
    for stage in stages():
        (found,) = found_by(stage, [noise(*size)], weights=ANYWHERE)
        assert found["corners"].shape == (0, 4)


def test_a_damaged_network_is_named_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "network.dat").write_bytes(b"no network")
    for stage in stages(network={"path": str(tmp_path / "network.dat")}):
        with pytest.raises(WeightsError, match=r"network\.dat"):
            stage.load(ANYWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("upsample", [0, 1])
def test_many_faces_are_dlibs(shared: Path, upsample: int) -> None:
    paths = [
        path
        for name, step in (("t2i_portraits", 24), ("group_scenes", 6))
        for path in sorted((shared / "data" / name / "images").iterdir())[::step]
    ]
    images = [shrunk(path, 320) if upsample else read_image(path) for path in paths]
    expected = found_by(DlibCnnFaces(upsample=upsample), images, weights=ANYWHERE)
    for stage in stages(upsample=upsample):
        assert_same_faces(found_by(stage, images, weights=ANYWHERE), expected)
