"""Regions made square, their mirror images, and the averages over both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_networks import mean_colour_classifier
from pydantic import ValidationError
from running import Pixels, frames_of, judged, noise, run_stages

from detector_bench.detectors import build_detector
from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import Crop, boxes, mean_arrays
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.identity import canonical
from detector_bench.perception.networks.onnx_networks import OnnxInput, OnnxOutputs
from detector_bench.perception.square_views import LARGEST_SIDE, averaged, shaped
from detector_bench.perception.stage import Frame
from detector_bench.weights import WeightsLocator

ANYWHERE = WeightsLocator(cache=Path("nowhere"))
FACES = DlibHogFaces()
TALL = noise(20, 9)


def framed(image: Pixels, *corners: list[float]) -> Frame:
    return Frame("one", pixels=image, results={FACES: boxes(corners, [1.0] * len(corners))})


# Shapes


@pytest.mark.parametrize(
    ("fill", "left", "right"),
    [
        ("black", np.zeros(3), np.zeros(3)),
        ("mean", TALL.mean(axis=(0, 1)).round(), TALL.mean(axis=(0, 1)).round()),
        ("edge", TALL[:, :1], TALL[:, -1:]),
    ],
)
def test_padded_keeps_every_pixel_in_the_middle_of_a_square(fill: Any, left: Any, right: Any) -> None:
    found = shaped(TALL, "padded", fill=fill)
    assert found.shape == (20, 20, 3)
    np.testing.assert_array_equal(found[:, 5:14], TALL)
    np.testing.assert_array_equal(found[:, :5], np.broadcast_to(left, (20, 5, 3)))
    np.testing.assert_array_equal(found[:, 14:], np.broadcast_to(right, (20, 6, 3)))
    turned = shaped(TALL.transpose(1, 0, 2), "padded", fill=fill)
    np.testing.assert_array_equal(turned, found.transpose(1, 0, 2))


def test_squashed_shows_the_whole_region_in_a_square() -> None:
    halves = np.zeros((40, 10, 3), np.uint8)
    halves[20:] = 200
    found = shaped(halves, "squashed")
    assert found.shape == (40, 40, 3)
    np.testing.assert_array_equal(found[:18], 0)
    np.testing.assert_array_equal(found[22:], 200)


@pytest.mark.parametrize("shape", ["padded", "squashed"])
def test_a_panorama_fits_into_memory_and_a_thread_is_refused(shape: Any) -> None:
    panorama = np.full((60, 9000, 3), 80, np.uint8)
    found = shaped(panorama, shape)
    assert found.shape == (LARGEST_SIDE, LARGEST_SIDE, 3)
    assert (found[LARGEST_SIDE // 2] == 80).all()
    with pytest.raises(ValueError, match="9000 pixels wide and 40 high: too narrow for a square"):
        shaped(panorama[:40], shape)
    assert shaped(panorama, "as_is") is panorama


def test_the_shape_comes_after_the_cut_also_of_a_whole_image() -> None:
    box = [3.0, 1, 8, 15]
    crop = Crop(boxes=FACES, shape="padded")
    np.testing.assert_array_equal(crop.cut(framed(TALL, box)), shaped(TALL[1:15, 3:8], "padded"))
    np.testing.assert_array_equal(Crop(shape="padded").cut(framed(TALL)), shaped(TALL, "padded"))
    assert crop.cut(framed(TALL)) is None


def test_defaults_leave_stored_results_as_they_are_and_other_shapes_do_not() -> None:
    def parameters(**settings: Any) -> set[str]:
        return set(canonical(Crop(**settings), weights=ANYWHERE)["parameters"])

    before = {"boxes", "margin", "square", "outside", "without_box", "reason"}
    assert parameters() == before
    assert parameters(shape="padded", fill="mean") == {*before, "shape", "fill"}
    assert parameters(views="as_is_and_mirrored") == {*before, "views"}


def test_a_fill_without_padding_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="fill needs `shape: padded`"):
        Crop(fill="mean")
    with pytest.raises(ConfigError, match="crop_fill needs `crop_shape: padded`"):
        build_detector("clip_enhance", parameters={"crop_fill": "edge", "crop_shape": "squashed"})


# Views


def test_two_views_are_the_region_and_its_mirror_image() -> None:
    crop = Crop(boxes=FACES, views="as_is_and_mirrored")
    region, mirror = crop.seen(framed(TALL, [3.0, 1, 8, 15]))
    np.testing.assert_array_equal(region, TALL[1:15, 3:8])
    np.testing.assert_array_equal(mirror, TALL[1:15, 3:8][:, ::-1])
    assert crop.seen(framed(TALL)) == ()
    with pytest.raises(ConfigError, match="averages no views"):
        crop.cut(framed(TALL, [3.0, 1, 8, 15]))


def test_outputs_are_averaged_image_by_image() -> None:
    asked: list[list[int]] = []

    def compute(views: Any) -> list[float]:
        asked.append(list(views))
        return [10.0 * view for view in views]

    assert averaged([[1, 2], [], [5]], compute, lambda found: sum(found) / len(found)) == [15.0, None, 50.0]
    assert averaged([[], []], compute, max) == [None, None]
    assert asked == [[1, 2, 5]], "one call for all views, and none where there is nothing to see"


def left_minus_right(path: Path) -> Path:
    """Two numbers of an image of 4 x 4 pixels: how red its left column is, and its right one."""
    from onnx import helper
    from onnx_networks import save

    weights = np.zeros((48, 2), np.float32)
    red = np.arange(16).reshape(4, 4)
    weights[red[:, 0], 0] = weights[red[:, -1], 1] = 1.0
    return save(
        path,
        [
            helper.make_node("Flatten", ["pixels"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["numbers"]),
        ],
        inputs={"pixels": ["N", 3, 4, 4]},
        outputs={"numbers": ["N", 2]},
        constants={"weights": weights},
    )


def test_an_onnx_network_gives_the_mean_over_both_views(tmp_path: Path) -> None:
    network = left_minus_right(tmp_path / "sides.onnx")
    images = [noise(4, 4, seed=number) for number in range(3)]

    def found(views: Any, images: list[Pixels]) -> Any:
        stage = OnnxOutputs(
            network=str(network), input=OnnxInput(size=(4, 4)), outputs=("numbers",), crop=Crop(views=views)
        )
        frames = frames_of(images)
        run_stages([stage], frames, weights=ANYWHERE)
        return np.stack([frame[stage]["numbers"] for frame in frames])

    as_is, flipped = found("as_is", images), found("as_is", [image[:, ::-1] for image in images])
    assert not np.array_equal(as_is, flipped)
    both = found("as_is_and_mirrored", images)
    np.testing.assert_allclose(both, (as_is + flipped) / 2)
    assert both.dtype == np.float32


def test_of_whole_numbers_there_is_no_mean() -> None:
    with pytest.raises(ValueError, match="'kinds' is int64"):
        mean_arrays([{"kinds": np.array([1])}, {"kinds": np.array([2])}])


def test_clip_enhance_hands_shape_and_views_on_to_the_classifier(tmp_path: Path) -> None:
    network = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]])
    reading = {"read": "classes", "output": "numbers", "classes": ["male", "female"], "activation": "softmax"}
    classifier = {"kind": "onnx", "network": str(network), "outputs": {"gender": reading}}
    parameters = {
        "face_filter": None,
        "person_filter": None,
        "crop_to_person": False,
        "classifier": {**classifier, "input": {"size": [4, 4], "scale": 1 / 255}},
    }
    red = np.zeros((40, 10, 3), np.uint8)
    red[..., 0] = 240

    def score(**settings: Any) -> float | None:
        [found] = judged(
            build_detector("clip_enhance", parameters={**parameters, **settings}), [red], weights=ANYWHERE
        )
        return found.score

    def softmax(mean_red: float) -> float:
        return float(1 / (1 + np.exp(-mean_red / 255)))

    assert score() == pytest.approx(softmax(240), abs=1e-5)
    assert score(crop_shape="squashed", views="as_is_and_mirrored") == pytest.approx(softmax(240), abs=1e-5)
    assert score(crop_shape="padded") == pytest.approx(softmax(60), abs=0.01)
    assert score(crop_shape="padded", crop_fill="mean") == pytest.approx(softmax(240), abs=1e-5)
