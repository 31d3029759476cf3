"""How long it takes to run a finished study of 10,000 images again: the whole command, from start to exit.

python benchmarks/rerun.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from measuring import REPOSITORY, machine, portraits, shared_folder, spread

IMAGES = 10_000
ROUNDS = 5


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image_set = portraits(folder / "set", images=IMAGES, copies=True)
        study = folder / "study.yaml"
        detectors = [
            {
                "name": f"{name}-yunet",
                "extends": str(REPOSITORY / "configs" / "detectors" / f"{name}.yaml"),
                "crop": {"boxes": "yunet_faces"},
            }
            for name in ("faceres", "ssrnet")
        ]
        study.write_text(yaml.safe_dump({"image_set": str(image_set), "detectors": detectors}), encoding="utf-8")
        command = [sys.executable, "-m", "detector_bench", "run", str(study), "--out", str(folder / "out")]
        command += ["--weights-dir", str(shared_folder() / "weights"), "--cache-dir", str(folder / "cache")]

        def run() -> float:
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=os.environ)
            return time.perf_counter() - began

        first = run()
        run()  # files as young as the first run's are hashed once more
        again = [run() for _ in range(ROUNDS)]
    print(machine())
    print(f"{IMAGES:,} images, two detectors, {IMAGES:,} files")
    print(f"first run, s:   {first:.1f}")
    print(f"run again, s:   {spread(again)}   (to reach: at most 3)")


if __name__ == "__main__":
    main()
