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
from detector_bench.perception.clip.embeddings import ImageEncoder, TextEmbeddings, mean_direction
from detector_bench.perception.clip.onnx_backend import ClipInput, OnnxClip
from detector_bench.perception.clip.open_clip_backend import OpenClip
from detector_bench.perception.clip.transformers_backend import TransformersClip
from detector_bench.perception.square_views import averaged
from detector_bench.perception.stage import Arrays, Frame, Stage, StageFunction
from detector_bench.weights import WeightsLocator

__all__ = [
    "ClipEncoder",
    "ClipImageEmbeddings",
    "ClipInput",
    "ClipSimilarities",
    "OnnxClip",
    "OpenClip",
    "PromptTexts",
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


_Text = Annotated[str, StringConstraints(pattern=r"\S")]

PromptTexts = _Text | Annotated[tuple[_Text, ...], Field(min_length=1)]
"""One prompt, or several that stand for one thing: an ensemble."""


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
        """The views of the crop as the network takes them; none where there is no crop."""
        return [self._encoder.prepare(view) for view in self._stage.crop.seen(frame)]

    def __call__(self, frames: Sequence[Frame]) -> list[Arrays]:
        """Embed the crops; see `Stage.load`."""
        missing = [frame for frame in frames if self._stage not in frame.prepared]
        cut = [self._stage.crop.seen(frame) for frame in missing]
        fresh = iter(self._encoder.prepared([view for views in cut for view in views]))
        now = {id(frame): [next(fresh) for _ in views] for frame, views in zip(missing, cut, strict=True)}
        inputs = [now[id(frame)] if id(frame) in now else frame.prepared[self._stage] for frame in frames]
        found = averaged(inputs, self._encoder.embed, mean_direction)
        # A copy of the row: a view would keep the whole batch in memory.
        return [{} if each is None else {"embedding": np.array(each)} for each in found]


class ClipSimilarities(Stage):
    """How similar CLIP finds a crop of each image to some prompts.

    Gives `similarities`, the cosine with each prompt, in [-1, 1], and `logits`, the cosines times the network's
    learnt scale, whose softmax is CLIP's probability of each prompt; both (prompts,), higher is more similar. Of a
    network that was trained with sigmoids also `logit_bias`, one number: the sigmoid of a logit and it is the
    probability that image and prompt belong together; it changes no softmax. No array at all for an image without
    a crop. Quick to compute from the embeddings, so nothing is kept on disk.

    An ensemble of prompts is one vector: the mean of its prompts' unit vectors, brought to length 1 again
    (Radford et al. 2021, section 3.1.4).
    """

    kind: ClassVar[str] = "clip_similarities"
    cached: ClassVar[bool] = False
    needs_pixels: ClassVar[bool] = False
    precision_taken: ClassVar[str] = "float32"
    device_taken: ClassVar[str] = "cpu"

    encoder: ClipEncoder = Field(default_factory=TransformersClip)
    crop: Crop = Field(default_factory=Crop)
    prompts: tuple[PromptTexts, ...] = Field(min_length=1)
    """Each a text, or several texts that are averaged."""

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
        vectors, scale, bias = self._embedded(weights)
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

    def _embedded(self, weights: WeightsLocator) -> TextEmbeddings:
        """One vector for each prompt; a single text's stays as the encoder gives it, to the last bit."""
        ensembles = [(each,) if isinstance(each, str) else each for each in self.prompts]
        found = self.encoder.embed_prompts([text for texts in ensembles for text in texts], weights)
        rows = iter(found.vectors)
        own = [[next(rows) for _ in texts] for texts in ensembles]
        vectors = np.stack([each[0] if len(each) == 1 else mean_direction(each) for each in own])
        return found._replace(vectors=vectors)
