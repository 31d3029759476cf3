"""dlib's CNN face detector without dlib: its own weights file, the same boxes, a fifteenth of the time on a CPU.

dlib shrinks an image again and again by 5/6, lays all sizes side by side into one large image, and slides a face
window of 80 x 80 pixels over it in steps of 8. Where a size lies in that image decides the phase of the window,
so the layout is dlib's, pixel by pixel. The numbers follow dlib 20.0 (`image_pyramid.h`, `input.h`, `loss.h`,
`interpolation.h`). Here are also dlib's ways to resize images in 8 bits, which networks trained behind dlib
need: one grey level decides.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from detector_bench_next.detector import Arrays, Frame, Pixels, Place, Stage, WeightsField
from detector_bench_next.detectors import networks
from detector_bench_next.detectors.boxes import boxes
from detector_bench_next.errors import WeightsError, require
from detector_bench_next.registry import register
from detector_bench_next.weights import Weights, Where

Floats = NDArray[np.float32]
LongestSide = Annotated[int | None, Field(ge=32, le=8192)]
"""An image is resized, up or down, so that its longer side has this many pixels; None leaves it as it is."""

_SMALLEST_SIDE = 32  # pixels, after doubling; below, dlib itself damages the memory of its process


@register("stage", "dlib_cnn_faces")
class DlibCnnFaces(Stage):
    """Face boxes of dlib's CNN (max-margin object detection), as FairFace's and CLIP-Enhance's programs have them.

    It finds faces of 80 pixels and more (40 with `upsample: 1`), turned ones too; clear faces score about 1. The
    runtime decides no result: `auto` is onnxruntime, or PyTorch where `device` names a GPU or onnxruntime lacks.
    """

    describes: ClassVar[tuple[str, ...]] = ("runtime", "device")
    threadsafe: ClassVar[bool] = True
    per_call: ClassVar[int | None] = 8
    upsample: int = Field(default=0, ge=0, le=3)
    """Number of times that the image is doubled in size first, to find smaller faces."""
    longest_side: LongestSide = None
    network: WeightsField = Weights(path="mmod_human_face_detector.dat")
    runtime: Literal["auto", "onnx", "torch"] = "auto"
    device: networks.Device = "auto"

    @property
    def through_torch(self) -> bool:
        """The runtime that is taken here is PyTorch."""
        if self.runtime != "auto" or self.device in ("cuda", "mps") or find_spec("onnxruntime") is None:
            return self.runtime != "onnx"
        # A GPU that onnxruntime cannot use. PyTorch takes seconds to be imported: not where there is none.
        idle = self.device == "auto" and networks.onnx_place() == "cpu" and shutil.which("nvidia-smi") is not None
        return idle and networks.torch_place("auto") == "gpu"

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that brings the runtime."""
        return "torch" if self.through_torch else "onnx"

    @property
    def place(self) -> Place:  # type: ignore[override]
        """Where the runtime computes."""
        if self.through_torch:
            return networks.torch_place(self.device)
        return "cpu" if self.device == "cpu" else networks.onnx_place()

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """Packages of the runtime."""
        return ("torch",) if self.through_torch else ("onnx", "onnxruntime")

    def load(self, where: Where) -> Callable[[Sequence[Frame]], list[Arrays]]:
        """Read the network; see `Stage.load`."""
        layers = _layers(where.locate(self.network))
        network = _Torch(layers, self.device) if self.through_torch else _Onnx(layers, where.threads, self.place)

        def detect(frames: Sequence[Frame]) -> list[Arrays]:
            images = [resize_to_longest(frame.pixels, self.longest_side) for frame in frames]
            results = [boxes([], []) for _ in frames]
            by_size: dict[tuple[int, ...], list[int]] = {}
            for place, image in enumerate(images):
                if min(image.shape[:2]) * 2**self.upsample >= _SMALLEST_SIDE:
                    by_size.setdefault(image.shape, []).append(place)
            for places in by_size.values():
                enlarged = [images[place] for place in places]
                for _ in range(self.upsample):
                    enlarged = [double(image) for image in enlarged]
                pyramid = plan(*enlarged[0].shape[1::-1])
                for place, scores in zip(places, _scores(network, enlarged, pyramid), strict=True):
                    corners, found = find_boxes(scores, pyramid, self.upsample)
                    results[place] = boxes(scaled(corners, seen=images[place], wanted=frames[place].pixels), found)
            return results

        return detect


