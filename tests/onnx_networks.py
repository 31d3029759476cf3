"""Tiny ONNX networks whose outputs can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Size = int | str


def save(
    path: Path,
    nodes: Sequence[Any],
    *,
    inputs: dict[str, Sequence[Size]],
    outputs: dict[str, Sequence[Size] | None],
    constants: dict[str, NDArray[Any]] | None = None,
    input_type: int = TensorProto.FLOAT,
    facts: dict[str, str] | None = None,
) -> Path:
    """Write a network; sizes with a name are free."""
    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [helper.make_tensor_value_info(name, input_type, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        initializer=[numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, facts or {})
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def mean_colour_classifier(
    path: Path,
    matrix: Sequence[Sequence[float]],
    *,
    layout: str = "NCHW",
    activation: str | None = None,
    batch: Size = "N",
    size: tuple[Size, Size] = (4, 4),
    bias: Sequence[float] | None = None,
) -> Path:
    """A network that multiplies the mean of each channel, (N, 3), with a (3, classes) matrix and adds a bias.

    Args:
        path: where it is written.
        matrix: its weights.
        layout: of its input.
        activation: an operator for the end, such as `Softmax`.
        batch: number of images, or a name.
        size: height and width of its input.
        bias: one number per class.
    """
    weights = np.asarray(matrix, np.float32)
    classes = weights.shape[1]
    constants = {"matrix": weights, "bias": np.asarray([0.0] * classes if bias is None else bias, np.float32)}
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["means"], axes=axes, keepdims=0),
        helper.make_node("Gemm", ["means", "matrix", "bias"], ["numbers"]),
    ]
    if activation is not None:
        nodes.append(helper.make_node(activation, ["numbers"], ["answers"]))
    shape = [batch, 3, *size] if layout == "NCHW" else [batch, *size, 3]
    last = "numbers" if activation is None else "answers"
    return save(path, nodes, inputs={"image": shape}, outputs={last: [batch, classes]}, constants=constants)


def numbers_beside(path: Path, location: str = "net.onnx.data") -> Path:
    """Move a network's constants out of its file, as the package onnx does it; where they are then."""
    onnx.save(onnx.load(path), path, save_as_external_data=True, location=location, size_threshold=0)
    return path.parent / location
