"""Classifiers that transformers opens: `AutoModelForImageClassification` with the checkpoint's own processor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from detector_bench.errors import ConfigError, MissingExtraError, WeightsError
from detector_bench.installation import is_installed, require
from detector_bench.perception.networks.checkpoint_code import (
    NEEDS_CODE,
    require_own_code,
    settings_of,
    with_program_files,
)
from detector_bench.perception.networks.published_classifier import (
    OpenedClassifier,
    Pixels,
    Prepared,
    checked_labels,
    checked_numbers,
    labels_in,
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
from detector_bench.perception.transformers_checkpoints import from_folder, require_whole, whole_network
from detector_bench.trust import ForeignCode, allowed_copy
from detector_bench.weights import Weights, WeightsLocator
from detector_bench.weights.files import CheckpointField

_TASK = "AutoModelForImageClassification"


class TransformersClassifier(TorchSettings):
    """A checkpoint that transformers' `AutoModelForImageClassification` opens: a name on the hub, or a folder.

    Images are prepared by the checkpoint's own processor in its Pillow form, which gives the same numbers on every
    machine; the torchvision form that transformers 5 takes by default differs by up to a few grey levels in a
    pixel. The labels are those of `id2label` in its settings, unless `labels` says others.

    Program code of the checkpoint is loaded only with `run_checkpoint_code: true`, and if the user of the machine
    has allowed it with `detector-bench trust code`.
    """

    extra: ClassVar[str] = "classifiers"
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers")

    library: Literal["transformers"] = "transformers"
    checkpoint: CheckpointField
    labels: tuple[str, ...] = Field(default=(), max_length=100_000)
    """In the order of the network's numbers; none: those that the checkpoint names."""
    run_checkpoint_code: bool = False
    precision: Precision = "float32"

    @model_validator(mode="before")
    @classmethod
    def _code_belongs_to_it(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("run_checkpoint_code") is True and "checkpoint" in values:
            return {**values, "checkpoint": with_program_files(values["checkpoint"])}
        return values

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.checkpoint.name

    def weights(self) -> tuple[Weights, ...]:
        """The checkpoint."""
        return (self.checkpoint,)

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:
        """That of the checkpoint, if the study asks for it."""
        if not self.run_checkpoint_code:
            return None
        return ForeignCode(self.checkpoint.name, weights.find(self.checkpoint))

    def label_names(self, weights: WeightsLocator) -> tuple[str, ...]:
        """The labels in the order of its numbers.

        Raises:
            WeightsError: the checkpoint is not there, or its settings cannot be read.
            ConfigError: a label stands there twice, or the checkpoint is one of timm.
        """
        if self.labels:
            return checked_labels(self.labels, name=self.name)
        return labels_in(self._settings(weights.locate(self.checkpoint)), name=self.name)

    def open(self, weights: WeightsLocator) -> OpenedClassifier:
        """Read the network and its processor.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: it is no image classifier, or needs code that is not asked for or not allowed.
        """
        torch, transformers = (require(name, extra=self.extra) for name in self.modules)
        folder = weights.locate(self.checkpoint)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        with self._loadable(transformers, folder) as place:
            model = _network(transformers, place, self.name, code=self.run_checkpoint_code).to(device)
            prepare = _preparation(transformers, place, self.name, code=self.run_checkpoint_code)
        quicken_products(torch, model, device=device, dtype=dtype)
        computing = shorten_products(torch, model, dtype)

        def numbers(images: Sequence[Prepared]) -> NDArray[np.float32]:
            values = on_device(torch, stacked(images, name=self.name), device)
            with torch.inference_mode(), computing(), exact_convolutions(torch):
                found = model(pixel_values=values).logits
            return checked_numbers(found.float().cpu().numpy(), images=len(images), name=self.name)

        return OpenedClassifier(prepare, numbers)

    def _settings(self, folder: Path) -> dict[str, Any]:
        found = settings_of(folder, self.name)
        if "model_type" not in found and "architecture" in found:
            raise ConfigError(
                f"checkpoint {self.name!r} is one of timm, not of transformers: write hf-hub:{self.name}, or "
                "{library: timm, checkpoint: ...}"
            )
        return found

    @contextmanager
    def _loadable(self, transformers: Any, folder: Path) -> Iterator[Path]:
        """The folder that transformers may open: with code, a copy of what was allowed."""
        require_whole(folder)
        settings = self._settings(folder)
        if self.run_checkpoint_code:
            with allowed_copy(self.name, folder) as copied:
                require_own_code(copied, self.name)
                yield copied
            return
        self._require_classifier(transformers, settings)
        yield folder

    def check(self, weights: WeightsLocator) -> None:
        """Refuse what cannot be opened, as far as the checkpoint's settings tell.

        Raises:
            WeightsError: they cannot be read.
            ConfigError: it is no image classifier, or needs code that is not asked for.
        """
        folder = weights.find(self.checkpoint)
        if folder is not None and is_installed("transformers") and not self.run_checkpoint_code:
            self._require_classifier(require("transformers", extra=self.extra), self._settings(folder))

    def _require_classifier(self, transformers: Any, settings: Mapping[str, Any]) -> None:
        kind = settings.get("model_type")
        if kind not in transformers.CONFIG_MAPPING:
            if settings.get("auto_map"):
                raise ConfigError(f"checkpoint {self.name!r} {NEEDS_CODE}")
            raise ConfigError(
                f"checkpoint {self.name!r} is of the type {kind!r}, which transformers {transformers.__version__} "
                "does not know (accepted: a checkpoint of an image classifier)"
            )
        if transformers.CONFIG_MAPPING[kind] not in transformers.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING:
            raise ConfigError(
                f"checkpoint {self.name!r} is no image classifier: it is of the type {kind!r}, which "
                f"transformers' {_TASK} does not open"
            )


def _network(transformers: Any, folder: Path, name: str, *, code: bool) -> Any:
    """Read the network; refuse a checkpoint that lacks a part of it, which transformers would fill with noise."""
    config = _opened(transformers.AutoConfig, folder, name=name, trust_remote_code=code)
    return whole_network(
        transformers,
        getattr(transformers, _TASK),
        folder,
        what="image classifier",
        read=partial(_opened, name=name),
        config=config,
        dtype="float32",
        trust_remote_code=code,
    )


def _preparation(transformers: Any, folder: Path, name: str, *, code: bool) -> Any:
    processor = _opened(transformers.AutoImageProcessor, folder, name=name, backend="pil", trust_remote_code=code)

    def prepare(image: Pixels) -> Prepared:
        require_resizable(image)
        found = processor(images=image, input_data_format="channels_last", return_tensors="np")
        return np.ascontiguousarray(found["pixel_values"][0], np.float32)

    return prepare


def _opened(cls: Any, folder: Path, *, name: str, **settings: Any) -> Any:
    """`from_folder`, with one line for whatever goes wrong; of code that was allowed also what it lacks."""
    try:
        return from_folder(cls, folder, **settings)
    except WeightsError as error:
        cause = error.__cause__
        first = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        if isinstance(cause, ImportError):
            raise MissingExtraError(f"checkpoint {name!r} cannot be loaded: {first}") from cause
        raise WeightsError(f"checkpoint {name!r}: transformers cannot read it: {first}") from cause
