"""Two worker processes against one, with a detector that uses one core: what a second process gains.

The detector's network is a loop of matrix products on one thread; what is compared is the time in which all images
are judged, from the first batch to the last, as the shards' manifests record it.

    python benchmarks/worker_scaling.py [--images N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from measuring import machine, spread
from million_images import write_image_set

PLUGIN = Path(__file__).with_name("one_thread_detector.py")
SHARDS = 16


def seconds_to_judge(folder: Path, out: str, *, workers: int) -> float:
    """From the first shard's beginning to the end of the last, with networks loaded in between."""
    command = [
        sys.executable,
        "-m",
        "detector_bench",
        "run",
        str(folder / "study.yaml"),
        "--out",
        str(folder / out),
    ]
    command += ["--out", str(folder / out), "--plugin", str(PLUGIN), "--no-cache"]
    command += ["--shards", str(SHARDS), "--workers", str(workers)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run(command, check=True, capture_output=True, env=os.environ | threads)
    sessions = json.loads((folder / out / "run.json").read_text(encoding="utf-8"))["sessions"]
    begins = [datetime.fromisoformat(each["began"]).timestamp() for each in sessions]
    ends = [begin + each["seconds"] for begin, each in zip(begins, sessions, strict=True)]
    return max(ends) - min(begins)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_image_set(folder / "set", asked.images)
        (folder / "study.yaml").write_text("image_set: set\ndetectors: [benchmark-one-thread]\n", encoding="utf-8")
        time.sleep(2.5)
        gains = []
        for number in range(asked.rounds):
            one = seconds_to_judge(folder, f"one-{number}", workers=1)
            two = seconds_to_judge(folder, f"two-{number}", workers=2)
            gains.append(one / two)
            print(f"one process {one:.1f} s, two {two:.1f} s: {one / two:.2f} x", flush=True)
    print(f"gain: {spread(gains)}   (to reach: at least 1.85)")


if __name__ == "__main__":
    main()
