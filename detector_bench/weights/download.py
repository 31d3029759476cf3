"""Downloads one weights file: resumable, verified before it gets its name, never half there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
from filelock import FileLock

from detector_bench.errors import WeightsError
from detector_bench.weights.files import WeightsFile, sha256_of

_CHUNK = 1 << 20


def download(
    file: WeightsFile,
    folder: Path,
    *,
    progress: Callable[[int, int | None], None] | None = None,
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
    target = folder / file.name
    partial = folder / f"{file.name}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{file.name}.lock"):
            if not (target.is_file() and sha256_of(target) == file.sha256):
                _fetch(file.url, partial, progress=progress, timeout=timeout)
                actual = sha256_of(partial)
                if actual != file.sha256:
                    partial.unlink()
                    raise WeightsError(
                        f"{file.url} delivered another file than the pinned one: "
                        f"sha256 {actual}, expected {file.sha256}; nothing was kept"
                    )
                partial.replace(target)
    except httpx.HTTPError as error:
        raise WeightsError(f"{file.url}: {type(error).__name__}: {error}; try again to resume") from error
    except OSError as error:
        raise WeightsError(f"cannot store {str(target)!r}: {error}") from error
    return target


def _fetch(url: str, partial: Path, *, progress: Callable[[int, int | None], None] | None, timeout: float) -> None:
    done = partial.stat().st_size if partial.exists() else 0
    headers = {"Range": f"bytes={done}-"} if done else {}
    with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=timeout) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is there already; the sha256 decides whether it is right
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = done if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with partial.open("ab" if resumed else "wb") as stream:
            for chunk in response.iter_bytes(_CHUNK):
                stream.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
