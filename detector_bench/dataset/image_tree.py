"""Finds the images of a folder tree `t2i_model/prompt/image`, and gives images and prompts their ids.

Images that were edited have a second folder beside them: the photos that they were made from, their seeds.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from detector_bench.dataset.text_table import Findings
from detector_bench.errors import Problem, nearest_hint
from detector_bench.vocabulary import ALL

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".jfif", ".avif")
TREE = "t2i_model/prompt/image"
# Made by operating systems beside the user's own folders.
_SYSTEM_FOLDERS = ("__MACOSX", "Thumbs.db", "$RECYCLE.BIN")


@dataclass(frozen=True, order=True, slots=True)
class TreeImage:
    """One image file of the tree: its three names, and `path`, which is relative to the tree and has slashes."""

    t2i_model: str
    prompt: str
    file_name: str

    @property
    def path(self) -> str:
        """The path below the tree."""
        return f"{self.t2i_model}/{self.prompt}/{self.file_name}"


def find_images(source: Path, findings: Findings, *, apart: Collection[Path] = ()) -> list[TreeImage]:
    """List the images of a tree, sorted by path.

    Hidden files and files that are no images are passed over, as is what lies directly in one of the folders
    `apart`. An image at another depth of the tree, and a name that cannot stand in a table, are reported.
    """
    if not source.is_dir():
        message = "it is not a folder" if source.exists() else "no such folder"
        findings.add(Problem(str(source), message, accepted=f"a folder tree {TREE}"))
        return []
    found, misplaced = [], []
    for folder, folders, files in os.walk(source, followlinks=True):
        folders[:] = sorted(name for name in folders if not is_passed_over(name))
        parts = Path(folder).relative_to(source).parts
        if len(parts) > 2:
            folders.clear()  # one level below the images is enough to tell that some lie too deep
        if Path(folder) in apart:
            continue
        for name in filter(is_image, files):
            if len(parts) == 2:
                found.append(TreeImage(*parts, name))
            else:
                path = "/".join((*parts, name))
                misplaced.append(Problem(printable(path), "image at the wrong depth of the tree", accepted=TREE))
    findings.add_kind(misplaced)
    if not found and not misplaced:
        accepted = f"images at {TREE}, with suffix {', '.join(IMAGE_SUFFIXES)}"
        findings.add(Problem(str(source), "no images found", accepted=accepted))
    problems = {image: tree_problem(image) for image in found}
    findings.add_kind([problem for problem in problems.values() if problem is not None])
    return sorted(image for image, problem in problems.items() if problem is None)


def is_passed_over(name: str) -> bool:
    """Whether a file or folder is hidden, or one that operating systems make."""
    return name.startswith(".") or name in _SYSTEM_FOLDERS


def is_image(name: str) -> bool:
    """Whether a file name is that of an image."""
    return name.lower().endswith(IMAGE_SUFFIXES) and not is_passed_over(name)


def printable(text: str) -> str:
    """A file name as text that can be shown, whatever its bytes are."""
    return text.encode(errors="backslashreplace").decode()


def name_problem(path: str, names: Sequence[str]) -> Problem | None:
    """Say which of the names in a path cannot stand in a table, if any."""
    for name in names:
        has_control_character = any(unicodedata.category(character) == "Cc" for character in name)
        if name != name.strip() or has_control_character or "\\" in name or printable(name) != name:
            message = "name that cannot stand in a table"
            accepted = "UTF-8 names without control characters, backslashes, or blanks at either end"
            return Problem(printable(path), message, value=printable(name), accepted=accepted)
    return None


def tree_problem(image: TreeImage, path: str | None = None) -> Problem | None:
    """Say which name of an image cannot stand in a table, if any.

    Args:
        image: T2I model, prompt and file name.
        path: where it lies, if that is not `TreeImage.path`.
    """
    if problem := name_problem(path or image.path, (image.t2i_model, image.prompt, image.file_name)):
        return problem
    if image.t2i_model == ALL:
        message = "reserved name of a T2I model"
        return Problem(path or image.path, message, value=image.t2i_model, accepted=f"any name but {ALL!r}")
    return None


def slug(text: str) -> str:
    """A short form of a name that is safe in ids, tables and file names; letters of all scripts are kept."""
    return re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._-")


def _stem(file_name: str) -> str:
    """As `Path.stem`, in a fraction of its time."""
    stem, dot, _ = file_name.rpartition(".")
    return stem if dot and stem else file_name


def image_ids(
    images: list[TreeImage],
    seeds: Sequence[str] = (),
    *,
    paths: Sequence[str] | None = None,
    taken: Collection[str] = (),
) -> list[str]:
    """One id per image, from its path: the slugs of its three names, such as `sdxl__nurse__0001`.

    After them one per seed, from its file name, such as `seed__tom`.

    Images whose slugs are equal get the first eight digits of their path's sha256 too, so that no id depends
    on the order of the files.

    Args:
        images: of each T2I model, prompt and file name.
        seeds: file names.
        paths: where the images lie, if that is not `TreeImage.path`.
        taken: ids that other images have already.
    """
    plain = [
        "__".join(slug(name) or "_" for name in (image.t2i_model, image.prompt, _stem(image.file_name)))
        for image in images
    ]
    plain += [f"seed__{slug(Path(name).stem) or '_'}" for name in seeds]
    uses = Counter(plain)
    uses.update(taken)
    own_paths = [image.path for image in images] if paths is None else paths
    return [
        name if uses[name] == 1 else f"{name}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
        for name, path in zip(plain, [*own_paths, *seeds], strict=True)
    ]


def prompt_ids(images: list[TreeImage]) -> dict[str, str]:
    """One id per prompt folder name: its slug in lower case, with a number where another folder has the same.

    Folders of the same name below several T2I models are one prompt.
    """
    ids: dict[str, str] = {}
    taken = {ALL}
    for name in sorted({image.prompt for image in images}):
        base = slug(name).casefold() or "prompt"
        candidate, number = base, 2
        while candidate in taken:
            candidate, number = f"{base}_{number}", number + 1
        taken.add(candidate)
        ids[name] = candidate
    return ids


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
