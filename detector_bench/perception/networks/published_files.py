"""Classifiers of timm and torchvision, whose files hold tensors alone, and TorchScript files, which hold
programs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field, model_validator

from detector_bench.errors import ConfigError, WeightsError, nearest_hint
from detector_bench.installation import require
from detector_bench.perception.checkpoint_or_file import CheckpointOrFile
from detector_bench.perception.networks.checkpoint_code import settings_of
from detector_bench.perception.networks.published_classifier import (
    OpenedClassifier,
    PictureInput,
    Pixels,
    Prepared,
    checked_labels,
    checked_numbers,
    require_resizable,
    stacked,
)
from detector_bench.perception.torch_settings import (
    Precision,
    TorchSettings,
    chosen_device,
    chosen_precision,
    exact_convolutions,
    on_device,
    quicken_products,
    shorten_products,
)
from detector_bench.trust import ForeignCode, allowed_bytes
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.files import CheckpointField, WeightsField
from detector_bench.weights.torch_files import read_tensors

_NESTED = ("state_dict", "model", "model_state_dict")
"""Below these keys training programs keep the tensors of a network."""


class _OfTorch(TorchSettings):
    """What networks opened by PyTorch share."""

    precision: Precision = "float32"

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:  # noqa: ARG002
        """None: its files hold tensors alone."""
        return None

    def check(self, weights: WeightsLocator) -> None:
        """Its files are checked when they are read."""

    def _numbers(self, torch: Any, model: Any, *, device: str, name: str) -> Any:
        dtype = chosen_precision(torch, self.precision, device=device)
        quicken_products(torch, model, device=device, dtype=dtype)
        computing = shorten_products(torch, model, dtype)

        def numbers(images: Sequence[Prepared]) -> NDArray[np.float32]:
            values = on_device(torch, stacked(images, name=name), device)
            with torch.inference_mode(), computing(), exact_convolutions(torch):
                found = model(values)
            return checked_numbers(_tensor(torch, found, name), images=len(images), name=name)

        return numbers


def _tensor(torch: Any, found: Any, name: str) -> NDArray[Any]:
    if not isinstance(found, torch.Tensor):
        raise ConfigError(f"{name}: the network gives a {type(found).__name__}; a classifier gives one tensor")
    values: NDArray[Any] = found.float().cpu().numpy()
    return values


class TimmClassifier(_OfTorch, CheckpointOrFile):
    """A classifier of timm: a `checkpoint` as timm shares it (`hf-hub:owner/name`, or a folder), or an
    `architecture` with its `weights_file` and `labels`.

    Images are prepared by timm's own transform for evaluation, as the checkpoint or else the architecture sets it,
    on Pillow images.
    """

    extra: ClassVar[str] = "classifiers"
    modules: ClassVar[tuple[str, ...]] = ("torch", "timm")

    library: Literal["timm"] = "timm"
    checkpoint: CheckpointField | None = None
    """A folder with timm's `config.json` and `model.safetensors`, or its name on the hub."""
    architecture: str | None = Field(default=None, pattern=r"^[\w.]+$")
    """A name that `timm.list_models()` gives, such as `vit_base_patch16_224`."""
    labels: tuple[str, ...] = Field(default=(), max_length=100_000)
    """In the order of the network's numbers; none: those that the checkpoint names."""

    @model_validator(mode="after")
    def _labels_are_said(self) -> TimmClassifier:
        if self.checkpoint is None and not self.labels:
            raise ValueError("`labels` is missing: the file does not say what its numbers stand for")
        return self

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.source.name

    def label_names(self, weights: WeightsLocator) -> tuple[str, ...]:
        """The labels in the order of its numbers; see `TransformersClassifier.label_names`."""
        if self.labels or self.checkpoint is None:
            return checked_labels(self.labels, name=self.name)
        settings = settings_of(weights.locate(self.checkpoint), self.name)
        found = settings.get("label_names") or _mapping(settings.get("pretrained_cfg")).get("label_names")
        if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
            raise ConfigError(
                f"checkpoint {self.name!r} does not say what its numbers stand for: set `labels` of `model` in "
                "their order"
            )
        return checked_labels(found, name=self.name)

    def open(self, weights: WeightsLocator) -> OpenedClassifier:
        """Read the network; see `TransformersClassifier.open` for what it raises."""
        torch, timm = (require(name, extra=self.extra) for name in self.modules)
        settings = {} if self.checkpoint is None else settings_of(weights.locate(self.checkpoint), self.name)
        architecture = self.architecture or settings.get("architecture")
        if not isinstance(architecture, str) or not timm.is_model(architecture):
            known = timm.list_models()
            raise ConfigError(
                f"{self.name}: timm has no architecture {architecture!r}: {nearest_hint(str(architecture), known)}"
            )
        given = _mapping(settings.get("model_args"))
        # What is timm's own decides where weights are read from, and would read them from anywhere.
        if reserved := sorted(set(given) & set(signature(timm.create_model).parameters)):
            raise ConfigError(
                f"{self.name}: model_args has {reserved[0]!r} (accepted: settings of the architecture itself)"
            )
        device = chosen_device(torch, self.device)
        labels = len(self.labels) or int(settings.get("num_classes", 0)) or len(self.label_names(weights))
        try:
            model = timm.create_model(architecture, pretrained=False, num_classes=labels, **given)
        except Exception as error:  # whatever the architecture's function raises
            raise WeightsError(f"{self.name}: timm cannot build {architecture!r}: {_first(error)}") from error
        _fill(torch, model, self._tensors_in(weights), name=self.name, network=f"timm's {architecture}")
        chosen = _mapping(settings.get("pretrained_cfg"))
        data = timm.data.resolve_data_config(pretrained_cfg=dict(chosen) or None, model=model)
        transform = timm.data.create_transform(**data, is_training=False)

        def prepare(image: Pixels) -> Prepared:
            require_resizable(image)
            return np.ascontiguousarray(transform(Image.fromarray(image)).numpy(), np.float32)

        return OpenedClassifier(
            prepare, self._numbers(torch, model.eval().to(device), device=device, name=self.name)
        )

    def _tensors_in(self, weights: WeightsLocator) -> Path:
        found = weights.locate(self.source)
        if self.checkpoint is None:
            return found
        files = [path for path in self.checkpoint.found_in(found) if path.suffix == ".safetensors"]
        preferred = [path for path in files if path.name == "model.safetensors"]
        if len(preferred or files) != 1:
            raise ConfigError(f"{str(found)!r} holds several .safetensors files, none of them model.safetensors")
        return (preferred or files)[0]


