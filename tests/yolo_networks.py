"""YOLOv8n networks of random weights, saved by ultralytics itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def quiet_ultralytics(folder: Path) -> None:
    """Set what ultralytics reads when it is imported; only the first import counts."""
    os.environ.update(
        ULTRALYTICS_SAFE_LOAD="true",
        YOLO_AUTOINSTALL="false",
        YOLO_OFFLINE="true",
        YOLO_VERBOSE="false",
        YOLO_CONFIG_DIR=str(folder),
    )


def random_yolo(names: dict[int, str], *, folder: Path) -> Any:
    """An `ultralytics.YOLO` with these classes."""
    quiet_ultralytics(folder)
    import torch
    from ultralytics import YOLO
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    network = YOLO("yolov8n.yaml")
    network.model = DetectionModel("yolov8n.yaml", nc=len(names), verbose=False).eval()
    network.model.names = names
    return network
