"""Memory and time of `generate` for many requests to a local server, and of the same call when all is there.

    python benchmarks/generation_scale.py [--images 1000 100000]

For each number of images: seconds, processor time and largest memory of the process that asks (the server runs in
one of its own), and seconds of a second run, which has nothing to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from measuring import REPOSITORY, machine

PROMPTS = 100


class Spent(NamedTuple):
    """What a process took."""

    seconds: float
    processor: float
    megabytes: float


def timed(call: Sequence[str]) -> Spent:
    began = time.monotonic()
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(call)}: status {os.waitstatus_to_exitcode(status)}")
    return Spent(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--concurrency", type=int, default=8)
    options = parser.parse_args(arguments)
    print(machine())
    server = subprocess.Popen(
        [sys.executable, "tests/image_service.py"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    folder = Path(tempfile.mkdtemp(prefix="generation-scale-"))
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        prompts = "".join(f"a photo of person {number}\n" for number in range(PROMPTS))
        (folder / "prompts.txt").write_text(prompts)
        for images in options.images:
            model = {"name": "local", "kind": "openai", "model": "tiny", "base_url": address, "key_variable": None}
            model |= {"requests_at_once": options.concurrency, "price": 0.0}
            content = {"name": "many", "prompts": "prompts.txt", "images_per_prompt": images // PROMPTS}
            recipe, out = folder / f"{images}.yaml", folder / str(images)
            recipe.write_text(yaml.safe_dump({**content, "models": [model]}))
            call = [sys.executable, "-m", "detector_bench", "generate", str(recipe), "--out", str(out), "-q"]
            first, again = timed(call), min(timed(call) for _ in range(3))
            per_image = first.processor / images * 1000
            print(
                f"{images:,} images: {first.seconds:,.1f} s, {per_image:.2f} ms of the processor each, "
                f"{first.megabytes:,.0f} MiB; again {again.seconds:.2f} s, {again.megabytes:,.0f} MiB",
                flush=True,
            )
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
