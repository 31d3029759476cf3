"""Two workers on a Ray of this machine against two local processes, and the memory of the process that stores.

Each run is a whole study in a process of its own, without a stage cache, in turn. Throughput is counted over the
last two thirds of the images, when all workers are there; what comes before the first ones (starting Ray and its
workers, loading networks) and after the last (evaluation) is told apart.

    python benchmarks/ray_workers.py [--part throughput|memory] [--images N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from measuring import in_fresh_process, machine, portraits, shared_folder, spread
from million_images import PLUGIN, write_image_set

PORTRAITS = 1_536
TINY = (10_000, 100_000)
WORKERS = 2


class _Clock:
    """Notes when the first images were judged, a third of them, and the last."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first = 0.0
        self.third: tuple[float, int] | None = None
        self.last = (0.0, 0)

    def update(self, progress) -> None:
        if progress.done and progress.done != self.last[1]:
            self.last = time.perf_counter() - self.began, progress.done
            self.first = self.first or self.last[0]
            if 3 * progress.done >= progress.total:
                self.third = self.third or self.last

    def told(self) -> dict[str, float]:
        """Seconds before the first images, images per second of the last two thirds, and seconds of all."""
        assert self.third is not None
        seconds, images = (last - third for last, third in zip(self.last, self.third, strict=True))
        return {
            "start": self.first,
            "rate": images / seconds,
            "whole": time.perf_counter() - self.began,
        }


def judge_portraits(engine: str, image_set: Path) -> dict[str, float]:
    """FaceRes on YuNet faces by two workers."""
    from detector_bench.study import Study

    given = Study.from_yaml(Path(__file__).parents[1] / "configs" / "t2i_portraits.yaml", image_set=image_set)
    study = given.with_detectors(only=["faceres-yunet"]).with_attributes(["gender"])
    clock = _Clock()
    with tempfile.TemporaryDirectory() as out:
        study.run(
            out,
            weights_dir=shared_folder() / "weights",
            use_cache=False,
            workers=WORKERS,
            engine=engine,
            progress=clock,
        )
        metrics = (Path(out) / "metrics.csv").read_bytes()
    return {**clock.told(), "metrics": hash_of(metrics)}


def judge_tiny(image_set: Path) -> dict[str, float]:
    """A trivial detector by two workers on Ray; peak memory of this process while it stores, in MiB."""
    from detector_bench.plugins import load_plugins
    from detector_bench.study import Study

    load_plugins([PLUGIN])
    (image_set.parent / "study.yaml").write_text(
        f"image_set: {image_set.name}\ndetectors: [benchmark-trivial]\nintervals: {{method: none}}\n"
    )
    study = Study.from_yaml(image_set.parent / "study.yaml")
    clock = _Clock()
    with tempfile.TemporaryDirectory() as out:
        study.run(out, use_cache=False, workers=WORKERS, engine="ray", progress=clock)
        sessions = json.loads((Path(out) / "run.json").read_text())["sessions"]
    return {**clock.told(), "mebibytes": max(each["peak_memory_mib"] for each in sessions)}


def hash_of(content: bytes) -> float:
    """A number that is equal for equal files."""
    import hashlib

    return float(int.from_bytes(hashlib.sha256(content).digest()[:6], "big"))


def throughput(folder: Path, *, images: int, rounds: int) -> None:
    """Ray against local processes, in turn."""
    image_set = portraits(folder / "set", images=images, copies=True)
    ratios, whole = [], []
    for number in range(rounds):
        found = {}
        engines = ("ray", "processes") if number % 2 else ("processes", "ray")
        for engine in engines:
            found[engine] = in_fresh_process("ray_workers.py", "--engine", engine, "--set", str(image_set))
            told = found[engine]
            print(
                f"{engine:10s} {told['rate']:7.1f} images/s after {told['start']:5.1f} s; "
                f"{told['whole']:6.1f} s in all",
                flush=True,
            )
        assert found["ray"]["metrics"] == found["processes"]["metrics"], "metrics.csv differs"
        ratios.append(found["ray"]["rate"] / found["processes"]["rate"])
        whole.append(found["processes"]["whole"] / found["ray"]["whole"])
    print(f"throughput, Ray / local processes: {spread(ratios)}   (to reach: at least 0.85)")
    print(f"the same of whole studies:         {spread(whole)}")


def memory(folder: Path) -> None:
    """The process that stores, at two sizes."""
    peaks = []
    for images in TINY:
        image_set = write_image_set(folder / f"tiny-{images}", images)
        told = in_fresh_process("ray_workers.py", "--engine", "ray", "--tiny", "--set", str(image_set))
        peaks.append(told["mebibytes"])
        print(f"{images:7,} tiny images: {told['mebibytes']:.0f} MiB, {told['rate']:,.0f} images/s", flush=True)
    print(
        f"memory of the process that stores, {TINY[1]:,} above {TINY[0]:,} images: {peaks[1] - peaks[0]:.0f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("throughput", "memory"), action="append")
    parser.add_argument("--images", type=int, default=PORTRAITS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", choices=("ray", "processes"), help=argparse.SUPPRESS)
    parser.add_argument("--set", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.engine is not None:
        print(json.dumps(judge_tiny(asked.set) if asked.tiny else judge_portraits(asked.engine, asked.set)))
        return
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        if "throughput" in (asked.part or ["throughput"]):
            throughput(Path(name), images=asked.images, rounds=asked.rounds)
        if "memory" in (asked.part or ["memory"]):
            memory(Path(name))


if __name__ == "__main__":
    main()
