"""A million images of a few bytes with a trivial detector: time, memory, and the finished run once more.

Also what cutting into shards costs, and how fast cached stages answer a changed threshold.

    python benchmarks/million_images.py [--images N] [--workers N] [--part run|shards|cached]

Memory is the largest of any process of the command. Every image is a file of its own with a content of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv
from measuring import machine, spread

PLUGIN = Path(__file__).with_name("trivial_detector.py")
PROMPTS = 100
T2I_MODELS = 5
PER_FOLDER = 1_000


class Measured(NamedTuple):
    """What one command took."""

    seconds: float
    mebibytes: float
    processor_seconds: float


def write_image_set(folder: Path, images: int) -> Path:
    """One pixel per image, in PPM files of 14 bytes, a thousand in each folder; the tables as CSV."""
    folder.mkdir(parents=True)
    for start in range(0, images, PER_FOLDER):
        part = folder / "images" / f"{start // PER_FOLDER:05d}"
        part.mkdir(parents=True)
        for number in range(start, min(start + PER_FOLDER, images)):
            colour = bytes((number * 97 % 256, number // 256 % 256, number // 65_536 % 256))
            (part / f"{number:07d}.ppm").write_bytes(b"P6 1 1 255\n" + colour)
    numbers = range(images)
    rows = {
        "image_id": [f"image_{number:07d}" for number in numbers],
        "path": [f"images/{number // PER_FOLDER:05d}/{number:07d}.ppm" for number in numbers],
        "t2i_model": [f"model-{number % T2I_MODELS}" for number in numbers],
        "prompt_id": [f"prompt_{number // T2I_MODELS % PROMPTS:03d}" for number in numbers],
    }
    pyarrow.csv.write_csv(pa.table(rows), folder / "images.csv")
    prompts = [f"prompt_{number:03d}" for number in range(PROMPTS)]
    columns = {"prompt_id": prompts, "category": ["profession"] * PROMPTS, "word": prompts, "prompt": prompts}
    pyarrow.csv.write_csv(pa.table(columns), folder / "prompts.csv")
    labels = {
        "image_id": rows["image_id"],
        "annotator": ["a"] * images,
        "attribute": ["gender"] * images,
        "label": [("female", "male", "low_quality")[number % 3] for number in numbers],
        "reason": [""] * images,
    }
    pyarrow.csv.write_csv(pa.table(labels), folder / "labels.csv")
    return folder


def run(folder: Path, out: str, *options: str, threshold: int = 127) -> Measured:
    """One whole command, and what it took."""
    study = folder / "study.yaml"
    detector = f"{{kind: benchmark-trivial, threshold: {threshold}}}"
    study.write_text(f"image_set: set\ndetectors: [{detector}]\nintervals: {{method: none}}\n")
    cache = () if "--no-cache" in options else ("--cache-dir", str(folder / "cache"))
    command = [sys.executable, "-m", "detector_bench", "run", str(study), "--out", str(folder / out)]
    command += ["--plugin", str(PLUGIN), *cache, *options]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(process.stderr.read() if process.stderr else "the run failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(time.perf_counter() - began, usage.ru_maxrss / 1024, spent)


def show(what: str, measured: Measured, images: int) -> None:
    """One line about a command."""
    rate = images / measured.seconds
    print(
        f"{what:42s} {measured.seconds:8.1f} s   {measured.mebibytes:7.0f} MiB   {rate:9,.0f} images/s   "
        f"{1000 * measured.processor_seconds / images:.3f} ms of processor time an image",
        flush=True,
    )


def whole_runs(folder: Path, images: int, workers: int) -> None:
    """The run, the finished run again, and again with all files' hashes known."""
    options = ("--workers", str(workers)) if workers > 1 else ()
    show(f"first run, {workers} worker(s)", run(folder, "out", *options), images)
    show("the finished run again", run(folder, "out", *options), images)
    show("and again", run(folder, "out", *options), images)


def cost_of_shards(folder: Path, images: int, rounds: int) -> None:
    """K = 16 against K = 1, in turn."""
    ratios = []
    for number in range(rounds):
        one = run(folder, f"one-{number}", "--no-cache", "--shards", "1")
        many = run(folder, f"many-{number}", "--no-cache", "--shards", "16")
        ratios.append(many.seconds / one.seconds)
        show("one shard", one, images)
        show("sixteen shards", many, images)
    print(f"sixteen / one: {spread(ratios)}   (to reach: at most 1.03)")


def cached_stages(folder: Path, images: int, rounds: int) -> None:
    """A changed threshold over cached stages."""
    run(folder, "kept")
    for number in range(rounds):
        show("changed threshold, from cache", run(folder, f"changed-{number}", threshold=60 + number), images)
    print("(to reach: at least 5,000 images/s)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=("run", "shards", "cached"), default="run")
    asked = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.perf_counter()
        write_image_set(folder / "set", asked.images)
        print(f"{asked.images:,} images written in {time.perf_counter() - began:.0f} s", flush=True)
        time.sleep(2.5)  # what is younger than the clock's resolution is hashed again
        if asked.part == "run":
            whole_runs(folder, asked.images, asked.workers)
        elif asked.part == "shards":
            cost_of_shards(folder, asked.images, asked.rounds)
        else:
            cached_stages(folder, asked.images, asked.rounds)


if __name__ == "__main__":
    main()
