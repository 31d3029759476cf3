"""The network of dlib's CNN face detector, for onnxruntime and for PyTorch.

Both give, for images of one size, one number for each place of the face window in the tiled pyramid. A large tiled
image goes through in strips of whole output rows, each with a margin as wide as the network's view, so that memory
stays bounded and the numbers the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.cores import threads_to_open_with
from detector_bench.perception.faces.dlib_cnn_pyramid import TiledPyramid, tile
from detector_bench.perception.faces.dlib_cnn_weights import DetectorWeights, Floats
from detector_bench.perception.networks.onnx_networks import note_providers, with_exact_numbers
from detector_bench.perception.torch_settings import Device, chosen_device, exact_convolutions

PIXELS_AT_ONCE = 8_000_000
"""How many pixels of tiled images go through the network together."""

_STEP = 8  # pixels of the tiled image from one output row to the next: three convolutions of stride 2
_VIEW = 29  # pixels that one row after these three depends on
_MARGIN = 10  # rows after these three that an output depends on, above and below: the padding of the other four
_OPERATORS, _FORMAT = 18, 8  # versions of ONNX that every onnxruntime in question reads


class FaceNetwork(Protocol):
    """What the stages need of a network."""

    def scores(self, images: Sequence[NDArray[np.uint8]], pyramid: TiledPyramid) -> list[Floats]:
        """Score every window of images (height, width, 3) of one size: (rows, columns) for each image."""


class Strip(NamedTuple):
    """A part of the tiled image: the pixel rows to look at, and which of the resulting output rows are good."""

    pixel_rows: slice
    good: slice


def strips(*, height: int, width: int, pixels_at_once: int) -> list[Strip]:
    """Cut a tiled image into strips of about so many pixels, whose good rows together are the whole output."""
    rows = max(0, (height - _VIEW) // _STEP + 1)
    step = max(1, pixels_at_once // (_STEP * width))
    found = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        first, last = max(0, start - _MARGIN), min(rows, stop + _MARGIN)
        pixel_rows = slice(_STEP * first, _STEP * (last - 1) + _VIEW)
        found.append(Strip(pixel_rows, slice(start - first, stop - first)))
    return found


class OnnxFaceNetwork:
    """The network through onnxruntime: on the GPU where that package has one, else on the CPU.

    Args:
        weights: the detector's weights.
        extra: the extra to name if onnxruntime or onnx is missing.
        pixels_at_once: bounds the memory.

    Raises:
        MissingExtraError: onnxruntime or onnx is not installed.
        WeightsError: onnxruntime refuses the network.
    """

    def __init__(
        self, weights: DetectorWeights, *, extra: str | None = "onnx", pixels_at_once: int = PIXELS_AT_ONCE
    ) -> None:
        self._pixels_at_once = pixels_at_once
        onnx, runtime = require("onnx", extra=extra), require("onnxruntime", extra=extra)
        self._mean_colour = weights.mean_colour
        self._convolutions = _session(runtime, _convolution_graph(onnx, weights), heavy=True)
        self._resizing = _session(runtime, _resizing_graph(onnx), heavy=False)

    def scores(self, images: Sequence[NDArray[np.uint8]], pyramid: TiledPyramid) -> list[Floats]:
        """Score every place of the face window in the tiled pyramids; see `FaceNetwork.scores`."""
        return [
            self._score(tile(pixels, pyramid, mean_colour=self._mean_colour, resize=self.resize))
            for pixels in images
        ]

    def resize(self, planes: Floats, height: int, width: int) -> Floats:
        """Resize (channels, height, width) as `dlib_cnn_pyramid.resize_bilinear` does."""
        size = np.array([1, len(planes), height, width], np.int64)
        resized: Floats = self._resizing.run(None, {"image": planes[None], "size": size})[0][0]
        return resized

    def _score(self, canvas: Floats) -> Floats:
        _, height, width = canvas.shape
        parts = [
            self._convolutions.run(None, {"image": canvas[None, :, strip.pixel_rows]})[0][0, 0, strip.good]
            for strip in strips(height=height, width=width, pixels_at_once=self._pixels_at_once)
        ]
        return np.concatenate(parts)


def _session(runtime: Any, graph: bytes, *, heavy: bool) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads_to_open_with()
    if not heavy:
        # Else onnxruntime would keep the memory of the largest level that it ever resized, ...
        options.enable_cpu_mem_arena = False
        # ... and a second thread would spin for a while after its work, which halves the speed of the network.
        options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    if heavy and "CUDAExecutionProvider" in runtime.get_available_providers():
        providers.insert(0, "CUDAExecutionProvider")
    try:
        session = runtime.InferenceSession(graph, sess_options=options, providers=with_exact_numbers(providers))
    except Exception as error:  # onnxruntime raises classes of its own compiled module
        raise WeightsError(f"onnxruntime refuses dlib's CNN face detector: {error}") from error
    note_providers(session)
    return session


def _convolution_graph(onnx: Any, weights: DetectorWeights) -> bytes:
    """Tiled images (images, 3, height, width) to scores (images, 1, rows, columns)."""
    nodes, constants = [], []
    *hidden, last = weights.convolutions
    current = "image"
    for place, layer in enumerate(hidden):
        constants += _constants(onnx, place, layer.filters, layer.biases)
        nodes += [
            onnx.helper.make_node(
                "Conv",
                [current, f"filters{place}", f"biases{place}"],
                [f"sums{place}"],
                strides=[layer.shape.stride] * 2,
                pads=[layer.shape.padding] * 4,
            ),
            onnx.helper.make_node("Relu", [f"sums{place}"], [f"features{place}"]),
        ]
        current = f"features{place}"
    # onnxruntime computes at least 8 filters where one is asked for. So the single filter of 9 x 9 becomes nine
    # of 9 x 1, one for each of its columns, whose results are then added up, each shifted by its column.
    side, padding = last.shape.side, last.shape.padding
    constants += _constants(onnx, "columns", last.filters[0].transpose(2, 0, 1)[..., None], np.zeros(side))
    constants += _constants(onnx, "shifted", np.eye(side)[None, :, None], last.biases)
    for name, result, pads in (
        ("columns", "parts", [padding, 0, padding, 0]),
        ("shifted", "scores", [0, padding, 0, padding]),
    ):
        nodes.append(
            onnx.helper.make_node("Conv", [current, f"filters{name}", f"biases{name}"], [result], pads=pads)
        )
        current = result
    return _model(onnx, nodes, {"image": ["images", 3, "height", "width"]}, current, constants)


def _resizing_graph(onnx: Any) -> bytes:
    node = onnx.helper.make_node(
        "Resize",
        ["image", "", "", "size"],
        ["resized"],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    return _model(onnx, [node], {"image": ["images", "channels", "height", "width"], "size": [4]}, "resized", [])


def _constants(onnx: Any, place: int | str, filters: NDArray[Any], biases: NDArray[Any]) -> list[Any]:
    return [
        onnx.numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), f"{name}{place}")
        for name, values in (("filters", filters), ("biases", biases))
    ]


def _model(
    onnx: Any, nodes: list[Any], inputs: dict[str, list[int | str]], output: str, constants: list[Any]
) -> bytes:
    number = {"image": onnx.TensorProto.FLOAT, "size": onnx.TensorProto.INT64}
    graph = onnx.helper.make_graph(
        nodes,
        "dlib_cnn_faces",
        [onnx.helper.make_tensor_value_info(name, number[name], shape) for name, shape in inputs.items()],
        [onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)],
        constants,
    )
    opset = onnx.helper.make_opsetid("", _OPERATORS)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_FORMAT)
    content: bytes = model.SerializeToString()
    return content


class TorchFaceNetwork:
    """The network as a PyTorch module, pyramid included, several images at once.

    Args:
        weights: the detector's weights.
        device: where to compute.
        extra: the extra to name if PyTorch is missing.
        pixels_at_once: bounds the memory, and with it how many images go through together.

    Raises:
        MissingExtraError: PyTorch is not installed.
        ConfigError: a GPU is asked for, and there is none.
    """

    def __init__(
        self,
        weights: DetectorWeights,
        *,
        device: Device = "auto",
        extra: str | None = "torch",
        pixels_at_once: int = PIXELS_AT_ONCE,
    ) -> None:
        self._pixels_at_once = pixels_at_once
        torch = require("torch", extra=extra)
        self._torch = torch
        self._device = chosen_device(torch, device)
        # A batch lies as pixels x channels on both kinds of device: three times as fast on a CPU.
        self.module = torch_module(weights).to(self._device, memory_format=torch.channels_last)
        self._mean = torch.tensor(weights.mean_colour, device=self._device).reshape(1, 3, 1, 1)

    def scores(self, images: Sequence[NDArray[np.uint8]], pyramid: TiledPyramid) -> list[Floats]:
        """Score every place of the face window in the tiled pyramids; see `FaceNetwork.scores`."""
        at_once = max(1, self._pixels_at_once // (pyramid.height * pyramid.width))
        found: list[Floats] = []
        with self._torch.inference_mode(), exact_convolutions(self._torch):
            for start in range(0, len(images), at_once):
                canvas = self._tile(np.stack(images[start : start + at_once]), pyramid)
                found.extend(self._score(canvas))
        return found

    def _tile(self, images: NDArray[np.uint8], pyramid: TiledPyramid) -> Any:
        """The tiled images on the device; see `dlib_cnn_pyramid.tile`."""
        level = self._torch.from_numpy(images).to(self._device).permute(0, 3, 1, 2).contiguous()
        level = (level.float() - self._mean) / 256
        canvas = level.new_zeros((len(images), 3, pyramid.height, pyramid.width))
        interpolate = self._torch.nn.functional.interpolate
        for place, (left, top, width, height) in enumerate(pyramid.levels):
            if place > 0:
                level = interpolate(level, (height, width), mode="bilinear", align_corners=True)
            canvas[:, :, top : top + height, left : left + width] = level
        return canvas

    def _score(self, canvas: Any) -> list[Floats]:
        height, width = canvas.shape[2:]
        parts = [
            self.module(canvas[:, :, strip.pixel_rows].contiguous(memory_format=self._torch.channels_last))[
                :, 0, strip.good
            ].cpu()
            for strip in strips(height=height, width=width, pixels_at_once=self._pixels_at_once)
        ]
        return list(self._torch.cat(parts, dim=1).numpy())


def torch_module(weights: DetectorWeights) -> Any:
    """The layers as a `torch.nn.Sequential`: (images, 3, height, width) to (images, 1, rows, columns)."""
    torch = require("torch", extra="torch")
    layers: list[Any] = []
    for filters, biases, shape in ((layer.filters, layer.biases, layer.shape) for layer in weights.convolutions):
        layer = torch.nn.Conv2d(shape.channels, shape.filters, shape.side, shape.stride, shape.padding)
        layer.load_state_dict({"weight": torch.from_numpy(filters), "bias": torch.from_numpy(biases)})
        layers += [layer, torch.nn.ReLU(inplace=True)]
    return torch.nn.Sequential(*layers[:-1]).eval().requires_grad_(False)  # noqa: FBT003