# Weights


class Layer(NamedTuple):
    """A convolution with the batch normalisation after it folded in; a ReLU follows each but the last."""

    filters: Floats  # [filter, channel, side, side]
    biases: Floats  # [filter]
    stride: int
    padding: int


_SHA256 = "4cb19393e2fbaf2b1609a9319ad5386618c886a6234ec1b971f3e87c85d87fe6"
# The file is pinned, so its values lie at known places: filters then biases; gamma then beta; running mean;
# running variance, after the mean and 1 / deviation of the last batch of the training. The last layer has no
# normalisation.
_PLACES = (  # filters, channels, side, stride, padding; first byte of convolution, gamma, mean, variance
    (16, 3, 5, 2, 0, 153, 5121, 5427, 5501),
    (32, 16, 5, 2, 0, 5686, 57116, 57678, 57816),
    (32, 32, 5, 2, 0, 58065, 160695, 161257, 161395),
    (45, 32, 5, 1, 2, 161644, 305926, 306696, 306886),
    (45, 45, 5, 1, 2, 307187, 509969, 510739, 510929),
    (45, 45, 5, 1, 2, 511230, 714012, 714782, 714972),
    (1, 45, 9, 1, 4, 715273, 0, 0, 0),
)
_EPSILON = 1e-4
_MEAN = (122.78199768066406, 117.0009994506836, 104.2979965209961)  # red, green, blue
_OVERLAP = (
    0.3382761351109955  # of the smallest rectangle around both; the file's second threshold, 1, is never passed
)


def _layers(path: Path) -> list[Layer]:
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != _SHA256:
        raise WeightsError(
            f"{path.name} is not dlib's mmod_human_face_detector.dat: its sha256 is {found[:12]}..., accepted: "
            f"{_SHA256[:12]}...; leave `network` out to take the package's file"
        )

    def values(start: int, count: int) -> NDArray[np.float64]:
        return np.frombuffer(content, "<f4", count, start).astype(np.float64)

    found_layers = []
    for filters, channels, side, stride, padding, at, gamma, mean, variance in _PLACES:
        count = filters * channels * side * side
        kernel, bias = values(at, count).reshape(filters, channels, side, side), values(at + 4 * count, filters)
        if gamma:
            scale = values(gamma, filters) / np.sqrt(values(variance, filters) + _EPSILON)
            # In this order: the sum's last bit is that of the detector whose boxes were compared with dlib's.
            bias = bias * scale + (values(gamma + 4 * filters, filters) - values(mean, filters) * scale)
            kernel = kernel * scale[:, None, None, None]
        found_layers.append(Layer(kernel.astype(np.float32), bias.astype(np.float32), stride, padding))
    return found_layers


# The tiled pyramid

_BORDER, _GAP = 11, 10
_LOWEST = 5  # height in pixels of the smallest level


class Pyramid(NamedTuple):
    """Size of the tiled image and its levels, the image itself first: (left, top, width, height)."""

    width: int
    height: int
    levels: tuple[tuple[int, int, int, int], ...]


