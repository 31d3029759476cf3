"""FairFace's network on aligned faces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.installation import require
from detector_bench.perception.faces.aligned_faces import AlignedFaces
from detector_bench.perception.networks.onnx_networks import open_session, session_device
from detector_bench.perception.stage import Arrays, Frame, Stage, StageField, StageFunction
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
)
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import FAIRFACE_RACE7
from detector_bench.weights.files import WeightsField
from detector_bench.weights.torch_files import read_tensors

OUTPUTS = 18
_SIDE = 224  # pixels of the network's input
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet
_STD = np.array([0.229, 0.224, 0.225], np.float32)

_Network = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class FairfaceOutputs(TorchSettings, Stage):  # type: ignore[override]
    """The 18 numbers of FairFace's ResNet-34 for one aligned face per image, before any softmax.

    Gives `logits`, (18,); no array at all for an image without a chip. A chip is resized to 224 pixels by Pillow
    (bilinear, antialiased, rounded to 8 bits), which is what torchvision does in the authors' program, and
    normalised with ImageNet's mean and standard deviation; chips go through the network in batches.

    A `.pt` or `.safetensors` file holds the layers of torchvision's `resnet34` with 18 outputs, and is loaded as
    tensors alone, without running code; an `.onnx` file is an export of the same network, with the normalised
    input and one output.
    """

    kind: ClassVar[str] = "fairface_outputs"
    lanes: ClassVar[bool] = True
    needs_pixels: ClassVar[bool] = False

    chips: StageField = Field(default_factory=AlignedFaces)
    """A stage that gives `chip`, (height, width, 3)."""
    network: WeightsField = FAIRFACE_RACE7
    precision: Precision = "float32"
    """Of a `.pt` network, as `device` is; an `.onnx` one runs where onnxruntime can. 16 bits would save little:
    the face detector takes thirty times as long."""

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that the file's format needs."""
        return "onnx" if self._through_onnx else "fairface"

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the file's format needs."""
        return ("onnxruntime",) if self._through_onnx else ("torch", "torchvision")

    @property
    def _through_onnx(self) -> bool:
        return self.network.path.endswith(".onnx")

    @property
    def through_torch(self) -> bool:
        """Whether the file is one of PyTorch."""
        return not self._through_onnx

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """Where the network computes on this machine."""
        return session_device() if self._through_onnx else super().device_taken

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        path = weights.locate(self.network)
        network = _onnx_network(path) if self._through_onnx else self._torch_network(path)

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            chips = [frame[self.chips].get("chip") for frame in frames]
            seen = [prepare(chip) for chip in chips if chip is not None]
            rows = iter(_checked(network(np.stack(seen))) if seen else ())
            return [{} if chip is None else {"logits": next(rows)} for chip in chips]

        return run

    def _torch_network(self, path: Path) -> _Network:
        torch, torchvision = (require(name, extra=self.extra) for name in self.modules)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        with torch.device("meta"):  # nothing is drawn at random only to be overwritten
            model = torchvision.models.resnet34(weights=None, num_classes=OUTPUTS)
        _fill(torch, model, path)
        model = model.eval().to(device, dtype, memory_format=torch.channels_last)

        def run(values: NDArray[np.float32]) -> NDArray[np.float32]:
            with torch.inference_mode(), exact_convolutions(torch):
                found = model(torch.from_numpy(values).to(device, dtype, memory_format=torch.channels_last))
                logits: NDArray[np.float32] = found.float().cpu().numpy()
            return logits

        return run


def prepare(chip: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn a chip (height, width, 3), RGB, into the network's input, (3, 224, 224)."""
    resized = Image.fromarray(chip).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    values = (np.asarray(resized, np.float32) / 255 - _MEAN) / _STD
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _checked(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(logits).all():
        raise ValueError("the FairFace network's outputs hold values that are not finite")
    return logits


def _fill(torch: Any, model: Any, path: Path) -> None:
    """Read the layers from a file of tensors."""
    state = read_tensors(path, extra="fairface").content
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()} if _is_tensors(torch, state) else {}
    for name, shape in expected.items():
        if found.get(name) != shape:
            there = f"{list(found[name])}" if name in found else "missing"
            raise WeightsError(
                f"{str(path)!r} is not FairFace's network, a ResNet-34 with {OUTPUTS} outputs: "
                f"{name!r} is {there}, expected {list(shape)}"
            )
    if surplus := sorted(set(found) - set(expected)):
        raise WeightsError(f"{str(path)!r} is not FairFace's network, a ResNet-34: it also holds {surplus[0]!r}")
    model.load_state_dict(state, assign=True)


def _is_tensors(torch: Any, state: Any) -> bool:
    return isinstance(state, dict) and all(isinstance(value, torch.Tensor) for value in state.values())


def _onnx_network(path: Path) -> _Network:
    session = open_session(path)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        counts = f"{len(inputs)} and {len(outputs)}"
        raise ConfigError(f"{path.name}: FairFace's network has one input and one output; this one has {counts}")
    name, shape = inputs[0].name, inputs[0].shape
    # A size that is a name, or None, is free.
    wanted = zip(shape, (1, 3, _SIDE, _SIDE), strict=False)
    if len(shape) != 4 or any(isinstance(size, int) and size != want for size, want in wanted):
        raise ConfigError(f"{path.name}: the input has the shape {shape}, expected ['N', 3, {_SIDE}, {_SIDE}]")

    def run(values: NDArray[np.float32]) -> NDArray[np.float32]:
        parts = np.split(values, len(values)) if shape[0] == 1 else [values]
        found = np.concatenate([session.run(None, {name: part})[0] for part in parts])
        if found.shape != (len(values), OUTPUTS):
            raise ConfigError(
                f"{path.name}: the output has the shape {list(found.shape)} for {len(values)} images, expected "
                f"{[len(values), OUTPUTS]}"
            )
        return np.asarray(found, np.float32)

    return run
