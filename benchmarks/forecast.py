"""What `run --dry-run` says, against what the run takes: portraits by a network, tiny images by next to nothing.

    python benchmarks/forecast.py [--rounds N] [--tiny N] [--workers N]

Each round forecasts and then runs, each in a fresh process, without a stage cache; so that a machine that others
use, too, changes between the two as little as may be. What a run took is `seconds` of `run.json`: without the
evaluation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import REPOSITORY, machine, portraits, shared_folder, spread
from million_images import write_image_set

ALMOST_NOTHING = "image_set: set\ndetectors: [{kind: benchmark-trivial}]\nintervals: {method: none}\n"
NETWORK = """\
image_set: set
detectors:
  - {name: faceres, extends: CONFIGS/faceres.yaml, crop: {boxes: yunet_faces}}
intervals: {method: none}
"""


def command(folder: Path, out: str, *options: str) -> str:
    """Run the command line in a fresh process; its standard output."""
    words = [sys.executable, "-m", "detector_bench", "run", str(folder / "study.yaml"), "--out", str(folder / out)]
    words += ["--no-cache", "--weights-dir", str(shared_folder() / "weights"), *options]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def compared(folder: Path, out: str, *options: str, workers: int) -> tuple[float, bool]:
    """What was forecast divided by what it took, and whether the range held it."""
    told = json.loads(command(folder, out, "--dry-run", "--json", "--workers", str(workers), *options))
    [found] = [row for row in told["rows"] if row["table"] == "forecast"]
    command(folder, out, "--workers", str(workers), *options)
    sessions = json.loads((folder / out / "run.json").read_text())["sessions"]
    # Workers share the shards, one after another each.
    took = sum(each["seconds"] for each in sessions) / workers
    return found["seconds"] / took, found["seconds_low"] <= took <= found["seconds_high"]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", type=int, default=20_000, help="tiny images")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=("network", "tiny"))
    options = parser.parse_args()
    print(machine())
    plugin = ("--plugin", str(Path(__file__).parent / "trivial_detector.py"))
    with tempfile.TemporaryDirectory() as name:
        network, tiny = Path(name) / "network", Path(name) / "tiny"
        portraits(network / "set", images=768)
        (network / "study.yaml").write_text(NETWORK.replace("CONFIGS", str(REPOSITORY / "configs" / "detectors")))
        write_image_set(tiny / "set", options.tiny)
        (tiny / "study.yaml").write_text(ALMOST_NOTHING)
        jobs = (
            ("768 portraits, FaceRes on YuNet faces", network, ()),
            (f"{options.tiny:,} tiny images, next to no work", tiny, plugin),
        )
        for title, folder, more in jobs:
            if options.only not in (None, folder.name):
                continue
            rounds = range(options.rounds)
            found = [compared(folder, f"out{number}", *more, workers=options.workers) for number in rounds]
            ratios, held = [ratio for ratio, _ in found], sum(within for _, within in found)
            print(
                f"{title}: forecast / taken {spread(ratios)}; the range held it in {held} of {len(found)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
