"""CLIP as two stages, so that a changed prompt costs no look at an image, with any of three packages.

The field `encoder` of the stages and of CLIP's detectors says which network, and what runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, StringConstraints

from detector_bench.errors import ConfigError
from detector_bench.perception.boxes import Crop
from detector_bench.perception.clip.embeddings import ImageEncoder
from detector_bench.perception.clip.onnx_backend import ClipInput, OnnxClip
from detector_bench.perception.clip.open_clip_backend import OpenClip
from detector_bench.perception.clip.transformers_backend import TransformersClip
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator

__all__ = [
    "ClipEncoder",
    "ClipImageEmbeddings",
    "ClipInput",
    "ClipSimilarities",
    "OnnxClip",
    "OpenClip",
    "TransformersClip",
]


def _with_backend(value: Any) -> Any:
    if isinstance(value, str | Path):
        return {"backend": "transformers", "checkpoint": str(value)}
    if isinstance(value, Mapping) and "backend" not in value:
        return {"backend": "transformers", **value}
    return value


ClipEncoder = Annotated[
    Annotated[TransformersClip | OpenClip | OnnxClip, Field(discriminator="backend")],
    BeforeValidator(_with_backend),
]
"""A CLIP network in a configuration: `{backend: open_clip, ...}`, `{backend: onnx, ...}`, or for transformers (the
default backend) `{checkpoint: ...}` or the checkpoint alone."""


class ClipImageEmbeddings(Stage):
    """CLIP's embedding of a crop of each image.

    Gives `embedding`, (dimensions,), float32, of length 1; no array at all for an image without a crop. Every
    detector with this encoder and crop shares it, whatever its prompts are.
    """

    kind: ClassVar[str] = "clip_image_embeddings"
    lanes: ClassVar[bool] = True

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    crop: Crop = Field(default_factory=Crop)

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that the encoder's backend needs."""
        return self.encoder.extra

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the encoder's backend needs."""
        return self.encoder.modules

    @property
    def precision_taken(self) -> str:  # type: ignore[override]
        """That of the image encoder."""
        return self.encoder.precision_taken

    @property
    def device_taken(self) -> str:  # type: ignore[override]
        """That of the image encoder."""
        return self.encoder.device_taken

    def missing_settings(self) -> tuple[str, ...]:
        """A device or precision that the image encoder asks for and the machine lacks."""
        return self.encoder.missing_settings()

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Read the image encoder; see `Stage.load`."""
        return _Embedding(self, self.encoder.image_encoder(weights))


class _Embedding:
    """The loaded stage: crops are cut and resized image by image, also ahead of the network."""

    def __init__(self, stage: ClipImageEmbeddings, encoder: ImageEncoder[Any]) -> None:
        self._stage = stage
        self._encoder = encoder

    def prepare(self, frame: Frame) -> Any:
        """The crop as the network takes it; None where there is none."""
        crop = self._stage.crop.cut(frame)
        return None if crop is None else self._encoder.prepare(crop)

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays]:
        """Embed the crops; see `Stage.load`."""
        missing = [frame for frame in frames if self._stage not in frame.prepared]
        cut = [self._stage.crop.cut(frame) for frame in missing]
        fresh = iter(self._encoder.prepared([crop for crop in cut if crop is not None]))
        now = {id(frame): None if crop is None else next(fresh) for frame, crop in zip(missing, cut, strict=True)}
        inputs = [now[id(frame)] if id(frame) in now else frame.prepared[self._stage] for frame in frames]
        seen = [each for each in inputs if each is not None]
        rows = iter(self._encoder.embed(seen) if seen else ())
        # A copy of the row: a view would keep the whole batch in memory.
        return [{} if each is None else {"embedding": np.array(next(rows))} for each in inputs]


class ClipSimilarities(Stage):
    """How similar CLIP finds a crop of each image to some prompts.

    Gives `similarities`, the cosine with each prompt, in [-1, 1], and `logits`, the cosines times the network's
    learnt scale, whose softmax is CLIP's probability of each prompt; both (prompts,), higher is more similar. Of a
    network that was trained with sigmoids also `logit_bias`, one number: the sigmoid of a logit and it is the
    probability that image and prompt belong together; it changes no softmax. No array at all for an image without
    a crop. Quick to compute from the embeddings, so nothing is kept on disk.
    """

    kind: ClassVar[str] = "clip_similarities"
    cached: ClassVar[bool] = False
    needs_pixels: ClassVar[bool] = False
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    crop: Crop = Field(default_factory=Crop)
    prompts: tuple[Annotated[str, StringConstraints(pattern=r"\S")], ...] = Field(min_length=1)

    @property
    def extra(self) -> str:  # type: ignore[override]
        """The extra that the encoder's backend needs."""
        return self.encoder.extra

    @property
    def modules(self) -> tuple[str, ...]:  # type: ignore[override]
        """The packages that the encoder's backend needs."""
        return self.encoder.modules

    @property
    def embeddings(self) -> ClipImageEmbeddings:
        """The stage that looks at the images."""
        return ClipImageEmbeddings(encoder=self.encoder, crop=self.crop)

    def inputs(self) -> tuple[Stage, ...]:
        """The stage that embeds the images."""
        return (self.embeddings,)

    def load(self, weights: WeightsLocator) -> StageFunction:
        """Embed the prompts; see `Stage.load`."""
        vectors, scale, bias = self.encoder.embed_prompts(self.prompts, weights)
        also = {} if bias is None else {"logit_bias": np.array(bias, np.float32)}
        embeddings = self.embeddings

        def compare(found: Arrays) -> Arrays:
            if not found:
                return {}
            embedding = found["embedding"]
            if len(embedding) != vectors.shape[1]:
                raise ConfigError(
                    f"the image encoder gives {len(embedding)} dimensions, the text encoder {vectors.shape[1]}: "
                    "they do not belong to one network"
                )
            similarities = (vectors @ embedding).clip(-1, 1)
            return {"similarities": similarities, "logits": np.float32(scale) * similarities, **also}

        def run(frames: Sequence[Frame]) -> list[Arrays]:
            return [compare(frame[embeddings]) for frame in frames]

        return run
