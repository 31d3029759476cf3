"""Any ONNX network on crops: what it is fed, what it gives, and which networks are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_networks import mean_colour_classifier, save
from pydantic import ValidationError
from running import frames_of, noise, plain, run_stages

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.boxes import Crop, boxes
from detector_bench.perception.faces.dlib_faces import DlibHogFaces
from detector_bench.perception.networks.onnx_networks import OnnxInput, OnnxOutputs
from detector_bench.weights import WeightsLocator

INTERPOLATIONS = {"bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "bicubic": cv2.INTER_CUBIC}
ANYWHERE = WeightsLocator(cache=Path("nowhere"))


def outputs_of(path: Path, images, *, outputs: tuple[str, ...] = ("numbers",), **settings: Any):
    """The outputs of a network on whole images."""
    stage = OnnxOutputs(
        network=str(path), input=OnnxInput.model_validate({"size": [4, 4], **settings}), outputs=outputs
    )
    frames = frames_of(images)
    run_stages([stage], frames, weights=ANYWHERE)
    return [frame[stage] for frame in frames]


def loading(path: Path, *, outputs: tuple[str, ...] = ("numbers",), **settings: Any) -> None:
    stage = OnnxOutputs(
        network=str(path), input=OnnxInput.model_validate({"size": [4, 4], **settings}), outputs=outputs
    )
    stage.load(ANYWHERE)


# The input


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": 1 / 255},
        {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        {"mean": [127.5], "std": [128.0]},
        {"colour": "BGR", "mean": [104.0, 117.0, 123.0]},
        {"colour": "BGR", "scale": 1 / 255, "mean": [0.5], "std": [0.5], "interpolation": "area"},
        {"interpolation": "bicubic"},
    ],
)
def test_input_equals_one_worked_out_pixel_by_pixel(layout: str, settings: dict[str, Any]) -> None:
    crops = [noise(9, 13, seed=1), noise(5, 7, seed=2), noise(30, 20, seed=3)]
    prepared = OnnxInput.model_validate({"size": [5, 7], "layout": layout, **settings}).prepare(crops)
    mean, std = settings.get("mean", [0.0]), settings.get("std", [1.0])
    for number, crop in enumerate(crops):
        resized = cv2.resize(crop, (7, 5), interpolation=INTERPOLATIONS[settings.get("interpolation", "bilinear")])
        order = (2, 1, 0) if settings.get("colour") == "BGR" else (0, 1, 2)
        for place, channel in enumerate(order):
            values = resized[:, :, channel].astype(np.float32)
            values = values * np.float32(settings.get("scale", 1.0))
            values = values - np.float32(mean[place % len(mean)])
            values = values / np.float32(std[place % len(std)])
            found = prepared[number, place] if layout == "NCHW" else prepared[number, :, :, place]
            np.testing.assert_array_equal(found, values)
    assert prepared.dtype == np.float32
    assert prepared.flags.c_contiguous
    assert prepared.shape == ((3, 3, 5, 7) if layout == "NCHW" else (3, 5, 7, 3))


def test_nearest_neighbour_keeps_pixels_as_they_are() -> None:
    checks = np.zeros((2, 2, 3), np.uint8)
    checks[0, 0] = checks[1, 1] = 255
    (prepared,) = OnnxInput(size=(4, 4), layout="NHWC", interpolation="nearest").prepare([checks])
    np.testing.assert_array_equal(prepared, np.kron(checks, np.ones((2, 2, 1))))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": [0, 4]}, "both above 0; got \\[0, 4\\]"),
        ({"size": [4]}, "size"),
        ({"size": [4, 4], "mean": [1, 2]}, "mean has one value or three; got 2"),
        ({"size": [4, 4], "std": [1, 0, 1]}, "std divides, so it may not be 0"),
        ({"size": [4, 4], "std": []}, "std has one value or three; got 0"),
        ({"size": [4, 4], "layout": "HWC"}, "'NHWC' or 'NCHW'"),
        ({"size": [4, 4], "color": "BGR"}, "color"),
    ],
)
def test_wrong_inputs_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OnnxInput.model_validate(wrong)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_size_and_layout_left_out_are_those_that_the_network_declares(tmp_path: Path, layout: str) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 1], [0, 0]], layout=layout, size=(4, 5))
    images = [plain(10, 20, 30), noise(9, 13, seed=1)]
    stages = [
        OnnxOutputs(network=str(path)),
        OnnxOutputs(network=str(path), input=OnnxInput(size=(4, 5), layout=layout), outputs=("numbers",)),
    ]
    frames = frames_of(images)
    run_stages(stages, frames, weights=ANYWHERE)
    for frame in frames:
        left_out, spelt_out = (frame[stage]["numbers"] for stage in stages)
        np.testing.assert_array_equal(left_out, spelt_out)


def test_what_a_network_leaves_open_has_to_be_said(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1], [0], [0]], size=("H", "W"))
    with pytest.raises(ConfigError, match=r"\['N', 3, 'H', 'W'\].*say `input: \{size: \[HEIGHT, WIDTH\]"):
        OnnxOutputs(network=str(path)).load(ANYWHERE)


# The outputs


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("batch", ["N", 1])
def test_mean_colours_times_a_matrix(tmp_path: Path, layout: str, batch: int | str) -> None:
    matrix = [[1, 0], [0, 2], [1, 1]]
    path = mean_colour_classifier(tmp_path / "net.onnx", matrix, layout=layout, batch=batch, bias=[5, 0])
    found = outputs_of(path, [plain(10, 20, 30), plain(1, 0, 0), plain(0, 0, 255)], layout=layout)
    # r + b + 5 and 2 g + b
    assert [one["numbers"].tolist() for one in found] == [[45, 70], [6, 0], [260, 255]]


def test_colour_order(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0], [0, 0], [0, 1]])
    (found,) = outputs_of(path, [plain(10, 20, 30)], colour="BGR")
    assert found["numbers"].tolist() == [30, 10]


def test_free_sizes_take_any_size(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3, size=("height", "width"))
    (found,) = outputs_of(path, [plain(1, 2, 3)], size=[7, 9])
    assert found["numbers"].tolist() == [6, 0]


def test_only_images_with_a_crop_are_run(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3)
    faces = DlibHogFaces()
    stage = OnnxOutputs(
        network=str(path), input=OnnxInput(size=(4, 4)), crop=Crop(boxes=faces), outputs=("numbers",)
    )
    image = np.concatenate([plain(1, 1, 1), plain(9, 9, 9)], axis=1)
    frames = frames_of([image] * 4)
    for frame, corners in zip(frames, ([[0, 0, 8, 8]], [], [[8, 0, 16, 8]], []), strict=True):
        frame.results[faces] = boxes(corners, [1.0] * len(corners))
    found = stage.load(ANYWHERE)(frames)
    assert [{name: array.tolist() for name, array in one.items()} for one in found] == [
        {"numbers": [3, 0]},
        {},
        {"numbers": [27, 0]},
        {},
    ]
    assert stage.load(ANYWHERE)([frames[1], frames[3]]) == [{}, {}]


def test_chosen_outputs_in_any_order(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("Identity", ["image"], ["pixels"]),
        helper.make_node("Neg", ["means"], ["negative"]),
    ]
    path = save(
        tmp_path / "net.onnx",
        nodes,
        inputs={"image": ["N", 3, 4, 4]},
        outputs={"means": ["N", 3], "pixels": ["N", 3, 4, 4], "negative": ["N", 3]},
    )
    first, second = outputs_of(path, [plain(1, 2, 3), plain(4, 5, 6)], outputs=("negative", "pixels"))
    assert set(first) == {"negative", "pixels"}
    assert first["negative"].tolist() == [-1, -2, -3]
    assert second["pixels"].shape == (3, 4, 4)
    # Each image owns its result, so that the cache does not keep a whole batch alive.
    assert second["pixels"].base is None


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("Log", ["means"], ["numbers"]),
    ]
    path = save(tmp_path / "net.onnx", nodes, inputs={"image": ["N", 3, 4, 4]}, outputs={"numbers": ["N", 3]})
    assert np.isfinite(outputs_of(path, [plain(1, 1, 1)])[0]["numbers"]).all()
    with pytest.raises(ValueError, match="output 'numbers' holds values that are not finite"):
        outputs_of(path, [plain(1, 1, 1), plain(0, 0, 0)])


def test_output_without_an_axis_for_images_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("ReduceMean", ["image"], ["numbers"], axes=[0, 2, 3], keepdims=0)]
    path = save(tmp_path / "net.onnx", nodes, inputs={"image": ["N", 3, 4, 4]}, outputs={"numbers": [3]})
    with pytest.raises(ConfigError, match=r"output 'numbers' has the shape \[3\] for 2 images"):
        outputs_of(path, [plain(1, 1, 1)] * 2)


# Networks that do not fit


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        loading(path, **settings)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_wrong_size_or_layout_is_refused(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3)
    assert refused(path, size=[5, 4]) == (
        "the network's input 'image' has the shape ['N', 3, 4, 4], but size and layout (NCHW) in the "
        "configuration make it ['N', 3, 5, 4]"
    )
    assert refused(path, layout="NHWC").endswith("(NHWC) in the configuration make it ['N', 4, 4, 3]")


def test_fixed_batch_is_refused(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3, batch=8)
    assert refused(path) == (
        "the network takes exactly 8 images at once; export it with a free first axis, or for 1"
    )


def test_unknown_output_gives_the_nearest_names(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1, 0]] * 3)
    assert refused(path, outputs=("number",)) == "no output 'number': did you mean 'numbers'?"
    # What a node gives is no output of the network.
    assert refused(path, outputs=("means",)) == "no output 'means': known: numbers"


def test_several_inputs_are_refused(tmp_path: Path) -> None:
    path = save(
        tmp_path / "net.onnx",
        [helper.make_node("Add", ["image", "other"], ["numbers"])],
        inputs={"image": ["N", 3, 4, 4], "other": ["N", 3, 4, 4]},
        outputs={"numbers": ["N", 3, 4, 4]},
    )
    assert refused(path) == "the network has the inputs ['image', 'other']; it may have only one"


def test_input_of_another_type_is_refused(tmp_path: Path) -> None:
    path = save(
        tmp_path / "net.onnx",
        [helper.make_node("Cast", ["image"], ["numbers"], to=TensorProto.FLOAT)],
        inputs={"image": ["N", 3, 4, 4]},
        outputs={"numbers": ["N", 3, 4, 4]},
        input_type=TensorProto.UINT8,
    )
    assert refused(path) == "input 'image' is tensor(uint8), float32 is needed"


def test_names_and_facts_that_are_no_text_are_refused_in_a_line(tmp_path: Path) -> None:
    path = mean_colour_classifier(tmp_path / "net.onnx", [[1], [0], [0]])
    whole = path.read_bytes()
    fact = b"\x0a\x01a\x12\x02\xff\xfe"
    for content in (whole.replace(b"image", b"im\xffge"), whole + b"\x72" + bytes([len(fact)]) + fact):
        path.write_bytes(content)
        with pytest.raises(WeightsError, match=r"net\.onnx' has a name or a fact about itself that is no text"):
            loading(path)


def test_file_that_is_no_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(WeightsError, match=r"'.*net\.onnx' is no ONNX network"):
        loading(path)
