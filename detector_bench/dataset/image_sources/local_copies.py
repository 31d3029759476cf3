"""Copies of distant images on this machine's disk, as many as fit into a size; the longest unused go first."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from uuid import uuid4

from detector_bench.errors import ConfigError

logger = logging.getLogger(__name__)

SIZE_VARIABLE = "DETECTOR_BENCH_IMAGE_CACHE_SIZE"
DEFAULT_SIZE = "10GB"

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(?i)\s*(\d+(?:\.\d+)?)\s*([KMGT]B|)\s*")
_LEFT_AFTER_CLEARING = 0.9
_SURVEYED_AFTER = 0.05  # of the size: several processes write, and each knows of the others only by looking
_DIGEST = 32


class LocalCopies:
    """A folder of copies. Several processes may share it; each looks now and then at how large it has become.

    A copy belongs to a mark (`ContentMark.text`): of a file that has changed, no copy is found.

    Args:
        folder: created when something is kept.
        size: bytes that all copies may take together; for a moment, it may be some more. 0 keeps none.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._lock = Lock()
        self._unsurveyed: float = size  # so that the first one to be kept looks
        self._broken = False

    def get(self, reference: str, mark: str) -> bytes | None:
        """The copy of an image, if there is a sound one."""
        if not self._size:
            return None
        file = self._file(reference, mark)
        try:
            stored = file.read_bytes()
        except OSError:
            return None
        digest, data = stored[:_DIGEST], stored[_DIGEST:]
        if hashlib.sha256(data).digest() != digest:
            with suppress(OSError):
                file.unlink()
            return None
        with suppress(OSError):
            os.utime(file)
        return data

    def put(self, reference: str, mark: str, data: bytes) -> None:
        """Keep a copy; where the disk does not allow it, there is none, and that is said once."""
        if not self._size or self._broken or len(data) > self._size:
            return
        file = self._file(reference, mark)
        temporary = file.with_name(f".{uuid4().hex}.tmp")
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary.open("wb") as stream:
                stream.write(hashlib.sha256(data).digest())
                stream.write(data)
            temporary.replace(file)
        except OSError as error:
            self._broken = True
            logger.warning("no copies of images are kept in %s: %s", self._folder, error.strerror or error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        with self._lock:
            self._unsurveyed += len(data)
            is_due = self._unsurveyed > self._size * _SURVEYED_AFTER
            if is_due:
                self._unsurveyed = 0
        if is_due:
            self.clear_up()

    def clear_up(self) -> None:
        """Remove the longest unused copies until the rest fits."""
        found = []
        for file in self._folder.glob("??/*"):
            with suppress(OSError):
                status = file.stat()
                found.append((status.st_mtime, status.st_size, file))
        total = sum(size for _, size, _ in found)
        if total <= self._size:
            return
        for used, size, file in sorted(found):
            if total <= self._size * _LEFT_AFTER_CLEARING:
                break
            if file.suffix == ".tmp" and time.time() - used < 3600:
                continue  # somebody may be writing it
            with suppress(OSError):
                file.unlink()
                total -= size

    def _file(self, reference: str, mark: str) -> Path:
        name = hashlib.sha256(f"{reference}\n{mark}".encode()).hexdigest()
        return self._folder / name[:2] / name


def size_from_environment() -> int:
    """Bytes that copies may take: `DETECTOR_BENCH_IMAGE_CACHE_SIZE`, such as 500MB or 0, or 10 GB.

    Raises:
        ConfigError: the variable holds no size.
    """
    text = os.environ.get(SIZE_VARIABLE) or DEFAULT_SIZE
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{SIZE_VARIABLE}: {text!r} is no size (accepted: 0, 500MB, 20GB and the like)")
    return int(float(found[1]) * _UNITS[found[2].upper()])
