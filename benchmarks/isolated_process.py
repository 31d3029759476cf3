"""What it costs to run a detector in a process of another Python: the same network, in process and isolated.

    python benchmarks/isolated_process.py [--rounds N] [--python PATH]

faceres on the portraits (384 of 480 x 480 pixels, whole, so that as much as can be travels), in batches of 32,
in turn. Wall time, and processor time of both processes together. Then what the way alone costs: as raw pixels,
which the protocol has, and as PNG.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
from measuring import REPOSITORY, machine, shared_folder, spread
from PIL import Image

from detector_bench.detectors import build_detector
from detector_bench.perception.cores import computing_with
from detector_bench.perception.networks.isolated_outputs import IsolatedFunction
from detector_bench.perception.stage import Frame, StageFailure, StageFunction
from detector_bench.trust import AllowedCode, add_code, add_interpreter, code_sha256, program_files
from detector_bench.weights import WeightsFile, WeightsLocator

BATCH = 32
SCRIPT = Path(__file__).with_name("isolated_faceres.py")
NOTHING = (
    "def load(parameters):\n    return lambda images: [{'first': float(image[0, 0, 0])} for image in images]\n"
)


def frames() -> list[Frame]:
    files = sorted((shared_folder() / "data" / "t2i_portraits" / "images").iterdir())
    return [Frame(file.stem, pixels=np.asarray(Image.open(file).convert("RGB"))) for file in files]


def seconds_of_process(number: int) -> float:
    """Processor time of a process that still runs."""
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def isolated(script: Path, python: str, where: WeightsLocator, **settings: Any) -> IsolatedFunction:
    add_code(AllowedCode(name=script.name, sha256=code_sha256(program_files(script))))
    for file in settings.get("files", {}).values():
        found = where.locate(WeightsFile.model_validate(file))
        add_code(AllowedCode(name=found.name, sha256=code_sha256(program_files(found))))
    parameters = {"script": str(script), "python": python, "outputs": {"gender": {"read": "label", "output": "g"}}}
    detector = build_detector("isolated", parameters={**parameters, **settings})
    return detector.stages[0].load(where)  # type: ignore[return-value]


def over(function: StageFunction, all_frames: Sequence[Frame], child: int | None = None) -> tuple[float, float]:
    """Wall time and processor time over all batches."""

    def spent() -> float:
        return time.process_time() + (seconds_of_process(child) if child else 0.0)

    wall, processor = time.perf_counter(), spent()
    for start in range(0, len(all_frames), BATCH):
        results = function(all_frames[start : start + BATCH])
        assert not any(isinstance(each, StageFailure) for each in results), results[0]
    return time.perf_counter() - wall, spent() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="another environment with onnxruntime and OpenCV")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DETECTOR_BENCH_TRUST"] = str(Path(folder) / "trust.yaml")
        add_interpreter(Path(options.python))
        measure(options.rounds, options.python, Path(folder))


def measure(rounds: int, python: str, folder: Path) -> None:
    where = WeightsLocator(folders=(shared_folder() / "weights",))
    described = yaml.safe_load((REPOSITORY / "configs/detectors/faceres.yaml").read_text())
    described = {name: value for name, value in described.items() if name not in ("name", "kind", "crop")}
    inside = build_detector("onnx", parameters=described).stages[0]
    names = list(inside.outputs)  # type: ignore[attr-defined]
    found = frames()
    print(machine())
    with computing_with(os.cpu_count() or 1):
        here: Callable[..., object] = inside.load(where)
        network = {"network": described["network"]}
        there = isolated(SCRIPT, python, where, files=network, parameters={"outputs": names})
        child = there.process.process_id
        assert child is not None
        same = all(
            np.array_equal(one[name], other[name])  # type: ignore[index]
            for one, other in zip(here(found[:BATCH]), there(found[:BATCH]), strict=True)  # type: ignore[call-overload]
            for name in names
        )
        print(f"the same numbers to the bit: {same}")
        walls, processors = [], []
        for _ in range(rounds):
            apart, together = over(there, found, child), over(here, found)  # type: ignore[arg-type]
            walls.append(apart[0] / together[0])
            processors.append(apart[1] / together[1])
            print(f"in process {together[0]:.2f} s, isolated {apart[0]:.2f} s")
        print(f"wall time, isolated / in process: {spread(walls)}")
        print(f"processor time, isolated / in process: {spread(processors)}")
    (folder / "nothing.py").write_text(NOTHING)
    way = isolated(folder / "nothing.py", python, where)
    raw = [over(way, found, way.process.process_id) for _ in range(rounds)]
    print(f"the way alone, raw: {spread([wall / len(found) * 1000 for wall, _ in raw])} ms an image")
    coded = [png(found) / len(found) * 1000 for _ in range(rounds)]
    print(f"as PNG, encoding and decoding alone: {spread(coded)} ms an image")


def png(all_frames: Sequence[Frame]) -> float:
    began = time.perf_counter()
    for frame in all_frames:
        _, coded = cv2.imencode(".png", frame.pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
        cv2.imdecode(coded, cv2.IMREAD_COLOR)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
