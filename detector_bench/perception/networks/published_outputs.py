"""Any published classifier as two stages, so that another reading of its labels costs no look at an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.perception.boxes import Crop
from detector_bench.perception.networks.label_classes import LabelClasses, LabelTable
from detector_bench.perception.networks.published_classifier import OpenedClassifier
from detector_bench.perception.networks.published_files import (
    TimmClassifier,
    TorchscriptClassifier,
    TorchvisionClassifier,
)
from detector_bench.perception.networks.published_transformers import TransformersClassifier
from detector_bench.perception.square_views import averaged
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction, text_array
from detector_bench.trust import ForeignCode
from detector_bench.weights import WeightsLocator

__all__ = [
    "ClassifierClasses",
    "ClassifierOutputs",
    "LabelClasses",
    "PublishedClassifier",
    "TimmClassifier",
    "TorchscriptClassifier",
    "TorchvisionClassifier",
    "TransformersClassifier",
]

_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ts")
_OF_TIMM = ("hf-hub:", "hf_hub:")


def _with_library(value: Any) -> Any:
    if isinstance(value, str | Path):
        text = str(value)
        if text.startswith(_OF_TIMM):
            return {"library": "timm", "checkpoint": text.partition(":")[2]}
        if text.endswith(_FILES):
            example = "{library: torchvision, architecture: resnet18, weights_file: FILE, labels: [...]}"
            raise ValueError(
                f"{text!r} does not say which network its numbers belong to: write {example}, timm in place of "
                "torchvision, or {library: torchscript, file: FILE, labels: [...]}"
            )
        return {"library": "transformers", "checkpoint": text}
    if isinstance(value, Mapping) and "library" not in value:
        return {"library": "transformers", **value}
    return value


PublishedClassifier = Annotated[
    Annotated[
        TransformersClassifier | TimmClassifier | TorchvisionClassifier | TorchscriptClassifier,
        Field(discriminator="library"),
    ],
    BeforeValidator(_with_library),
]
"""A published classifier in a configuration: `owner/name` or a folder (transformers), `hf-hub:owner/name` (timm),
or a mapping with `library`: transformers (the default), timm, torchvision or torchscript."""


class ClassifierOutputs(Stage):
    """The numbers that a published classifier gives for a crop of each image, before any softmax.

    Gives `numbers`, (labels,), float32; no array at all for an image without a crop. Every detector with this
    model and crop shares it, whatever it makes of the labels.
    """

    kind: ClassVar[str] = "classifier_outputs"
    lanes: ClassVar[bool] = True

    model: PublishedClassifier
    crop: Crop = Field(default_factory=Crop)

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that the model's library needs."""
        return self.model.extra

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the model's library needs."""
        return self.model.modules

    @property
    def precision_taken(self) -> str:  # type: ignore[override]
        """That of the model."""
        return self.model.precision_taken

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """That of the model."""
        return self.model.device_taken

    def missing_settings(self) -> tuple[str, ...]:
        """A device or precision that the model asks for and the machine lacks."""
        return self.model.missing_settings()

    def mistakes(self, weights: WeightsLocator) -> tuple[str, ...]:
        """What keeps the model from being opened, as far as its settings tell."""
        try:
            self.model.check(weights)
        except DetectorBenchError as error:
            return (str(error),)
        return ()

    def foreign_code(self, weights: WeightsLocator) -> ForeignCode | None:
        """That of the model, if it brings any."""
        return self.model.foreign_code(weights)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the network; see `Stage.load`."""
        return _Outputs(self, self.model.open(weights))


class _Outputs:
    """The loaded stage: crops are cut and resized image by image, also ahead of the network."""

    def __init__(self, stage: ClassifierOutputs, opened: OpenedClassifier) -> None:
        self._stage = stage
        self._opened = opened

    def prepare(self, frame: Frame) -> Any:
        """The views of the crop as the network takes them; none where there is no crop."""
        return [self._opened.prepare(view) for view in self._stage.crop.seen(frame)]

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays]:
        """Run the network on the crops; see `Stage.load`."""
        inputs = [
            frame.prepared[self._stage] if self._stage in frame.prepared else self.prepare(frame)
            for frame in frames
        ]
        found = averaged(inputs, self._opened.numbers, _mean)
        # A copy of the row: a view would keep the whole batch in memory.
        return [{} if each is None else {"numbers": np.array(each)} for each in found]


def _mean(numbers: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.asarray(np.mean(numbers, axis=0, dtype=np.float64), dtype=numbers[0].dtype)


class ClassifierClasses(Stage):
    """What a published classifier's numbers say about one attribute, in our classes.

    Gives `probabilities`, one for each class of the attribute, then that of labels without a class, then that of
    `uncertain`; `years`, one number, NaN where none is known; and `words`, the labels with their probabilities as
    JSON in UTF-8. No array at all for an image without a crop. Quick to compute, so nothing is kept on disk.
    """

    kind: ClassVar[str] = "classifier_classes"
    cached: ClassVar[bool] = False
    needs_pixels: ClassVar[bool] = False
    precision_taken: ClassVar[str] = "float64"
    device_taken: ClassVar[str] = "cpu"

    outputs: ClassifierOutputs
    attribute: str
    reading: LabelClasses = Field(default_factory=LabelClasses)
    elsewhere: tuple[tuple[str, LabelClasses], ...] = ()
    """How other attributes are read of the same labels: what only they name is no label of this one."""

    def mistakes(self, weights: WeightsLocator) -> tuple[str, ...]:
        """Labels without a class, if the labels can be read without a download."""
        if any(weights.find(file) is None for file in self.outputs.model.weights()):
            return ()
        try:
            self._table(weights)
        except DetectorBenchError as error:
            return (str(error),)
        return ()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Find out what each label means; see `Stage.load`."""
        table = self._table(weights)

        def read(found: Arrays) -> Arrays:
            if not found:
                return {}
            numbers = found["numbers"]
            if len(numbers) != len(table.labels):
                raise ConfigError(
                    f"{self.outputs.model.name}: the network gives {len(numbers)} numbers for {len(table.labels)} "
                    "labels: set `labels` of `model`, one for each number"
                )
            result = table.read(numbers)
            return {
                "probabilities": result.probabilities,
                "years": np.array(result.years),
                "words": text_array(result.words),
            }

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            return [read(frame[self.outputs]) for frame in frames]

        return run

    def _table(self, weights: WeightsLocator) -> LabelTable:
        return LabelTable.of(
            self.outputs.model.label_names(weights),
            attribute=self.attribute,
            reading=self.reading,
            elsewhere=dict(self.elsewhere),
            name=self.outputs.model.name,
        )
