"""How long `import` takes for 100,000 tiny images: a tree, a flat folder with a pattern, and one with texts.

    python benchmarks/import_scale.py [--images 100000] [--folder DIR]

Every image has a label in a wide table of two annotators. To reach: 60 s each. Beside it stands what copying the
same files takes alone: a busy disk makes both slow.
"""

from __future__ import annotations

import argparse
import io
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import machine
from PIL import Image
from PIL.PngImagePlugin import PngInfo

MODELS = ("sdxl", "sd3", "flux")
WORDS = ("nurse", "pilot", "taxi_driver", "chef", "snow_queen")
TO_REACH = 60.0


def content(text: str = "") -> bytes:
    stored, info = io.BytesIO(), PngInfo()
    if text:
        info.add_text("parameters", text)
    Image.new("RGB", (8, 8), (90, 40, 0)).save(stored, "PNG", pnginfo=info)
    return stored.getvalue()


def make(folder: Path, kind: str, images: int) -> list[str]:
    """Write the images and their labels; the arguments of `import` that read them."""
    plain = content()
    rows = ["file,rater1,rater2"]
    for number in range(images):
        model, word = MODELS[number % 3], WORDS[number // 3 % 5]
        names = {"tree": f"{model}/{word}/{number}.png", "pattern": f"{model}__{word}__{number}.png"}
        path = folder / kind / names.get(kind, f"{number:06d}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"a photo of a {word}\nSteps: 20, Seed: {number}, Model: {model}"
        path.write_bytes(content(text) if kind == "texts" else plain)
        rows.append(f"{path.relative_to(folder / kind).as_posix()},male,{'male' if number % 4 else 'female'}")
    (folder / f"{kind}.csv").write_text("\n".join(rows) + "\n")
    more = ["--pattern", "{t2i_model}__{word}__{number}.png"] if kind == "pattern" else []
    return [str(folder / kind), str(folder / "set"), "--labels", str(folder / f"{kind}.csv"), *more]


def processor_seconds() -> float:
    """What all programs that were called have spent, on any core."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def copied_alone(source: Path, target: Path) -> float:
    """Seconds to copy all files of a folder under numbers."""
    target.mkdir()
    files = [str(path) for path in source.rglob("*.png")]
    begin = time.perf_counter()
    for number, file in enumerate(files):
        shutil.copyfile(file, f"{target}/{number}.png")
    return time.perf_counter() - begin


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=100_000)
    options.add_argument("--folder", type=Path, help="where the images are written; by default a temporary one")
    chosen = options.parse_args()
    print(machine())
    before = processor_seconds()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        folder = Path(temporary)
        for kind in ("tree", "pattern", "texts"):
            arguments = make(folder, kind, chosen.images)
            for how in ("--preview", "--hardlink", ""):
                words = [*arguments, *([how] if how else [])]
                begin = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "detector_bench", "import", *words, "--quiet"],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                seconds = time.perf_counter() - begin
                spent, before = processor_seconds() - before, processor_seconds()
                shown = f"{chosen.images:,} images, {kind}, {how or 'copied'}"
                times = f"{seconds:6.1f} s, {spent:5.1f} s of a processor"
                print(f"{shown:48} {times}   (to reach: {TO_REACH:.0f} s)", flush=True)
                shutil.rmtree(folder / "set", ignore_errors=True)
            shown = f"{chosen.images:,} files, shutil.copyfile alone"
            print(f"{shown:48} {copied_alone(folder / kind, folder / 'copies'):6.1f} s", flush=True)
            shutil.rmtree(folder / "copies")
            shutil.rmtree(folder / kind)


if __name__ == "__main__":
    main()
