"""A network that a library knows by its architecture: read from a checkpoint, or from a file of its weights."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from detector_bench.perception.torch_settings import TorchSettings
from detector_bench.weights import Weights
from detector_bench.weights.files import CheckpointField, WeightsField


class CheckpointOrFile(TorchSettings):
    """What a network is read from: a `checkpoint`, or an `architecture` with its `weights_file`."""

    checkpoint: CheckpointField | None = None
    architecture: str | None = None
    weights_file: WeightsField | None = None
    """The architecture's weights: `.safetensors`, or a `.pt` file of tensors alone (read with `weights_only`)."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        pair = (self.architecture, self.weights_file)
        if (self.checkpoint is None) == (pair == (None, None)) or (self.checkpoint is None and None in pair):
            raise ValueError("give a `checkpoint`, or an `architecture` with its `weights_file`")
        return self

    @property
    def source(self) -> Weights:
        """What the weights are read from."""
        found = self.checkpoint or self.weights_file
        assert found is not None  # noqa: S101 - the validator saw to it
        return found

    def weights(self) -> tuple[Weights, ...]:
        """The checkpoint, or the one file."""
        return (self.source,)