class TorchvisionClassifier(_OfTorch):
    """An architecture of torchvision, such as `resnet18`, with a file of tensors that somebody trained."""

    extra: ClassVar[str] = "classifiers"
    modules: ClassVar[tuple[str, ...]] = ("torch", "torchvision")

    library: Literal["torchvision"] = "torchvision"
    architecture: str = Field(pattern=r"^\w+$")
    """A classifier that `torchvision.models.list_models()` gives."""
    weights_file: WeightsField
    """`.safetensors`, or a `.pt` file of tensors alone (read with `weights_only`)."""
    labels: tuple[str, ...] = Field(min_length=1, max_length=100_000)
    """In the order of the network's numbers, one for each."""
    input: PictureInput = Field(default_factory=PictureInput)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.weights_file.name

    def weights(self) -> tuple[Weights, ...]:
        """The file."""
        return (self.weights_file,)

    def label_names(self, weights: WeightsLocator) -> tuple[str, ...]:  # noqa: ARG002
        """The labels in the order of its numbers."""
        return checked_labels(self.labels, name=self.name)

    def open(self, weights: WeightsLocator) -> OpenedClassifier:
        """Read the network; see `TransformersClassifier.open` for what it raises."""
        torch, torchvision = (require(name, extra=self.extra) for name in self.modules)
        known = torchvision.models.list_models(module=torchvision.models)
        if self.architecture not in known:
            hint = nearest_hint(self.architecture, known)
            raise ConfigError(f"torchvision has no classifier {self.architecture!r}: {hint}")
        device = chosen_device(torch, self.device)
        with torch.device("meta"):  # nothing is drawn at random only to be overwritten
            model = torchvision.models.get_model(self.architecture, weights=None, num_classes=len(self.labels))
        path = weights.locate(self.weights_file)
        network = f"torchvision's {self.architecture} with {len(self.labels)} outputs"
        _fill(torch, model, path, name=self.name, network=network, assign=True)
        return OpenedClassifier(
            _picture(self.input), self._numbers(torch, model.eval().to(device), device=device, name=self.name)
        )


