"""Pictures for the report: small ones for the grid, larger ones on demand, blurred, linked, or none at all.

A file's name begins with the sha256 of the image's content, so a repeated report makes only what is missing, and
no name out of the image set becomes a path. Pixels are those that annotators and detectors saw
(`dataset.decoding`); metadata is left behind.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import get_ident
from typing import Literal, TypeAlias, get_args
from urllib.parse import quote

from PIL import Image, ImageFilter

from detector_bench.dataset.decoding import DEFAULT_MAX_PIXELS, ImageError, decode_image
from detector_bench.dataset.image_paths import is_file_below
from detector_bench.dataset.image_sources import ImageSources
from detector_bench.dataset.many_files import each_file
from detector_bench.dataset.validation import FileInspector
from detector_bench.errors import ConfigError, DetectorBenchError

PictureMode: TypeAlias = Literal["copy", "blur", "link", "none"]
PICTURE_MODES: tuple[PictureMode, ...] = get_args(PictureMode)

THUMBNAIL_SIDE = 200
LARGE_SIDE = 1024
_DETAIL_LEFT_BY_BLUR = 14
"""Longer side in pixels to which a blurred picture is shrunk first: nobody can be recognised or sharpened back."""

FOLDERS = ("thumbnails", "pictures")
_FILE_NAME = re.compile(r"[0-9a-f]{24}-\d+x\d+\.webp")


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """What the report shows of an image file."""

    name: str | None = None
    """Of the file below the thumbnails' and the large pictures' folder, without its ending; or of `link`, the
    address relative to the report. None: a placeholder."""
    width: int = 0
    """Of the image as it was judged; 0 where it was not looked at."""
    height: int = 0
    problem: str = ""
    """Why there is a placeholder."""
    sha256: str | None = None


@dataclass(frozen=True)
class ReportPictures:
    """The pictures of an image set, in its order."""

    mode: PictureMode
    pictures: tuple[ReportPicture, ...]
    small: str = ""
    """Folder of the thumbnails, relative to the report; empty where there are none."""
    large: str = ""


@dataclass(frozen=True)
class _Kind:
    """One sort of file that is made of every image."""

    folder: Path
    side: int
    blurred: bool
    known: dict[str, str] = field(default_factory=dict)
    """By the beginning of the content's sha256, the name of the file that is there already."""


