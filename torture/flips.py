"""Flips one bit in one file of a finished study, reads or runs it again, and asks whether a number has changed.

    python -m torture.flips --cases 10000 --seed 1
    python -m torture.flips --seed 1 --only 4711 --kind cache

Each case copies a finished study (images, labels, weights with a file beside them, cache, predictions, results), flips
a bit, calls `evaluate`, `run`, a run into a new folder from the cache, or `report`, and compares what they say:

harmless    the numbers are the true ones, and nothing was mended
repaired    the numbers are the true ones, and the damaged file is whole again or was judged anew
refused     the command ended with a line that says why
WRONG       exit status 0 and another number
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from torture.cases import Case, run_case, warm
from torture.onnx_files import ONNX_MODULES

FLIP_MODULES = (*ONNX_MODULES, "detector_bench.cli.publishing", "detector_bench.site")
IMAGES = 12

KINDS: dict[str, tuple[str, ...]] = {
    "predictions": ("out/predictions/*/*.parquet",),
    "manifests": ("out/predictions/shards/*", "out/predictions/*/*.json", "out/run.json", "out/results.json"),
    "cache": ("cache/**/*",),
    "labels": ("set/labels.csv",),
    "image set's tables": ("set/images.csv", "set/prompts.csv"),
    "images": ("set/images/*",),
    "weights": ("net.onnx", "other.onnx"),
    "side files": ("net.onnx.data",),
    "results": ("out/*.csv", "out/*.parquet", "out/tables/*"),
    "study files": ("out/study.yaml", "study.yaml"),
}
"""What is flipped, by kind of file; kinds take turns."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate", "out", "--quiet"),
    "run": ("run", "study.yaml", "--out", "out", "--cache-dir", "cache", "--quiet"),
    "run anew": ("run", "study.yaml", "--out", "anew", "--cache-dir", "cache", "--quiet"),
    "rank": ("rank", "out", "--json", "--quiet"),
}

STUDY = """\
image_set: set
attributes: [gender]
detectors:
  - {kind: test-colour, name: colour}
  - {kind: test-brightness, name: brightness}
  - kind: onnx
    name: net
    network: net.onnx
    input: {size: [8, 8]}
    outputs: {gender: {read: classes, output: answers, classes: [male, female]}}
  - kind: onnx
    name: other
    network: other.onnx
    input: {size: [8, 8]}
    outputs: {gender: {read: classes, output: answers, classes: [male, female]}}
"""


@cache
def finished() -> Path:
    """The finished study; made once, by a child, so that no thread of it lives here."""
    folder = Path(tempfile.mkdtemp(prefix="torture-finished-"))

    def make(case: Case) -> None:
        import onnx
        from onnx_networks import mean_colour_classifier
        from small_parts import write_image_set

        os.chdir(folder)
        write_image_set(folder / "set", IMAGES)
        mean_colour_classifier(
            folder / "other.onnx", [[0.04, 0], [0, 0.01], [0, 0.05]], size=(8, 8), activation="Softmax"
        )
        mean_colour_classifier(
            folder / "net.onnx", [[0.05, 0], [0, 0], [0, 0.05]], size=(8, 8), activation="Softmax"
        )
        model = onnx.load(folder / "net.onnx")
        onnx.save(
            model,
            folder / "net.onnx",
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location="net.onnx.data",
            size_threshold=0,
        )
        Path("study.yaml").write_text(STUDY)
        assert case.command(*COMMANDS["run"]) == 0
        assert case.command(*COMMANDS["rank"]) == 0

    made = run_case(make, 0, 0)
    if made.kind != "accepted":
        raise RuntimeError(made.message)
    (folder / "rank.json").write_text(made.printed)
    return folder


def files_of(kind: str) -> list[Path]:
    """The files of a kind in the finished study, relative to it."""
    found = [path for pattern in KINDS[kind] for path in finished().glob(pattern)]
    return sorted({path.relative_to(finished()) for path in found if path.is_file() and path.stat().st_size})


def flip(case: Case, kind: str) -> None:
    """One flip, and one command afterwards; what became of it is noted as the verdict."""
    work = Path.cwd() / "study"
    shutil.copytree(finished(), work)
    os.chdir(work)
    files = files_of(kind)
    path = files[int(case.rng.integers(len(files)))]
    content = bytearray(path.read_bytes())
    position, bit = int(case.rng.integers(len(content))), int(case.rng.integers(8))
    before = bytes(content)
    content[position] ^= 1 << bit
    path.write_bytes(content)
    names = ["evaluate", "run", "rank"] if kind == "results" else ["evaluate", "run", "run anew"]
    name = names[int(case.rng.integers(len(names)))]
    case.note(f"{path}, byte {position} of {len(content)}, bit {bit}; {name}")
    status = case.command(*COMMANDS[name])
    sys.stdout.flush()
    if status:
        verdict = "refused" if status == 1 else f"exit status {status}"
    elif name == "rank":
        true = json.loads((finished() / "rank.json").read_text())["rows"]
        said = json.loads((case.folder / "stdout.txt").read_text())["rows"]
        verdict = "harmless" if said == true else "WRONG"
    else:
        out = Path("anew" if name == "run anew" else "out")
        same = _numbers(out) == _numbers(finished() / "out")
        mended = path.exists() and path.read_bytes() == before
        verdict = ("repaired" if mended else "harmless") if same else "WRONG"
    case.note(f"verdict: {verdict}")


def _numbers(out: Path) -> dict[str, str]:
    files = [*out.glob("*.csv"), *(out / "tables").glob("*.csv")]
    return {str(path.relative_to(out)): sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    """Run the cases, print a line for each kind of file, end with 1 if one number was wrong."""
    parser = argparse.ArgumentParser(description="Single-bit flips in a finished study.")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run this case alone, and print what it said")
    parser.add_argument("--kind", choices=[*KINDS], action="append", help="only these kinds of files")
    given = parser.parse_args()
    warm(FLIP_MODULES)
    finished()
    kinds = given.kind or [*KINDS]
    numbers = [given.only] if given.only is not None else range(given.first, given.first + given.cases)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    longest = largest = 0.0
    for number in numbers:
        kind = kinds[number % len(kinds)]
        outcome = run_case(lambda case, kind=kind: flip(case, kind), given.seed, number)
        verdict = (
            outcome.notes.rpartition("verdict: ")[2].strip() if "verdict: " in outcome.notes else outcome.kind
        )
        counts[kind][verdict] += 1
        longest, largest = max(longest, outcome.seconds), max(largest, outcome.megabytes)
        if verdict not in ("harmless", "repaired", "refused") or given.only is not None:
            notes = " | ".join(outcome.notes.strip().splitlines())
            print(f"{number}: {kind}: {notes}: {' '.join(outcome.message.split())[-300:]}", flush=True)
    columns = ("harmless", "repaired", "refused", "WRONG", "others")
    print(f"{'':20}{'flips':>8}" + "".join(f"{name:>10}" for name in columns))
    whole: Counter[str] = sum(counts.values(), Counter())
    for kind, found in [*counts.items(), ("all", whole)]:
        others = sum(count for verdict, count in found.items() if verdict not in columns)
        cells = [*(found[name] for name in columns[:-1]), others]
        print(f"{kind:20}{found.total():>8}" + "".join(f"{cell:>10}" for cell in cells))
    print(f"longest {longest:.1f} s, largest {largest:.0f} MB")
    good = whole["harmless"] + whole["repaired"] + whole["refused"]
    sys.exit(0 if good == whole.total() else 1)


if __name__ == "__main__":
    main()
