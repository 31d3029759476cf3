"""Where PyTorch computes, and with how many bits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal

from pydantic import Field

from detector_bench.errors import ConfigError
from detector_bench.perception.stage import DESCRIPTIVE

Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], Field(json_schema_extra=DESCRIPTIVE)]
"""`auto` takes the GPU where there is one. No part of a stage's fingerprint: results differ by rounding only."""

Precision = Literal["auto", "float32", "bfloat16", "float16"]
"""`auto` takes 16 bits where the hardware computes with them: bfloat16, or float16 on older GPUs; else float32."""


def chosen_device(torch: Any, device: Device) -> str:
    """The device as PyTorch calls it.

    Raises:
        ConfigError: a GPU is asked for, and there is none.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in available.items() if there)
    if not available[device]:
        raise ConfigError(f"device {device!r} is asked for, but PyTorch finds none; set `device: auto`")
    return device


def chosen_precision(torch: Any, precision: Precision, *, device: str) -> Any:
    """The number format, as a `torch.dtype`.

    Raises:
        ConfigError: float16 on a CPU, where most operations lack it.
    """
    if precision == "float16" and device == "cpu":
        raise ConfigError("precision 'float16' needs a GPU; on a CPU choose bfloat16 or float32")
    if precision != "auto":
        return getattr(torch, precision)
    if device == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device == "cpu" and _cpu_computes_bfloat16(torch) else torch.float32


def shorten_products(torch: Any, module: Any, dtype: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Let a float32 network multiply matrices and convolve in a shorter number format, and add up in float32.

    Layers of products, where nearly all the time goes, keep their weights in the format; sums, normalisations and
    what runs past the layers stay float32. Rounding those as well would be no faster, and flips more decisions.

    Returns:
        A function that opens the context in which the network is to be called.
    """
    if dtype == torch.float32:
        return nullcontext
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
            layer.to(dtype)
    device = next(module.parameters()).device.type
    return lambda: torch.autocast(device, dtype=dtype)


def _cpu_computes_bfloat16(torch: Any) -> bool:
    # Elsewhere PyTorch accepts bfloat16, and is slower with it than with float32.
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
