"""A study of eight detectors, killed at random moments and shared in every way: the same bytes each time.

usage: python benchmarks_next/kills.py SHARED OUT [--kills 20] [--seed 0] [--only NAME ...]

SHARED is the developers' data folder, OUT a new folder. Each way of running ends with one undisturbed `run`, which
also writes the results. Compared with the first one: all prediction files, metrics.csv and cells. Exit status 1 on
a difference. Ways: kills, together (three at once), workers, ray, shards.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDY = ROOT / "configs_next" / "t2i_portraits.yaml"


def command(shared: Path, out: Path, *options: str) -> list[str]:
    places = ["--out", str(out), "--cache-dir", f"{out}-cache", "--weights-dir", str(shared / "weights")]
    study = ["run", str(STUDY), "--image-set", str(shared / "data" / "t2i_portraits")]
    cut = () if "--shard" in options else ("--shards", "4")
    return [sys.executable, "-m", "detector_bench_next", *study, *places, *cut, *options]


def start(*words: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)


def content(out: Path) -> dict[str, bytes]:
    files = [*(out / "predictions").glob("[!_]*/*"), *(out / "cells").glob("*"), out / "metrics.csv"]
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(files)}


def kills(shared: Path, out: Path, *, times: int, seed: int, seconds: float) -> str:
    """Kill the run `times` times, each at a random moment of its first `seconds`."""
    moments, killed, with_parts = random.Random(seed), 0, 0  # noqa: S311 - moments
    while killed < times:
        process = start(*command(shared, out))
        try:
            process.wait(timeout=moments.uniform(0.5, seconds))
            if process.returncode == 0:
                break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            with_parts += any((out / "predictions").glob("*/*.part-*"))
    return f"{killed} kills, {with_parts} with parts on the disk"


def ways(shared: Path, out: Path, arguments: argparse.Namespace, seconds: float) -> Iterator[tuple[str, str]]:
    """Ways of running, by name, with what is said of each."""

    def all_of(*commands: list[str]) -> str:
        codes = [process.wait() for process in [start(*words) for words in commands]]
        return f"exit statuses {codes}"

    def one_by_one(name: str) -> str:
        return " ".join(all_of(command(shared, out / name, "--shard", f"{n}/4")) for n in range(1, 5))

    made = {
        "kills": lambda: kills(
            shared, out / "kills", times=arguments.kills, seed=arguments.seed, seconds=max(3.0, seconds / 4)
        ),
        "together": lambda: all_of(*[command(shared, out / "together")] * 3),
        "workers": lambda: all_of(command(shared, out / "workers", "--workers", "2")),
        "ray": lambda: all_of(command(shared, out / "ray", "--workers", "2", "--engine", "ray")),
        "shards": lambda: one_by_one("shards"),
    }
    yield from ((name, do()) for name, do in made.items() if name in (arguments.only or made))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("shared", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    shared, out = arguments.shared.absolute(), arguments.out.absolute()
    out.mkdir(parents=True)
    began = time.perf_counter()
    if code := start(*command(shared, out / "whole")).wait():
        print(f"the undisturbed run ended with status {code}")
        return 1
    seconds = time.perf_counter() - began
    print(f"undisturbed: {seconds:.1f} s", flush=True)
    wrong = 0
    for name, said in ways(shared, out, arguments, seconds):
        code = start(*command(shared, out / name)).wait()
        whole, own = content(out / "whole"), content(out / name)
        differ = sorted(file for file in whole.keys() | own.keys() if whole.get(file) != own.get(file))
        wrong += bool(differ or code)
        print(f"{name}: {said}; {len(own)} files, {len(differ)} differ", *differ[:5], flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
