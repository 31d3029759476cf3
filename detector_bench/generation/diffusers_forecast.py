"""How long an image of a pipeline will take, from a checkpoint that is here, or from what the hub says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from detector_bench.generation.diffusers_calls import CallForm
from detector_bench.generation.diffusers_checkpoints import INDEX_FILE, PipelineCheckpoint, PipelineIndex
from detector_bench.generation.diffusers_hub import settings_on_hub, weights_on_hub
from detector_bench.generation.diffusers_loading import denoiser_of, torch_format
from detector_bench.generation.diffusers_sizes import (
    default_side,
    operations_of_an_image,
    operations_per_second,
    weights_in,
)
from detector_bench.weights import WeightsLocator


@dataclass(frozen=True)
class KnownCheckpoint:
    """What can be known of a checkpoint without downloading its weights.

    Attributes:
        checkpoint: its name.
        weights: where it is looked for.
        folder: with the settings of its parts.
        is_here: whether the weights are in it, too.
    """

    checkpoint: PipelineCheckpoint
    weights: WeightsLocator
    folder: Path
    is_here: bool

    @classmethod
    def of(cls, checkpoint: PipelineCheckpoint, weights: WeightsLocator) -> KnownCheckpoint:
        """Look on this machine, then on the hub, from where some kilobytes of settings are fetched.

        Raises:
            ConfigError, MissingExtraError, WeightsError: neither has it.
        """
        here = weights.find(checkpoint)
        return cls(checkpoint, weights, here or settings_on_hub(checkpoint, weights), here is not None)

    def seconds_of_an_image(
        self,
        form: CallForm,
        came_to: Mapping[str, str | int | float],
        *,
        size: tuple[int, int] | None,
        device: str,
        precision: str | None,
    ) -> float | None:
        """About how long an image takes here; None: size or denoising network are not known.

        Args:
            form: what the pipeline takes.
            came_to: the parameters of its call.
            size: width and height; None: the checkpoint's.
            device: that computes.
            precision: None: float32 on a CPU, elsewhere as most weights are stored.

        Raises:
            ConfigError, MissingExtraError, WeightsError: the weights cannot be counted.
        """
        part = denoiser_of(PipelineIndex.read(self.folder / INDEX_FILE).parts)
        side = default_side(self.folder)
        pixels = side and side**2 if size is None else size[0] * size[1]
        if not pixels or part is None:
            return None
        counted = self._weights_of(part)
        operations = operations_of_an_image(
            self.folder,
            part,
            weights=sum(counted.values()),
            pixels=pixels,
            steps=int(came_to.get("steps", 1)),
            guided=float(came_to.get("guidance", 1)) > 1 and "true_cfg_scale" not in form.accepted,
        )
        stored = torch_format(max(counted, key=lambda kind: counted[kind], default="F32"))
        return operations / _rate(device, precision or ("float32" if device == "cpu" else stored))

    def _weights_of(self, part: str) -> Mapping[str, int]:
        if self.is_here:
            return weights_in(self.folder, self.checkpoint, part)
        return weights_on_hub(self.checkpoint, self.weights, part)


@lru_cache(maxsize=8)
def _rate(device: str, precision: str) -> float:
    return operations_per_second(device, precision)
