"""Where PyTorch computes, and with how many bits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import Field

from detector_bench.declarations import Declaration
from detector_bench.errors import ConfigError
from detector_bench.installation import is_installed, require
from detector_bench.perception.stage import DESCRIPTIVE

Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], Field(json_schema_extra=DESCRIPTIVE)]
"""`auto` takes the GPU where there is one. No part of a stage's fingerprint: results differ by rounding only."""

Precision = Literal["auto", "float32", "bfloat16", "float16"]
"""`auto` takes 16 bits where the hardware computes with them: bfloat16, or float16 on older GPUs; else float32.
A fingerprint holds what was taken, never the word `auto`, so that results of two precisions cannot mix."""


class TorchSettings(Declaration):
    """The settings of a part that computes with PyTorch: a stage, an encoder, or a detector that hands them on."""

    precision: Precision = "auto"
    device: Device = "auto"

    @property
    def through_torch(self) -> bool:
        """Whether these settings count: another format of the network may run elsewhere."""
        return True

    @property
    def precision_taken(self) -> str:
        """The number format that `precision` stands for on this machine; asks PyTorch only where it says `auto`.

        Raises:
            MissingExtraError: `auto`, and PyTorch is not installed.
            ConfigError: see `chosen_device`.
        """
        return _precision_taken(self.precision, self.device) if self.through_torch else OF_THE_FILE

    @property
    def device_taken(self) -> str:
        """The device that `device` stands for on this machine, a GPU with its name.

        Raises:
            MissingExtraError: PyTorch is not installed.
            ConfigError: see `chosen_device`.
        """
        return device_name(self.device)

    def settings_taken(self) -> Mapping[str, Any]:
        """What a fingerprint holds in place of `precision`; see `stage.canonical`."""
        return {"precision": self.precision_taken} if self.through_torch else {}

    def missing_settings(self) -> tuple[str, ...]:
        """A line if this machine lacks the device or the precision; see `Stage.missing_settings`."""
        # float32 on whatever there is can always be had, and PyTorch takes seconds to be imported.
        anything = self.precision in ("auto", "float32") and self.device in ("auto", "cpu")
        if anything or not self.through_torch or not is_installed("torch"):
            return ()
        torch = require("torch", extra="torch")
        try:
            chosen_precision(torch, self.precision, device=chosen_device(torch, self.device))
        except ConfigError as error:
            return (str(error),)
        return ()


OF_THE_FILE = "as in the network's file"
"""The precision of a network whose file fixes it, such as one in ONNX."""


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
        ConfigError: float16 on a CPU, where most operations lack it; bfloat16 on a GPU that has none.
    """
    if precision == "float16" and device == "cpu":
        raise ConfigError(
            "precision 'float16' needs a GPU, and this is to run on the CPU: set `precision: bfloat16`, `float32` "
            "or `auto`"
        )
    if precision == "bfloat16" and device == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError(
            "precision 'bfloat16' is asked for, and this GPU has none: set `precision: float16`, `float32` or "
            "`auto`"
        )
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


def quicken_products(torch: Any, module: Any, *, device: str, dtype: Any) -> None:
    """Let a float32 network on a CPU multiply matrices through oneDNN, where that is quicker than PyTorch's way.

    PyTorch takes Intel's library for it, which is half as fast on some processors of others. Which one is quicker
    here is tried on the largest layer. Results differ by rounding only.
    """
    layers = [layer for layer in module.modules() if type(layer) is torch.nn.Linear]
    multiply = getattr(torch._C._nn, "mkldnn_linear", None)
    if device != "cpu" or dtype != torch.float32 or not layers or multiply is None:
        return

    def through_onednn(layer: Any) -> Any:
        # A bias of zeros, as the function wants one.
        bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
        weight, bias = layer.weight.detach().to_mkldnn(), bias.detach().to_mkldnn()
        return lambda rows: multiply(rows.to_mkldnn(), weight, bias).to_dense()

    largest = max(layers, key=lambda layer: layer.weight.numel())
    rows = torch.ones((_ROWS_OF_TRIAL, largest.in_features))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what other threads do would not count below
    try:
        with torch.inference_mode():
            quicker = _seconds(through_onednn(largest), rows) < _CLEARLY_QUICKER * _seconds(largest, rows)
    finally:
        torch.set_num_threads(threads)
    for layer in layers if quicker else ():
        layer.forward = through_onednn(layer)
        layer.weight, layer.bias = None, None  # else the numbers would be held twice


_ROWS_OF_TRIAL = 256
_CLEARLY_QUICKER = 0.85


def _seconds(layer: Any, rows: Any) -> float:
    """The quickest of a few calls, by this thread's own time, which others disturb less."""
    layer(rows)
    found = []
    for _ in range(5):
        began = time.thread_time()
        layer(rows)
        found.append(time.thread_time() - began)
    return min(found)


class _Exactness:
    """Whose convolutions are exact right now; the setting itself is one for the whole process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.setting: AbstractContextManager[Any] = nullcontext()


_exactness = _Exactness()


@contextmanager
def exact_convolutions(torch: Any) -> Iterator[None]:
    """The context in which float32 convolutions are float32 on an NVIDIA GPU, too, and not its shorter TF32.

    Several threads may be in it at once; the last one gives the setting back. (Products of matrices are float32 by
    default.)
    """
    with _exactness.lock:
        if _exactness.users == 0:
            _exactness.setting = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
            _exactness.setting.__enter__()
        _exactness.users += 1
    try:
        yield
    finally:
        with _exactness.lock:
            _exactness.users -= 1
            if _exactness.users == 0:
                _exactness.setting.__exit__(None, None, None)


def on_device(torch: Any, values: NDArray[Any], device: str) -> Any:
    """An array as a tensor on the device; to a GPU it is copied from pinned memory, while this thread goes on."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor.to(device)


def device_name(device: Device) -> str:
    """The device that is taken on this machine, as PyTorch calls it, and a GPU's name.

    Raises:
        MissingExtraError: PyTorch is not installed.
        ConfigError: see `chosen_device`.
    """
    torch = require("torch", extra="torch")
    chosen = chosen_device(torch, device)
    return f"cuda ({torch.cuda.get_device_name()})" if chosen == "cuda" else chosen


@cache
def _precision_taken(precision: Precision, device: Device) -> str:
    if precision != "auto":
        return precision
    torch = require("torch", extra="torch")
    chosen = chosen_precision(torch, precision, device=chosen_device(torch, device))
    return str(chosen).removeprefix("torch.")


def _cpu_computes_bfloat16(torch: Any) -> bool:
    # Elsewhere PyTorch accepts bfloat16, and is slower with it than with float32.
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
