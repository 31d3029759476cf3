"""ONNX networks: opening them with onnxruntime, and any classifier on a crop of each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.installation import require
from detector_bench.perception.boxes import Crop, mean_arrays
from detector_bench.perception.cores import threads_to_open_with
from detector_bench.perception.square_views import averaged
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.perception.torch_settings import OF_THE_FILE
from detector_bench.weights import WeightsLocator
from detector_bench.weights.files import WeightsField
from detector_bench.weights.side_files import side_files

_OPENED: set[str] = set()
"""The providers that sessions of this process really got; onnxruntime falls back to the CPU without an error."""


def session_device() -> str:
    """Where networks of this process run that were opened to be optimised: `cuda` or `cpu`."""
    return "cuda" if "CUDAExecutionProvider" in _OPENED else "cpu"


def open_session(path: Path, *, extra: str = "onnx", optimise: bool = True) -> Any:
    """Open a network on the GPU where onnxruntime has one, else on the CPU, with `cores.threads_per_call` threads.

    Args:
        path: the `.onnx` file; one with another name has no side files, since they would count for nothing.
        extra: the extra to name if onnxruntime is missing.
        optimise: let onnxruntime rewrite the graph; without, the plain graph runs, on the CPU on every machine.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        WeightsError: the file is not a network that onnxruntime can read, or names in it are no text.
    """
    runtime = require("onnxruntime", extra=extra)
    if path.suffix.lower() != ".ort":  # onnxruntime's own format, in which everything is inside
        beside = side_files(path)
        if beside and path.suffix.lower() != ".onnx":
            raise WeightsError(
                f"weights file {str(path)!r} refers to {beside[0]!r}: call a network with side files .onnx"
            )
    options = runtime.SessionOptions()
    if not optimise:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Threads that spin while they wait take the cores from decoding and from other networks.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = threads_to_open_with()
    options.log_severity_level = 3  # errors only: its warnings are about graphs that users did not write
    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"] if optimise else ["CPUExecutionProvider"]
    providers = with_exact_numbers([name for name in wanted if name in runtime.get_available_providers()])
    try:
        # Of a damaged file it would else print that it falls back, to what it has just tried.
        fallback = int(len(providers) > 1)
        session = runtime.InferenceSession(
            str(path), sess_options=options, providers=providers, enable_fallback=fallback
        )
    except Exception as error:  # onnxruntime raises classes of its own compiled module
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WeightsError(f"onnxruntime cannot read {str(path)!r}: {first}") from error
    _check_texts(session, path)
    note_providers(session)
    return session


def _check_texts(session: Any, path: Path) -> None:
    """Refuse names and facts that cannot be read as text, before somebody asks for them."""
    try:
        for entry in (*session.get_inputs(), *session.get_outputs()):
            _ = entry.name, entry.shape
        _ = session.get_modelmeta().custom_metadata_map
    except UnicodeDecodeError as error:
        raise WeightsError(f"{str(path)!r} has a name or a fact about itself that is no text: {error}") from error


def with_exact_numbers(providers: list[str]) -> list[Any]:
    """The providers, told to keep float32: a GPU's faster, shorter numbers (TF32) would change the results."""
    return [(name, {"use_tf32": "0"}) if name == "CUDAExecutionProvider" else name for name in providers]


def note_providers(session: Any) -> None:
    """Remember where a session really runs, for `session_device`."""
    _OPENED.update(session.get_providers()[:1])


_PER_CHANNEL = 3


