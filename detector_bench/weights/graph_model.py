"""Makes an ONNX network of a TensorFlow.js graph model, the same bytes on every machine.

Only what small image classifiers consist of is known: convolutions, dense layers, pooling, and arithmetic between
them. tensorflow, which could do it for any model, is a gigabyte that nothing else here needs. A graph model counts
its axes batch, height, width, channel, and ONNX's convolutions batch, channel, height, width: each convolution
stands between two transpositions, which onnxruntime takes out again.

Every node is written once, after what it reads, beginning with the first output; names count up in that order. So
the bytes follow from the model alone, and a sha256 pins the result as it would a file that somebody published.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import WeightsError
from detector_bench.installation import require

_OPSET, _IR_VERSION = 18, 9
_TO_ONNX, _FROM_ONNX = (0, 3, 1, 2), (0, 2, 3, 1)
_DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "int32": np.dtype("<i4"),
    "float16": np.dtype("<f2"),
}
_NO_END = 2**31  # of a slice that goes to the last element

_PLAIN = {
    "Relu": "Relu",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "Add": "Add",
    "AddV2": "Add",
    "Mul": "Mul",
    "RealDiv": "Div",
    "Minimum": "Min",
    "Maximum": "Max",
}
"""Operations that are the same in ONNX, by the name that a graph model has for them."""


def onnx_of_graph_model(model: bytes, weights: bytes, *, outputs: Mapping[str, str]) -> bytes:
    """Convert a graph model to ONNX.

    Args:
        model: its `model.json`.
        weights: its `.bin` files, one behind the other.
        outputs: by the name that the ONNX network's output gets, the node of the graph model that it comes from.

    Raises:
        MissingExtraError: the package onnx is not installed.
        WeightsError: no graph model, weights of another length, or an operation that is not known here.
    """
    try:
        parsed = json.loads(model)
        nodes = {node["name"]: node for node in parsed["modelTopology"]["node"]}
        constants = _constants(parsed["weightsManifest"], weights)
        return _Conversion(nodes, constants).run(outputs)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        # The JSON decoder's and numpy's own mistakes are ValueErrors.
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise WeightsError(f"no TensorFlow.js graph model that can be converted: {reason}") from error


def _constants(manifest: Sequence[Mapping[str, Any]], weights: bytes) -> dict[str, NDArray[Any]]:
    """Arrays by name; 16-bit numbers, in which some files are stored, as the 32 bits that they stand for."""
    found: dict[str, NDArray[Any]] = {}
    start = 0
    for each in (weight for group in manifest for weight in group["weights"]):
        shape = [int(size) for size in each["shape"]]
        stored = _DTYPES[each.get("quantization", {}).get("dtype", each["dtype"])]
        count = prod(shape)
        if count < 0 or start + count * stored.itemsize > len(weights):
            raise ValueError(f"the weights end before {each['name']!r}")
        values = np.frombuffer(weights, stored, count, start).reshape(shape)
        found[each["name"]] = values.astype(_DTYPES[each["dtype"]])
        start += count * stored.itemsize
    if start != len(weights):
        raise ValueError(f"{len(weights)} bytes of weights, expected {start}")
    return found


class _Conversion:
    """One graph model on its way to ONNX.

    Args:
        nodes: of the graph model, by name.
        constants: its weights, by name.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, Any]], constants: Mapping[str, NDArray[Any]]) -> None:
        self._nodes, self._constants = nodes, constants
        onnx = require("onnx", extra="onnx")
        self._proto, self._helper = onnx.TensorProto, onnx.helper
        self._array = require("onnx.numpy_helper", extra="onnx").from_array
        self._made: dict[str, str] = {}
        self._open: set[str] = set()
        self._written: list[Any] = []
        self._initializers: list[Any] = []
        self._inputs: list[Any] = []
        self._count = 0

    def run(self, outputs: Mapping[str, str]) -> bytes:
        for name, node in outputs.items():
            self._written.append(self._helper.make_node("Identity", [self._value(node)], [name]))
        results = [self._helper.make_tensor_value_info(name, self._proto.FLOAT, None) for name in outputs]
        graph = self._helper.make_graph(self._written, "g", self._inputs, results, self._initializers)
        opset = self._helper.make_opsetid("", _OPSET)
        model = self._helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        found: bytes = model.SerializeToString(deterministic=True)
        return found

    def _value(self, reference: str) -> str:
        """The ONNX name of what a node gives."""
        name = reference.removesuffix(":0")
        if name in self._made:
            return self._made[name]
        node = self._nodes[name]
        if node["op"] == "Const":
            return self._constant("c", _whole_numbers(self._constants[name]))
        if name in self._open:
            raise ValueError(f"the node {name!r} reads itself")
        self._open.add(name)
        operation = node["op"]
        if operation in _PLAIN:
            made = self._write(_PLAIN[operation], [self._value(each) for each in node["input"]])
        elif operation in self._rules:
            made = self._rules[operation](node)
        else:
            known = ", ".join(sorted({*_PLAIN, *self._rules, "Const"}))
            raise ValueError(f"the operation {operation!r} is not known (known: {known})")
        self._open.remove(name)
        self._made[name] = made
        return made

    def _placeholder(self, node: Mapping[str, Any]) -> str:
        sizes = [int(each["size"]) for each in node["attr"]["shape"]["shape"]["dim"]]
        shape = ["N", *sizes[1:]]  # however many images at once
        self._inputs.append(self._helper.make_tensor_value_info(node["name"], self._proto.FLOAT, shape))
        return str(node["name"])

    def _convolution(self, node: Mapping[str, Any]) -> str:
        source = self._transposed(self._value(node["input"][0]), _TO_ONNX)
        kernel = self._constants[node["input"][1]]  # height, width, channels in, channels out
        group = 1
        if node["op"] == "DepthwiseConv2dNative":
            group = kernel.shape[2]
            kernel = kernel.transpose(2, 3, 0, 1).reshape(-1, 1, *kernel.shape[:2])
        else:
            kernel = kernel.transpose(3, 2, 0, 1)
        read = [source, self._constant("w", kernel)]
        fused = _fused(node)
        if "BiasAdd" in fused:
            read.append(self._constant("b", self._constants[node["input"][2]]))
        made = self._write(
            "Conv",
            read,
            auto_pad=_padding(node),
            dilations=_numbers(node, "dilations")[1:3],
            group=group,
            strides=_numbers(node, "strides")[1:3],
        )
        return self._transposed(self._activated(made, fused), _FROM_ONNX)

    def _pooling(self, node: Mapping[str, Any]) -> str:
        source = self._transposed(self._value(node["input"][0]), _TO_ONNX)
        made = self._write(
            "MaxPool" if node["op"] == "MaxPool" else "AveragePool",
            [source],
            auto_pad=_padding(node),
            kernel_shape=_numbers(node, "ksize")[1:3],
            strides=_numbers(node, "strides")[1:3],
        )
        return self._transposed(made, _FROM_ONNX)

    def _dense(self, node: Mapping[str, Any]) -> str:
        if any(_flag(node, name) for name in ("transpose_a", "transpose_b")):
            raise ValueError(f"the node {node['name']!r} transposes what it multiplies")
        source = self._value(node["input"][0])
        made = self._write("MatMul", [source, self._constant("w", self._constants[node["input"][1]])])
        fused = _fused(node)
        if "BiasAdd" in fused:
            made = self._write("Add", [made, self._constant("b", self._constants[node["input"][2]])])
        return self._activated(made, fused)

    def _reduction(self, node: Mapping[str, Any]) -> str:
        kept = int(_flag(node, "keep_dims"))
        operation = {"Mean": "ReduceMean", "Max": "ReduceMax"}[node["op"]]
        return self._write(operation, [self._value(each) for each in node["input"]], keepdims=kept)

    def _slice(self, node: Mapping[str, Any]) -> str:
        """A slice of the first axes, of which some are whole and some are left out afterwards."""
        if any(_number(node, mask) for mask in ("ellipsis_mask", "new_axis_mask")):
            raise ValueError(f"the node {node['name']!r} slices in a way that is not known")
        source = self._value(node["input"][0])
        first, last, steps = (_whole_numbers(self._constants[name]) for name in node["input"][1:4])
        axes = range(len(first))
        starts = [0 if _bit(node, "begin_mask", axis) else first[axis] for axis in axes]
        ends = [_NO_END if _bit(node, "end_mask", axis) else last[axis] for axis in axes]
        parts = [self._constant("c", np.array(each, "<i8")) for each in (starts, ends, list(axes), steps)]
        made = self._write("Slice", [source, *parts])
        single = [axis for axis in axes if _bit(node, "shrink_axis_mask", axis)]
        return self._write("Squeeze", [made, self._constant("c", np.array(single, "<i8"))]) if single else made

    def _expansion(self, node: Mapping[str, Any]) -> str:
        source = self._value(node["input"][0])
        axis = _whole_numbers(self._constants[node["input"][1]]).reshape(1)
        return self._write("Unsqueeze", [source, self._constant("c", axis)])

    def _reshaping(self, node: Mapping[str, Any]) -> str:
        return self._write("Reshape", [self._value(each) for each in node["input"]])

    def _softmax(self, node: Mapping[str, Any]) -> str:
        return self._write("Softmax", [self._value(node["input"][0])], axis=-1)

    @property
    def _rules(self) -> dict[str, Callable[[Mapping[str, Any]], str]]:
        return {
            "Placeholder": self._placeholder,
            "Conv2D": self._convolution,
            "_FusedConv2D": self._convolution,
            "DepthwiseConv2dNative": self._convolution,
            "MaxPool": self._pooling,
            "AvgPool": self._pooling,
            "_FusedMatMul": self._dense,
            "MatMul": self._dense,
            "Mean": self._reduction,
            "Max": self._reduction,
            "StridedSlice": self._slice,
            "ExpandDims": self._expansion,
            "Reshape": self._reshaping,
            "Softmax": self._softmax,
            "Identity": lambda node: self._value(node["input"][0]),
        }

    def _transposed(self, source: str, order: Sequence[int]) -> str:
        return self._write("Transpose", [source], perm=order)

    def _activated(self, source: str, fused: Sequence[str]) -> str:
        if unknown := set(fused) - {"BiasAdd", "Relu"}:
            raise ValueError(f"the operation {min(unknown)!r} is not known")
        return self._write("Relu", [source]) if "Relu" in fused else source

    def _write(self, operation: str, read: Sequence[str], **attributes: Any) -> str:
        name = self._name(operation)
        self._written.append(self._helper.make_node(operation, list(read), [name], **attributes))
        return name

    def _constant(self, prefix: str, values: NDArray[Any]) -> str:
        name = self._name(prefix)
        self._initializers.append(self._array(np.ascontiguousarray(values), name))
        return name

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"


