"""Networks of FairFace's class with random weights, in the published files' format."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def saved_resnet(torch: Any, path: Path, *, seed: int, outputs: int = 18) -> Path:
    """A ResNet-34 as a file of tensors alone, as FairFace's authors publish theirs."""
    import torchvision  # type: ignore[import-untyped,unused-ignore]

    torch.manual_seed(seed)
    model = torchvision.models.resnet34(weights=None, num_classes=outputs)
    with torch.no_grad():
        model.fc.weight *= 0.05  # so that probabilities are neither 0 nor 1
    torch.save(model.state_dict(), path)
    return path
