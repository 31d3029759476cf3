"""How memory grows with the image set: peak of a run over 20,000 images above that of one over 500.

Without a stage cache, so that every image is decoded and judged.

    python benchmarks/run_memory.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measuring import in_fresh_process, machine, portraits, shared_folder

FEW, MANY = 500, 20_000


def peak(image_set: Path) -> float:
    """Peak resident memory of a whole study, in MiB."""
    from detector_bench.runner.run_record import peak_memory_mib
    from detector_bench.study import Study

    study = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml", image_set=image_set)
    study = study.with_detectors(only=["ssrnet-yunet"]).with_attributes(["gender"])
    with tempfile.TemporaryDirectory() as out:
        study.run(out, weights_dir=shared_folder() / "weights", use_cache=False)
    return peak_memory_mib()


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        print(json.dumps({"peak": peak(Path(sys.argv[1]))}))
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for images in (FEW, MANY):
            image_set = portraits(Path(folder) / str(images), images=images)
            found[images] = in_fresh_process("run_memory.py", str(image_set))["peak"]
    print(machine())
    print("ssrnet on YuNet faces, portraits of 480 px, no stage cache, a process each")
    print(f"peak at {FEW:,} images:     {found[FEW]:.0f} MiB")
    print(f"peak at {MANY:,} images:  {found[MANY]:.0f} MiB")
    print(f"difference:             {found[MANY] - found[FEW]:.0f} MiB   (to reach: at most 300 MB = 286 MiB)")


if __name__ == "__main__":
    main()