class OnnxInput(Declaration):
    """How a crop becomes the network's input: resized, channels ordered, then (pixel x scale - mean) / std."""

    size: tuple[int, int]
    """Height and width in pixels."""
    layout: Literal["NHWC", "NCHW"] = "NCHW"
    colour: Literal["RGB", "BGR"] = "RGB"
    scale: float = 1.0
    """Factor on pixel values of 0 to 255: 0.00392156862745098 gives 0 to 1."""
    mean: tuple[float, ...] = (0.0,)
    """One value, or one per channel in the order of `colour`; subtracted after scaling."""
    std: tuple[float, ...] = (1.0,)
    """One value, or one per channel in the order of `colour`; divides last."""
    interpolation: Literal["bilinear", "area", "bicubic", "nearest"] = "bilinear"

    @model_validator(mode="after")
    def _plausible(self) -> OnnxInput:
        if min(self.size) < 1:
            raise ValueError(f"size is height and width in pixels, both above 0; got {list(self.size)}")
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, _PER_CHANNEL):
                raise ValueError(f"{name} has one value or three; got {len(getattr(self, name))}")
        if 0.0 in self.std:
            raise ValueError("std divides, so it may not be 0")
        return self

    def prepare(self, crops: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Turn RGB crops of any size into one input array, float32, in this layout."""
        cv2 = require("cv2", extra="onnx")
        how = {
            "bilinear": cv2.INTER_LINEAR,
            "area": cv2.INTER_AREA,
            "bicubic": cv2.INTER_CUBIC,
            "nearest": cv2.INTER_NEAREST,
        }[self.interpolation]
        height, width = self.size
        resized = np.stack([cv2.resize(crop, (width, height), interpolation=how) for crop in crops])
        if self.colour == "BGR":
            resized = resized[..., ::-1]
        values = resized.astype(np.float32)
        if self.scale != 1.0:
            values *= np.float32(self.scale)
        if any(self.mean):
            values -= np.asarray(self.mean, np.float32)
        if any(value != 1.0 for value in self.std):
            values /= np.asarray(self.std, np.float32)
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2) if self.layout == "NCHW" else values)


class OnnxOutputs(Stage):
    """The outputs of an ONNX network on a crop of each image.

    Gives one array per output name, the network's batch axis taken off; no array at all for an image without a
    crop. A network with a fixed batch of 1 is run image by image.
    """

    kind: ClassVar[str] = "onnx_outputs"
    extra: ClassVar[str | None] = "onnx"
    modules: ClassVar[tuple[str, ...]] = ("onnxruntime", "cv2")
    lanes: ClassVar[bool] = True
    precision_taken: ClassVar[str] = OF_THE_FILE

    network: WeightsField
    input: OnnxInput
    crop: Crop = Field(default_factory=Crop)
    outputs: tuple[str, ...]
    """Names of the network's outputs to keep."""

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where onnxruntime computes on this machine."""
        return session_device()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network and compare its inputs and outputs with the configuration; see `Stage.load`."""
        session = open_session(weights.locate(self.network))
        input_name, fixed_batch = self._check(session)

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            def compute(crops: Sequence[NDArray[np.uint8]]) -> list[Arrays]:
                return self._outputs(session, input_name, crops, fixed_batch=fixed_batch)

            seen = [self.crop.seen(frame) for frame in frames]
            return [{} if found is None else found for found in averaged(seen, compute, mean_arrays)]

        return run

    def _outputs(
        self, session: Any, input_name: str, crops: Sequence[NDArray[np.uint8]], *, fixed_batch: bool
    ) -> list[Arrays]:
        step = 1 if fixed_batch else max(len(crops), 1)
        rows: list[Arrays] = []
        for start in range(0, len(crops), step):
            values = self.input.prepare(crops[start : start + step])
            outputs = session.run(list(self.outputs), {input_name: values})
            for name, output in zip(self.outputs, outputs, strict=True):
                if np.shape(output)[:1] != (len(values),):
                    raise ConfigError(
                        f"{self.network.path}: output {name!r} has the shape {list(np.shape(output))} for "
                        f"{len(values)} images; its first axis should be the images"
                    )
                if not np.isfinite(output).all():
                    raise ValueError(f"output {name!r} holds values that are not finite")
            rows += [
                {name: np.array(output[row]) for name, output in zip(self.outputs, outputs, strict=True)}
                for row in range(len(values))
            ]
        return rows

    def _check(self, session: Any) -> tuple[str, bool]:
        inputs = session.get_inputs()
        if len(inputs) != 1:
            names = [entry.name for entry in inputs]
            raise ConfigError(f"{self.network.path}: the network has the inputs {names}; it may have only one")
        entry = inputs[0]
        if entry.type != "tensor(float)":
            raise ConfigError(f"{self.network.path}: input {entry.name!r} is {entry.type}, float32 is needed")
        shape = entry.shape
        height, width = self.input.size
        wanted = [height, width, 3] if self.input.layout == "NHWC" else [3, height, width]
        fits = len(shape) == len(wanted) + 1 and all(
            not isinstance(size, int) or size == want for size, want in zip(shape[1:], wanted, strict=True)
        )
        if not fits:
            raise ConfigError(
                f"{self.network.path}: the network's input {entry.name!r} has the shape {shape}, but size and "
                f"layout ({self.input.layout}) in the configuration make it {['N', *wanted]}"
            )
        if isinstance(shape[0], int) and shape[0] != 1:
            raise ConfigError(
                f"{self.network.path}: the network takes exactly {shape[0]} images at once; export it with a free "
                "first axis, or for 1"
            )
        self._check_outputs({found.name: found.type for found in session.get_outputs()})
        return entry.name, shape[0] == 1

    def _check_outputs(self, known: Mapping[str, str]) -> None:
        for name in self.outputs:
            if name not in known:
                raise ConfigError(f"{self.network.path}: no output {name!r}: {nearest_hint(name, known)}")
            if not known[name].startswith("tensor("):
                raise ConfigError(f"{self.network.path}: output {name!r} is {known[name]}, a tensor is needed")