def plan(width: int, height: int) -> Pyramid:
    """Layout of the pyramid of an image.

    Levels go down one column at the left until the next one fits beside the last and at least half of the
    remaining height is used; the rest goes up again at the right, as long as it stays below the image.
    """
    sizes = [(width, height)]
    while (w := math.floor(5 / 6 * sizes[-1][0])) > 0 and (h := math.floor(5 / 6 * sizes[-1][1])) >= _LOWEST:
        sizes.append((w, h))
    total, used, previous = sum(h + _GAP for _, h in sizes) - 2 * _GAP, 0, 0
    for w, h in sizes:
        if w <= width - previous - _GAP and 2 * (used - height) >= total - height:
            break
        used, previous = used + h + _GAP, w
    used -= _GAP
    levels: list[tuple[int, int, int, int]] = []
    bottom = _BORDER
    while bottom < used + _BORDER and len(levels) < len(sizes):
        w, h = sizes[len(levels)]
        levels.append((_BORDER, bottom, w, h))
        bottom += h + _GAP
    bottom -= _GAP
    for w, h in sizes[len(levels) :]:
        if (top := bottom - h) < _BORDER + height:
            break
        levels.append((_BORDER + width - w, top, w, h))
        bottom = top - _GAP
    return Pyramid(width + 2 * _BORDER, used + 2 * _BORDER, tuple(levels))


_STEP = 8  # pixels of the tiled image from one output to the next: three convolutions of stride 2
_VIEW = 29  # pixels that one row after these three depends on
_MARGIN = 10  # rows after these three that an output depends on, above and below: the padding of the other four
_AT_ONCE = 8_000_000  # pixels of tiled images that go through the network together


