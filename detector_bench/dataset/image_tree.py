"""Finds the images of a folder tree `t2i_model/prompt/image` and gives images and prompts their ids."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from detector_bench.dataset.findings import Findings
from detector_bench.errors import Problem
from detector_bench.vocabulary import ALL

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
TREE = "t2i_model/prompt/image"
# Made by operating systems beside the user's own folders.
_SYSTEM_FOLDERS = ("__MACOSX", "Thumbs.db", "$RECYCLE.BIN")


@dataclass(frozen=True, order=True)
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
    problems = {image: _tree_problem(image) for image in found}
    findings.add_kind([problem for problem in problems.values() if problem is not None])
    return sorted(image for image, problem in problems.items() if problem is None)


def is_passed_over(name: str) -> bool:
    """Whether a file or folder is hidden, or one that operating systems make."""
    return name.startswith(".") or name in _SYSTEM_FOLDERS


def is_image(name: str) -> bool:
    """Whether a file name is that of an image."""
    return not is_passed_over(name) and Path(name).suffix.lower() in IMAGE_SUFFIXES


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


def _tree_problem(image: TreeImage) -> Problem | None:
    if problem := name_problem(image.path, (image.t2i_model, image.prompt, image.file_name)):
        return problem
    if image.t2i_model == ALL:
        message = "reserved name of a T2I model"
        return Problem(image.path, message, value=image.t2i_model, accepted=f"any name but {ALL!r}")
    return None


def slug(text: str) -> str:
    """A short form of a name that is safe in ids, tables and file names; letters of all scripts are kept."""
    return re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", text)).strip("._-")


def image_ids(images: list[TreeImage], seeds: Sequence[str] = ()) -> list[str]:
    """One id per image, from its path: the slugs of its three names, such as `sdxl__nurse__0001`.

    After them one per seed, from its file name, such as `seed__tom`.

    Images whose slugs are equal get the first eight digits of their path's sha256 too, so that no id depends
    on the order of the files.
    """
    plain = [
        "__".join(slug(name) or "_" for name in (image.t2i_model, image.prompt, Path(image.file_name).stem))
        for image in images
    ]
    plain += [f"seed__{slug(Path(name).stem) or '_'}" for name in seeds]
    uses = Counter(plain)
    return [
        name if uses[name] == 1 else f"{name}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
        for name, path in zip(plain, [*(image.path for image in images), *seeds], strict=True)
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
