"""Downloads weights: a file, resumable and verified before it has its name; a checkpoint, into the hub's cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from filelock import FileLock

from detector_bench.errors import WeightsError
from detector_bench.installation import is_installed, require
from detector_bench.transfers import (
    BoundedClient,
    OversizedAnswerError,
    TransferError,
    TransferLimits,
    content_length,
)
from detector_bench.weights.files import Checkpoint, WeightsFile, sha256_of

if TYPE_CHECKING:
    import httpx

Progress = Callable[[int, int | None], None]

MOST_BYTES = 64 * 1024**3
"""Of a file whose size nobody has stated."""

_LEAST_BYTES = 256 * 1024
_SECONDS = 60.0


def download(
    file: WeightsFile,
    folder: Path,
    *,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Download a pinned file into `folder` and return its path.

    An interrupted download is taken up where it stopped if the server supports ranges. It ends where fewer than
    256 KiB come in a minute, and where more comes than `download_bytes` and a tenth (for sizes are stated in round
    numbers) or, where no size is stated, than 64 GiB.

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
                most = MOST_BYTES if file.download_bytes is None else file.download_bytes * 11 // 10
                source = _Source(file.url, timeout=timeout, most_bytes=most)
                _fetch_pinned(source, partial, sha256=file.sha256, progress=progress)
                partial.replace(target)
    except httpx.HTTPStatusError as error:
        answer = error.response
        raise WeightsError(
            f"{file.url}: the server answers {answer.status_code} {answer.reason_phrase}"
        ) from error
    except OversizedAnswerError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise WeightsError(f"{file.url} is not the pinned file: {error}; nothing was kept") from error
    except (httpx.HTTPError, httpx.InvalidURL, TransferError) as error:
        raise WeightsError(
            f"{file.url}: {type(error).__name__}: {error}; run it again to go on where it stopped"
        ) from error
    except OSError as error:
        raise WeightsError(f"cannot store {str(target)!r}: {error}") from error
    return target


class _Source(NamedTuple):
    url: str
    timeout: float
    most_bytes: int


def _fetch_pinned(source: _Source, partial: Path, *, sha256: str, progress: Progress | None) -> None:
    if partial.exists() and partial.stat().st_size > source.most_bytes:
        partial.unlink()
    resumed = _fetch(source, partial, progress=progress)
    actual = sha256_of(partial)
    if resumed and actual != sha256:
        # The beginning may have been another file's, or damaged: once more, from the beginning.
        partial.unlink()
        _fetch(source, partial, progress=progress)
        actual = sha256_of(partial)
    if actual != sha256:
        partial.unlink()
        raise WeightsError(
            f"{source.url} delivered another file than the pinned one: "
            f"sha256 {actual}, expected {sha256}; nothing was kept"
        )


def _fetch(source: _Source, partial: Path, *, progress: Progress | None) -> bool:
    """Download what is missing of a file; True if some of it was there already and was kept."""
    import httpx

    taking = _Taking(partial, progress)
    limits = TransferLimits(
        most_bytes=source.most_bytes,
        head_seconds=2 * source.timeout,
        least_bytes=_LEAST_BYTES,
        window=_SECONDS,
    )
    headers = {"Range": f"bytes={taking.done}-"} if taking.done else {}
    client = BoundedClient(follow_redirects=True, timeout=source.timeout)
    try:
        client.fetch("GET", source.url, headers=headers, limits=limits, begin=taking.begin)
    except httpx.HTTPStatusError as error:
        if taking.done and error.response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return True  # all of it is there already; the sha256 decides whether it is right
        raise
    finally:
        taking.close()
        client.close()
    return taking.resumed


class _Taking:
    """Puts what comes behind what is there.

    Attributes:
        done: bytes that are there.
        resumed: whether some of them were there before.
    """

    def __init__(self, partial: Path, progress: Progress | None) -> None:
        self._partial = partial
        self._progress = progress
        self._stream: BinaryIO | None = None
        self._total: int | None = None
        self.done = partial.stat().st_size if partial.exists() else 0
        self.resumed = False

    def begin(self, response: httpx.Response) -> Callable[[bytes], None]:
        """Take an answer, if it is one."""
        response.raise_for_status()
        self.resumed = response.status_code == HTTPStatus.PARTIAL_CONTENT
        self.done = self.done if self.resumed else 0
        length = content_length(response.headers)
        self._total = None if length is None else self.done + length
        self._stream = self._partial.open("ab" if self.resumed else "wb")
        return self._take

    def _take(self, part: bytes) -> None:
        assert self._stream is not None  # noqa: S101 - `begin` opens it
        self._stream.write(part)
        self.done += len(part)
        if self._progress is not None:
            self._progress(self.done, self._total)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


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
        # This asks once; without a network a download asks for half a minute, with a line for each retry.
        ask = hub.HfApi().model_info
        with suppress(hub.errors.HfHubHTTPError):  # it answers; what it does not have, the download says best
            ask(checkpoint.hub_name, revision=checkpoint.revision, timeout=_SECONDS)
        folder = Path(_snapshot(hub, checkpoint, local_files_only=False))
    except hub.errors.RevisionNotFoundError as error:
        raise WeightsError(
            f"checkpoint {checkpoint.path!r}: revision {checkpoint.revision} is not on the Hugging Face hub any "
            "more; put a copy of its folder beside the study, give another `revision`, or take its line out of "
            "the study's lock (STUDY.lock.yaml)"
        ) from error
    except Exception as error:  # the hub's, the HTTP library's and the system's own sorts
        raise WeightsError(
            f"checkpoint {checkpoint.path!r} at {checkpoint.revision}: {_why(hub, error)}; "
            "run it again to go on where it stopped"
        ) from error
    if not checkpoint.complete_in(folder):
        names = ", ".join(path.name for path in checkpoint.found_in(folder)) or "nothing"
        raise WeightsError(
            f"checkpoint {checkpoint.path!r} at {checkpoint.revision} lacks settings or .safetensors files "
            f"(it has: {names})"
        )
    return folder


def commit_on_hub(name: str) -> str:
    """The commit that a name on the Hugging Face hub stands for now: that of its main branch.

    Where the hub cannot be reached, the one that its local cache has for it.

    Raises:
        MissingExtraError: the package huggingface_hub is not installed.
        WeightsError: no such model, or none that this machine's user may have; or the hub cannot be reached.
    """
    hub = require("huggingface_hub", extra=None)
    try:
        commit = hub.HfApi().model_info(name, revision="main", timeout=_SECONDS).sha
    except hub.errors.HfHubHTTPError as error:
        raise WeightsError(f"checkpoint {name!r} is not found on this machine, and: {_why(hub, error)}") from error
    except Exception as error:  # no network, in the HTTP library's and the system's own sorts
        kept = Path(hub.constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "refs" / "main"
        with suppress(OSError):
            return kept.read_text(encoding="utf-8").strip()
        raise WeightsError(
            f"checkpoint {name!r} is not found on this machine, and the Hugging Face hub cannot be reached "
            f"({_why(hub, error)}): put its folder beside the study, or run it once with a network"
        ) from error
    if not isinstance(commit, str):
        raise WeightsError(f"checkpoint {name!r}: the Hugging Face hub names no commit of it")
    return commit


def _why(hub: Any, error: Exception) -> str:
    """In a line, why the hub gave nothing."""
    if isinstance(error, hub.errors.GatedRepoError):
        return "it is gated: accept its terms on the Hugging Face hub, then log in with `hf auth login`"
    if isinstance(error, hub.errors.RepositoryNotFoundError):
        return (
            "there is no model of this name on the Hugging Face hub, or a private one (log in with `hf auth "
            "login`)"
        )
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _snapshot(hub: Any, checkpoint: Checkpoint, *, local_files_only: bool) -> str:
    folder: str = hub.snapshot_download(
        checkpoint.hub_name,
        revision=checkpoint.revision,
        allow_patterns=list(checkpoint.files),
        local_files_only=local_files_only,
    )
    return folder
