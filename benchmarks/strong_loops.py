"""What the harness costs against a loop that a good engineer writes by hand for one job (`loops_by_hand.py`).

Three jobs: FaceRes on YuNet faces; two detectors that share the faces; CLIP. Each side is a whole process, from
its start to its end, in turn: seconds of the clock and of the processor, and the peak of the memory. The harness
reads the image set, judges without a stage cache and stores its predictions; evaluation and tables are left out.
Verdicts are compared image by image.

    python benchmarks/strong_loops.py                       # all three
    python benchmarks/strong_loops.py --job clip --images 64 --rounds 3
    python benchmarks/strong_loops.py --other ../shared/strong_loop.py   # somebody else's loop for the first job
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from measuring import machine, portraits, shared_folder, spread

HERE = Path(__file__).parent
PROMPTS = {"male": "a photo of a man", "female": "a photo of a woman"}
MOST_MEMORY = 2.0


class Job(NamedTuple):
    """The detectors of a job, what it may cost, and how many images make it long enough to be measured."""

    detectors: tuple[str, ...]
    most_time: float
    images: int


JOBS = {
    "faceres": Job(("faceres",), 1.15, 1536),
    "faceres,ssrnet": Job(("faceres", "ssrnet"), 1.15, 1536),
    "clip": Job(("clip",), 1.10, 384),
}


class Cost(NamedTuple):
    """What a process took: seconds of the clock and of the processor, and its peak in MiB."""

    seconds: float
    computing: float
    peak: float


def by_harness(job: str, image_set: Path, weights: Path, threads: int) -> dict[str, dict[str, str]]:
    """The verdicts on gender of `run_detectors`, by image and detector."""
    import pyarrow.parquet as pq

    from detector_bench.dataset import ImageSet
    from detector_bench.detectors import build_detector
    from detector_bench.runner.run import RunSettings, run_detectors
    from detector_bench.study_file import resolve_detector
    from detector_bench.weights import WeightsLocator

    if job == "clip":
        encoder = {"checkpoint": str(weights), "precision": "float32"}
        detectors = [build_detector("clip", parameters={"encoder": encoder, "prompts": PROMPTS})]
    else:
        entries = [{"extends": f"{name}.yaml", "crop": {"boxes": "yunet_faces"}} for name in JOBS[job].detectors]
        full = [
            resolve_detector(entry, folder=HERE.parent / "configs" / "detectors", place="") for entry in entries
        ]
        detectors = [
            build_detector(each["kind"], name=each["name"], parameters=each["parameters"]) for each in full
        ]
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as out:
        run_detectors(
            ImageSet.load(image_set),
            detectors,
            Path(out),
            weights=WeightsLocator(folders=(weights,)),
            settings=RunSettings(threads=threads),
        )
        for each in detectors:
            for row in pq.read_table(Path(out) / each.name).to_pylist():
                if row["attribute"] == "gender":
                    found.setdefault(row["image_id"], {})[each.name] = row["label"] or row["status"]
    return found


def measured(command: list[str]) -> tuple[Cost, str]:
    """What a process costs from its start to its end, and the last line that it prints."""
    began = time.perf_counter()
    quiet = {**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, env=quiet)
    assert process.stdout is not None
    printed = process.stdout.read()
    # Of this child alone: `ru_maxrss` of all children is that of the largest so far.
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status != 0:
        sys.exit(f"{command} ended with {status}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), printed.strip().splitlines()[-1]


def compare(job: str, image_set: Path, weights: Path, *, rounds: int, threads: int, other: Path | None) -> None:
    """Measure one job in turn, and print the ratios."""
    places = [str(image_set), str(weights), str(threads)]
    by_hand = [str(HERE / "loops_by_hand.py"), job, *places, *([json.dumps(PROMPTS)] if job == "clip" else [])]
    harness = [str(HERE / "strong_loops.py"), "--part", job, *places]
    ours, theirs, others = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            cost, found = measured(harness)
            ours.append(cost)
            cost, expected = measured(by_hand)
            theirs.append(cost)
            if other is not None:
                command = [str(other), *places[:2], str(Path(folder) / "out.csv"), str(threads)]
                others.append(measured(command)[0])
    verdicts, wanted = json.loads(found), json.loads(expected)
    equal = sum(verdicts[image] == wanted[image] for image in wanted)
    print(f"{job}: {len(wanted):,} images, {threads} threads, {rounds} rounds; equal verdicts: {equal:,}")
    _print_ratios("the loop by hand", ours, theirs, JOBS[job].most_time)
    if others:
        _print_ratios(str(other), ours, others, JOBS[job].most_time)


def _print_ratios(name: str, ours: list[Cost], theirs: list[Cost], most: float) -> None:
    limits = {"seconds": f"at most {most}", "computing": "", "peak": f"at most {MOST_MEMORY:.0f}"}
    words = {"seconds": "s", "computing": "s of the processor", "peak": "MiB at the peak"}
    for field, limit in limits.items():
        mine, other = ([getattr(each, field) for each in costs] for costs in (ours, theirs))
        ratios = [one / another for one, another in zip(mine, other, strict=True)]
        goal = f"   (to reach: {limit})" if limit else ""
        print(f"  {words[field]}: {spread(mine)} against {spread(other)} of {name}, ratio {spread(ratios)}{goal}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", choices=JOBS, action="append")
    parser.add_argument("--images", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--other", type=Path, help="IMAGE_SET WEIGHTS OUT.csv THREADS, for the job faceres")
    parser.add_argument("--part", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        job, image_set, weights, threads = arguments.part
        print(json.dumps(by_harness(job, Path(image_set), Path(weights), int(threads))))
        return
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        for job in arguments.job or JOBS:
            images = arguments.images or JOBS[job].images
            image_set = portraits(Path(folder) / f"{job}-set", images=images)
            weights = shared_folder() / "weights"
            if job == "clip":
                weights = Path(folder) / "clip"
                subprocess.run([sys.executable, "-c", _WRITE_CLIP, str(HERE), str(weights)], check=True)
            other = arguments.other if job == "faceres" else None
            compare(job, image_set, weights, rounds=arguments.rounds, threads=arguments.threads, other=other)


_WRITE_CLIP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from real_size_networks import write_clip_vit_base_patch32
write_clip_vit_base_patch32(Path(sys.argv[2]))
"""


if __name__ == "__main__":
    main()
