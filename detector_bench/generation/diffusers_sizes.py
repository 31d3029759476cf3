"""Sizes that a pipeline can make, and about how long an image takes, from the settings of its parts alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detector_bench.generation.diffusers_calls import EXTRA, CallForm
from detector_bench.generation.diffusers_checkpoints import PipelineCheckpoint
from detector_bench.generation.diffusers_loading import tensors_in
from detector_bench.installation import require

_CONVOLUTIONS_SHARE = 0.1
"""Of a network of convolutions: operations per weight and number of the latent image, where a transformer has 1.
Most weights work on smaller images inside."""


def _settings(folder: Path, part: str) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / part / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def pixels_per_latent(folder: Path) -> int:
    """Pixels of a side that one number of the latent image stands for."""
    for part in ("vae", "movq", "vqgan"):
        settings = _settings(folder, part)
        for key, more in (
            ("block_out_channels", 0),
            ("encoder_block_out_channels", 0),
            ("temperal_downsample", 1),
        ):
            if isinstance(found := settings.get(key), list) and found:
                return int(2 ** (len(found) - 1 + more))
    return 8


def pixels_of_step(folder: Path, form: CallForm) -> int:
    """Width and height have to be multiples of it."""
    patches = _settings(folder, "transformer").get("patch_size")
    patch = 2 if form.packs else patches if isinstance(patches, int) and patches > 0 else 1
    return pixels_per_latent(folder) * patch


def size_mistakes(width: int | None, height: int | None, *, step: int, name: str) -> Iterator[str]:
    """A line for each side that is no multiple of the step, with the nearest that are."""
    for key, side in (("width", width), ("height", height)):
        if side is not None and side % step:
            below, above = side // step * step, -(-side // step) * step
            near = f"{above}" if below == 0 else f"{below} or {above}"
            yield f"{key}: {name} cannot make {side} pixels (accepted: multiples of {step}, such as {near})"


def default_side(folder: Path) -> int | None:
    """Pixels of a side where the recipe gives none, as far as the settings say so."""
    for part in ("unet", "transformer"):
        found = _settings(folder, part).get("sample_size")
        if isinstance(found, int) and found > 0:
            return found * pixels_per_latent(folder)
    return None


def weights_in(folder: Path, checkpoint: PipelineCheckpoint, part: str) -> Mapping[str, int]:
    """How many numbers the weights of a part have, by their format (`F32`, `F16`, ...)."""
    found: dict[str, int] = {}
    for name in checkpoint.counted_in(folder):
        if name.startswith(f"{part}/") and name.endswith(".safetensors"):
            for _, facts in tensors_in(folder / name):
                kind = str(facts.get("dtype"))
                found[kind] = found.get(kind, 0) + int(math.prod(facts.get("shape", [0])))
    return found


def operations_of_an_image(
    folder: Path, part: str, *, weights: int, pixels: int, steps: int, guided: bool
) -> float:
    """About how many multiplications and additions an image takes, in its denoising network alone.

    Args:
        folder: of the checkpoint; its settings are enough.
        part: the denoising network.
        weights: how many it has.
        pixels: of the image.
        steps: of denoising.
        guided: whether each step is computed twice, with the prompt and without.
    """
    latent = pixels / pixels_per_latent(folder) ** 2
    if part == "transformer":
        patches = _settings(folder, part).get("patch_size")
        patch = patches if isinstance(patches, int) and patches > 1 else 2
        per_step = 2.0 * weights * latent / patch**2
    else:
        per_step = 2.0 * weights * latent * _CONVOLUTIONS_SHARE
    return float(per_step * steps * (2 if guided else 1))


def operations_per_second(device: str, precision: str) -> float:
    """What this machine does of them, tried with products of matrices for a moment."""
    torch = require("torch", extra=EXTRA)
    side = 4096 if device.startswith("cuda") else 1024
    matrix = torch.ones((side, side), dtype=getattr(torch, precision), device=device)
    wait = torch.cuda.synchronize if device.startswith("cuda") else _nothing
    (matrix @ matrix).sum().item()
    best = math.inf
    for _ in range(3):
        began = time.perf_counter()
        matrix @ matrix
        wait()
        best = min(best, time.perf_counter() - began)
    return 2.0 * side**3 / best


def _nothing() -> None:
    pass
