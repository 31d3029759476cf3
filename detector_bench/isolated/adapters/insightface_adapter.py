"""Asks the package insightface for gender and age; runs in the other environment.

Files: `genderage`, the network of that name in buffalo_l; `detection`, its face detector. Without `detection` the
image is taken as the face, as where the study cuts it out. Parameter: `detection_size`, pixels a side.

Gives for the largest face `gender`, the two raw numbers for female and male; `age`, years; and `filtered` for an
image without a face.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def load(parameters: dict[str, Any]) -> Any:
    """Load the networks."""
    from insightface.model_zoo import model_zoo
    from insightface.utils import face_align

    files = parameters["files"]
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    network = model_zoo.get_model(files["genderage"], providers=providers)
    if getattr(network, "taskname", None) != "genderage":
        raise ValueError("the file `genderage` is no network of gender and age, as insightface reads it")
    detector = None
    if "detection" in files:
        size = int(parameters.get("detection_size", 640))
        detector = model_zoo.get_model(files["detection"], providers=providers)
        detector.prepare(0, input_size=(size, size))

    def judge(images: list[Any]) -> list[dict[str, Any]]:
        return [_judged(image[:, :, ::-1].copy()) for image in images]  # as OpenCV reads them: blue first

    def _judged(image: Any) -> dict[str, Any]:
        height, width = image.shape[:2]
        box = np.array([0, 0, width, height], np.float32)
        if detector is not None:
            boxes, _ = detector.detect(image, max_num=0, metric="default")
            if len(boxes) == 0:
                return {"filtered": "no_face"}
            areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
            box = boxes[int(np.argmax(areas)), :4]
        # As insightface's own `get`, which keeps of the two numbers only which is larger.
        side = max(box[2] - box[0], box[3] - box[1])
        centre = (box[2] + box[0]) / 2, (box[3] + box[1]) / 2
        cut, _ = face_align.transform(
            image, centre, network.input_size[0], network.input_size[0] / (side * 1.5), 0
        )
        values = _network_input(cut, network)
        female, male, age = network.session.run(network.output_names, {network.input_name: values})[0][0]
        # `get` rounds to a whole year.
        return {"gender": np.array([female, male], np.float64), "age": float(np.round(age * 100))}

    return judge


def _network_input(cut: Any, network: Any) -> Any:
    import cv2

    size = tuple(cut.shape[0:2][::-1])
    mean = (network.input_mean,) * 3
    return cv2.dnn.blobFromImage(cut, 1.0 / network.input_std, size, mean, swapRB=True)
