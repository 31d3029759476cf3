"""Classifiers in ONNX files: small networks whose numbers are known, and files that do not fit the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector_bench_next.detector import Stages, build
from detector_bench_next.detectors.classifiers import Input, OnnxOutputs
from detector_bench_next.errors import ConfigError, WeightsError
from detector_bench_next.weights import Where
from tests_next.detectors.conftest import framed

onnx = pytest.importorskip("onnx")
cv2 = pytest.importorskip("cv2")
H, TENSOR = onnx.helper, onnx.TensorProto


def network(
    path: Path, shape: tuple[Any, ...] = ("n", 2, 2, 3), outputs: int = 1, kind: int = TENSOR.FLOAT
) -> Path:
    """A network whose output is its input's mean over everything but images and channels, as logits [image, 3]."""
    axes = [1, 2] if shape[-1] == 3 else [2, 3]
    names = [f"mean{n or ''}" for n in range(outputs)]
    nodes = [H.make_node("ReduceMean", ["x"], [name], axes=axes, keepdims=0) for name in names]
    given = [H.make_tensor_value_info("x", kind, shape)]
    made = [H.make_tensor_value_info(name, kind, [shape[0], 3]) for name in names]
    model = H.make_model(H.make_graph(nodes, "g", given, made), opset_imports=[H.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def entry(path: Path, **fields: Any) -> dict[str, Any]:
    outputs = {"gender": {"classes": {"a": "male", "b": "female", "c": None}, "activation": "softmax"}}
    return {"kind": "image_classifier", "model": str(path), "outputs": outputs, **fields}


def results(path: Path, *pictures: np.ndarray, **fields: Any) -> list[Any]:
    stage = OnnxOutputs(network={"path": str(path)}, **fields)
    return [found["mean"].tolist() for found in stage.load(Where())([framed(p) for p in pictures])]


RED = np.full((4, 6, 3), (200, 50, 10), np.uint8)


def test_input_is_resized_ordered_scaled_and_laid_out(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx")
    assert results(path, RED) == [[200, 50, 10]], "size and layout are the network's"
    assert results(path, RED, input={"size": (2, 2), "layout": "NHWC", "colour": "BGR"}) == [[10, 50, 200]]
    scaled = {"size": (2, 2), "layout": "NHWC", "scale": 0.5, "mean": (1,), "std": (3, 4, 2)}
    assert results(path, RED, input=scaled) == [[33.0, 6.0, 2.0]]
    channels_first = network(tmp_path / "first.onnx", ("n", 3, 2, 2))
    assert results(channels_first, RED) == [[200, 50, 10]]
    noise = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    wanted = cv2.resize(noise, (2, 2), interpolation=cv2.INTER_LINEAR).astype(np.float32)
    assert np.array_equal(Input(size=(2, 2), layout="NHWC").prepare([noise])[0], wanted)


def test_a_batch_of_one_runs_image_by_image_and_views_are_averaged(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx", (1, 2, 2, 3))
    assert results(path, RED, RED // 2) == [[200, 50, 10], [100, 25, 5]]
    assert results(path, RED, crop={"views": "as_is_and_mirrored"}) == [[200, 50, 10]]


def test_filters_crop_and_reading_make_a_prediction(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx")
    detector = build("detector", entry(path, input={"size": [2, 2], "layout": "NHWC", "scale": 0.1}))
    (male, other) = Stages([detector], Where()).predict([framed(RED, "red"), framed(RED[..., ::-1], "blue")])
    shares = np.exp([20, 5, 1]) / np.exp([20, 5, 1]).sum()
    assert (male.label, male.score) == ("male", pytest.approx(shares[0]))
    assert (other.status, other.reason) == ("filtered", "other_class")
    skipped = build("detector", entry(path, filters=[{"kind": "face", "faces": "yunet_faces"}]))
    assert [stage.kind for stage in skipped.stages()] == ["onnx_outputs", "yunet_faces"]


def test_numbers_that_are_not_finite_are_that_images_error(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx")
    detector = build("detector", entry(path, input={"std": [1e-37]}))  # beyond float32
    (row,) = Stages([detector], Where()).predict([framed(RED)])
    assert row.reason == "stage_failed: ValueError: output 'mean' holds values that are not finite"


MISFITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"input": {"size": [3, 3], "layout": "NHWC"}}, r"the shape \['n', 2, 2, 3\], but `input` makes it"),
    ({"shape": ("n", "h", "w", 3)}, {}, "without height and width: say `input"),
    ({"shape": (4, 2, 2, 3)}, {}, "takes 4 images at once: export it with a free first axis"),
    ({"outputs": 2}, {}, r"has 2 outputs: say which by `output` \(mean, mean1\)"),
    ({"kind": TENSOR.DOUBLE}, {}, r"the inputs x \(tensor\(double\)\); accepted: a single one of float32"),
    ({}, {"outputs": {"gender": {"classes": "gear_race5"}}}, "classes of gender|is no class of gender"),
    (
        {},
        {"outputs": {"gender": {"output": "maen", "classes": ["male", "female"]}}},
        "'maen': did you mean 'mean'",
    ),
    ({}, {"outputs": {"gender": ["male", "female"]}}, "has 3 numbers for 2 labels"),
]


@pytest.mark.parametrize(("made", "fields", "line"), MISFITS)
def test_a_network_that_does_not_fit_stops_the_run(
    tmp_path: Path, made: dict[str, Any], fields: dict[str, Any], line: str
) -> None:
    path = network(tmp_path / "net.onnx", **made)
    with pytest.raises(ConfigError, match=line):
        Stages([build("detector", entry(path, **fields))], Where()).predict([framed(RED)])


def test_damaged_files_and_files_beside_them_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = network(tmp_path / "net.onnx")
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:40])
    (tmp_path / "empty.onnx").write_bytes(b"")
    model = onnx.load(path)
    bias = onnx.numpy_helper.from_array(np.ones((1000, 3), np.float32), "bias")
    model.graph.initializer.append(bias)
    onnx.save_model(model, tmp_path / "split.onnx", save_as_external_data=True, size_threshold=10)
    for name, line in (
        ("cut.onnx", "onnxruntime cannot read 'cut.onnx'"),
        ("empty.onnx", "onnxruntime cannot read 'empty.onnx'"),
        ("split.onnx", "keep tensors in other files, whose content would not count: save it as one file"),
    ):
        with pytest.raises(WeightsError, match=line):
            results(tmp_path / name, RED)
    assert capfd.readouterr() == ("", ""), "nothing is printed"
