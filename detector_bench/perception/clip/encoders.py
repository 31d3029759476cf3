"""Which CLIP network, and what runs it: the field `encoder` of the CLIP stages and detectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from detector_bench.perception.clip.onnx_backend import ClipInput, OnnxClip
from detector_bench.perception.clip.open_clip_backend import OpenClip
from detector_bench.perception.clip.transformers_backend import TransformersClip

__all__ = ["ClipEncoder", "ClipInput", "OnnxClip", "OpenClip", "TransformersClip"]


def _with_backend(value: Any) -> Any:
    if isinstance(value, str | Path):
        return {"backend": "transformers", "checkpoint": str(value)}
    if isinstance(value, Mapping) and "backend" not in value:
        return {"backend": "transformers", **value}
    return value


ClipEncoder = Annotated[
    Annotated[TransformersClip | OpenClip | OnnxClip, Field(discriminator="backend")],
    BeforeValidator(_with_backend),
]
"""A CLIP network in a configuration: `{backend: open_clip, ...}`, `{backend: onnx, ...}`, or for transformers (the
default backend) `{checkpoint: ...}` or the checkpoint alone."""
