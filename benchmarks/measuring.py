"""What the benchmarks share: image sets of any size, fresh processes, and a line about the machine."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from detector_bench.results.run_record import environment

REPOSITORY = Path(__file__).resolve().parents[1]


def shared_folder() -> Path:
    """The developers' data and weights; stops with a message where they are missing."""
    folder = Path(os.environ.get("DETECTOR_BENCH_SHARED") or REPOSITORY.parent / "shared")
    if not (folder / "data" / "t2i_portraits").is_dir():
        sys.exit(f"this benchmark needs the developers' data in {folder} (or set DETECTOR_BENCH_SHARED)")
    return folder


def portraits(destination: Path, *, images: int, copies: bool = False) -> Path:
    """Write an image set of `images` images: the portraits, listed again and again under new ids.

    With `copies`, every image is a file of its own (a hard link); else the ids share the files.
    """
    source = shared_folder() / "data" / "t2i_portraits"
    destination.mkdir(parents=True)
    rows = list(csv.DictReader((source / "images.csv").open(encoding="utf-8")))
    labels: dict[str, list[dict[str, str]]] = {}
    for label in csv.DictReader((source / "labels.csv").open(encoding="utf-8")):
        if label["attribute"] == "gender":
            labels.setdefault(label["image_id"], []).append(label)
    (destination / "prompts.csv").write_bytes((source / "prompts.csv").read_bytes())
    folder = destination / "images"
    folder.mkdir()
    if not copies:
        for row in rows:
            _link(source / row["path"], destination / row["path"])
    with (
        (destination / "images.csv").open("w", newline="", encoding="utf-8") as images_file,
        (destination / "labels.csv").open("w", newline="", encoding="utf-8") as labels_file,
    ):
        image_writer = csv.DictWriter(images_file, ["image_id", "path", "t2i_model", "prompt_id"])
        label_writer = csv.DictWriter(labels_file, ["image_id", "annotator", "attribute", "label", "reason"])
        image_writer.writeheader()
        label_writer.writeheader()
        for number in range(images):
            row = rows[number % len(rows)]
            image_id = f"{row['image_id']}_{number:06d}"
            path = row["path"]
            if copies:
                path = f"images/{image_id}.jpg"
                _link(source / row["path"], destination / path)
            image_writer.writerow({**row, "image_id": image_id, "path": path})
            for label in labels[row["image_id"]]:
                label_writer.writerow({**label, "image_id": image_id})
    return destination


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        target.write_bytes(source.read_bytes())


def in_fresh_process(script: str, *arguments: str) -> dict[str, float]:
    """Run a benchmark script with arguments in a process of its own; it prints a JSON object as its last line."""
    command = [sys.executable, str(Path(__file__).parent / script), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def pairs(
    first: Callable[[], float], second: Callable[[], float], *, rounds: int
) -> tuple[list[float], list[float], list[float]]:
    """Measure two things in turn, and their ratio round by round, so that a drifting machine hits both."""
    ones, others = [], []
    for _ in range(rounds):
        ones.append(first())
        others.append(second())
    return ones, others, [one / other for one, other in zip(ones, others, strict=True)]


def spread(values: Sequence[float]) -> str:
    """Median, and in brackets the least and the greatest."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def machine() -> str:
    """One line about the machine and the versions."""
    found = environment()
    about = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    return (
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, {about['system']}, "
        f"Python {found['python']}; {versions}"
    )
