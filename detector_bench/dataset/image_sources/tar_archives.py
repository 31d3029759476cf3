"""Members of tar files, WebDataset's shards among them: each is read by itself, from where an index says it lies.

The index is made once and kept in a folder: from DALI's `.idx` file if one lies beside the archive, or from the
headers of the archive. A member's name is looked up in it and never becomes a path.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from detector_bench.atomic_files import replacing
from detector_bench.dataset.decoding import ImageError
from detector_bench.dataset.image_paths import sentence, shown
from detector_bench.dataset.image_sources.places import ContentMark, FilePlace, require_size
from detector_bench.dataset.image_sources.seekable_files import seekable
from detector_bench.errors import DetectorBenchError

_INDEXES_IN_MEMORY = 16
_LARGEST_INDEX = 1 << 28
_DALI_VERSION = "v1.2"


class Extent(NamedTuple):
    """Where a member's content begins in the archive, and how long it is; in bytes."""

    start: int
    size: int


Index = Mapping[str, Extent]
"""By name, the regular files of an archive; of two with one name the later counts, as for who unpacks it."""


class TarArchives:
    """The tar files of an image set. Any thread may read.

    Args:
        place: finds the place of an archive.
        folder: where indexes are kept; None keeps them in memory alone.
    """

    def __init__(self, place: Callable[[str], FilePlace], *, folder: Path | None) -> None:
        self._place = place
        self._folder = folder
        self._lock = Lock()
        self._indexes: OrderedDict[tuple[str, str | None], Index | ImageError] = OrderedDict()
        self._being_made: dict[str, Lock] = {}

    def read(self, archive: str, member: str, *, max_bytes: int, mark: ContentMark | None = None) -> bytes:
        """The content of a member.

        Args:
            archive: path or address of the tar file.
            member: its name there; a leading `./` does not matter.
            max_bytes: larger members are refused.
            mark: what the archive was like when it was listed; None looks now.

        Raises:
            ImageError: see there for the reasons.
        """
        place = self._place(archive)
        mark = place.mark(archive) if mark is None else mark
        extent = self.index(archive, mark).get(_plain(member))
        name = f"{shown(archive)}#{member}"
        if extent is None:
            raise ImageError("missing_file", f"{name}: the archive has no file of that name")
        require_size(name, extent.size, max_bytes)
        start = extent.start - tarfile.BLOCKSIZE
        end = extent.start + extent.size
        try:
            block = place.read(archive, start=start, end=end, mark=mark, max_bytes=max_bytes + tarfile.BLOCKSIZE)
        except ImageError as error:
            if error.reason == "changed":
                self._forget(archive)
            raise
        _require_member(block, member, extent, name)
        return block[tarfile.BLOCKSIZE :]

    def index(self, archive: str, mark: ContentMark) -> Index:
        """Where the members of an archive lie.

        Raises:
            ImageError: it is no tar file, or cannot be read.
        """
        key = (archive, mark.text)
        with self._lock:
            making = self._being_made.setdefault(archive, Lock())
        with making:
            index = self._indexes.get(key)
            if index is None:
                try:
                    index = self._stored(archive, mark) or self._made(archive, mark)
                except ImageError as error:
                    if error.reason != "corrupt":
                        raise
                    index = error  # of which every member has to tell, without a second look at all headers
            with self._lock:
                self._indexes[key] = index
                self._indexes.move_to_end(key)
                while len(self._indexes) > _INDEXES_IN_MEMORY:
                    self._indexes.popitem(last=False)
        if isinstance(index, ImageError):
            raise ImageError(index.reason, index.detail)
        return index

    def _forget(self, archive: str) -> None:
        with self._lock:
            for key in [key for key in self._indexes if key[0] == archive]:
                del self._indexes[key]

    def _made(self, archive: str, mark: ContentMark) -> Index:
        index = self._beside(archive) or self._from_headers(archive, mark)
        file = self._file(archive, mark)
        if file is not None:
            columns = zip(*((name, *extent) for name, extent in index.items()), strict=True)
            table = pa.table(dict(zip(("name", "start", "size"), map(pa.array, columns), strict=False)))
            with (
                suppress(DetectorBenchError),
                replacing(file) as temporary,
            ):  # it is made again where it is missing
                pq.write_table(table, temporary)
        return index

    def _stored(self, archive: str, mark: ContentMark) -> Index | None:
        file = self._file(archive, mark)
        if file is None or not file.is_file():
            return None
        try:
            table = pq.read_table(file)
            columns = (table[name].to_pylist() for name in ("name", "start", "size"))
            return {name: Extent(start, size) for name, start, size in zip(*columns, strict=True)}
        except (OSError, ValueError, pa.ArrowException, KeyError):  # damaged: as if it were not there
            return None

    def _file(self, archive: str, mark: ContentMark) -> Path | None:
        if self._folder is None or mark.text is None:
            return None
        return self._folder / f"{hashlib.sha256(f'{archive} {mark.text}'.encode()).hexdigest()}.parquet"

    def _beside(self, archive: str) -> Index | None:
        """What an `.idx` file says, verified whenever a member is read; None if there is none that fits."""
        beside = f"{archive[: -len('.tar')]}.idx"
        if not archive.lower().endswith(".tar"):
            return None
        try:
            text = self._place(beside).read(beside, max_bytes=_LARGEST_INDEX).decode()
        except (ImageError, UnicodeDecodeError):
            return None
        first, *lines = text.splitlines()
        if not first.startswith(f"{_DALI_VERSION} "):
            return None
        index = {}
        for line in lines:
            words = line.split(" ")
            if len(words) % 4:  # a name with a blank
                return None
            for start, size, name in zip(words[1::4], words[2::4], words[3::4], strict=True):
                if not (start.isdecimal() and size.isdecimal()):
                    return None
                index[_plain(name)] = Extent(int(start), int(size))
        return index

    def _from_headers(self, archive: str, mark: ContentMark) -> Index:
        try:
            with (
                seekable(self._place(archive), archive, mark) as file,
                tarfile.open(fileobj=file, mode="r:") as opened,
            ):
                # A sparse file has no content in one piece; links have none at all.
                index = {
                    _plain(member.name): Extent(member.offset_data, member.size)
                    for member in opened
                    if member.isreg() and not member.issparse()
                }
        except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
            raise ImageError("corrupt", f"{shown(archive)}: no sound tar file: {sentence(error)}") from error
        if not index:
            raise ImageError("corrupt", f"{shown(archive)}: a tar file without files")
        return index


def _plain(member: str) -> str:
    return member.removeprefix("./")


def _require_member(block: bytes, member: str, extent: Extent, name: str) -> None:
    """Make sure that the header before the content is the member's: an index may be of another archive."""
    try:
        header = tarfile.TarInfo.frombuf(block[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        header = None
    # The header of a long name holds its beginning only.
    if header is None or not _plain(member).startswith(_plain(header.name)[:90]) or header.size != extent.size:
        raise ImageError("changed", f"{name}: the index does not belong to this archive; delete the index")
    if len(block) - tarfile.BLOCKSIZE != extent.size:
        raise ImageError("truncated", f"{name}: the tar file ends early")
