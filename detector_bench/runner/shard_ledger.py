"""What is done of a run that is cut into shards: a manifest per finished shard, written when its files stand.

The folder `predictions/shards/` holds `layout.json` (how many shards there are, and which versions of detectors
judge), and for each shard its manifest, a lock while a process works on it, and why the last try failed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from detector_bench.atomic_files import remove, write_text
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.runner.shards import Shard, ranges, shard_of_file
from detector_bench.sealed import read_sealed, write_sealed

_PATIENCE = 300.0
"""Seconds to wait for who decides on the layout: it takes a moment, but a thousand tasks may begin at once."""

_GLANCE = 2.0
"""Seconds to wait for a shard's lock: somebody may only look whether it is held."""


class ShardFile(BaseModel):
    """One detector's verdicts on a shard."""

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    """Of the detector that judged."""
    file: str
    rows: int
    sha256: str
    """Of the file."""


class ShardManifest(BaseModel):
    """A shard all of whose images are judged."""

    model_config = ConfigDict(frozen=True)

    shard: str
    images: int
    detectors: dict[str, ShardFile]
    record: dict[str, Any] = Field(default_factory=dict)
    """Versions, weights and devices of the last process that judged something of it, as `run.json` has them."""
    sessions: list[dict[str, Any]] = Field(default_factory=list)
    """What was done, by every process that judged something of it."""


class ShardState(StrEnum):
    """How far a shard is."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    OPEN = "open"


class ShardStatus(NamedTuple):
    """Where a shard stands, for people."""

    shard: Shard
    state: ShardState
    images: int | None = None
    """Of a finished shard."""
    reason: str = ""
    """Of a failed one, why."""


class ShardLayout(BaseModel):
    """How a result folder's predictions are cut, and by which versions of the detectors they are made."""

    model_config = ConfigDict(frozen=True)

    shards: int = Field(default=1, ge=1)
    detectors: dict[str, str] = Field(default_factory=dict)
    """Fingerprints by name, as the last run that looked after all shards had them."""
    asked: tuple[str, ...] = ()
    """Names of the detectors of that run: a shard that some of them have not judged is not done."""


