"""Flips one bit in one file of a finished study, reads or runs it again, and asks whether a number has changed.

    python -m torture.flips --cases 10000 --seed 1
    python -m torture.flips --seed 1 --only 4711 --kind cache

Each case copies a finished study (images, labels, weights with a file beside them, cache, predictions, results),
flips a bit, calls `evaluate`, `run`, a run into a new folder from the cache or without, or `rank`, and compares:

harmless    the numbers are the true ones, and nothing was mended
repaired    the numbers are the true ones, and the damaged file is whole again
refused     the command ended with a line that says why
told        other numbers, and a line on standard error that names the image or the error
WRONG       other numbers, exit status 0, and no word

Numbers are a function of the study, the image set and the predictions. So a command is stopped before it computes
them if all three are the true ones; each `WHOLE`th case goes on to the end, and its files are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from torture.cases import Case, expect, run_case, warm, warm_by
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
    "evaluate": ("evaluate", "out"),
    "run": ("run", "study.yaml", "--out", "out", "--cache-dir", "cache"),
    "run anew": ("run", "study.yaml", "--out", "anew", "--cache-dir", "cache"),
    "run without cache": ("run", "study.yaml", "--out", "anew", "--no-cache"),
    "rank": ("rank", "out", "--json", "--quiet"),
}
_AFTER = {
    "results": ("evaluate", "rank", "rank"),
    "cache": ("run", "run anew", "run anew"),
    "predictions": ("evaluate", "evaluate", "run"),
    # A new folder knows nothing of what labels, images and weights were.
    "weights": ("run", "run anew", "run without cache"),
    "side files": ("run", "run anew", "run without cache"),
}
GOOD = ("harmless", "repaired", "refused", "told")
WHOLE = 20
"""One case in so many computes all numbers."""

STUDY = """\
image_set: set
attributes: [gender]
detectors:
  - {{kind: test-colour, name: colour}}
  - {{kind: test-brightness, name: brightness}}
  - kind: onnx
    name: net
    network: {{path: net.onnx, sha256: {net}, side_files: {{net.onnx.data: {data}}}}}
    input: {{size: [8, 8]}}
    outputs: {{gender: {{read: classes, output: answers, classes: [male, female]}}}}
  - kind: onnx
    name: other
    network: {{path: other.onnx, sha256: {other}}}
    input: {{size: [8, 8]}}
    outputs: {{gender: {{read: classes, output: answers, classes: [male, female]}}}}
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
        pinned = {"net": "net.onnx", "other": "other.onnx", "data": "net.onnx.data"}
        pins = {name: sha256(Path(file).read_bytes()).hexdigest() for name, file in pinned.items()}
        Path("study.yaml").write_text(STUDY.format(**pins))
        expect(case.command(*COMMANDS["run"]))
        (folder / "inputs.txt").write_text(_inputs_of("out"))

    def rank(case: Case) -> None:
        os.chdir(folder)
        expect(case.command(*COMMANDS["rank"]))

    for program in (make, rank):
        made = run_case(program, 0, 0)
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
    names = _AFTER.get(kind, ("evaluate", "run"))
    name = names[int(case.rng.integers(len(names)))]
    case.note(f"{path}, byte {position} of {len(content)}, bit {bit}; {name}")
    try:
        with _stopping(stops=case.number % WHOLE != 0 and name != "rank"):
            status = case.command(*COMMANDS[name])
        same = _same(case, name) if status == 0 else False
    except _TrueInputsError:
        status, same = 0, True
    sys.stdout.flush()
    sys.stderr.flush()
    if status:
        verdict = "refused" if status == 1 else f"exit status {status}"
    elif same:
        verdict = "repaired" if path.exists() and path.read_bytes() == before else "harmless"
    else:
        said = (case.folder / "stderr.txt").read_text(errors="replace")
        verdict = "told" if path.stem in said or "error" in said else "WRONG"
    case.note(f"verdict: {verdict}")


def _same(case: Case, name: str) -> bool:
    if name == "rank":
        sys.stdout.flush()
        true = json.loads((finished() / "rank.json").read_text())["rows"]
        return bool(json.loads((case.folder / "stdout.txt").read_text())["rows"] == true)
    return _numbers(Path("out" if name in ("run", "evaluate") else "anew")) == _numbers(finished() / "out")


class _TrueInputsError(BaseException):
    """All that the numbers are computed from is the true one."""


@contextmanager
def _stopping(*, stops: bool) -> Iterator[None]:
    """Stop an evaluation before it computes, if it would compute from what the true numbers are made of."""
    from detector_bench import study_run

    whole = study_run.write_results

    def compared(study: Any, image_set: Any, out: Path, **rest: Any) -> Any:
        if _digest(study, image_set, rest["judged"]) == (finished() / "inputs.txt").read_text():
            raise _TrueInputsError
        return whole(study, image_set, out, **rest)

    if stops:
        study_run.write_results = compared
    yield


def _digest(study: Any, image_set: Any, judged: Path) -> str:
    from detector_bench.runner.stored_predictions import read_predictions

    settings = study.model_dump(mode="json", exclude={"image_set", "detectors", "name"})
    found = [json.dumps(settings, sort_keys=True), *(entry.name for entry in study.detectors)]
    found += [table.to_csv(index=False) for table in (image_set.images, image_set.prompts, image_set.labels)]
    for name, rows in read_predictions(judged, also=["value"]).items():
        found += [name, rows.to_pandas().sort_values(["image_id", "attribute"]).to_csv(index=False)]
    return sha256("\n".join(found).encode()).hexdigest()


def _inputs_of(out: str) -> str:
    from detector_bench.dataset import ImageSet
    from detector_bench.study import Study

    study = Study.from_yaml(Path(out) / "study.yaml")
    return _digest(study, ImageSet.load(study.image_set), Path(out) / "predictions")


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
    warm_by(lambda case: flip(case, "labels"))
    kinds = given.kind or [*KINDS]
    numbers = [given.only] if given.only is not None else range(given.first, given.first + given.cases)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    longest = largest = 0.0
    with suppress(KeyboardInterrupt):  # what was counted until then is shown
        for number in numbers:
            kind = kinds[number % len(kinds)]
            outcome = run_case(partial(flip, kind=kind), given.seed, number)
            has_verdict = "verdict: " in outcome.notes
            verdict = outcome.notes.rpartition("verdict: ")[2].strip() if has_verdict else outcome.kind
            counts[kind][verdict] += 1
            longest, largest = max(longest, outcome.seconds), max(largest, outcome.megabytes)
            if verdict not in GOOD or given.only is not None:
                notes = " | ".join(outcome.notes.strip().splitlines())
                print(f"{number}: {kind}: {notes}: {' '.join(outcome.message.split())[-300:]}", flush=True)
            if number % 500 == 499:
                print(f"{number + 1} cases: {dict(sum(counts.values(), Counter()))}", flush=True)
    whole = sum(counts.values(), Counter())
    print(_table({**counts, "all": whole}))
    print(f"longest {longest:.1f} s, largest {largest:.0f} MB")
    sys.exit(0 if sum(whole[verdict] for verdict in GOOD) == whole.total() else 1)


def _table(counts: dict[str, Counter[str]]) -> str:
    lines = [f"{'':20}{'flips':>8}" + "".join(f"{name:>10}" for name in (*GOOD, "WRONG", "others"))]
    for kind, found in counts.items():
        named = [found[name] for name in (*GOOD, "WRONG")]
        cells = [*named, found.total() - sum(named)]
        lines.append(f"{kind:20}{found.total():>8}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
