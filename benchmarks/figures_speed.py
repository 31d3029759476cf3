"""How long `detector-bench figures` takes: 8 detectors x 3 T2I models x 100 prompts x 20 images, made up.

    python benchmarks/figures_speed.py [--runs N]

Writes a finished study with the published prompt bias scores as the truth, then draws all figures in both widths
as PDF and PNG, in a process of its own. The time is that of the whole process, from start to exit; on a
machine that others use, look at the processor time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import REPOSITORY, machine, spread

sys.path.insert(0, str(REPOSITORY / "tests"))

_DRAW = (
    "import sys; from pathlib import Path; from detector_bench.cli.publishing import figures; "
    "figures(Path(sys.argv[1]), out=Path(sys.argv[2]))"
)


def main() -> None:
    """Write the study, measure, and print."""
    from synthetic_study import DETECTORS, write_study

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    seconds, processor, files = [], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = write_study(Path(name) / "study", detectors=DETECTORS[:8])
        for _ in range(options.runs):
            began, used = time.perf_counter(), _processor_time()
            command = [sys.executable, "-c", _DRAW, str(folder), str(Path(name) / "figures")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - began)
            processor.append(_processor_time() - used)
            files = len(list((Path(name) / "figures").iterdir()))
    print(machine())
    print(f"8 detectors x 3 T2I models, 6,000 images, {files} files")
    print(f"all figures, s:  {spread(seconds)}   (to reach: at most 15)")
    print(f"processor time of all processes, s:  {spread(processor)}")


def _processor_time() -> float:
    """Of all processes that this one has started and that have ended, in seconds."""
    used = os.times()
    return used.children_user + used.children_system


if __name__ == "__main__":
    main()
