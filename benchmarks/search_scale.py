"""How long `search` takes over 2,000 compositions of 8 detectors on 6,000 images, once stages are stored.

    python benchmarks/search_scale.py [--images N] [--folder DIR]

Images of 32 x 32 pixels, 8 small ONNX classifiers, a small person detector, 5 filters, 2 crops and 25 thresholds,
all through the real path. The first search stores the stages; the second has them, and nothing else, in a folder
of its own: it is what the promise is about. The third has its verdicts, too.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import yaml
from measuring import machine
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

CLASSIFIERS = 8
PROMPTS = 100
SIDE = 32


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    *,
    inputs: dict[str, list[object]],
    outputs: dict[str, list[object]],
    constants: dict[str, NDArray[np.generic]],
    facts: dict[str, str] | None = None,
) -> str:
    """Write a small network."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, facts or {})
    onnx.save(model, path)
    return str(path)


def classifier(path: Path, random: np.random.Generator) -> str:
    """Two probabilities from the mean colour."""
    direction = np.array([[6.0, -6.0], [0.0, 0.0], [-6.0, 6.0]]) + random.normal(0, 1, (3, 2))
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["mean", "matrix"], ["numbers"]),
        helper.make_node("Softmax", ["numbers"], ["shares"], axis=1),
    ]
    return save(
        path,
        nodes,
        inputs={"image": ["N", 3, 8, 8]},
        outputs={"shares": ["N", 2]},
        constants={"matrix": direction.astype(np.float32)},
    )


def person_detector(path: Path) -> str:
    """Three candidates that lie still; how sure it is of each the colours say."""
    centres = np.array([[32, 32, 40, 48], [16, 32, 20, 30], [48, 30, 24, 40]], dtype=np.float32).T[None]
    weights = np.random.default_rng(1).normal(0, 6, (3, 6)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["means", "weights"], ["numbers"]),
        helper.make_node("Sigmoid", ["numbers"], ["shares"]),
        helper.make_node("Reshape", ["shares", "shape"], ["scores"]),
        helper.make_node("Concat", ["centres", "scores"], ["output0"], axis=1),
    ]
    return save(
        path,
        nodes,
        inputs={"images": [1, 3, 64, 64]},
        outputs={"output0": [1, 6, 3]},
        constants={"weights": weights, "shape": np.array([1, 2, 3]), "centres": centres},
        facts={"names": "{0: 'person', 1: 'face'}", "task": "detect"},
    )


def write_study(folder: Path, images: int) -> Path:
    """The image set, the networks and the study file."""
    random = np.random.default_rng(0)
    pictures = folder / "set" / "images"
    pictures.mkdir(parents=True)
    rows: dict[str, list[list[str]]] = {"images": [], "labels": [], "prompts": []}
    share = random.beta(1, 1, PROMPTS)
    rows["prompts"] = [[f"p{number}", f"category_{number % 4}", f"p{number}", ""] for number in range(PROMPTS)]
    for number in range(images):
        prompt = number % PROMPTS
        male = random.random() < share[prompt]
        colour = np.clip(np.array([150, 110, 110] if male else [110, 110, 150]) + random.normal(0, 35, 3), 0, 255)
        noise = random.integers(-15, 16, (SIDE, SIDE, 3))
        name = f"i{number:05d}"
        Image.fromarray((colour + noise).clip(0, 255).astype(np.uint8)).save(pictures / f"{name}.png")
        rows["images"].append([name, f"images/{name}.png", "sdxl", f"p{prompt}"])
        label = "low_quality" if random.random() < 0.1 else ("male" if male else "female")
        rows["labels"].append([name, "a", "gender", label, ""])
    headings = {
        "images": ["image_id", "path", "t2i_model", "prompt_id"],
        "labels": ["image_id", "annotator", "attribute", "label", "reason"],
        "prompts": ["prompt_id", "category", "word", "prompt"],
    }
    for name, heading in headings.items():
        with (folder / "set" / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([heading, *rows[name]])
    persons = {"kind": "yolo_persons", "network": person_detector(folder / "persons.onnx"), "image_size": 64}
    detectors = [
        {
            "name": f"network-{number}",
            "kind": "onnx",
            "network": classifier(folder / f"network_{number}.onnx", random),
            "input": {"size": [8, 8], "scale": 1 / 255},
            "outputs": {"gender": {"read": "classes", "output": "shares", "classes": ["male", "female"]}},
        }
        for number in range(CLASSIFIERS)
    ]
    single = {"kind": "single_subject", "boxes": persons}
    section = {
        "filters": {
            "as_it_is": None,
            **{f"ratio{ratio}": [{**single, "max_area_ratio": ratio}] for ratio in (0.2, 0.5, 0.8)},
            "person": [{**single, "max_area_ratio": 1.0, "without_box": "filter"}],
        },
        "crops": {"as_it_is": None, "cut": {"boxes": persons, "without_box": "whole_image"}},
        "thresholds": [round(0.50 + 0.02 * step, 2) for step in range(24)],
    }
    study = folder / "study.yaml"
    content = {"image_set": str(folder / "set"), "detectors": detectors, "search": section}
    study.write_text(yaml.safe_dump(content), encoding="utf-8")
    return study


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=6_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        study = (
            folder / "study.yaml" if (folder / "study.yaml").exists() else write_study(folder, arguments.images)
        )
        print(machine())
        for what, out in (("first", "first"), ("stages stored", "second"), ("verdicts stored", "second")):
            command = [sys.executable, "-m", "detector_bench", "search", str(study), "--out", str(folder / out)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.perf_counter()
            subprocess.run(
                [*command, "--cache-dir", str(folder / "cache"), "--quiet"],
                check=True,
                capture_output=True,
                env=os.environ,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(
                f"{what + ', s:':<20} {time.perf_counter() - began:6.1f}   processor time {used:6.1f}   "
                f"peak memory so far {after.ru_maxrss / 1024:,.0f} MiB",
                flush=True,
            )
        found = json.loads((folder / "second" / "search.json").read_text(encoding="utf-8"))
        print(
            f"{found['compositions']:,} compositions, {found['labelled_images']:,} images (to reach: 60 s, 2 GB)"
        )


if __name__ == "__main__":
    main()
