"""Processor seconds and memory of reading and checking a large image set: python image_set_scale.py [IMAGES] [csv|parquet].

A set of IMAGES images (1,000,000) of 10 T2I models and 1,000 prompts, each labelled by two annotators, is written to a
temporary folder. A fresh process loads it, so that the peak is that of the loading alone.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import default_rng

from detector_bench_next.dataset import ImageSet


def write(folder: Path, images: int, kind: str) -> None:
    rng = default_rng(0)
    number = np.arange(images)
    model, prompt = rng.integers(0, 10, images), rng.integers(0, 1000, images)
    ids = pd.Series(number).map("image_{:08d}".format)
    path = pd.Series(number).map("images/{:08d}.png".format)
    frames = {
        "images": {"image_id": ids, "path": path, "t2i_model": np.array([f"model_{i}" for i in range(10)])[model]},
        "prompts": {"prompt_id": [f"p{i}" for i in range(1000)], "category": "profession", "word": "nurse"},
        "labels": {"image_id": np.repeat(ids, 2), "annotator": np.tile(["ann", "ben"], images), "attribute": "gender"},
    }
    frames["images"]["prompt_id"] = np.array(frames["prompts"]["prompt_id"])[prompt]
    frames["prompts"]["prompt"] = [f"a photo of person number {i}" for i in range(1000)]
    frames["labels"]["label"] = np.array(["male", "female", "low_quality"])[rng.integers(0, 3, 2 * images)]
    frames["labels"]["reason"] = ""
    for name, columns in frames.items():
        frame = pd.DataFrame(columns)
        if kind == "csv":
            frame.to_csv(folder / f"{name}.csv", index=False)
        else:
            frame.to_parquet(folder / f"{name}.parquet", index=False)


def measure(folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    image_set = ImageSet.load(folder)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{image_set}: {cpu:.1f} s cpu, {seconds:.1f} s")
    print(f"peak {after.ru_maxrss / 1024:.0f} MiB, {before.ru_maxrss / 1024:.0f} of them before")
    for name, step in (("truth", lambda: image_set.truth("gender")), ("fingerprint", image_set.fingerprint)):
        began = time.process_time()
        step()
        print(f"{name}: {time.process_time() - began:.1f} s cpu")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            write(Path(made), int((sys.argv[1:] or ["1000000"])[0]), (sys.argv[2:] or ["csv"])[0])
            os.spawnl(os.P_WAIT, sys.executable, sys.executable, __file__, "--measure", made)
