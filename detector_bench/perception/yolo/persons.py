"""The person boxes of a YOLO network."""

from __future__ import annotations

from typing import ClassVar

from detector_bench.perception.yolo.boxes import YoloView


class YoloPersons(YoloView):
    """Persons found by a YOLO network; how, and with which parameters: see `YoloBoxes`.

    A network that knows no class `person` is refused.
    """

    kind: ClassVar[str] = "yolo_persons"
    name: ClassVar[str] = "person"