class TorchscriptClassifier(TorchSettings):
    """A TorchScript file: a program with its weights, which PyTorch runs in an interpreter of its own.

    That is no Python, but it is a program of somebody else's, and PyTorch does not promise to hold it back. So it
    runs only if the user of the machine has allowed a file of just this content: `detector-bench trust code FILE`.
    """

    extra: ClassVar[str] = "classifiers"
    modules: ClassVar[tuple[str, ...]] = ("torch",)

    library: Literal["torchscript"] = "torchscript"
    file: WeightsField
    labels: tuple[str, ...] = Field(min_length=1, max_length=100_000)
    """In the order of the network's numbers, one for each."""
    input: PictureInput = Field(default_factory=PictureInput)
    precision: Literal["float32"] = "float32"
    """The program says how it computes."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.file.name

    def weights(self) -> tuple[Weights, ...]:
        """The file."""
        return (self.file,)

    def check(self, weights: WeightsLocator) -> None:
        """Its file is checked when it is read."""

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode:
        """The file itself."""
        return ForeignCode(self.name, weights.find(self.file))

    def label_names(self, weights: WeightsLocator) -> tuple[str, ...]:  # noqa: ARG002
        """The labels in the order of its numbers."""
        return checked_labels(self.labels, name=self.name)

    def open(self, weights: WeightsLocator) -> OpenedClassifier:
        """Read the program, if it is allowed; see `TransformersClassifier.open` for what it raises."""
        torch = require("torch", extra=self.extra)
        device = chosen_device(torch, self.device)
        content = allowed_bytes(self.name, weights.locate(self.file))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch advises its users to export networks in another way
                model = torch.jit.load(io.BytesIO(content), map_location=device).eval()
        except Exception as error:  # torch raises many sorts
            raise WeightsError(
                f"{self.name}: PyTorch cannot read it as a TorchScript file: {_first(error)}"
            ) from error

        def numbers(images: Sequence[Prepared]) -> NDArray[np.float32]:
            values = on_device(torch, stacked(images, name=self.name), device)
            with torch.inference_mode(), exact_convolutions(torch):
                found = model(values)
            return checked_numbers(_tensor(torch, found, self.name), images=len(images), name=self.name)

        return OpenedClassifier(_picture(self.input), numbers)


def _picture(settings: PictureInput) -> Any:
    def prepare(image: Pixels) -> Prepared:
        require_resizable(image)
        return settings.prepare(image)

    return prepare


def _fill(torch: Any, model: Any, path: Path, *, name: str, network: str, assign: bool = False) -> None:
    """Read the layers of a network from a file of tensors.

    Raises:
        WeightsError: the file is damaged, or holds another network.
    """
    state = _tensors(torch, path)
    expected = {layer: list(tensor.shape) for layer, tensor in model.state_dict().items()}
    for layer, shape in expected.items():
        if layer not in state or list(state[layer].shape) != shape:
            there = f"{list(state[layer].shape)}" if layer in state else "missing"
            raise WeightsError(f"{name} does not hold {network}: {layer!r} is {there}, expected {shape}")
    if surplus := sorted(set(state) - set(expected)):
        raise WeightsError(f"{name} does not hold {network}: it also holds {surplus[0]!r}")
    model.load_state_dict(state, assign=assign)


def _tensors(torch: Any, path: Path) -> Mapping[str, Any]:
    state = read_tensors(path, extra="classifiers").content
    for key in _NESTED:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(each, torch.Tensor) for each in state.values()):
        raise WeightsError(f"{str(path)!r} holds no network's tensors by the names of its layers")
    return state


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