class ShardLedger:
    """The folder `predictions/shards/`.

    Args:
        predictions: the folder of all detectors' predictions.
    """

    def __init__(self, predictions: Path) -> None:
        self.predictions = predictions
        self.folder = predictions / "shards"

    def layout(self) -> ShardLayout | None:
        """How the folder is cut; one that is older than shards counts as one shard. None: nothing is there.

        Raises:
            ConfigError: the file is damaged.
        """
        path = self.folder / "layout.json"
        try:
            return ShardLayout.model_validate(read_sealed(path))
        except FileNotFoundError:
            return self._layout_by_names()
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise ConfigError(
                f'{str(path)!r} cannot be read ({why}): write {{"shards": N}} into it, N as in the names of the '
                "prediction files beside it"
            ) from error

    def _layout_by_names(self) -> ShardLayout | None:
        """Of a folder that is older than shards, or that was copied without them."""
        found = {shard_of_file(path.name) or Shard() for path in self.predictions.glob("*/*.parquet")}
        counts = sorted({shard.count for shard in found})
        if len(counts) > 1:
            raise ConfigError(
                f"{str(self.folder / 'layout.json')!r} is missing, and the prediction files are of runs with "
                f"{' and '.join(map(str, counts))} shards: remove those that do not count"
            )
        return ShardLayout(shards=counts[0]) if counts else None

    def write_layout(self, layout: ShardLayout) -> None:
        """Say how the folder is cut from now on."""
        write_sealed(self.folder / "layout.json", layout.model_dump(mode="json"))

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Hold the lock under which the layout is read and changed."""
        with self._held(self.folder / "layout.lock", patience=_PATIENCE, what="another run prepares {}"):
            yield

    @contextmanager
    def completing(self) -> Iterator[None]:
        """Hold the lock under which results are made of finished shards; one waits for the other, however long."""
        with self._held(self.folder / "completing.lock", patience=-1, what="the results of {} are being written"):
            yield

    @contextmanager
    def running(self, shard: Shard) -> Iterator[None]:
        """Hold a shard's lock while it is judged; the system gives it back when the process ends, however it ends.

        Raises:
            ShardTakenError: another process holds it, or the folder has been cut anew.
        """
        with self._held(self._lock(shard), patience=_GLANCE, what=_taken(shard)):
            # Who cuts anew looks for held locks first: between that look and this lock it may have begun.
            with self.deciding():
                layout = self.layout()
            if layout is not None and layout.shards != shard.count:
                raise ShardTakenError(
                    f"{str(self.predictions)!r} has just been cut into {layout.shards} shards, not {shard.count}"
                )
            yield

    def is_running(self, shard: Shard, *, patiently: bool = False) -> bool:
        """Whether some process holds a shard's lock right now; `patiently`: for longer than a look at it takes."""
        if not self._lock(shard).exists():
            return False
        try:
            with self._held(self._lock(shard), patience=_GLANCE if patiently else 0, what=_taken(shard)):
                return False
        except ShardTakenError:
            return True

    def manifest(self, shard: Shard) -> ShardManifest | None:
        """A finished shard's manifest; None if there is none, or none that can be read."""
        try:
            return ShardManifest.model_validate(read_sealed(self._manifest(shard)))
        except (OSError, ValueError):
            return None

    def begin(self, shard: Shard) -> None:
        """Say that a shard is not finished any more."""
        remove(self._manifest(shard))

    def complete(self, shard: Shard, manifest: ShardManifest) -> None:
        """Write a shard's manifest, whole or not at all, and forget earlier failures."""
        if manifest != self.manifest(shard):
            write_sealed(self._manifest(shard), manifest.model_dump(mode="json"))
        remove(self._failure(shard))

    def fail(self, shard: Shard, reason: str) -> None:
        """Remember why a shard could not be finished, for who looks at it."""
        line = " ".join(reason.split())
        write_text(self._failure(shard), json.dumps({"reason": line}, ensure_ascii=False) + "\n")

    def states(self) -> list[ShardStatus]:
        """Where every shard stands.

        Raises:
            ConfigError: there is no run in this folder.
        """
        layout = self.layout()
        if layout is None:
            raise ConfigError(f"no run in {str(self.predictions)!r}: it holds no predictions and no shards")
        asked = {name: layout.detectors[name] for name in layout.asked if name in layout.detectors}
        return [self._state(shard, asked) for shard in Shard.all(layout.shards)]

    def unfinished(self, fingerprints: Mapping[str, str], *, images: Sequence[int]) -> list[Shard]:
        """The shards without a manifest, or with one of other versions of the detectors or other images.

        Args:
            fingerprints: by detector's name.
            images: how many each shard has, the first one's first.
        """
        left = []
        for shard, own in zip(Shard.all(len(images)), images, strict=True):
            manifest = self.manifest(shard)
            if manifest is None or manifest.images != own or not is_of(manifest, fingerprints):
                left.append(shard)
        return left

    def damaged(self, shard: Shard) -> list[Path]:
        """The files that a finished shard's manifest names and that are not there, or not as they were written."""
        manifest = self.manifest(shard)
        named = {} if manifest is None else manifest.detectors
        paths = {self.predictions / name / each.file: each.sha256 for name, each in named.items()}
        return [path for path, sha256 in paths.items() if file_sha256(path) != sha256]

    def vouched(self) -> dict[Path, str]:
        """The sha256 of every file that the manifest of a finished shard names, by its path."""
        layout = self.layout()
        manifests = [] if layout is None else [self.manifest(shard) for shard in Shard.all(layout.shards)]
        return {
            self.predictions / name / each.file: each.sha256
            for manifest in manifests
            if manifest is not None
            for name, each in manifest.detectors.items()
        }

    def discard_damaged(self, shard: Shard) -> list[Path]:
        """Remove a finished shard's files that are not as they were written, and say that it is not finished.

        The files go with the manifest: without it nobody could tell any more that they are damaged.

        Raises:
            ShardTakenError: another process works on the shard, and may be writing them anew.
        """
        if not self.damaged(shard):
            return []
        with self.running(shard):
            damaged = self.damaged(shard)
            for path in damaged:
                remove(path)
            if damaged:
                self.begin(shard)
        return damaged

    def forget(self, shards: int) -> None:
        """Remove the manifests and failures of a layout that the folder no longer has."""
        for shard in Shard.all(shards):
            for path in (self._manifest(shard), self._failure(shard), self._lock(shard)):
                remove(path)

    def _state(self, shard: Shard, asked: Mapping[str, str]) -> ShardStatus:
        if self.is_running(shard):
            return ShardStatus(shard, ShardState.RUNNING)
        manifest = self.manifest(shard)
        if manifest is not None and is_of(manifest, asked):
            return ShardStatus(shard, ShardState.DONE, images=manifest.images)
        try:
            reason = json.loads(self._failure(shard).read_text(encoding="utf-8"))["reason"]
        except (OSError, ValueError, KeyError, TypeError):
            return ShardStatus(shard, ShardState.OPEN)
        return ShardStatus(shard, ShardState.FAILED, reason=str(reason))

    def _manifest(self, shard: Shard) -> Path:
        return self.folder / f"{shard.name}.json"

    def _failure(self, shard: Shard) -> Path:
        return self.folder / f"{shard.name}.failed.json"

    def _lock(self, shard: Shard) -> Path:
        # Older versions, too, know the lock of a folder that is not cut.
        return self.predictions / ".lock" if shard.count == 1 else self.folder / f"{shard.name}.lock"

    @contextmanager
    def _held(self, path: Path, *, patience: float, what: str) -> Iterator[None]:
        lock = FileLock(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=patience)
        except Timeout:
            raise ShardTakenError(f"{what.format(repr(str(self.predictions)))} right now") from None
        except OSError as error:
            raise DetectorBenchError(f"cannot write to {str(self.predictions)!r}: {error}") from error
        try:
            yield
        finally:
            lock.release()


def _taken(shard: Shard) -> str:
    return "another run writes to {}" if shard.count == 1 else f"another process judges shard {shard} of {{}}"


class ShardTakenError(DetectorBenchError):
    """Another process works on the same shard."""


def is_of(manifest: ShardManifest, fingerprints: Mapping[str, str]) -> bool:
    """Whether a manifest says that these versions of the detectors judged the shard."""
    found = {name: each.fingerprint for name, each in manifest.detectors.items()}
    return all(found.get(name) == own for name, own in fingerprints.items())


def file_sha256(path: Path) -> str | None:
    """The sha256 of a file's content; None if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def repeat_line(statuses: list[ShardStatus]) -> str:
    """The numbers of shards that are neither done nor running, as an array job takes them."""
    left = (ShardState.FAILED, ShardState.OPEN)
    return ranges(each.shard.number for each in statuses if each.state in left)