def make_pictures(
    root: Path,
    paths: Sequence[str],
    out: Path,
    *,
    mode: PictureMode = "copy",
    large_side: int = LARGE_SIDE,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReportPictures:
    """Make what is missing, and remove what an earlier report with other settings left.

    An image that is missing, broken, too large or outside the image set's folder gets a placeholder with its
    reason. Interrupted or repeated, it goes on where it was.

    Args:
        root: the image set's folder, with links resolved.
        paths: as in `images.path`; several images may share a file.
        out: the report's folder.
        mode: copy: thumbnails and larger pictures. blur: blurred thumbnails only. link: the image set's own files,
            by a relative address; images that lie elsewhere get a placeholder. none: no image is read.
        large_side: longer side of the larger pictures in pixels; 0: none.
        max_pixels: larger images become placeholders.
        threads: how many; None: one per processor core, at most 16.
        progress: called with (files done, files in all).

    Raises:
        ConfigError: an unknown mode, or a side that is no number of pixels.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    check_picture_settings(mode, large_side=large_side)
    kinds = _kinds(out, mode, large_side)
    _remove_others(out, kinds)
    if mode == "none":
        return ReportPictures(mode, (ReportPicture(),) * len(paths))
    distinct = list(dict.fromkeys(paths))
    sources, inspector = ImageSources(root), FileInspector(root)
    if mode == "link":
        found = {path: _linked(root, path, inspector, out) for path in distinct}
    else:
        work = partial(_picture, sources, inspector, kinds, max_pixels)
        found = {}
        # Reading, decoding and encoding all let go of the interpreter.
        answers = each_file(work, distinct, workers=threads or sources.readers(distinct))
        for done, (path, picture) in enumerate(zip(distinct, answers, strict=True), start=1):
            found[path] = picture
            if progress is not None:
                progress(done, len(distinct))
        _remove_unused(kinds, found)
    small, large = (*(kind.folder.relative_to(out).as_posix() for kind in kinds), "", "")[:2]
    return ReportPictures(mode, tuple(found[path] for path in paths), small, large)


def check_picture_settings(mode: str, *, large_side: int) -> None:
    """Check the settings before anything is written.

    Raises:
        ConfigError: an unknown mode, or a side that is no number of pixels.
    """
    if mode not in PICTURE_MODES:
        raise ConfigError(f"unknown mode of images: {mode!r} (accepted: {', '.join(PICTURE_MODES)})")
    if not 0 <= large_side <= 8192:
        raise ConfigError(f"size of the large pictures: {large_side} (accepted: 0 to 8192 pixels)")


def _kinds(out: Path, mode: PictureMode, large_side: int) -> list[_Kind]:
    if mode not in ("copy", "blur"):
        return []
    kinds = [_Kind(out / FOLDERS[0] / f"{mode}-{THUMBNAIL_SIDE}", THUMBNAIL_SIDE, mode == "blur")]
    if mode == "copy" and large_side:
        kinds.append(_Kind(out / FOLDERS[1] / f"copy-{large_side}", large_side, blurred=False))
    for kind in kinds:
        kind.known.update((path.stem[:24], path.stem) for path in _own_files(kind.folder) if path.stat().st_size)
    return kinds


def _linked(root: Path, path: str, inspector: FileInspector, out: Path) -> ReportPicture:
    fault = inspector.fault(path)
    if not is_file_below(path):
        fault = fault or "it is no file of its own in the image set's folder, so that nothing can be linked"
    return ReportPicture(_address(root / path, out)) if fault is None else ReportPicture(problem=fault)


def _picture(
    sources: ImageSources, inspector: FileInspector, kinds: Sequence[_Kind], max_pixels: int, path: str
) -> ReportPicture:
    fault = inspector.fault(path)
    if fault is not None:
        return ReportPicture(problem=fault)
    sha256 = None
    try:
        data = sources.read(path)
        sha256 = hashlib.sha256(data).hexdigest()
        key = sha256[:24]
        names = {kind.known.get(key) for kind in kinds}
        if len(names) == 1 and (name := next(iter(names))) is not None:
            width, height = name.rpartition("-")[2].split("x")
            return ReportPicture(f"{key[:2]}/{name}", int(width), int(height), sha256=sha256)
        image = Image.fromarray(decode_image(data, max_pixels=max_pixels))
    except ImageError as error:
        return ReportPicture(problem=str(error), sha256=sha256)
    name = f"{key}-{image.width}x{image.height}"
    encoded: dict[tuple[bool, tuple[int, int]], bytes] = {}
    for kind in kinds:
        # Of a small image, the small and the large picture are the same.
        of_size = kind.blurred, _size_within(image, kind.side)
        if of_size not in encoded:
            encoded[of_size] = _encoded(_shrunk(image, kind))
        _save(encoded[of_size], kind.folder / key[:2] / f"{name}.webp")
    return ReportPicture(f"{key[:2]}/{name}", image.width, image.height, sha256=sha256)


def _shrunk(image: Image.Image, kind: _Kind) -> Image.Image:
    if kind.blurred:
        tiny = _within(image, _DETAIL_LEFT_BY_BLUR)
        width, height = _size_within(image, kind.side)
        return tiny.resize((width, height), Image.Resampling.BICUBIC).filter(
            ImageFilter.GaussianBlur(kind.side / 20)
        )
    return _within(image, kind.side)


def _within(image: Image.Image, side: int) -> Image.Image:
    size = _size_within(image, side)
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _size_within(image: Image.Image, side: int) -> tuple[int, int]:
    """The largest size of the image's proportions within a square; images are never enlarged."""
    scale = min(1.0, side / max(image.size))
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))


def _encoded(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "WEBP", quality=80, method=2)
    return buffer.getvalue()


def _save(data: bytes, path: Path) -> None:
    # Two images may have the same content, and two threads the same file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise DetectorBenchError(f"cannot write {str(path)!r}: {error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _address(path: Path, out: Path) -> str:
    try:
        relative = os.path.relpath(path, out.resolve())
    except ValueError as error:  # another drive
        raise ConfigError(f"images cannot be linked: {error}; copy them, or write the report elsewhere") from None
    return quote(Path(relative).as_posix())


def _own_files(folder: Path) -> list[Path]:
    """Pictures that a report has made; nothing else is ever removed."""
    return [path for path in folder.glob("[0-9a-f][0-9a-f]/*.webp") if _FILE_NAME.fullmatch(path.name)]


def _remove_others(out: Path, kinds: Sequence[_Kind]) -> None:
    """Remove pictures of other modes and sizes: a report without images must not keep those of an earlier one."""
    wanted = {kind.folder for kind in kinds}
    for place in FOLDERS:
        for folder in (out / place).glob("*-*"):
            if folder not in wanted:
                _remove(_own_files(folder), upto=out)


def _remove_unused(kinds: Sequence[_Kind], found: Mapping[str, ReportPicture]) -> None:
    used = {picture.name for picture in found.values()}
    for kind in kinds:
        _remove(
            [path for path in _own_files(kind.folder) if f"{path.parent.name}/{path.stem}" not in used],
            upto=kind.folder,
        )


def _remove(files: Sequence[Path], *, upto: Path) -> None:
    try:
        for path in files:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise DetectorBenchError(f"cannot remove the pictures of an earlier report: {error}") from error
    for folder in {path.parent for path in files}:
        for each in (folder, *folder.parents):
            if each == upto:
                break
            with suppress(OSError):  # not empty
                each.rmdir()
