"""Asks the package deepface for gender, age and race; runs in the other environment.

Parameters: `attributes`, of gender, age and race; `face_detector`, one of deepface's, `skip` to take the image as
the face. Files: the weights of each attribute's network, called as the attribute; `face_detector`, of those that
have weights, which `opencv` has not.

Gives for the largest face `gender`, the shares of woman and man; `age`, years; `race`, the shares of deepface's
six words; and `filtered` for an image without a face.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

_FILES = {
    "gender": "gender_model_weights.h5",
    "age": "age_model_weights.h5",
    "race": "race_model_single_batch.h5",
}
_RACES = ("asian", "indian", "black", "white", "middle eastern", "latino hispanic")


def load(parameters: dict[str, Any]) -> Any:
    """Load the networks of the attributes that are asked for."""
    attributes = parameters.get("attributes") or [role for role in parameters["files"] if role in _FILES]
    face_detector = parameters.get("face_detector", "opencv")
    if face_detector not in ("opencv", "skip") and "face_detector" not in parameters["files"]:
        raise ValueError(f"the file of {face_detector!r} is missing: files: {{face_detector: FILE}}")
    # deepface fetches what it does not find; here are just the files that the study names, and are counted.
    home = Path(tempfile.mkdtemp(prefix="deepface-"))
    folder = home / ".deepface" / "weights"
    folder.mkdir(parents=True)
    for role, path in parameters["files"].items():
        (folder / _FILES.get(role, Path(path).name)).symlink_to(Path(path).resolve())
    os.environ["DEEPFACE_HOME"] = str(home)
    from deepface import DeepFace

    for attribute in attributes:
        if attribute not in _FILES:
            raise ValueError(f"deepface judges gender, age and race; not {attribute!r}")
        if attribute not in parameters["files"]:
            raise ValueError(f"the file of {attribute!r} is missing: files: {{{attribute}: {_FILES[attribute]}}}")
        DeepFace.build_model(task="facial_attribute", model_name=attribute.capitalize())
    if face_detector != "skip":
        DeepFace.build_model(task="face_detector", model_name=face_detector)
    shutil.rmtree(home)  # all is read, and this process is ended without a word

    def judge(images: list[Any]) -> list[dict[str, Any]]:
        return [_judged(DeepFace, image, attributes, face_detector) for image in images]

    return judge


def _judged(deepface: Any, image: Any, attributes: list[str], face_detector: str) -> dict[str, Any]:
    faces = deepface.analyze(
        image[:, :, ::-1].copy(),  # it takes arrays as OpenCV reads them: blue first
        actions=attributes,
        detector_backend=face_detector,
        enforce_detection=False,
        silent=True,
    )
    if face_detector != "skip":
        # What it did not find, it gives as the whole image with a confidence of 0.
        faces = [face for face in faces if face.get("face_confidence", 0) > 0]
    if not faces:
        return {"filtered": "no_face"}
    face = max(faces, key=lambda each: each["region"]["w"] * each["region"]["h"])
    found: dict[str, Any] = {}
    if "gender" in attributes:
        found["gender"] = [face["gender"][word] / 100.0 for word in ("Woman", "Man")]
    if "age" in attributes:
        found["age"] = float(face["age"])
    if "race" in attributes:
        found["race"] = [face["race"][word] / 100.0 for word in _RACES]
    return found
