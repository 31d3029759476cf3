"""CLIP through the package transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.installation import require
from detector_bench.perception.clip import dual_encoders
from detector_bench.perception.clip.embeddings import (
    ImageEncoder,
    Pixels,
    TextEmbeddings,
    text_embeddings,
    unit_vectors,
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
from detector_bench.perception.transformers_checkpoints import from_folder, whole_network
from detector_bench.weights import Checkpoint, Weights, WeightsLocator
from detector_bench.weights.catalogue import CLIP_VIT_LARGE_PATCH14
from detector_bench.weights.files import CheckpointField

_TOKENIZER_FILES = (("tokenizer.json",), ("vocab.json", "merges.txt"))


class TransformersClip(TorchSettings):
    """A checkpoint of CLIP as transformers saves it (`CLIPModel`, processor and tokenizer in one folder), or of
    another pair of encoders, such as SigLIP 2 (`dual_encoders`).

    Images are prepared by transformers' own processor as the checkpoint sets it, in its Pillow form: for the
    published networks, the shorter side to 224 pixels (bicubic, antialiased, rounded to 8 bits), then the middle
    224 x 224. That is the rule of OpenAI's program, and of transformers when the papers were written; the
    torchvision form that transformers 5 takes by default differs by up to a few grey levels in a pixel. Prompts
    are always embedded on the CPU in float32. Each of the two towers is read from the checkpoint only when needed.

    SigLIP's prompts are written in lower case and filled up to the length it was trained with (64 tokens), without
    an attention mask.
    """

    extra: ClassVar[str] = "clip"
    modules: ClassVar[tuple[str, ...]] = ("torch", "transformers")

    backend: Literal["transformers"] = "transformers"
    checkpoint: CheckpointField = CLIP_VIT_LARGE_PATCH14
    precision: Precision = "auto"
    """The number format of the image tower; the text tower computes in float32."""

    def weights(self) -> tuple[Weights, ...]:
        """The checkpoint, with both towers and the tokenizer."""
        return (self.checkpoint,)

    def image_encoder(self, weights: WeightsLocator) -> ImageEncoder[Any]:
        """Read the image tower.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: the processor makes images of another size than the network takes.
        """
        torch, transformers = (require(name, extra=self.extra) for name in self.modules)
        folder = weights.locate(self.checkpoint)
        device = chosen_device(torch, self.device)
        dtype = chosen_precision(torch, self.precision, device=device)
        settings = from_folder(transformers.AutoConfig, folder, trust_remote_code=False)
        if settings.model_type != "clip":
            return dual_encoders.image_encoder(
                torch, transformers, folder, settings=settings, device=device, dtype=dtype
            )
        model = _load_tower(transformers, "vision", folder).to(device)
        quicken_products(torch, model, device=device, dtype=dtype)
        computing = shorten_products(torch, model, dtype)
        processor = from_folder(transformers.CLIPImageProcessorPil, folder)
        factor, mean, std = (torch.tensor(value, device=device) for value in _arithmetic(processor))
        _check_size(processor, side=model.config.image_size, source=self.checkpoint.name)

        def embed(images: Sequence[Pixels]) -> NDArray[np.float32]:
            with torch.inference_mode():
                values = (on_device(torch, np.stack(images), device).float() * factor - mean) / std
                with computing(), exact_convolutions(torch):
                    features = model(pixel_values=values).image_embeds
                return unit_vectors(features.float().cpu().numpy())

        return ImageEncoder(lambda image: _cropped(processor, image), embed)

    def embed_prompts(self, prompts: Sequence[str], weights: WeightsLocator) -> TextEmbeddings:
        """Read the text tower, embed prompts, and forget it again.

        Raises:
            MissingExtraError, WeightsError: see `Stage.load`.
            ConfigError: a prompt is longer than the network can read.
        """
        torch, transformers = (require(name, extra=self.extra) for name in self.modules)
        folder = weights.locate(self.checkpoint)
        settings = from_folder(transformers.AutoConfig, folder, trust_remote_code=False)
        if settings.model_type != "clip":
            return dual_encoders.embed_prompts(
                torch, transformers, folder, settings=settings, prompts=prompts, source=self.checkpoint.name
            )
        model = _load_tower(transformers, "text", folder)
        tokenizer = _read_tokenizer(transformers, folder, vocabulary=model.config.vocab_size)
        limit = model.config.max_position_embeddings
        for prompt, tokens in zip(prompts, tokenizer(list(prompts))["input_ids"], strict=True):
            if len(tokens) > limit:
                raise ConfigError(
                    f"prompt {prompt!r} has {len(tokens)} tokens; {self.checkpoint.name} reads {limit}"
                )
        with torch.inference_mode():
            features = model(**tokenizer(list(prompts), padding=True, return_tensors="pt")).text_embeds
        scale = _logit_scale(self.checkpoint, folder)
        return text_embeddings(features.numpy(), scale=scale, source=self.checkpoint.name)


def _load_tower(transformers: Any, tower: Literal["vision", "text"], folder: Path) -> Any:
    """Read one tower; refuse a checkpoint that lacks a part of it, which transformers would fill with noise."""
    settings = from_folder(transformers.AutoConfig, folder, trust_remote_code=False)
    names = {"vision": "CLIPVisionModelWithProjection", "text": "CLIPTextModelWithProjection"}
    config = getattr(settings, f"{tower}_config")
    # The part's own settings may leave the size of the common space at its default.
    config.projection_dim = settings.projection_dim
    kind = getattr(transformers, names[tower])
    return whole_network(transformers, kind, folder, what="checkpoint of CLIP", config=config, dtype="float32")


def _read_tokenizer(transformers: Any, folder: Path, *, vocabulary: int) -> Any:
    """Read the tokenizer; transformers would make an empty one of a folder without its files."""
    if not any(all((folder / name).is_file() for name in names) for names in _TOKENIZER_FILES):
        raise WeightsError(f"{str(folder)!r} lacks the tokenizer: tokenizer.json, or vocab.json and merges.txt")
    tokenizer = from_folder(transformers.CLIPTokenizer, folder)
    if len(tokenizer) > vocabulary:
        raise WeightsError(f"{str(folder)!r}: the tokenizer has {len(tokenizer)} tokens, the network {vocabulary}")
    return tokenizer


def _cropped(processor: Any, image: Pixels) -> Pixels:
    """Resize and crop as the processor is set to, (3, height, width); the arithmetic comes on the device."""
    found = processor(image, input_data_format="channels_last", do_rescale=False, do_normalize=False)
    return np.asarray(found["pixel_values"][0])


def _arithmetic(processor: Any) -> tuple[NDArray[np.float32], ...]:
    """The processor's factor on pixel values, and mean and standard deviation as (3, 1, 1)."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0.0] * 3, [1.0] * 3)
    return np.asarray(factor, np.float32), _channels(mean), _channels(std)


def _channels(values: Sequence[float]) -> NDArray[np.float32]:
    return np.asarray(values, np.float32).reshape(3, 1, 1)


def _check_size(processor: Any, *, side: int, source: str) -> None:
    height, width = _cropped(processor, np.zeros((side + 10, side + 20, 3), np.uint8)).shape[1:]
    if (height, width) != (side, side):
        raise ConfigError(
            f"checkpoint {source}: its preprocessor_config.json makes images of {width} x {height} pixels, its "
            f"network takes {side} x {side}"
        )


def _logit_scale(checkpoint: Checkpoint, folder: Path) -> float:
    safetensors = require("safetensors", extra=None)
    for path in checkpoint.found_in(folder):
        if path.suffix == ".safetensors":
            with safetensors.safe_open(path, framework="pt") as tensors:
                if "logit_scale" in tensors.keys():  # noqa: SIM118 - no mapping
                    return float(tensors.get_tensor("logit_scale").double().exp())
    raise WeightsError(f"{str(folder)!r} is no checkpoint of CLIPModel: it lacks 'logit_scale'")
