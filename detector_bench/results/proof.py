"""What the numbers of a result folder stand on: the sha256 of files read and written, and what was compared.

It is the part of `results.json` that `detector-bench verify` follows from number to image.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from detector_bench.runner.stored_predictions import sha256_of_file


class JudgedFiles(BaseModel):
    """One detector's predictions, as an evaluation read them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str | None
    """Of the version that judged; None: files of another program, which say nothing of it."""
    files: dict[str, str]
    """sha256 by file name."""


class ImagesCompared(BaseModel):
    """The images whose content was compared with what was judged, before numbers were made of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: int
    """Images of the set."""
    same: int = 0
    changed: int = 0
    not_there: int = 0
    """Images that could not be read, or lie at an address; the rest of `of` was not looked at."""


class Proof(BaseModel):
    """What a result folder's numbers stand on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: dict[str, str] = {}
    """sha256 of what was read beside predictions; see `results.inputs`."""
    predictions: dict[str, JudgedFiles] = {}
    """By detector."""
    differences: dict[str, tuple[str, ...]] = {}
    """By detector, what the study says and its predictions contradict; only after `--allow-unproved`."""
    not_told: dict[str, tuple[str, ...]] = {}
    """By detector, what could not be compared, and why."""
    images: ImagesCompared | None = None
    """None: the run that judged them made the numbers."""
    files: dict[str, str] = {}
    """sha256 of every file that the evaluation wrote, by its path in the folder."""


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The sha256 of files of a folder, by their names there; those that are not there have none."""
    found = {name: sha256_of_file(folder / name) for name in names}
    return {name: sha256 for name, sha256 in sorted(found.items()) if sha256 is not None}
