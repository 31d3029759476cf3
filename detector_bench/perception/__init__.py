"""The parts that detectors share: face boxes, person boxes, face chips, network outputs; each a stage.

Public is what a stage of one's own is written with; the built-in stages are reached by their names in study files.
"""

from __future__ import annotations

from detector_bench.perception.boxes import Crop
from detector_bench.perception.identity import fingerprint
from detector_bench.perception.stage import (
    Batch,
    Frame,
    Stage,
    StageFailure,
    StageField,
    StageFunction,
)
from detector_bench.perception.torch_settings import TorchSettings

__all__ = [
    "Batch",
    "Crop",
    "Frame",
    "Stage",
    "StageFailure",
    "StageField",
    "StageFunction",
    "TorchSettings",
    "fingerprint",
]
