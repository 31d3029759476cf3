"""What can be said about image files without decoding them: that they are there, and inside the folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from detector_bench.dataset.findings import Findings, shorten
from detector_bench.dataset.text_table import TextTable, distinct_texts
from detector_bench.dataset.validation import LEAVES_FOLDER
from detector_bench.errors import Problem


def distinct_paths(images: TextTable) -> dict[str, int]:
    """The paths that lie below the image set's folder, each with the index of the first record that has it."""
    texts, codes = distinct_texts(images.column("path"))
    first_records = np.unique(codes, return_index=True)[1].tolist()
    leaving = pc.match_substring_regex(texts, LEAVES_FOLDER).to_pylist()
    paths = texts.to_pylist()
    return {
        path: record
        for path, record, leaves in zip(paths, first_records, leaving, strict=True)
        if path.strip() and not leaves
    }


class FileInspector:
    """Tells what is wrong with a file below a folder; remembers the folders it has seen.

    Args:
        root: the image set's folder, with links resolved.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._real_folders: dict[str, str] = {}

    def fault(self, path: str) -> str | None:
        """Say what is wrong with a file, or None: missing, not a file, or outside the folder through a link."""
        whole = os.path.join(self._root, path)  # noqa: PTH118 - a million pathlib objects would be slow
        try:
            real = self._real_path(whole)
            mode = os.stat(real).st_mode  # noqa: PTH116 - likewise
        except FileNotFoundError:
            return "missing image file"
        except (OSError, ValueError) as error:
            return f"image file cannot be read ({getattr(error, 'strerror', None) or error})"
        if real != self._root and not real.startswith(self._root.rstrip(os.sep) + os.sep):
            return "path that leaves the folder through a link"
        if stat.S_ISDIR(mode):
            return "path of a folder, not of an image file"
        if not stat.S_ISREG(mode):
            return "path of something that is not a regular file"
        return None

    def _real_path(self, whole: str) -> str:
        folder, name = os.path.split(whole)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder, strict=True)
        candidate = os.path.join(self._real_folders[folder], name)  # noqa: PTH118
        if name in (os.curdir, "") or stat.S_ISLNK(os.lstat(candidate).st_mode):
            return os.path.realpath(candidate, strict=True)
        return candidate


def check_image_files(images: TextTable, root: Path, findings: Findings) -> None:
    """Report every image file that is missing, is no file, or lies outside the folder; nothing is decoded."""
    inspector = FileInspector(root)
    faults = [
        image_problem(images, record, path, fault)
        for path, record in distinct_paths(images).items()
        if (fault := inspector.fault(path)) is not None
    ]
    add_by_kind(faults, findings)


def image_problem(images: TextTable, record: int, path: str, message: str) -> Problem:
    """A mistake about one image file, placed at the first record that names it."""
    return Problem(
        file=images.file,
        message=message,
        row=images.row(record),
        column="path",
        value=shorten(path),
        accepted="an image file in the image set's folder",
    )


def add_by_kind(problems: list[Problem], findings: Findings) -> None:
    """Keep mistakes sorted into kinds, so that a long list of one hides no other.

    The kind is the message up to its bracket, which may hold details of the single file.
    """
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.message.split(" (")[0], []).append(problem)
    for kind in kinds.values():
        findings.add_kind(kind)
