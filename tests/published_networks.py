"""Tiny published classifiers of the real libraries' classes, with random weights, saved by their own functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIDE = 32
GENDER = ("woman", "man")
_LOUD = 30.0
"""Random networks hardly tell pictures apart; their last layer is made so much louder."""


def save_vit(folder: Path, labels: Sequence[str] = GENDER, *, seed: int = 0) -> Path:
    """A vision transformer for transformers' `AutoModelForImageClassification`, with its processor."""
    import torch
    import transformers

    torch.manual_seed(seed)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(**size, image_size=SIDE, patch_size=8, id2label=dict(enumerate(labels)))
    model = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        model.classifier.weight.mul_(_LOUD)
    model.save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def save_resnet(folder: Path, labels: Sequence[str] = GENDER, *, seed: int = 0) -> Path:
    """A ResNet of transformers, with a processor that cuts the middle out."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], id2label=dict(enumerate(labels))
    )
    model = transformers.ResNetForImageClassification(config)
    with torch.no_grad():
        model.classifier[1].weight.mul_(_LOUD)
    model.save_pretrained(folder)
    transformers.ConvNextImageProcessorPil(size={"shortest_edge": SIDE}, crop_pct=0.875).save_pretrained(folder)
    return folder


def save_timm(folder: Path, labels: Sequence[str] = GENDER, *, seed: int = 0) -> Path:
    """A network of timm in the form in which it shares them: settings and safetensors."""
    import safetensors.torch
    import timm
    import torch

    torch.manual_seed(seed)
    model = timm.create_model("test_resnet", pretrained=False, num_classes=len(labels))
    with torch.no_grad():
        model.get_classifier().weight.mul_(_LOUD)
    folder.mkdir(parents=True)
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors")
    chosen = {"input_size": [3, SIDE, SIDE], "crop_pct": 0.9, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    settings = {
        "architecture": "test_resnet",
        "num_classes": len(labels),
        "label_names": list(labels),
        "pretrained_cfg": {**chosen, "interpolation": "bicubic"},
    }
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def save_torchvision(path: Path, outputs: int = 2, *, seed: int = 0) -> Path:
    """The tensors of torchvision's smallest classifier: safetensors, or a pickle of tensors, as the name says."""
    import safetensors.torch
    import torch
    import torchvision

    torch.manual_seed(seed)
    model = torchvision.models.squeezenet1_1(weights=None, num_classes=outputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(model.state_dict(), path)
    else:
        torch.save({"state_dict": model.state_dict(), "epoch": 3}, path)
    return path


def mean_colours(torch: Any) -> Any:
    """A network whose numbers are the mean red and the mean green of its input."""

    class MeanColours(torch.nn.Module):  # type: ignore[misc]
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return pixels.mean(dim=(2, 3))[:, :2] * 10.0

    return MeanColours()


def save_torchscript(path: Path) -> Path:
    """A TorchScript file whose numbers are the mean red and the mean green of its input."""
    import torch

    example = torch.zeros(1, 3, SIDE, SIDE)
    torch.jit.trace(mean_colours(torch), example).save(str(path))
    return path


def torchscript_model(path: Path, labels: Sequence[str] = GENDER) -> dict[str, Any]:
    """How a study names it: pixels from 0 to 1."""
    plain = {"size": SIDE, "resize": "squash", "mean": [0, 0, 0], "std": [1, 1, 1]}
    return {"library": "torchscript", "file": str(path), "labels": list(labels), "input": plain}
