"""Small studies of image files, and the records that they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx_networks import mean_colour_classifier
from small_parts import forget_calls, write_image_set

from detector_bench.sealed import read_sealed
from detector_bench.study import Study

COUNT = 12


def write_network(path: Path, *, red: float = 0.05) -> None:
    """Softmax over (red x mean red, red x mean blue) of an 8 x 8 image: the first class is the reddish one."""
    mean_colour_classifier(path, [[red, 0], [0, 0], [0, red]], activation="Softmax", size=(8, 8))


NET = """\
kind: onnx
network: nets/net.onnx
input: {size: [8, 8]}
outputs: {gender: {read: classes, output: answers, classes: [male, female]}}
"""


def write_study_file(folder: Path) -> Path:
    """Write an image set and a study file beside it."""
    forget_calls()
    write_image_set(folder / "images", COUNT)
    (folder / "study.yaml").write_text("image_set: images\ndetectors: [test-colour, test-brightness]\n")
    return folder


def with_network(folder: Path, **options: Any) -> Study:
    """A study of the ONNX network, whose file lies beside the study, and of a detector without weights."""
    write_network(folder / "nets" / "net.onnx", **options)
    (folder / "net.yaml").write_text(NET)
    (folder / "study.yaml").write_text(
        "name: nets\nimage_set: images\ndetectors: [{name: net, extends: net.yaml}, test-colour]\n"
    )
    return Study.from_yaml(folder / "study.yaml")


def run_record(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = read_sealed(out / "run.json")
    return record


def manifest(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_sealed(out / "results.json")
    return content
