"""The paper's detectors that a CPU can run, together in one run, against the sum of each alone.

CLIP, CLIP-Prob, CLIP-Uncertain, MiVOLO, FairFace and CLIP-Enhance: networks of the real sizes with random
weights, dlib's real face network, real portraits. The figure to reach: together at most 0.5 x the sum, because
the three CLIPs share one embedding, FairFace and CLIP-Enhance the faces, MiVOLO and CLIP-Enhance the persons.
Every run is a process of its own without a stage cache; loading the networks counts.

    python benchmarks/paper_detectors.py --images 32
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from measuring import in_fresh_process, machine, portraits, shared_folder

from detector_bench.dataset import ImageSet
from detector_bench.runner.run import run_detectors
from detector_bench.runner.run_settings import RunSettings
from detector_bench.study import Study

NAMES = ("clip", "clip_prob", "clip_uncertain", "mivolo", "fairface", "clip_enhance")


def write_study(folder: Path, *, images: int) -> Path:
    """An image set, networks, and a study of the six detectors on them."""
    portraits(folder / "set", images=images)
    # In a process of its own: ultralytics, once imported, leaves this one and its children a single core.
    script = Path(__file__).with_name("real_size_networks.py")
    subprocess.run([sys.executable, str(script), str(folder / "networks")], check=True, capture_output=True)
    written = {path.name: str(path) for path in (folder / "networks").iterdir()}
    encoder = {"checkpoint": written["clip-vit-large-patch14"]}
    boxes = {"network": written["yolov8x_person_face.pt"]}
    persons, faces = {"kind": "yolo_persons", **boxes}, {"kind": "yolo_faces", **boxes}
    mivolo = {"backend": "transformers", "checkpoint": written["mivolo_d1_224"], "run_checkpoint_code": True}
    study = {
        "image_set": "set",
        "detectors": [
            {"kind": "clip", "encoder": encoder},
            {"kind": "clip_prob", "encoder": encoder},
            {"kind": "clip_uncertain", "encoder": encoder},
            {"kind": "mivolo", "network": mivolo, "persons": persons, "faces": faces},
            {"kind": "fairface", "network": written["res34_fair_align_multi_7_20190809.pt"]},
            {"kind": "clip_enhance", "classifier": {"kind": "clip", "encoder": encoder}, "persons": persons},
        ],
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return path


def run(path: Path, names: list[str]) -> dict[str, object]:
    """Seconds of one run, and of each stage in it."""
    study = Study.from_yaml(path).with_detectors(only=names)
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        record = run_detectors(
            ImageSet.load(study.image_set),
            study.build_detectors(),
            Path(out),
            weights=study.locator(weights_dir=shared_folder() / "weights", allow_download=False),
            settings=RunSettings(),
        )
        return {"seconds": time.perf_counter() - began, "stages": record.seconds_per_stage}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--part", nargs=2, metavar=("STUDY", "NAMES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        path, names = arguments.part
        print(json.dumps(run(Path(path), names.split(","))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write_study(Path(folder), images=arguments.images)
        together = in_fresh_process("paper_detectors.py", "--part", str(path), ",".join(NAMES))
        alone = {name: in_fresh_process("paper_detectors.py", "--part", str(path), name) for name in NAMES}
    print(machine())
    print(f"{arguments.images} portraits, seconds")
    for name, found in alone.items():
        print(f"  {name:<16} alone {found['seconds']:8.1f}")
    total = sum(found["seconds"] for found in alone.values())
    print(f"  sum of each alone      {total:8.1f}")
    print(f"  together               {together['seconds']:8.1f}")
    print(f"together / sum of each alone: {together['seconds'] / total:.3f}   (to reach: at most 0.5)")
    for stage, seconds in together["stages"].items():
        print(f"    {stage:<40} {seconds:8.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
