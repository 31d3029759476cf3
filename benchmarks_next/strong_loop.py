"""`run` beside what a good engineer writes by hand for one job: FaceRes on the largest YuNet face, 384 portraits.

usage: python benchmarks_next/strong_loop.py SHARED [--pairs 5]

SHARED is the developers' data folder; the loop is its strong_loop.py. Both are whole commands, in turn, without a
cache; then the finished run again. Printed are medians of seconds, processor time and memory, and ratios of pairs.
On a machine that does other work, trust processor time; at rest the aims are 1.25 x the loop's seconds, 2 x its
memory, and 1.2 s of processor time for a finished run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
STUDY = """\
image_set: {images}
detectors:
  - {{name: faceres-yunet, extends: {root}/configs_next/detectors/faceres.yaml, crop: {{boxes: yunet_faces}}}}
"""


def measured(*words: object) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and MB at most of a command, its worker threads included."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(list(map(str, words)), env=environment, **quiet)  # type: ignore[call-overload]
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"status {status}: {' '.join(map(str, words))}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shared", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    images, weights = arguments.shared / "data" / "t2i_portraits", arguments.shared / "weights"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        (out / "study.yaml").write_text(STUDY.format(images=images.resolve(), root=ROOT))
        loop = (sys.executable, arguments.shared / "strong_loop.py", images, weights, out / "loop.csv")
        run = (sys.executable, "-m", "detector_bench_next", "run", out / "study.yaml", "--weights-dir", weights)

        def ours(place: str) -> tuple[float, float, float]:
            return measured(*run, "--out", out / place, "--no-cache")

        ours("warm")  # compiles the package
        pairs = []
        for number in range(arguments.pairs):
            first = measured(*loop) if number % 2 else None
            own = ours(str(number))
            pairs.append((first or measured(*loop), own))
        again = [ours("0") for _ in range(arguments.pairs)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, {arguments.pairs} pairs; medians")
    for number, name in enumerate(("seconds", "processor seconds", "MB")):
        theirs, own = (median(pair[side][number] for pair in pairs) for side in (0, 1))
        ratio = median(pair[1][number] / pair[0][number] for pair in pairs)
        print(f"{name:17}  loop {theirs:7.2f}  run {own:7.2f}  pairs {ratio:.2f} x")
    seconds, processor, _ = map(median, zip(*again, strict=True))
    print(f"a finished run     {processor:.2f} processor seconds, {seconds:.2f} s")


if __name__ == "__main__":
    main()
