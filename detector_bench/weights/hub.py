"""Checkpoints on the Hugging Face hub: in its local cache, or downloaded into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detector_bench.errors import WeightsError
from detector_bench.extras import is_installed, require
from detector_bench.weights.checkpoints import Checkpoint


def cached_folder(checkpoint: Checkpoint) -> Path | None:
    """The folder of a complete checkpoint in the hub's local cache; None where there is none."""
    if not checkpoint.downloadable or not is_installed("huggingface_hub"):
        return None
    hub = require("huggingface_hub", extra=None)
    try:
        folder = Path(_snapshot(hub, checkpoint, local_files_only=True))
    except (hub.errors.LocalEntryNotFoundError, OSError):
        return None
    return folder if checkpoint.complete_in(folder) else None


def download_checkpoint(checkpoint: Checkpoint) -> Path:
    """Download a checkpoint into the hub's local cache, with progress bars, and return its folder.

    An interrupted download is taken up where it stopped. Which files come is decided by `Checkpoint.files`.

    Raises:
        MissingExtraError: the package huggingface_hub is not installed.
        WeightsError: no pinned commit, the network or the hub refuses, or the checkpoint lacks files.
    """
    if not checkpoint.downloadable:
        raise WeightsError(f"checkpoint {checkpoint.path!r} has no `revision`, so it is not downloaded")
    hub = require("huggingface_hub", extra=None)
    try:
        folder = Path(_snapshot(hub, checkpoint, local_files_only=False))
    except Exception as error:  # the hub's, the HTTP library's and the system's own sorts
        reason = (str(error).splitlines() or [""])[0]
        raise WeightsError(
            f"checkpoint {checkpoint.path!r} at {checkpoint.revision}: {type(error).__name__}: {reason}; "
            "run it again to go on where it stopped"
        ) from error
    if not checkpoint.complete_in(folder):
        names = ", ".join(path.name for path in checkpoint.found_in(folder)) or "nothing"
        raise WeightsError(
            f"checkpoint {checkpoint.path!r} at {checkpoint.revision} lacks settings or .safetensors files "
            f"(it has: {names})"
        )
    return folder


def _snapshot(hub: Any, checkpoint: Checkpoint, *, local_files_only: bool) -> str:
    folder: str = hub.snapshot_download(
        checkpoint.hub_name,
        revision=checkpoint.revision,
        allow_patterns=list(checkpoint.files),
        local_files_only=local_files_only,
    )
    return folder
