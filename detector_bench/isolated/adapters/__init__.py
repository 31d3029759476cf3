"""What comes along for some packages: the script that asks them, their requirements, files and readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detector_bench.isolated.environments import OWN_VERSION, Environment

_MIVOLO = "git+https://github.com/WildChlamydia/MiVOLO.git@37475e3f8818b5f22448003feec3e64b01bfb188"


@dataclass(frozen=True)
class Adapter:
    """How one package is asked.

    Attributes:
        name: in study files, and for `environments make`.
        version: raised whenever the same image could get another answer.
        summary: one line.
        licence: of package and weights.
        source: where they come from.
        requirements: what its environment is made of, unless the study says otherwise.
        python_version: of that environment.
        files: by role, where the package keeps the file.
        origins: by role, where the file comes from.
        outputs: by attribute, how its answer is read, as in a study file.
        files_of: by attribute, the roles that it needs.
        numbers: roles of files in which the package reads numbers alone, whatever lies in them; of others, such as
            pickles, code may run.
    """

    name: str
    version: int
    summary: str
    licence: str
    source: str
    requirements: tuple[str, ...]
    files: Mapping[str, str]
    origins: Mapping[str, str]
    outputs: Mapping[str, Mapping[str, Any]]
    files_of: Mapping[str, tuple[str, ...]]
    python_version: str = OWN_VERSION
    numbers: tuple[str, ...] = ()

    @property
    def environment(self) -> Environment:
        """The environment that it runs in by default."""
        return Environment(self.requirements, self.python_version)

    @property
    def script(self) -> str:
        """The text of its script."""
        return Path(__file__).with_name(f"{self.name}_adapter.py").read_text(encoding="utf-8")


_YEARS = {"read": "years", "output": "age"}
_RACES = {
    "asian": "east_asian",
    "indian": "south_asian",
    "black": "black",
    "white": "white",
    "middle eastern": "middle_eastern",
    "latino hispanic": "latino_hispanic",
}
"""deepface's six words; who it calls asian counts as East Asian, which is wrong for people from Southeast Asia."""
_DEEPFACE_FILES = {
    "gender": "gender_model_weights.h5",
    "age": "age_model_weights.h5",
    "race": "race_model_single_batch.h5",
}

ADAPTERS: dict[str, Adapter] = {
    each.name: each
    for each in (
        Adapter(
            name="deepface",
            version=1,
            summary="deepface's networks for gender, age and race, with its own face detectors",
            licence="code MIT; weights: those of VGG-Face, for research",
            source="https://github.com/serengil/deepface",
            requirements=("deepface==0.0.93", "tf-keras>=2.16", "opencv-python-headless<5", "opencv-python<5"),
            files={role: f"~/.deepface/weights/{name}" for role, name in _DEEPFACE_FILES.items()},
            origins=dict.fromkeys(_DEEPFACE_FILES, "https://github.com/serengil/deepface_models/releases"),
            outputs={
                "gender": {"read": "classes", "output": "gender", "classes": ["female", "male"]},
                "age": _YEARS,
                "race": {"read": "classes", "output": "race", "taxonomy": _RACES},
            },
            files_of={attribute: (attribute,) for attribute in _DEEPFACE_FILES},
            numbers=tuple(_DEEPFACE_FILES),
        ),
        Adapter(
            name="insightface",
            version=1,
            summary="insightface's buffalo_l: its face detector, and its network for gender and age",
            licence="code MIT; weights for non-commercial research",
            source="https://github.com/deepinsight/insightface",
            requirements=("insightface==0.7.3", "onnxruntime>=1.17", "opencv-python-headless<5"),
            files={
                "genderage": "~/.insightface/models/buffalo_l/genderage.onnx",
                "detection": "~/.insightface/models/buffalo_l/det_10g.onnx",
            },
            origins=dict.fromkeys(("genderage", "detection"), "buffalo_l.zip of insightface's release v0.7"),
            outputs={
                "gender": {
                    "read": "classes",
                    "output": "gender",
                    "classes": ["female", "male"],
                    "activation": "softmax",
                },
                "age": _YEARS,
            },
            files_of=dict.fromkeys(("gender", "age"), ("genderage", "detection")),
            numbers=("genderage", "detection"),
        ),
        Adapter(
            name="mivolo",
            version=1,
            summary="MiVOLO by its authors' own program, with the versions that it was written for",
            licence="code Apache-2.0 (its setup.py says CC BY-SA 4.0); weights not stated; YOLOv8x AGPL-3.0",
            source="https://github.com/WildChlamydia/MiVOLO, on no package registry",
            requirements=(
                "setuptools<81",
                "numpy<2",
                "torch<2.6",
                "torchvision<0.21",
                "timm==0.8.13.dev0",
                "ultralytics==8.1.0",
                f"mivolo @ {_MIVOLO}",
            ),
            files={
                "checkpoint": "model_imdb_cross_person_4.22_99.46.pth.tar",
                "detector": "yolov8x_person_face.pt",
            },
            origins=dict.fromkeys(("checkpoint", "detector"), "https://github.com/WildChlamydia/MiVOLO"),
            outputs={"gender": {"read": "label", "output": "gender"}, "age": _YEARS},
            files_of=dict.fromkeys(("gender", "age"), ("checkpoint", "detector")),
        ),
    )
}
"""By name."""
