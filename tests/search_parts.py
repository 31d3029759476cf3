"""A small study for the search: coloured pictures of several prompts, ONNX classifiers that err, and a face stage
that finds a face where a picture is not dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml
from onnx_networks import mean_colour_classifier
from PIL import Image
from small_parts import write_csv

from detector_bench.perception.boxes import boxes
from detector_bench.perception.stage import STAGES, Arrays, Stage, StageFunction
from detector_bench.vocabulary.columns import IMAGE_COLUMNS, LABEL_COLUMNS, PROMPT_COLUMNS
from detector_bench.weights import WeightsLocator


class BrightFaces(Stage):
    """One face box, over the whole picture, where it is brighter than `least`."""

    kind: ClassVar[str] = "test_bright_faces"
    least: float = 90.0

    def load(self, weights: WeightsLocator) -> StageFunction:
        def found(pixels: Any) -> Arrays:
            height, width = pixels.shape[:2]
            return boxes([[0, 0, width, height]], [1.0]) if pixels.mean() > self.least else boxes([], [])

        return lambda frames: [found(frame.pixels) for frame in frames]


if BrightFaces.kind not in STAGES:
    STAGES.register(BrightFaces.kind, BrightFaces)

MATRICES = {
    "sure": [[9, -9], [0, 0], [-9, 9]],
    "leaning": [[6, -4], [0, 0], [-4, 4]],
    "poor": [[2, -1], [2, -2], [-1, 1]],
}
"""Of classifiers: red stands for male, blue for female."""


def write_search_study(folder: Path, *, number_of_prompts: int = 8, images: int = 10, **section: Any) -> Path:
    """A study file `folder/study.yaml` with three classifiers; the images of prompt number p lean to male by p."""
    random = np.random.default_rng(5)
    pictures = folder / "set" / "images"
    pictures.mkdir(parents=True)
    image_rows, label_rows = [], []
    for number in range(number_of_prompts * images):
        prompt = number // images
        male = random.random() < (prompt + 1) / (number_of_prompts + 1)
        dark = random.random() < 0.2
        colour = np.array([150, 100, 120] if male else [120, 100, 150]) * (0.6 if dark else 1.0)
        noisy = colour + random.normal(0, 22, 3) + random.integers(-9, 10, (12, 10, 3))
        name = f"i{number:03d}"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(pictures / f"{name}.png")
        image_rows.append((name, f"images/{name}.png", "A", f"p{prompt}"))
        label_rows.append((name, "ann", "gender", "low_quality" if dark else ("male" if male else "female"), ""))
    write_csv(folder / "set" / "images.csv", IMAGE_COLUMNS, image_rows)
    write_csv(folder / "set" / "labels.csv", LABEL_COLUMNS, label_rows)
    rows = [(f"p{number}", "ab"[number % 2], f"word{number}", "") for number in range(number_of_prompts)]
    write_csv(folder / "set" / "prompts.csv", PROMPT_COLUMNS, rows)
    detectors = [
        {
            "name": name,
            "kind": "onnx",
            "network": str(mean_colour_classifier(folder / f"{name}.onnx", matrix)),
            "input": {"size": [4, 4], "scale": 1 / 255},
            "outputs": {
                "gender": {
                    "read": "classes",
                    "output": "numbers",
                    "classes": ["male", "female"],
                    "activation": "softmax",
                }
            },
        }
        for name, matrix in MATRICES.items()
    ]
    content = {"name": "small", "image_set": "set", "detectors": detectors, "batch_size": 16}
    if section:
        content["search"] = section
    study = folder / "study.yaml"
    study.write_text(yaml.safe_dump(content), encoding="utf-8")
    return study


FACES = {"none": [], "face": [{"kind": "face", "faces": "test_bright_faces"}]}
