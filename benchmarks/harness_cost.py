"""What the harness costs: one ONNX detector through `run_detectors`, against a hand-written loop.

The loop decodes with Pillow, finds faces with YuNet, cuts out the largest face and classifies in batches of the
same size; nothing else. Both run without a stage cache, each in a process of its own, in turn.

    python benchmarks/harness_cost.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import in_fresh_process, machine, pairs, portraits, shared_folder, spread

IMAGES = 768
BATCH = 32
ROUNDS = 5


def by_hand(image_set: Path) -> float:
    """Seconds of the plain loop, loading the networks included."""
    import csv

    import cv2
    import onnxruntime
    from PIL import Image

    began = time.perf_counter()
    weights = shared_folder() / "weights"
    session = onnxruntime.InferenceSession(str(weights / "faceres.onnx"))
    faces = cv2.FaceDetectorYN.create(str(weights / "yunet.onnx"), "", (320, 320), 0.7, 0.3, 5000)
    with (image_set / "images.csv").open(encoding="utf-8") as file:
        paths = [image_set / row["path"] for row in csv.DictReader(file)]
    verdicts = []
    for start in range(0, len(paths), BATCH):
        crops = []
        for path in paths[start : start + BATCH]:
            pixels = np.asarray(Image.open(path).convert("RGB"))
            faces.setInputSize((pixels.shape[1], pixels.shape[0]))
            found = faces.detect(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))[1]
            if found is None:
                verdicts.append("filtered")
                continue
            left, top, width, height = found[int(np.argmax(found[:, 2] * found[:, 3])), :4]
            x, y = left + width / 2, top + height / 2
            width, height = width * 1.2, height * 1.2
            crop = pixels[
                max(round(y - height / 2), 0) : round(y + height / 2),
                max(round(x - width / 2), 0) : round(x + width / 2),
            ]
            crops.append(cv2.resize(crop, (224, 224)))
        if crops:
            values = np.stack(crops).astype(np.float32)
            numbers = session.run(["gender_pred_Sigmoid_0"], {"input_1": values})[0]
            verdicts += ["male" if number > 0.5 else "female" for number in numbers[:, 0]]
    assert len(verdicts) == len(paths)
    return time.perf_counter() - began


def by_harness(image_set: Path) -> float:
    """Seconds of `run_detectors`, from the image set's tables to the stored predictions."""
    from detector_bench.dataset import ImageSet
    from detector_bench.runner.run import run_detectors
    from detector_bench.runner.run_settings import RunSettings
    from detector_bench.study import Study

    began = time.perf_counter()
    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml", image_set=image_set)
    detectors = [found for found in study.build_detectors() if found.name == "faceres-yunet"]
    with tempfile.TemporaryDirectory() as out:
        run_detectors(
            ImageSet.load(image_set),
            detectors,
            Path(out),
            weights=study.locator(weights_dir=shared_folder() / "weights"),
            settings=RunSettings(batch_size=BATCH),
        )
    return time.perf_counter() - began


def main() -> None:
    """Measure both in turn and print the ratio."""
    if len(sys.argv) > 1:
        seconds = {"by_hand": by_hand, "by_harness": by_harness}[sys.argv[1]](Path(sys.argv[2]))
        print(json.dumps({"seconds": seconds}))
        return
    with tempfile.TemporaryDirectory() as folder:
        image_set = portraits(Path(folder) / "set", images=IMAGES)
        harness, hand, ratios = pairs(
            lambda: in_fresh_process("harness_cost.py", "by_harness", str(image_set))["seconds"],
            lambda: in_fresh_process("harness_cost.py", "by_hand", str(image_set))["seconds"],
            rounds=ROUNDS,
        )
    print(machine())
    print(f"{IMAGES} portraits of 480 px, batches of {BATCH}, faceres on YuNet faces, {ROUNDS} rounds in turn")
    print(f"harness, s:       {spread(harness)}")
    print(f"loop by hand, s:  {spread(hand)}")
    print(f"harness / loop:   {spread(ratios)}   (to reach: at most 1.05)")


if __name__ == "__main__":
    main()
