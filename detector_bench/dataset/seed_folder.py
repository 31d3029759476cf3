"""Finds the photos that images were edited from, and which of them each edited image belongs to."""

from __future__ import annotations

import os
from pathlib import Path

from detector_bench.dataset.findings import Findings
from detector_bench.dataset.image_tree import TREE, TreeImage, is_image, is_passed_over, name_problem, printable
from detector_bench.errors import Problem, nearest_hint


def find_seeds(folder: Path, findings: Findings) -> list[str]:
    """List the file names of the seeds, which lie side by side in one folder; sorted.

    A seed in a folder below, a name that cannot stand in a table, and two files that differ only in their suffix
    are reported.
    """
    if not folder.is_dir():
        message = "it is not a folder" if folder.exists() else "no such folder"
        findings.add(Problem(str(folder), message, accepted="a folder of photos that were edited"))
        return []
    found, misplaced = [], []
    for place, folders, files in os.walk(folder, followlinks=True):
        parts = Path(place).relative_to(folder).parts
        # One level below the seeds is enough to tell that some lie too deep.
        folders[:] = [] if parts else sorted(name for name in folders if not is_passed_over(name))
        names = sorted(name for name in files if is_image(name))
        if parts:
            misplaced += ["/".join((folder.name, *parts, name)) for name in names]
        else:
            found = names
    accepted = f"all seeds side by side in {folder.name}"
    findings.add_kind(
        [Problem(printable(path), "seed in a folder below", accepted=accepted) for path in misplaced]
    )
    if not found and not misplaced:
        findings.add(Problem(str(folder), "no images found", accepted="a folder of photos that were edited"))
    problems = {name: name_problem(f"{folder.name}/{name}", [name]) for name in found}
    findings.add_kind([problem for problem in problems.values() if problem is not None])
    return _without_namesakes([name for name, problem in problems.items() if problem is None], folder, findings)


def _without_namesakes(names: list[str], folder: Path, findings: Findings) -> list[str]:
    first: dict[str, str] = {}
    problems = []
    for name in names:
        other = first.setdefault(Path(name).stem, name)
        if other != name:
            message = "seed of the same name as another but for the suffix"
            accepted = f"a name of its own; {other} has this one"
            problems.append(Problem(f"{folder.name}/{name}", message, value=name, accepted=accepted))
    findings.add_kind(problems)
    return list(first.values())


def match_seeds(
    images: list[TreeImage], seeds: list[str], *, folder: Path, findings: Findings
) -> list[str | None]:
    """The seed of each edited image: the one with the longest name that the image's own begins with.

    The image has the seed's name, or that name and a suffix that begins with neither a letter nor a digit:
    `tom_2.png` belongs to `tom.jpg`, and `tom2.png` does not. An image without a seed and a seed without its pair
    are reported.
    """
    by_stem = {Path(name).stem: name for name in seeds}
    matched = [_seed_of(Path(image.file_name).stem, by_stem) for image in images]

    def hint(stem: str) -> str:
        near = nearest_hint(stem, by_stem)
        general = f"a file name that begins with that of a seed in {folder.name}"
        return near if near.startswith("did you mean") else general

    findings.add_kind(
        [
            Problem(
                image.path,
                "image without a seed",
                value=image.file_name,
                accepted=hint(Path(image.file_name).stem),
            )
            for image, seed in zip(images, matched, strict=True)
            if seed is None
        ]
    )
    paired = set(matched)
    findings.add_kind(
        [
            Problem(
                f"{folder.name}/{name}",
                "seed without its pair",
                value=name,
                accepted=f"an image {TREE} whose file name begins with {stem!r}",
            )
            for stem, name in by_stem.items()
            if name not in paired
        ]
    )
    return matched


def _seed_of(stem: str, by_stem: dict[str, str]) -> str | None:
    ends = [len(stem), *(at for at in range(len(stem) - 1, 0, -1) if not stem[at].isalnum())]
    return next((by_stem[stem[:end]] for end in ends if stem[:end] in by_stem), None)
