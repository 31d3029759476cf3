"""The face boxes of a YOLO network."""

from __future__ import annotations

from typing import ClassVar

from detector_bench.perception.yolo.boxes import YoloView


class YoloFaces(YoloView):
    """Faces found by a YOLO network that was trained to find them, as MiVOLO's own; see `YoloBoxes`.

    A network that knows no class `face`, as those of COCO, is refused.
    """

    kind: ClassVar[str] = "yolo_faces"
    name: ClassVar[str] = "face"