def strips(height: int, width: int, at_once: int = _AT_ONCE) -> Iterator[tuple[slice, slice]]:
    """Strips of a tiled image: pixel rows to look at, about `at_once` pixels, and which output rows are good then.

    Good rows of all strips together are the whole output, (height - 29) // 8 + 1 rows.
    """
    rows = max(0, (height - _VIEW) // _STEP + 1)
    step = max(1, at_once // (_STEP * width))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        first, last = max(0, start - _MARGIN), min(rows, stop + _MARGIN)
        yield slice(_STEP * first, _STEP * (last - 1) + _VIEW), slice(start - first, stop - first)


_FIRST = 14  # pixel of the tiled image on which the first output's window is centred
_REACH = 39.5  # from the centre of the window to the middle of its last pixel


def find_boxes(scores: Floats, pyramid: Pyramid, upsample: int) -> tuple[Floats, Floats]:
    """Corners [box, 4] and scores [box], highest first, in pixels of the image before it was doubled.

    `scores` [row, column] are the network's; above 0 is a face. `pyramid` is the layout that it saw.
    """
    rows, columns = np.nonzero(scores > 0)
    kept: list[tuple[list[int], float]] = []
    for place in np.argsort(-scores[rows, columns], kind="stable"):
        row, column = int(rows[place]), int(columns[place])
        box = _in_image(_STEP * column + _FIRST, _STEP * row + _FIRST, pyramid)
        if not any(_overlap(box, other) > _OVERLAP for other, _ in kept):
            kept.append((box, float(scores[row, column])))
    corners = []
    for box, _ in kept:
        edges: list[float] = list(box)
        for _ in range(upsample):
            edges = [edge / 2 - (1.25, 0.75)[axis % 2] for axis, edge in enumerate(edges)]
        left, top, right, bottom = (math.floor(edge + 0.5) for edge in edges)
        corners.append((left, top, right + 1, bottom + 1))  # dlib's boxes include their last column and row
    return np.array(corners, np.float32).reshape(-1, 4), np.array([score for _, score in kept], np.float32)


def _in_image(x: int, y: int, pyramid: Pyramid) -> list[int]:
    """Left, top, right, bottom of a window in whole pixels of the image, the last two inside."""
    away = [
        max(left - x, 0, x - (left + w - 1)) ** 2 + max(top - y, 0, y - (top + h - 1)) ** 2
        for left, top, w, h in pyramid.levels
    ]
    number = away.index(min(away))
    x, y = x - pyramid.levels[number][0], y - pyramid.levels[number][1]
    edges = [x - _REACH, y - _REACH, x + _REACH, y + _REACH]
    for _ in range(number):
        edges = [edge * (6 / 5.0) + 0.3 for edge in edges]
    return [math.floor(edge + 0.5) for edge in edges]


def _overlap(a: list[int], b: list[int]) -> float:
    """Common area over the area of the smallest rectangle around both."""
    inner = _area(max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
    return inner / _area(min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])) if inner else 0.0


def _area(left: int, top: int, right: int, bottom: int) -> int:
    return (right - left + 1) * (bottom - top + 1) if right >= left and bottom >= top else 0


# The network, in either runtime


def _scores(network: _Onnx | _Torch, images: Sequence[Pixels], pyramid: Pyramid) -> list[Floats]:
    """Scores [row, column] of each of some images of one size."""
    at_once = max(1, _AT_ONCE // (pyramid.height * pyramid.width))
    found: list[Floats] = []
    with network.alone():
        for start in range(0, len(images), at_once):
            level, canvas = network.begun(np.stack(images[start : start + at_once]), pyramid)
            for number, (left, top, width, height) in enumerate(pyramid.levels):
                # From the level before, in float32: never from 8 bits.
                level = network.shrunk(level, height, width) if number else level
                canvas[:, :, top : top + height, left : left + width] = level
            parts = [
                network.scores(canvas[:, :, rows])[:, 0, good]
                for rows, good in strips(pyramid.height, pyramid.width)
            ]
            found.extend(np.concatenate(parts, axis=1))
    return found


class _Onnx:
    """Through onnxruntime: on the GPU where that package has one, else on the CPU."""

    alone = contextlib.nullcontext

    def __init__(self, layers: Sequence[Layer], threads: int, place: Place) -> None:
        onnx = require("onnx", "onnx")
        self._network = _session(_convolution_graph(onnx, layers), threads, place)
        # A second thread would spin after its work and slow the network down; an arena would keep in memory the
        # largest level that was ever resized.
        self._resizing = _session(_resizing_graph(onnx), 1, "cpu", arena=False)

    def begun(self, images: Pixels, pyramid: Pyramid) -> tuple[Any, Any]:
        """The image itself as a level, and the empty tiled image."""
        level = np.empty((len(images), 3, *images.shape[1:3]), np.float32)
        for channel, mean in enumerate(_MEAN):
            np.subtract(images[..., channel], np.float32(mean), out=level[:, channel])
        level /= 256
        return level, np.zeros((len(images), 3, pyramid.height, pyramid.width), np.float32)

    def shrunk(self, level: Any, height: int, width: int) -> Any:
        size = np.array([*level.shape[:2], height, width], np.int64)
        return self._resizing.run(None, {"image": level, "size": size})[0]

    def scores(self, canvas: Any) -> Any:
        return self._network.run(None, {"image": canvas})[0]


def _session(graph: bytes, threads: int, place: Place, *, arena: bool = True) -> Any:
    runtime = require("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level, options.intra_op_num_threads, options.enable_cpu_mem_arena = 3, threads, arena
    gpu = [("CUDAExecutionProvider", {"use_tf32": "0"})] if place == "gpu" else []
    return runtime.InferenceSession(graph, options, [*gpu, "CPUExecutionProvider"])


def _parsed(onnx: Any, graph: str) -> Any:
    # Versions of format and operators that every onnxruntime in question reads.
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {graph}')


def _convolution_graph(onnx: Any, layers: Sequence[Layer]) -> bytes:
    """Tiled images [image, 3, height, width] to scores [image, 1, row, column]."""
    constants: dict[str, NDArray[Any]] = {}
    lines, current = [], "image"
    *hidden, last = layers
    for n, layer in enumerate(hidden):
        constants |= {f"w{n}": layer.filters, f"b{n}": layer.biases}
        settings = f"strides = {[layer.stride] * 2}, pads = {[layer.padding] * 4}"
        lines += [f"s{n} = Conv <{settings}> ({current}, w{n}, b{n})", f"f{n} = Relu (s{n})"]
        current = f"f{n}"
    # onnxruntime computes at least 8 filters where one is asked for. So the single filter of 9 x 9 becomes nine of
    # 9 x 1, one for each of its columns, whose results are added up, each shifted by its column.
    side, pad = last.filters.shape[-1], last.padding
    constants |= {"columns": last.filters[0].transpose(2, 0, 1)[..., None], "none": np.zeros(side)}
    constants |= {"shifts": np.eye(side)[None, :, None], "bias": last.biases}
    lines.append(f"parts = Conv <pads = {[pad, 0, pad, 0]}> ({current}, columns, none)")
    lines.append(f"scores = Conv <pads = {[0, pad, 0, pad]}> (parts, shifts, bias)")
    head = "faces (float[n, 3, height, width] image) => (float[n, 1, rows, columns] scores)"
    model = _parsed(onnx, f"{head} {{ {' '.join(lines)} }}")
    for name, values in constants.items():
        content = np.ascontiguousarray(values, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(content, name))
    return bytes(model.SerializeToString())


def _resizing_graph(onnx: Any) -> bytes:
    """Planes [image, 3, height, width] to another size, linear, corner pixels staying at the corners."""
    settings = 'mode = "linear", coordinate_transformation_mode = "align_corners"'
    head = "resizing (float[n, 3, height, width] image, int64[4] size) => (float[n, 3, new_height, new_width] new)"
    return bytes(_parsed(onnx, f"{head} {{ new = Resize <{settings}> (image, , , size) }}").SerializeToString())


class _Torch:
    """Through PyTorch, on a GPU or a CPU."""

    def __init__(self, layers: Sequence[Layer], device: networks.Device) -> None:
        self._torch = torch = require("torch", "torch")
        self._device = networks.chosen_device(torch, device)
        modules: list[Any] = []
        for filters, biases, stride, padding in layers:
            layer = torch.nn.Conv2d(*filters.shape[1::-1], filters.shape[-1], stride, padding)
            layer.load_state_dict({"weight": torch.from_numpy(filters), "bias": torch.from_numpy(biases)})
            modules += [layer, torch.nn.ReLU(inplace=True)]
        network = torch.nn.Sequential(*modules[:-1]).eval().requires_grad_(False)  # noqa: FBT003 - torch's signature
        self._network = network.to(self._device, memory_format=torch.channels_last)  # 3 x as fast on a CPU
        self._mean = torch.tensor(_MEAN, device=self._device).reshape(1, 3, 1, 1)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._torch.inference_mode(), networks.exact_convolutions(self._torch):
            yield

    def begun(self, images: Pixels, pyramid: Pyramid) -> tuple[Any, Any]:
        """The image itself as a level, and the empty tiled image."""
        level = self._torch.from_numpy(images).to(self._device).permute(0, 3, 1, 2).contiguous()
        level = (level.float() - self._mean) / 256
        return level, level.new_zeros((len(images), 3, pyramid.height, pyramid.width))

    def shrunk(self, level: Any, height: int, width: int) -> Any:
        resize = self._torch.nn.functional.interpolate
        return resize(level, (height, width), mode="bilinear", align_corners=True)

    def scores(self, canvas: Any) -> Any:
        canvas = canvas.contiguous(memory_format=self._torch.channels_last)
        return self._network(canvas).cpu().numpy()


# Images in 8 bits, resized as dlib's `resize_image` does


def resize_to_longest(pixels: Pixels, longest_side: int | None) -> Pixels:
    """An image [height, width, 3] whose longer side has `longest_side` pixels; None leaves it as it is.

    The shorter side is cut off to whole pixels, as in FairFace's published program, and is at least 1.
    """
    if longest_side is None:
        return pixels
    height, width = pixels.shape[:2]
    if width > height:
        return resize(pixels, height=max(1, int(longest_side * height / width)), width=longest_side)
    return resize(pixels, height=longest_side, width=max(1, int(longest_side * width / height)))


def scaled(places: NDArray[Any], *, seen: Pixels, wanted: Pixels) -> Floats:
    """Corners or points, x and y in turn on the last axis, carried from an image to its resized form `wanted`."""
    factors = [wanted.shape[1] / seen.shape[1], wanted.shape[0] / seen.shape[0]]
    return np.asarray(places * np.tile(factors, places.shape[-1] // 2), dtype=np.float32)


def double(pixels: Pixels) -> Pixels:
    """An image doubled as dlib's face detectors do it, to 2 width + 2 by 2 height + 1 pixels."""
    height, width = pixels.shape[:2]
    return resize(pixels, height=2 * height + 1, width=2 * width + 2)


_ROWS_AT_ONCE = 64


def resize(pixels: Pixels, *, height: int, width: int) -> Pixels:
    """An image [rows, columns, 3] of another size, grey level for grey level as dlib's `resize_image` gives it.

    Linear between corner pixels that stay at the corners, cut off to whole numbers instead of rounded: on a
    plain surface the last bit of a weight decides about one grey level. So the weights follow dlib's arithmetic:
    columns in groups of four in float32, the last ones, whose right neighbour could lie outside, in float64.
    """
    rows, columns = pixels.shape[:2]
    step = (columns - 1) / max(width - 1, 1)
    grouped = _grouped_places(step, columns, width)
    count = len(grouped)
    top, bottom, down = _between(_added_up(0.0, (rows - 1) / max(height - 1, 1), height), rows)
    left_part = _between(grouped, columns)
    right_part = _between(_added_up(count * step, step, width - count), columns)
    result = np.empty((height, width, 3), np.uint8)
    for start in range(0, height, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        source = pixels[top[start] : bottom[part][-1] + 1]
        near = (top[part] - top[start], bottom[part] - top[start], down[part])
        result[part, :count] = _in_float32(source, near, left_part)
        result[part, count:] = _in_float64(source, near, right_part)
    return result


Between = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]
"""For each place in the result the source places before and after it, and its way from the first (0 to 1)."""


def _between(places: NDArray[Any], size: int) -> Between:
    before = places.astype(np.intp)
    return before, np.minimum(before + 1, size - 1), places - before.astype(places.dtype)


def _added_up(start: float, step: float, count: int) -> NDArray[np.float64]:
    # dlib adds, rounding errors included, where one would multiply.
    return np.cumsum(np.concatenate([[start - step], np.full(count, step)]))[1:]


def _grouped_places(step: float, columns: int, width: int) -> Floats:
    """Source places of those groups of four columns whose right neighbours all lie inside."""
    current = (-4 * step + np.arange(4) * step).astype(np.float32)
    groups = np.empty((width // 4, 4), np.float32)
    for number in range(len(groups)):
        current = current + np.float32(4 * step)
        if int(current[3]) + 1 >= columns:
            return groups[:number].reshape(-1)
        groups[number] = current
    return groups.reshape(-1)


def _in_float32(source: Pixels, down: Between, across: Between) -> Floats:
    """Four weights, each rounded, times four grey levels: [row, column, 3]."""
    (above, below, way), lines = down, source.astype(np.float32)
    near_top, near_bottom = (1 - way).astype(np.float32), way.astype(np.float32)
    near_left, near_right = np.repeat(np.float32(1) - across[2], 3), np.repeat(across[2], 3)
    left, right = (np.take(lines, places, axis=1).reshape(len(lines), -1) for places in across[:2])
    total: Floats = np.outer(near_top, near_left) * left[above]
    total += np.outer(near_top, near_right) * right[above]
    total += np.outer(near_bottom, near_left) * left[below]
    total += np.outer(near_bottom, near_right) * right[below]
    return total.reshape(len(total), -1, 3)


def _in_float64(source: Pixels, down: Between, across: Between) -> NDArray[np.float64]:
    """First along each of the two lines, then between them: [row, column, 3]."""
    (above, below, way), share = down, across[2][:, None]
    lines = (1 - share) * source[:, across[0]] + share * source[:, across[1]]
    weight = way[:, None, None]
    return np.asarray((1 - weight) * lines[above] + weight * lines[below])
