"""Downloads weights: a file, resumable and verified before it has its name; a checkpoint, into the hub's cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from detector_bench.errors import WeightsError
from detector_bench.installation import is_installed, require
from detector_bench.weights.files import Checkpoint, WeightsFile, sha256_of

Progress = Callable[[int, int | None], None]


def download(
    file: WeightsFile,
    folder: Path,
    *,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Download a pinned file into `folder` and return its path.

    An interrupted download is taken up where it stopped if the server supports ranges.

    Args:
        file: must have a `url` and a `sha256`.
        folder: created if missing.
        progress: called with (bytes done, bytes in all or None).
        timeout: seconds without an answer after which the download fails.

    Raises:
        WeightsError: no URL or pin, the server or the disk fails, or the content is not the pinned one.
    """
    if file.url is None or file.sha256 is None:
        raise WeightsError(f"weights file {file.name!r} has no URL with a pinned sha256; cannot be downloaded")
    import httpx  # every command reads this module, and hardly any downloads

    target = folder / file.name
    partial = folder / f"{file.name}.{file.sha256[:16]}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{file.name}.lock"):
            if not (target.is_file() and sha256_of(target) == file.sha256):
                _fetch_pinned(file.url, partial, sha256=file.sha256, progress=progress, timeout=timeout)
                partial.replace(target)
    except httpx.HTTPStatusError as error:
        answer = error.response
        raise WeightsError(
            f"{file.url}: the server answers {answer.status_code} {answer.reason_phrase}"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WeightsError(
            f"{file.url}: {type(error).__name__}: {error}; run it again to go on where it stopped"
        ) from error
    except OSError as error:
        raise WeightsError(f"cannot store {str(target)!r}: {error}") from error
    return target


def _fetch_pinned(url: str, partial: Path, *, sha256: str, progress: Progress | None, timeout: float) -> None:
    resumed = _fetch(url, partial, progress=progress, timeout=timeout)
    actual = sha256_of(partial)
    if resumed and actual != sha256:
        # The beginning may have been another file's, or damaged: once more, from the beginning.
        partial.unlink()
        _fetch(url, partial, progress=progress, timeout=timeout)
        actual = sha256_of(partial)
    if actual != sha256:
        partial.unlink()
        raise WeightsError(
            f"{url} delivered another file than the pinned one: "
            f"sha256 {actual}, expected {sha256}; nothing was kept"
        )


def _fetch(url: str, partial: Path, *, progress: Progress | None, timeout: float) -> bool:
    """Download what is missing of a file; True if some of it was there already and was kept."""
    import httpx

    done = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # a compressed answer could not be resumed
    if done:
        headers["Range"] = f"bytes={done}-"
    with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=timeout) as response:
        if done and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return True  # all of it is there already; the sha256 decides whether it is right
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = done if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with partial.open("ab" if resumed else "wb") as stream:
            for chunk in response.iter_bytes():
                stream.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
    return resumed


def cached_folder(checkpoint: Checkpoint) -> Path | None:
    """The folder of a complete checkpoint in the hub's local cache; None where there is none."""
    if not checkpoint.downloadable or not is_installed("huggingface_hub"):
        return None
    # The rest of the package takes longer to import than all else that lists detectors.
    kept = Path(require("huggingface_hub.constants", extra=None).HF_HUB_CACHE)
    if not (kept / f"models--{str(checkpoint.hub_name).replace('/', '--')}").is_dir():
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
