"""Mutated study files, detectors' files and attributes' files, through the commands that read them.

    python -m torture.study_files --cases 2000 --seed 1
    python -m torture.study_files --seed 1 --only 77

A third of the cases spoils the keys of a study that then runs over twelve images and is evaluated again; a third
the keys of every kind of detector and its stages; the rest are attributes, files behind `extends`, and texts that
are mutated as bytes, as tokens, or extended by aliases of aliases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torture.cases import Case, RefusedError, expect, main
from torture.mutations import NASTY_YAML, bomb, pick, short, spoil, spoiled_bytes, swapped_tokens
from torture.small_studies import ATTRIBUTE, MODULES, STUDY, detector_entries, image_set, text_of


def spoil_study(case: Case) -> None:
    """A study that runs, with one or two of its values spoilt: run, evaluate, read again."""
    content: Any = {**STUDY, "image_set": str(image_set())}
    for _ in range(1 + int(case.rng.integers(2))):
        content, note = spoil(content, case.rng)
        case.note(note)
    _write(case, "study.yaml", text_of(content).encode())
    _run(case)


def spoil_detector(case: Case) -> None:
    """Each place of each kind of detector in turn gets a nasty value; its weights are then sought."""
    entries = detector_entries()
    turn = case.number // 3
    entry = entries[turn % len(entries)]
    case.note(entry["kind"])
    spoilt, note = spoil(entry, case.rng, number=turn // len(entries))
    case.note(note)
    content = {"image_set": str(image_set()), "attributes": ["gender"], "detectors": [spoilt]}
    if case.rng.random() < 0.2:
        _write(case, "base.yaml", text_of(spoilt).encode())
        content["detectors"] = [{"name": "mine", "extends": "base.yaml"}]
    _write(case, "study.yaml", text_of(content).encode())
    expect(case.command("detectors", "--study", "study.yaml"), 1)
    _write_study_again(case)


def spoil_attribute(case: Case) -> None:
    """An image set's own attribute with a spoilt value."""
    content, note = spoil(ATTRIBUTE, case.rng)
    case.note(note)
    _write(case, "images/attributes/headwear.yaml", text_of(content).encode())
    _copy_tables(case)
    _write(case, "study.yaml", b"image_set: images\nattributes: [headwear]\ndetectors: [clip]\n")
    statuses = [case.command("check", "images"), case.command("detectors", "--study", "study.yaml")]
    expect(max(statuses))


def spoil_text(case: Case) -> None:
    """A good file, mutated as a text that knows nothing of its meaning."""
    which = int(case.rng.integers(3))
    content: Any = {**STUDY, "image_set": str(image_set())}
    if which == 1:
        content["detectors"] = [pick(detector_entries(), case.rng)]
    text = text_of(content if which < 2 else ATTRIBUTE)
    kind = int(case.rng.integers(5))
    if kind == 0:
        spoilt, note = spoiled_bytes(text.encode(), case.rng)
    elif kind == 1:
        text, note = swapped_tokens(text, case.rng)
        spoilt = text.encode("utf-8", "surrogatepass")
    elif kind == 2:
        fragment = pick(NASTY_YAML, case.rng)
        key = pick(["name", "question", "batch_size", "intervals", "detectors", "x"], case.rng)
        spoilt, note = f"{text}{key}: {fragment}\n".encode(), f"{key}: {short(fragment)} at the end"
    elif kind == 3:
        spoilt, note = (bomb(case.rng) + text).encode(), "aliases of aliases"
    else:
        lines = text.splitlines(keepends=True)
        first, second = (int(case.rng.integers(len(lines))) for _ in range(2))
        lines[first], lines[second] = lines[second], lines[first]
        spoilt, note = "".join(lines).encode(), f"lines {first} and {second} exchanged"
    case.note(note)
    if which == 2:
        _write(case, "images/attributes/headwear.yaml", spoilt)
        _copy_tables(case)
        _write(case, "study.yaml", b"image_set: images\ndetectors: [test-colour]\n")
    else:
        _write(case, "study.yaml", spoilt)
    if which == 1:
        expect(case.command("detectors", "--study", "study.yaml"), 1)
        _write_study_again(case)
    else:
        _run(case)


def _run(case: Case) -> None:
    expect(case.command("run", "study.yaml", "--out", "out", "--cache-dir", "cache", "--quiet"))
    expect(case.command("evaluate", "out", "--quiet"))
    if case.rng.random() < 0.1:
        # Drawing takes its seconds whatever the study says, so that the clock does not count here.
        expect(case.command("report", "out", "--quiet", timed=False))


def _write_study_again(case: Case) -> None:
    from detector_bench.errors import DetectorBenchError
    from detector_bench.study import Study

    try:
        study = Study.from_yaml("study.yaml")
        study.build_detectors()
        study.write(Path("again"))
        (Path("again") / "study.yaml").read_text(encoding="utf-8")
        Study.from_yaml("again/study.yaml").build_detectors()
    except DetectorBenchError as error:
        case.note(str(error))
        raise RefusedError from None


def _write(case: Case, name: str, content: bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _copy_tables(case: Case) -> None:
    for table in image_set().glob("*.csv"):
        _write(case, f"images/{table.name}", table.read_bytes())
    Path("images/images").symlink_to(image_set() / "images")


def run(case: Case) -> None:
    """One case, its kind by its number."""
    kinds = (spoil_study, spoil_detector, pick([spoil_text, spoil_text, spoil_attribute], case.rng))
    kinds[case.number % 3](case)


if __name__ == "__main__":
    image_set()
    main("study files", run, modules=MODULES, cases=2000, about="Mutated study files and attributes.")
