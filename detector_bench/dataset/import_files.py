"""Brings image files and tables into an image set's folder, each whole or not at all."""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pandas as pd

from detector_bench.atomic_files import replacing
from detector_bench.dataset.image_folder import ImageFolder
from detector_bench.dataset.image_set_tables import Tables
from detector_bench.dataset.import_settings import LinkKind
from detector_bench.dataset.table_reading import SUFFIXES
from detector_bench.dataset.text_table import Findings, TextTable
from detector_bench.errors import ConfigError, DetectorBenchError, Problem

_TABLES = ("prompts", "labels", "images")
_PART = ".import-part"
"""What the name of a file begins with while it is copied."""

_AT_ONCE = 8
_FEWEST_IN_A_SHARE = 64


def check_destination(destination: Path, *, has_labels: bool, overwrite: bool, findings: Findings) -> None:
    """Report tables in the destination that must not be replaced."""
    if destination.exists() and not destination.is_dir():
        findings.add(Problem(str(destination), "it is not a folder", accepted="a folder, or a name that is free"))
        return
    for name in (stem + suffix for stem in _TABLES for suffix in SUFFIXES):
        if not (destination / name).exists():
            continue
        if not overwrite:
            accepted = "another destination, --add, or overwrite"
            findings.add(Problem(name, "the file exists already", accepted=accepted))
        elif name.startswith("labels") and not has_labels:
            message = "the file exists already, and there are no labels to replace it"
            findings.add(Problem(name, message, accepted="labels to import, or move the file away"))


def check_targets(destination: Path, moved: Mapping[str, str], findings: Findings) -> None:
    """Report files that would take the place of others.

    Args:
        destination: the image set's folder.
        moved: by path in the image set, the file that is to be there.
        findings: takes mistakes.
    """
    there = (path for path in moved if os.path.lexists(f"{destination}/{path}"))
    taken = [path for path in there if not _is_same(moved[path], destination / path)]
    accepted = "another destination, or overwrite"
    findings.add_kind([Problem(path, "another image has this name already", accepted=accepted) for path in taken])


def _is_same(origin: str, target: Path) -> bool:
    return target.exists() and filecmp.cmp(origin, target, shallow=False)


def bring_all(moved: Mapping[str, str], destination: Path, *, link: LinkKind) -> None:
    """Copy or link files into the image set, each whole or not at all; what is there already is left.

    Args:
        moved: by path in the image set, the file that is to be there.
        destination: the image set's folder.
        link: how files get there.

    Raises:
        ConfigError: a link is not possible.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    files = list(moved.items())
    for folder in dict.fromkeys(f"{destination}/{path.rpartition('/')[0]}" for path in moved):
        with _saying(folder):
            _make_folder(folder)
    # Copying a small file is mostly waiting for the disk. Neighbours go to one thread, since a folder takes one
    # new file at a time.
    share = max(_FEWEST_IN_A_SHARE, -(-len(files) // _AT_ONCE))
    stopped = Event()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bringing") as pool:
        shares = [
            pool.submit(_bring, files[first : first + share], destination, link, f"{_PART}-{first}", stopped)
            for first in range(0, len(files), share)
        ]
        try:
            for each in as_completed(shares):
                each.result()
        finally:
            stopped.set()


def _make_folder(folder: str) -> None:
    """Make a folder, without what a killed import has left in it."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as entries:
        # It may be a link, through which a copy would change its origin.
        left = [entry.path for entry in entries if entry.name.startswith(_PART)]
    for path in left:
        Path(path).unlink(missing_ok=True)


def _bring(files: Sequence[tuple[str, str]], destination: Path, link: LinkKind, part: str, stopped: Event) -> None:
    """Copy or link files one after the other, each under the name `part` first."""
    for path, origin in files:
        if stopped.is_set():
            return
        target = f"{destination}/{path}"
        temporary = f"{target.rpartition('/')[0]}/{part}"
        with _saying(target):
            try:
                _put(origin, temporary, link)
                os.replace(temporary, target)  # noqa: PTH105 - there may be millions
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise


def _put(origin: str, target: str, link: LinkKind) -> None:
    """Copy or link a file; nothing is there yet."""
    if link == "copy":
        shutil.copyfile(origin, target)
        return
    try:
        if link == "hardlink":
            os.link(origin, target)
        else:
            os.symlink(origin, target)  # noqa: PTH211 - as above
    except OSError as error:
        kind = "hard link" if link == "hardlink" else "link"
        raise ConfigError(f"no {kind} to {origin} is possible ({error.strerror}); accepted: copy") from error


def links_that_leave(moved: Mapping[str, str], destination: Path) -> bool:
    """Whether links to these files lead out of the image set, so that they have to be allowed."""
    folder = ImageFolder(destination)
    return any(folder.leads_out(origin) for origin in moved.values())


def write_tables(destination: Path, tables: Tables) -> None:
    """Write the three tables of a new image set as CSV, `images.csv` last."""
    # Without images.csv there is no image set, so a crash from here on leaves none that mixes old and new.
    with _saying(destination / "images.csv"):
        (destination / "images.csv").unlink(missing_ok=True)
    for stem, table in (("prompts", tables.prompts), ("labels", tables.labels), ("images", tables.images)):
        if table is None:
            continue
        _write_whole(destination / f"{stem}.csv", _csv_writer(table))
        with _saying(destination / f"{stem}.parquet"):
            (destination / f"{stem}.parquet").unlink(missing_ok=True)


def replace_tables(destination: Path, grown: Iterable[tuple[str, TextTable]]) -> None:
    """Put tables that have grown in the place of an image set's own, in this order; each keeps its format.

    With prompts first and labels last the image set is sound after each of them.

    Args:
        destination: the image set's folder.
        grown: the file's name without suffix, and its new content.
    """
    for stem, table in grown:
        parquet = destination / f"{stem}.parquet"
        if parquet.exists():
            with replacing(parquet) as temporary:
                table.data.to_pandas().to_parquet(temporary, index=False)
        else:
            with replacing(destination / f"{stem}.csv") as temporary:
                _csv_writer(table)(temporary)


def _csv_writer(table: TextTable) -> Callable[[Path], object]:
    frame: pd.DataFrame = table.data.to_pandas()
    return partial(frame.to_csv, index=False, lineterminator="\n")


def _write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name first, so that a crash leaves no half of it under its own."""
    # The same name each time, so that the next import takes away what a killed one has left.
    temporary = target.with_name(f".import-{hashlib.sha256(target.name.encode()).hexdigest()[:16]}")
    with _saying(target):
        try:
            temporary.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _saying(path: Path | str) -> Iterator[None]:
    """Turn what a disk refuses into a line that names the file."""
    try:
        yield
    except OSError as error:
        raise DetectorBenchError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was written stays; the same command, "
            "with --overwrite if it finds tables there, goes on"
        ) from error
