"""Processor time and memory of counting and evaluating N images x 8 detectors, without intervals.

    python benchmarks_next/evaluate_scale.py [--images N ...] [--shards K] [--hand HAND_COUNTS.py] [--keep FOLDER]

Makes an image set (Parquet; 300 pairs of T2I model and prompt, one annotator) and predictions that are right nine
times in ten, then reads, counts and evaluates them in a process of its own. `--hand` runs a program by hand on
the same files, with the folders of image set and results as arguments, and prints the ratio.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DETECTORS, PROMPTS, MODELS = 8, 100, 3
WORDS = np.array(["male", "female", "low_quality", "others"])
MEASURED = """
import sys, time
from pathlib import Path
from detector_bench_next.cells import count
from detector_bench_next.dataset import ImageSet
from detector_bench_next.evaluate import Settings, evaluate
from detector_bench_next.predictions import Predictions
imported, folder = time.process_time(), Path(sys.argv[1])
image_set = ImageSet.load(folder / "image_set")
loaded, predictions = time.process_time(), Predictions(folder / "predictions")
counted = count(image_set, predictions, image_set.attributes["gender"], predictions.detectors)
counts = time.process_time()
tables = evaluate(counted, Settings(resamples=0))
print(f"imports {imported:.2f}, load {loaded - imported:.2f}, count {counts - loaded:.2f}, evaluate "
      f"{time.process_time() - counts:.2f} s; {len(counted.cells.n):,} cells, {len(tables['metrics']):,} rows")
"""


def words(codes: np.ndarray[Any, Any], names: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


def write_inputs(folder: Path, images: int, shards: int) -> None:
    """Write image set and predictions."""
    random, number = np.random.default_rng(0), np.arange(images)
    digits = pc.utf8_lpad(pa.array(number).cast(pa.string()), 9, "0")
    ids = pc.binary_join_element_wise("image_", digits, "")
    prompt = np.array([f"prompt_{i:03d}" for i in range(PROMPTS)])
    truth = random.choice(4, images, p=[0.6, 0.27, 0.12, 0.01]).astype(np.int8)
    same = np.zeros(images, np.int8)
    model, of_prompt = number % MODELS, (number // MODELS) % PROMPTS
    empty = np.array([""])
    tables = {
        "images": {
            "image_id": ids,
            "path": words(same, empty),
            "t2i_model": words(model, np.array(["a", "b", "c"])),
        },
        "labels": {"image_id": ids, "annotator": words(same, np.array(["a"])), "label": words(truth, WORDS)},
        "prompts": {"prompt_id": prompt, "word": prompt, "prompt": prompt, "category": np.arange(PROMPTS) % 5},
    }
    tables["images"]["prompt_id"] = words(of_prompt, prompt)
    tables["labels"]["attribute"] = words(same, np.array(["gender"]))
    tables["prompts"]["category"] = np.array([f"category {i % 5}" for i in range(PROMPTS)])
    (folder / "image_set").mkdir(parents=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / "image_set" / f"{name}.parquet")
    for detector in range(DETECTORS):
        answer = np.where(random.random(images) < 0.9, truth, random.choice(4, images)).astype(np.int8)
        score = np.round(random.random(images, np.float32), 3)
        place = folder / "predictions" / f"detector_{detector}"
        place.mkdir(parents=True)
        for i in range(shards):  # a shard at a time: its texts need not be in memory together
            at = slice(i, None, shards)
            own, there = answer[at], number[at]
            digits = pc.utf8_lpad(pa.array(there).cast(pa.string()), 9, "0")
            status = np.minimum(np.maximum(own - 1, 0), 2)
            columns = {
                "image_id": pc.binary_join_element_wise("image_", digits, ""),
                "detector": words(0 * own, np.array([place.name])),
                "attribute": words(0 * own, np.array(["gender"])),
                "status": words(status, np.array(["clear", "filtered", "error"])),
                "label": pa.array(WORDS[own], mask=own > 1),
                "score": pa.array(score[at].astype(np.float64), mask=own > 1),
                "image_sha256": pc.binary_join_element_wise(digits, "0" * 55, ""),
            }
            pq.write_table(pa.table(columns), place / f"{i + 1:05d}-of-{shards:05d}.parquet")


def measured(command: list[str]) -> tuple[float, float, str]:
    """Processor seconds, most GB and last line of a process."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6, output.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[6_000, 1_000_000])
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--hand", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    for images in given.images:
        with tempfile.TemporaryDirectory() as scratch:
            folder = (given.keep or Path(scratch)) / f"{images}x{given.shards}"
            if not folder.exists():
                write_inputs(folder, images, given.shards)
            seconds, memory, line = measured([sys.executable, "-c", MEASURED, str(folder)])
            print(f"{images:,} images x {DETECTORS}: {seconds:.2f} s of processor, {memory:.2f} GB ({line})")
            if given.hand:
                by_hand, size, _ = measured(
                    [sys.executable, str(given.hand), str(folder / "image_set"), str(folder)]
                )
                print(f"  by hand {by_hand:.2f} s, {size:.2f} GB: {seconds / by_hand:.2f} x")


if __name__ == "__main__":
    main()
