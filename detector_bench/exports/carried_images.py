"""Brings the images of a set into an export's folder: copied, linked or fetched, under names that no two share."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from detector_bench.atomic_files import replacing
from detector_bench.dataset import ImageSet
from detector_bench.dataset.decoding import ImageError, image_format
from detector_bench.dataset.image_folder import ImageFolder
from detector_bench.dataset.image_paths import is_file_below, parse_reference, shown
from detector_bench.dataset.image_sources import read_image
from detector_bench.dataset.text_table import Findings
from detector_bench.dataset.validation import check_image_files
from detector_bench.errors import ConfigError, DetectorBenchError

Link = Literal["copy", "hardlink", "symlink"]
LINKS: tuple[Link, ...] = ("copy", "hardlink", "symlink")

MOST_BYTES_UNASKED = 2**30
"""More than this is copied only if somebody said so."""

IMAGES = "images"
_BROUGHT = f"{IMAGES}/brought"
"""What lay in archives and at addresses; it gets names from the images' ids."""

_MEDIA_TYPES = {"jpg": "jpeg", "tif": "tiff"}
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_ENDING = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?|avif)")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CarriedImages:
    """Where the images of a set are in an export.

    Attributes:
        names: for each row of the images, its path in the export; an address that stays one has its own, without
            secrets.
        at_addresses: how many stay at their addresses.
    """

    names: tuple[str, ...]
    at_addresses: int


def carried_names(image_set: ImageSet, *, fetch: bool) -> CarriedImages:
    """Which name each image has in an export.

    A file below the image set keeps its path if all files lie in `images/`, and gets that folder in front of it
    otherwise. What lies in a tar or Parquet file becomes a file of its own.

    Args:
        image_set: its images.
        fetch: images at addresses become files, too.
    """
    paths = image_set.table("images").column("path").to_pylist()
    ids = image_set.table("images").column("image_id").to_pylist()
    below = [path for path in paths if is_file_below(path)]
    front = "" if all(_plain(path).startswith(f"{IMAGES}/") for path in below) else f"{IMAGES}/"
    names, at_addresses = [], 0
    for image_id, path in zip(ids, paths, strict=True):
        if is_file_below(path):
            names.append(front + _plain(path))
        elif fetch or parse_reference(path).is_local:
            names.append(f"{_BROUGHT}/{_brought_name(image_set, image_id, path)}")
        else:
            names.append(shown(path))
            at_addresses += 1
    return CarriedImages(tuple(names), at_addresses)


def refuse_addresses(carried: CarriedImages, *, form: str) -> None:
    """Refuse images that stay at addresses, in a form that knows files alone.

    Raises:
        ConfigError: there are some.
    """
    if carried.at_addresses:
        raise ConfigError(
            f"{carried.at_addresses:,} of {len(carried.names):,} images lie at addresses, and {form} wants files: "
            "say --fetch to bring them, or take `detector-bench export jsonl`, which names addresses"
        )


def check_carried(image_set: ImageSet, *, link: Link | None) -> Link:
    """Check the image files before anything is written, and how they are brought.

    Raises:
        DataError: files are missing, or lead out of the image set; all of them at once.
        ConfigError: more than `MOST_BYTES_UNASKED` would be copied, and nobody said so.
    """
    findings = Findings()
    check_image_files(image_set.table("images"), image_set.root, findings)
    findings.raise_if_any()
    if link is not None:
        return link
    folder = ImageFolder(image_set.root)
    paths = {path for path in image_set.table("images").column("path").to_pylist() if is_file_below(path)}
    size = sum(folder.find(path)[1].st_size for path in paths)
    if size > MOST_BYTES_UNASKED:
        raise ConfigError(
            f"{len(paths):,} images are {size / 2**30:.1f} GiB: say --link copy, or --link hardlink or symlink, "
            "which need no room and stay on this machine"
        )
    return "copy"


def bring_images(
    image_set: ImageSet, carried: CarriedImages, folder: Path, *, link: Link, progress: Progress | None = None
) -> None:
    """Bring the images into a folder; what is there already is not brought again.

    Args:
        image_set: the images.
        carried: their names.
        folder: of the export.
        link: how files below the image set come; all others are always copied.
        progress: is told how many are done, of how many.

    Raises:
        DetectorBenchError: an image cannot be read or written.
        ConfigError: a link is not possible.
    """
    source = ImageFolder(image_set.root)
    paths = image_set.table("images").column("path").to_pylist()
    seen: set[str] = set()
    for done, (path, name) in enumerate(zip(paths, carried.names, strict=True), start=1):
        if name not in seen and "://" not in name:
            seen.add(name)
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if is_file_below(path):
                _bring_file(source, path, target, link)
            elif "://" not in path or not target.exists():  # an archive may have changed since
                data = read_carried(image_set, path)
                with replacing(target) as temporary:
                    temporary.write_bytes(data)
        if progress is not None:
            progress(done, len(paths))


def read_carried(image_set: ImageSet, path: str) -> bytes:
    """The bytes of an image, wherever it lies.

    Raises:
        DetectorBenchError: it cannot be read.
    """
    try:
        return read_image(image_set.image_place(path))
    except ImageError as error:
        raise DetectorBenchError(
            f"{shown(path)}: {error}; `detector-bench check` lists all such images"
        ) from error


def content_types(names: Sequence[str]) -> list[str]:
    """The media types of image files by their names' endings, in alphabetical order."""
    endings = {PurePosixPath(name).suffix.lower().removeprefix(".") for name in names}
    return sorted({f"image/{_MEDIA_TYPES.get(ending, ending)}" for ending in endings})


def _bring_file(source: ImageFolder, path: str, target: Path, link: Link) -> None:
    whole, status = source.find(path)
    if link == "symlink":
        if not target.is_symlink():
            target.symlink_to(os.path.relpath(whole, target.parent.resolve()))
        return
    if target.exists():
        there = target.stat()
        if (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
            return
        target.unlink()
    if link == "hardlink":
        try:
            target.hardlink_to(whole)
        except OSError as error:
            raise ConfigError(f"no hard link to {path} is possible ({error.strerror}): say --link copy") from error
        return
    temporary = target.with_name(f".{hashlib.sha256(target.name.encode()).hexdigest()[:16]}.tmp")
    with source.open(path) as content, temporary.open("wb") as copy:
        shutil.copyfileobj(content, copy, 1 << 20)
    os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
    temporary.replace(target)


def _plain(path: str) -> str:
    return PurePosixPath(path).as_posix()


def _brought_name(image_set: ImageSet, image_id: str, path: str) -> str:
    """A file name made of an id, another one for every id; where the path has no ending, the content says it."""
    own = hashlib.sha256(image_id.encode()).hexdigest()[:8]
    reference = parse_reference(path)
    suffix = PurePosixPath(reference.part or reference.place.partition("?")[0]).suffix.lower()
    if not _ENDING.fullmatch(suffix):
        suffix = f".{image_format(read_carried(image_set, path)).lower().replace('jpeg', 'jpg')}"
    return f"{_PLAIN.sub('_', image_id)[:80]}-{own}{suffix}"
