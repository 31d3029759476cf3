"""Opens ONNX networks with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detector_bench.errors import WeightsError
from detector_bench.installation import require

_OPENED: set[str] = set()
"""The providers that sessions of this process really got; onnxruntime falls back to the CPU without an error."""


def session_device() -> str:
    """Where networks of this process run that were opened to be optimised: `cuda` or `cpu`."""
    return "cuda" if "CUDAExecutionProvider" in _OPENED else "cpu"


def open_session(path: Path, *, extra: str = "onnx", optimise: bool = True) -> Any:
    """Open a network on the GPU where onnxruntime has one, else on the CPU.

    Args:
        path: the `.onnx` file.
        extra: the extra to name if onnxruntime is missing.
        optimise: let onnxruntime rewrite the graph; without, the plain graph runs, on the CPU on every machine.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        WeightsError: the file is not a network that onnxruntime can read.
    """
    runtime = require("onnxruntime", extra=extra)
    options = runtime.SessionOptions()
    if not optimise:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Threads that spin while they wait take the cores from decoding and from other networks.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors only: its warnings are about graphs that users did not write
    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"] if optimise else ["CPUExecutionProvider"]
    providers = with_exact_numbers([name for name in wanted if name in runtime.get_available_providers()])
    try:
        session = runtime.InferenceSession(str(path), sess_options=options, providers=providers)
    except Exception as error:  # onnxruntime raises classes of its own compiled module
        raise WeightsError(f"onnxruntime cannot read {str(path)!r}: {error}") from error
    note_providers(session)
    return session


def with_exact_numbers(providers: list[str]) -> list[Any]:
    """The providers, told to keep float32: a GPU's faster, shorter numbers (TF32) would change the results."""
    return [(name, {"use_tf32": "0"}) if name == "CUDAExecutionProvider" else name for name in providers]


def note_providers(session: Any) -> None:
    """Remember where a session really runs, for `session_device`."""
    _OPENED.update(session.get_providers()[:1])
