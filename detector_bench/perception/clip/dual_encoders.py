"""Networks of an image and a text encoder that transformers opens and that are no CLIP of OpenAI's form: SigLIP,
SigLIP 2, MetaCLIP 2, AltCLIP, Chinese-CLIP and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.perception.clip.embeddings import (
    ImageEncoder,
    Pixels,
    TextEmbeddings,
    text_embeddings,
    unit_vectors,
)
from detector_bench.perception.torch_settings import (
    exact_convolutions,
    on_device,
    quicken_products,
    shorten_products,
)
from detector_bench.perception.transformers_checkpoints import from_folder, whole_network

Inputs = Mapping[str, NDArray[Any]]
"""What a processor makes of one image, by the name of the network's parameter."""

_FILLED_UP = ("siglip", "siglip2")
"""Their text encoders were trained on lower-case prompts filled up to a fixed length, without an attention
mask."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json", "*.bpe.model")


def image_encoder(
    torch: Any, transformers: Any, folder: Path, *, settings: Any, device: str, dtype: Any
) -> ImageEncoder[Inputs]:
    """The image encoder, with the checkpoint's own processor in its Pillow form.

    Raises:
        WeightsError: the checkpoint cannot be read, or lacks a part.
        ConfigError: it is no pair of encoders.
    """
    model = _read(transformers, folder, settings, drop="text_model").to(device)
    quicken_products(torch, model, device=device, dtype=dtype)
    computing = shorten_products(torch, model, dtype)
    processor = from_folder(transformers.AutoImageProcessor, folder, backend="pil", trust_remote_code=False)

    def prepare(image: Pixels) -> Inputs:
        found = processor(images=image, input_data_format="channels_last", return_tensors="np")
        return {name: np.asarray(values[0]) for name, values in found.items()}

    def embed(images: Sequence[Inputs]) -> NDArray[np.float32]:
        stacked = {name: np.stack([image[name] for image in images]) for name in images[0]}
        values = {name: on_device(torch, each, device) for name, each in stacked.items()}
        with torch.inference_mode(), computing(), exact_convolutions(torch):
            features = _pooled(model.get_image_features(**values), images=len(images), folder=folder)
            return unit_vectors(features.float().cpu().numpy())

    return ImageEncoder(prepare, embed)


def embed_prompts(
    torch: Any, transformers: Any, folder: Path, *, settings: Any, prompts: Sequence[str], source: str
) -> TextEmbeddings:
    """The prompts' embeddings, with the scale and, of networks trained with sigmoids, the bias of logits.

    Raises:
        WeightsError: the checkpoint cannot be read, or lacks a part.
        ConfigError: it is no pair of encoders, or a prompt is longer than it can read.
    """
    model = _read(transformers, folder, settings, drop="vision_model")
    tokens = _tokens(transformers, folder, settings, prompts=prompts, source=source)
    with torch.inference_mode():
        features = _pooled(model.get_text_features(**tokens), images=len(prompts), folder=folder)
    bias = getattr(model, "logit_bias", None)
    return text_embeddings(
        features.numpy(),
        scale=_scale(model),
        bias=None if bias is None else float(bias.detach().double()),
        source=source,
    )


def _read(transformers: Any, folder: Path, settings: Any, *, drop: str) -> Any:
    """Both encoders, without the one that is not needed; transformers would fill gaps with noise."""
    kind = transformers.MODEL_MAPPING.get(type(settings), None)
    if not all(hasattr(kind, name) for name in ("get_image_features", "get_text_features")):
        raise ConfigError(
            f"{str(folder)!r} is a checkpoint of {settings.model_type!r}, not of CLIP or another pair of an image "
            "and a text encoder"
        )
    what = f"checkpoint of {settings.model_type}"
    model = whole_network(transformers, kind, folder, what=what, config=settings, dtype="float32")
    if not hasattr(model, "logit_scale") and not hasattr(model, "temperature"):
        raise ConfigError(
            f"{str(folder)!r} is a checkpoint of {settings.model_type!r}, which compares no images with texts"
        )
    if hasattr(model, drop):
        setattr(model, drop, None)
    return model


def _tokens(
    transformers: Any, folder: Path, settings: Any, *, prompts: Sequence[str], source: str
) -> dict[str, Any]:
    if not any(any(folder.glob(name)) for name in _TOKENIZER_FILES):
        raise WeightsError(f"{str(folder)!r} lacks the tokenizer: {', '.join(_TOKENIZER_FILES[:2])} or the like")
    tokenizer = from_folder(transformers.AutoTokenizer, folder, trust_remote_code=False)
    text = settings.get_text_config()
    if len(tokenizer) > text.vocab_size:
        raise WeightsError(
            f"{str(folder)!r}: the tokenizer has {len(tokenizer)} tokens, the network {text.vocab_size}"
        )
    filled_up = settings.model_type in _FILLED_UP
    given = [prompt.lower() if filled_up else prompt for prompt in prompts]
    limit = text.max_position_embeddings
    for prompt, tokens in zip(prompts, tokenizer(given)["input_ids"], strict=True):
        if len(tokens) > limit:
            raise ConfigError(f"prompt {prompt!r} has {len(tokens)} tokens; {source} reads {limit}")
    if filled_up:
        found = tokenizer(given, padding="max_length", max_length=limit, return_tensors="pt")
        return {"input_ids": found["input_ids"]}
    return dict(tokenizer(given, padding=True, return_tensors="pt"))


def _pooled(found: Any, *, images: int, folder: Path) -> Any:
    """One row for each input: transformers 5 gives it as `pooler_output`, transformers 4 gave the rows alone."""
    rows = getattr(found, "pooler_output", found)
    if rows is None or rows.ndim != 2 or len(rows) != images:
        raise ConfigError(f"{str(folder)!r} does not give one embedding for each image and prompt")
    return rows


def _scale(model: Any) -> float:
    if hasattr(model, "logit_scale"):
        return float(model.logit_scale.detach().double().exp())
    return 1 / float(model.temperature.detach().double())
