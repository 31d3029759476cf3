"""Asks the authors' own program, the package mivolo, for gender and age; runs in the other environment.

Files: `checkpoint`, MiVOLO's own; `detector`, the YOLOv8 of persons and faces that goes with it. Parameters:
`device`; `with_persons` and `disable_faces`, as the program's options of these names.

Gives for the largest person, or the largest face where no person is found, `age`, years, and `gender`, a label
with its score; and `filtered` for an image without any.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def load(parameters: dict[str, Any]) -> Any:
    """Load the networks."""
    from mivolo.predictor import Predictor

    files = parameters["files"]
    config = SimpleNamespace(
        detector_weights=files["detector"],
        checkpoint=files["checkpoint"],
        device=parameters.get("device", "cpu"),
        with_persons=bool(parameters.get("with_persons", True)),
        disable_faces=bool(parameters.get("disable_faces", False)),
        draw=False,
    )
    predictor = Predictor(config, verbose=False)

    def judge(images: list[Any]) -> list[dict[str, Any]]:
        return [_judged(predictor, image[:, :, ::-1].copy()) for image in images]  # as OpenCV reads them

    return judge


def _judged(predictor: Any, image: Any) -> dict[str, Any]:
    found, _ = predictor.recognize(image)
    known = [number for number, age in enumerate(found.ages) if age is not None]
    if not known:
        return {"filtered": "no_person"}
    persons = set(found.get_bboxes_inds("person"))
    chosen = max(known, key=lambda number: (number in persons, _area(found, number)))
    gender = {"label": found.genders[chosen], "score": float(found.gender_scores[chosen])}
    return {"age": float(found.ages[chosen]), "gender": gender}


def _area(found: Any, number: int) -> float:
    left, top, right, bottom = (float(value) for value in found.get_bbox_by_ind(number))
    return (right - left) * (bottom - top)
