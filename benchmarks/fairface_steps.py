"""FairFace end to end through `run`, against its authors' published steps done one image at a time.

Both judge the same portraits with the same network: a ResNet-34 of the real size with random weights, because the
authors' file cannot be downloaded by a program. The published steps are taken with the libraries that the authors
use (dlib, torchvision), on the CPU; left out is only that they write each face to a file and read it back. Each
side is counted without the time to load its networks, and with it. Probabilities differ in the third decimal,
because dlib and Pillow decode JPEG images differently; from the same pixels they are equal to 1e-4 (the tests).

    python benchmarks/fairface_steps.py
    python benchmarks/fairface_steps.py --images 10      # dlib's detector takes some 20 s for each
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import dlib
import numpy as np
import pyarrow.parquet as pq
import torch
import torchvision
from measuring import machine, portraits

from detector_bench.dataset import ImageSet
from detector_bench.detectors import build_detector
from detector_bench.perception.faces.dlib_resizing import sides_for
from detector_bench.runner.run import run_detectors
from detector_bench.runner.run_settings import RunSettings
from detector_bench.weights import WeightsLocator
from detector_bench.weights.catalogue import DLIB_CNN_FACES, FACE_LANDMARKS_5

SLICES = {"gender": slice(7, 9), "age": slice(9, 18), "race": slice(0, 7)}
LOADING = "loading"
Shares = dict[tuple[str, str], list[float]]


def random_network(path: Path) -> Path:
    """A saved ResNet-34 with 18 outputs."""
    torch.manual_seed(0)
    model = torchvision.models.resnet34(weights=None, num_classes=18)
    with torch.no_grad():
        model.fc.weight *= 0.05  # so that probabilities are neither 0 nor 1
    torch.save(model.state_dict(), path)
    return path


def through_run(image_set: ImageSet, network: Path, out: Path) -> tuple[Shares, float, dict[str, float]]:
    """Probabilities by image and attribute, seconds of the whole run, and seconds by stage."""
    detector = build_detector("fairface", parameters={"network": str(network), "device": "cpu"})
    began = time.perf_counter()
    record = run_detectors(image_set, [detector], out, weights=WeightsLocator(), settings=RunSettings())
    seconds = time.perf_counter() - began
    rows = pq.read_table(out / "fairface", columns=["image_id", "attribute", "raw"]).to_pylist()
    shares = {(row["image_id"], row["attribute"]): row["raw"] for row in rows}
    found = {key: list(json.loads(raw)["probabilities"].values()) if raw else [] for key, raw in shares.items()}
    return found, seconds, record.seconds_per_stage


def published_steps(image_set: ImageSet, network: Path) -> tuple[Shares, float, dict[str, float]]:
    """The same, step by step, one image at a time; of several faces the largest is the one that counts."""
    seconds: dict[str, float] = defaultdict(float)
    began = clock = time.perf_counter()

    def took(step: str) -> None:
        nonlocal clock
        seconds[step] += time.perf_counter() - clock
        clock = time.perf_counter()

    detector = dlib.cnn_face_detection_model_v1(str(WeightsLocator().locate(DLIB_CNN_FACES)))
    predictor = dlib.shape_predictor(str(WeightsLocator().locate(FACE_LANDMARKS_5)))
    model = torchvision.models.resnet34(weights=None)
    model.fc = torch.nn.Linear(model.fc.in_features, 18)
    model.load_state_dict(torch.load(network, weights_only=True))
    model.eval()
    took(LOADING)
    found: Shares = {}
    for row in image_set.images.itertuples():
        image = dlib.load_rgb_image(str(image_set.root / str(row.path)))
        height, width = image.shape[:2]
        image = dlib.resize_image(image, *reversed(sides_for(width=width, height=height, longest_side=800)))
        took("reading, resizing")
        rectangles = [face.rect for face in detector(image, 1)]
        took("dlib's detector")
        shapes = dlib.full_object_detections()
        for rectangle in rectangles:
            shapes.append(predictor(image, rectangle))
        chips = dlib.get_face_chips(image, shapes, size=300, padding=0.25) if rectangles else []
        took("landmarks, chips")
        outputs = [classified(model, chip) for chip in chips]
        took("ResNet-34")
        largest = max(range(len(chips)), key=lambda number: rectangles[number].area(), default=None)
        for attribute, part in SLICES.items():
            shares = [] if largest is None else torch.softmax(outputs[largest][part], 0).tolist()
            found[str(row.image_id), attribute] = shares
    return found, time.perf_counter() - began, dict(seconds)


def classified(model: Any, chip: Any) -> Any:
    """The 18 numbers for one face."""
    transforms = torchvision.transforms
    steps = [
        transforms.ToPILImage(),
        transforms.Resize((224, 224)),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
    with torch.no_grad():
        return model(transforms.Compose(steps)(chip)[None])[0]


def without_loading(seconds: dict[str, float]) -> float:
    """Seconds of all steps but loading."""
    return sum(value for step, value in seconds.items() if LOADING not in step)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=3)
    count = parser.parse_args().images
    with tempfile.TemporaryDirectory() as folder:
        network = random_network(Path(folder) / "fairface.pt")
        image_set = ImageSet.load(portraits(Path(folder) / "set", images=count))
        ours, our_seconds, our_parts = through_run(image_set, network, Path(folder) / "predictions")
        theirs, their_seconds, their_parts = published_steps(image_set, network)
    print(machine())
    print(f"{count} portraits of 480 px; seconds per image")
    for title, parts in (("through run", our_parts), ("published steps", their_parts)):
        print(f"{title}: {without_loading(parts) / count:.2f}, and {len(parts)} parts:")
        for step, value in sorted(parts.items(), key=lambda part: -part[1]):
            print(f"  {value / count:8.3f}  {value / sum(parts.values()):6.1%}  {step}")
    differences = [np.abs(np.subtract(ours[key], shares)).max(initial=0) for key, shares in theirs.items()]
    print(f"largest difference of a probability: {max(differences):.6f}")
    print(f"times faster without loading: {without_loading(their_parts) / without_loading(our_parts):.1f}")
    print(f"times faster, loading included, {count} images: {their_seconds / our_seconds:.1f}")


if __name__ == "__main__":
    main()
