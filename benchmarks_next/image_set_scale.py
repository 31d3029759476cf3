"""Seconds and memory of reading and checking a large image set: image_set_scale.py [IMAGES] [csv|parquet].

A set of 1,000,000 images by 10 T2I models for 1,000 prompts, each labelled by two annotators, is written to a
temporary folder. A fresh process loads it, so that the peak is that of the loading alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from detector_bench_next.dataset import ImageSet


def write(folder: Path, images: int, kind: str) -> None:
    rng, ids = np.random.default_rng(0), pd.Series(np.arange(images)).map("image_{:08d}".format)
    models, prompts = np.array([f"model_{i}" for i in range(10)]), np.array([f"prompt_{i}" for i in range(1000)])
    labels = np.array(["male", "female", "low_quality"])[rng.integers(0, 3, 2 * images)]
    image = {"image_id": ids, "path": "images/" + ids + ".png", "t2i_model": models[rng.integers(0, 10, images)]}
    said = {"image_id": np.repeat(ids, 2), "annotator": np.tile(["ann", "ben"], images), "attribute": "gender"}
    frames = {
        "images": {**image, "prompt_id": prompts[rng.integers(0, 1000, images)]},
        "prompts": {"prompt_id": prompts, "category": "profession", "word": "nurse", "prompt": "a nurse"},
        "labels": {**said, "label": labels, "reason": ""},
    }
    for name, columns in frames.items():
        frame = pd.DataFrame(columns)
        if kind == "csv":
            frame.to_csv(folder / f"{name}.csv", index=False)
        else:
            frame.to_parquet(folder / f"{name}.parquet", index=False)


def measure(folder: Path) -> None:
    began, clock = time.process_time(), time.perf_counter()
    image_set = ImageSet.load(folder)
    cpu, seconds = time.process_time() - began, time.perf_counter() - clock
    status = Path("/proc/self/status").read_text()  # getrusage also counts the process that started this one
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(f"{image_set}: {cpu:.1f} s cpu, {seconds:.1f} s, peak {peak:.0f} MiB")
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
            subprocess.run([sys.executable, __file__, "--measure", made], check=True)