def _whole_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers with the 64 bits that ONNX wants for shapes and axes; others as they are."""
    return values.astype("<i8") if values.dtype.kind == "i" else values


def _numbers(node: Mapping[str, Any], name: str) -> list[int]:
    return [int(each) for each in node["attr"][name]["list"]["i"]]


def _number(node: Mapping[str, Any], name: str) -> int:
    return int(node["attr"].get(name, {}).get("i", 0))


def _bit(node: Mapping[str, Any], name: str, axis: int) -> bool:
    return bool(_number(node, name) >> axis & 1)


def _flag(node: Mapping[str, Any], name: str) -> bool:
    return bool(node["attr"].get(name, {}).get("b", False))


def _text(encoded: str) -> str:
    return base64.b64decode(encoded, validate=True).decode("ascii")


def _padding(node: Mapping[str, Any]) -> str:
    if "data_format" in node["attr"] and _text(node["attr"]["data_format"]["s"]) != "NHWC":
        raise ValueError(f"the node {node['name']!r} does not count its axes batch, height, width, channel")
    return {"SAME": "SAME_UPPER", "VALID": "VALID"}[_text(node["attr"]["padding"]["s"])]


def _fused(node: Mapping[str, Any]) -> list[str]:
    return [_text(each) for each in node["attr"].get("fused_ops", {}).get("list", {}).get("s", [])]
