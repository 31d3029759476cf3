"""Reads a YOLO network from a `.pt` file with ultralytics, in its restricted mode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.perception.torch_settings import device_name

_THREADS = "OMP_NUM_THREADS"


def load_network(path: Path) -> Any:
    """An `ultralytics.YOLO` for detection.

    ultralytics reads its settings when it is imported: it is told to load nothing but known classes, to install
    nothing, to send nothing, and to keep its settings file in this project's cache folder. Where the environment
    already has these variables, they stay as they are.

    Raises:
        MissingExtraError: ultralytics is not installed.
        WeightsError: it cannot read the file, or it would run code from it.
    """
    # ultralytics leaves PyTorch a single core when it is imported, and one less than there are when it is first
    # called; other networks would be slowed down, too.
    torch = require("torch", extra="yolo")
    threads = torch.get_num_threads()
    ultralytics = _restricted_ultralytics()
    try:
        network = ultralytics.YOLO(str(path), task="detect")
        network.predict(np.zeros((32, 32, 3), np.uint8), imgsz=32, verbose=False)
        return network
    except Exception as error:  # ultralytics raises many sorts, for a damaged file and for a refused one
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise WeightsError(f"ultralytics cannot read {str(path)!r}: {first}") from error
    finally:
        torch.set_num_threads(threads)


def device_of_ultralytics() -> str:
    """Where ultralytics computes if not told: on an NVIDIA GPU, else on the CPU, as on Apple's machines."""
    cuda: bool = require("torch", extra="yolo").cuda.is_available()
    return device_name("cuda" if cuda else "cpu")


def _restricted_ultralytics() -> Any:
    settings = user_cache_path("detector_bench") / "ultralytics"
    for variable, value in {
        "ULTRALYTICS_SAFE_LOAD": "true",
        "YOLO_AUTOINSTALL": "false",
        "YOLO_OFFLINE": "true",
        "YOLO_VERBOSE": "false",
        "YOLO_CONFIG_DIR": str(settings),
    }.items():
        os.environ.setdefault(variable, value)
    own_threads = os.environ.get(_THREADS)
    ultralytics = require("ultralytics", extra="yolo")
    if own_threads is None:
        os.environ.pop(_THREADS, None)
    asked = getattr(require("ultralytics.utils", extra="yolo"), "SAFE_LOAD", False)
    # Without this function of PyTorch 2.6, ultralytics falls back to unrestricted loading.
    able = hasattr(require("torch.serialization", extra="yolo"), "get_unsafe_globals_in_checkpoint")
    if not asked or not able:
        raise WeightsError(
            "a .pt file can run code when it is loaded, and the installed ultralytics would let it: install newer "
            "versions of ultralytics and torch, set ULTRALYTICS_SAFE_LOAD=true, or export the network to .onnx"
        )
    return ultralytics
