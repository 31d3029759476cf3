"""Tiny CLIP networks of the real classes, with random weights, saved by the libraries' own functions."""

from __future__ import annotations

import json
import string
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from small_parts import image_name, write_tables

SIDE = 32
DIMENSIONS = 16
SIZES = ((40, 60), (61, 40), (32, 32), (31, 33), (1, 47), (90, 3), (3, 3), (7, 50), (200, 120), (33, 131))
"""Height and width of test images: larger and smaller than the network's input, odd, and one pixel high."""

GENDER = ("a photo of a male", "a photo of a female")
PRESENCE = ("a photo of a person", "a photo of an object")
LOOKS = (
    "A photo of a person who looks like a man",
    "A photo of a person who looks like a woman",
    "A photo of a person with an uncertain gender",
)
OPEN_CLIP_SETTINGS: dict[str, Any] = {
    "embed_dim": DIMENSIONS,
    "vision_cfg": {"image_size": SIDE, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


def odd_images(seed: int = 0) -> list[NDArray[np.uint8]]:
    """Random images of odd sizes: coarse blotches, since fine noise would be averaged away by resizing."""
    rng = np.random.default_rng(seed)
    images = []
    for height, width in SIZES:
        blotches = rng.integers(0, 256, (3, 3, 3), dtype=np.uint8)
        images.append(np.asarray(Image.fromarray(blotches).resize((width, height), Image.Resampling.NEAREST)))
    return images


def save_tokenizer(folder: Path) -> Path:
    """CLIP's tokenizer with an alphabet for a vocabulary, so that every letter is a token."""
    import transformers

    letters = string.ascii_lowercase
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    transformers.CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    return folder / "tokenizer.json"


def save_transformers_clip(folder: Path, *, seed: int = 3) -> Path:
    """A `CLIPModel` with its tokenizer and image processor."""
    import torch
    import transformers

    torch.manual_seed(seed)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    # The end of text is the last token of the alphabet; a large factor makes random networks see differences.
    text = {
        "vocab_size": 54,
        "bos_token_id": 52,
        "eos_token_id": 53,
        "pad_token_id": 53,
        "initializer_factor": 8.0,
    }
    vision = {"image_size": SIDE, "patch_size": 8, "initializer_factor": 8.0}
    config = transformers.CLIPConfig(
        text_config={**size, **text},
        vision_config={**size, **vision},
        projection_dim=DIMENSIONS,
        logit_scale_init_value=2.0,
    )
    model = transformers.CLIPModel(config)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    transformers.CLIPImageProcessor(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    ).save_pretrained(folder)
    return folder


def save_siglip(folder: Path, *, patches: bool = False, seed: int = 3) -> Path:
    """A SigLIP 2 with its tokenizer and image processor: of one size as most are, or of `patches` (NaFlex)."""
    import torch
    import transformers

    torch.manual_seed(seed)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    letters = [*string.ascii_lowercase, "▁"]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *letters]
    text = {**size, "vocab_size": len(tokens), "projection_size": 32, "max_position_embeddings": 64}
    vision = {**size, "patch_size": 8}
    if patches:
        config = transformers.Siglip2Config(text_config=text, vision_config={**vision, "num_patches": 16})
        model = transformers.Siglip2Model(config)
        processor = transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config={**vision, "image_size": SIDE})
        model = transformers.SiglipModel(config)
        processor = transformers.SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    with torch.no_grad():
        model.logit_scale.fill_(2.0)
        model.logit_bias.fill_(-3.0)
        for name, parameter in model.named_parameters():
            if name.endswith("weight") and parameter.ndim > 1:
                parameter.mul_(4)  # random networks are nearly blind otherwise
    model.save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    transformers.GemmaTokenizer(vocab=vocabulary, merges=[], padding_side="right").save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_open_clip(folder: Path, *, seed: int = 3) -> Path:
    """A network of open_clip in the form in which it shares them: settings and safetensors."""
    import open_clip
    import safetensors.torch
    import torch

    torch.manual_seed(seed)
    model = open_clip.CLIP(**OPEN_CLIP_SETTINGS)
    with torch.no_grad():
        for parameter in model.visual.parameters():
            parameter.mul_(4)  # random networks are nearly blind otherwise
    folder.mkdir(parents=True)
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": OPEN_CLIP_SETTINGS, "preprocess_cfg": {"mean": [0.5, 0.4, 0.3]}})
    )
    safetensors.torch.save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


def export_onnx_pair(
    checkpoint: Path, folder: Path, *, tokens: int | None = None, images: int | None = None
) -> Path:
    """Export both towers of a saved `CLIPModel` as image.onnx and text.onnx.

    Args:
        checkpoint: from `save_transformers_clip`.
        folder: where they go.
        tokens: fix the number of tokens; None leaves it free.
        images: fix the number of images; None leaves it free.
    """
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    model = (
        transformers.CLIPModel.from_pretrained(checkpoint, attn_implementation="eager")
        .eval()
        .requires_grad_(False)
    )

    class ImageTower(torch.nn.Module):
        def forward(self, pixels: Any) -> Any:
            return model.visual_projection(model.vision_model(pixels).pooler_output)

    class TextTower(torch.nn.Module):
        def forward(self, input_ids: Any) -> Any:
            return model.text_projection(model.text_model(input_ids).pooler_output)

    pixels = torch.zeros(images or 2, 3, SIDE, SIDE)
    ids = torch.full((1, tokens or 9), 53)
    _export(ImageTower(), pixels, folder / "image.onnx", ["pixels"], free={} if images else {0: "N"})
    _export(TextTower(), ids, folder / "text.onnx", ["input_ids"], free={} if tokens else {1: "tokens"})
    return folder


def _export(module: Any, example: Any, path: Path, names: Sequence[str], *, free: dict[int, str]) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is the older one
        torch.onnx.export(
            module,
            (example,),
            str(path),
            dynamo=False,
            input_names=list(names),
            output_names=["embedding"],
            dynamic_axes={names[0]: free} if free else None,
        )


def onnx_encoder(folder: Path, tokenizer: Path, **settings: Any) -> dict[str, Any]:
    """How a study file names an exported pair of `save_transformers_clip`."""
    return {
        "backend": "onnx",
        "image_network": str(folder / "image.onnx"),
        "text_network": str(folder / "text.onnx"),
        "tokenizer": str(tokenizer),
        "input": {"size": SIDE},
        "logit_scale": float(np.exp(2.0)),
        **settings,
    }


def write_odd_images(folder: Path) -> Path:
    """An image set of these images."""
    (folder / "images").mkdir(parents=True)
    for number, image in enumerate(odd_images()):
        Image.fromarray(image).save(folder / "images" / f"{image_name(number)}.png")
    write_tables(folder, range(len(SIZES)))
    return folder
