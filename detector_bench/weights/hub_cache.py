"""Proof that files in the Hugging Face hub's local cache are those of a checkpoint's commit."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from detector_bench.errors import WeightsError
from detector_bench.weights.files import Checkpoint, sha256_of

_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LENGTH_OF_SHA256 = 64


def is_of_commit(checkpoint: Checkpoint, folder: Path) -> bool:
    """Whether a folder is the cache's for the checkpoint's revision, and can prove it.

    The cache has a folder per commit, of links to files that are named by their content. Where the system knows no
    links it holds copies, which prove nothing.
    """
    if not checkpoint.downloadable:
        return False
    owner = f"models--{str(checkpoint.hub_name).replace('/', '--')}"
    if folder.parts[-3:] != (owner, "snapshots", str(checkpoint.revision)):
        return False
    return any((folder / name).is_symlink() for name in checkpoint.counted_in(folder))


def require_commit(checkpoint: Checkpoint, folder: Path) -> None:
    """Compare every file that counts and is not pinned with the content that the cache names it by.

    That is the sha256 of a large file, and the name that git gives a small one.

    Raises:
        WeightsError: a file is another one, or does not come from the cache.
    """
    for name in checkpoint.counted_in(folder):
        if name in checkpoint.sha256:
            continue
        path = folder / name
        wanted = path.resolve().name
        remedy = f"delete it and run: detector-bench weights fetch {checkpoint.name}"
        if not path.is_symlink() or not _BLOB.fullmatch(wanted):
            raise WeightsError(
                f"weights file {str(path)!r} did not come with revision {checkpoint.revision}: it is no link into "
                f"the hub's cache; {remedy}"
            )
        actual = sha256_of(path) if len(wanted) == _LENGTH_OF_SHA256 else _name_in_git(path)
        if actual != wanted:
            kind = "sha256" if len(wanted) == _LENGTH_OF_SHA256 else "name in git"
            raise WeightsError(
                f"weights file {str(path)!r} is not the one of revision {checkpoint.revision}: its {kind} is "
                f"{actual}, expected {wanted}; {remedy}"
            )


def _name_in_git(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"weights file {str(path)!r} cannot be read: {error}") from error
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
