"""How long an evaluation takes: 1,000,000 images x 8 detectors, 1,000 prompts x 10 T2I models, made up.

    python benchmarks/evaluate_scale.py [--images N] [--runs N] [--shuffled]

Writes an image set (CSV) and prediction files (Parquet), then lets a fresh Python process read them, evaluate and
write `metrics.csv` and `metrics.parquet`. Limits at full size on 2 cores: 5 s and 2 GB. The time is that of the
whole process, from start to end; the parts are timed inside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DETECTORS = 8
PROMPTS = 1_000
T2I_MODELS = 10
CATEGORIES = 5
SECONDS_LIMIT = 5.0
BYTES_LIMIT = 2e9


def write_inputs(folder: Path, *, images: int, shuffled: bool) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from detector_bench.schema import PREDICTIONS

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


def evaluate_once(folder: Path) -> dict[str, float]:
    """Read, evaluate and write, and say how long each took; run in a process of its own."""
    marks = [("start", time.perf_counter())]

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    from detector_bench.dataset import ImageSet
    from detector_bench.evaluation import evaluate, read_predictions, write_metrics

    mark("import")
    image_set = ImageSet.load(folder / "image_set")
    mark("read the image set and labels")
    predictions = read_predictions(folder / "predictions")
    mark("read the predictions")
    metrics = evaluate(image_set, predictions)
    mark("evaluate")
    write_metrics(metrics, folder / "out")
    mark("write the metrics")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {name: end - begin for (_, begin), (name, end) in itertools.pairwise(marks)} | {
        "rows": len(metrics),
        "peak bytes": usage.ru_maxrss * 1024,  # KiB on Linux
        "processor seconds": usage.ru_utime + usage.ru_stime,
    }


def measure(folder: Path) -> dict[str, float]:
    begin = time.perf_counter()
    command = [sys.executable, __file__, "--evaluate", str(folder)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {"whole process": time.perf_counter() - begin} | json.loads(result.stdout)


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    return ", ".join(names) or platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="the best of so many is compared with the limits")
    parser.add_argument("--shuffled", action="store_true", help="predictions in another order than the images")
    parser.add_argument("--evaluate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_inputs(options.write, images=options.images, shuffled=options.shuffled)
        return
    if options.evaluate:
        print(json.dumps(evaluate_once(options.evaluate)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "study"
        # In a process of its own: on Linux a child's peak memory begins with that of the process that starts it.
        command = [sys.executable, __file__, "--write", str(folder), "--images", str(options.images)]
        subprocess.run([*command, *(["--shuffled"] if options.shuffled else [])], check=True)
        runs = [measure(folder) for _ in range(options.runs)]
    best = min(runs, key=lambda run: run["whole process"])
    order = "in another order" if options.shuffled else "in the images' order"
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.node()}: {processor()}, {cores} cores, Python {platform.python_version()}")
    print(f"{options.images:,} images x {DETECTORS} detectors, predictions {order}, {best['rows']:,} metric rows")
    for name, value in best.items():
        if name not in {"rows", "peak bytes", "processor seconds", "whole process"}:
            print(f"  {name:32} {value:6.2f} s")
    print(f"  {'whole process (best of ' + str(options.runs) + ')':32} {best['whole process']:6.2f} s", end="")
    print(f"  = {best['whole process'] / SECONDS_LIMIT:.2f} x the limit of {SECONDS_LIMIT:.0f} s")
    peak = max(run["peak bytes"] for run in runs)
    print(f"  {'peak memory':32} {peak / 1e9:6.2f} GB = {peak / BYTES_LIMIT:.2f} x the limit of 2 GB")
    print(f"  {'processor time':32} {best['processor seconds']:6.2f} s; load average {os.getloadavg()[0]:.1f}")
    print("  all runs:", ", ".join(f"{run['whole process']:.2f} s" for run in runs))
    if best["whole process"] > SECONDS_LIMIT or peak > BYTES_LIMIT:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
