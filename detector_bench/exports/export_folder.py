"""The folder that an export makes: it appears whole or not at all, and goes on where it was cut short."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from detector_bench import __version__
from detector_bench.atomic_files import write_text
from detector_bench.errors import ConfigError, DetectorBenchError

RECORD = "export.json"
"""In the folder: what was exported from what, and which names at its top belong to the export."""

_LOCK = ".lock"


@dataclass(frozen=True)
class WrittenExport:
    """What an export wrote: how many images, and what has to be said about it."""

    images: int
    notes: tuple[str, ...] = ()


@contextmanager
def export_folder(
    out: Path, *, form: str, facts: Mapping[str, Any], apart_from: Path, overwrite: bool = False
) -> Iterator[Path]:
    """Give a folder to write into, which gets its name when the block ends well.

    Until then it lies beside it under a hidden name, and stays there if the block does not end well: the same
    call goes on with what is there, a call for something else begins anew.

    Args:
        out: the folder; missing or empty, unless an earlier export is to be replaced.
        form: of the export, such as `coco`.
        facts: what decides the content; equal facts give equal files.
        apart_from: the folder that is exported.
        overwrite: replace an earlier export. A folder with anything else in it is never touched.

    Raises:
        ConfigError: the folder holds something, is (or is around) the one that is exported, or another export
            is writing it.
        DetectorBenchError: the disk is full, read-only or the like.
    """
    _check(out, apart_from, overwrite=overwrite)
    record = {"form": form, "detector_bench": __version__, **facts}
    partial = out.with_name(f".{out.name}.unfinished")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with FileLock(partial / _LOCK, timeout=0) as lock:
            _check(out, apart_from, overwrite=overwrite)  # another export may have ended meanwhile
            if _recorded(partial) != record:
                _empty(partial)
            write_text(partial / RECORD, _text(record))
            yield partial
            entries = sorted({path.name for path in partial.iterdir()} - {_LOCK})
            write_text(partial / RECORD, _text({**record, "entries": entries}))
            if out.exists():
                shutil.rmtree(out)
            if os.name != "posix":  # where a folder with an open file cannot be renamed
                lock.release()
            (partial / _LOCK).unlink(missing_ok=True)
            partial.rename(out)
    except Timeout as error:
        raise ConfigError(
            f"another export is writing {str(out)!r} now; wait for its end, or name another folder with --out"
        ) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise DetectorBenchError(f"cannot write {str(out)!r}: {why}; the same command goes on") from error


def _empty(partial: Path) -> None:
    for path in partial.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _check(out: Path, source: Path, *, overwrite: bool) -> None:
    place, exported = out.resolve(), source.resolve()
    if exported.is_relative_to(place):
        raise ConfigError(
            f"--out {str(out)!r} is the folder that is exported, or lies around it; name another one"
        )
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ConfigError(f"--out {str(out)!r} is no folder; name another one")
    there = {path.name for path in out.iterdir()} if out.exists() else set()
    if not there:
        return
    entries = _recorded(out).get("entries", [])
    foreign = sorted(there - set(entries)) if isinstance(entries, list) else sorted(there)
    if foreign:
        raise ConfigError(
            f"--out {str(out)!r} holds something that no export wrote ({foreign[0]!r}); name another folder"
        )
    if not overwrite:
        raise ConfigError(f"{str(out)!r} exists; name another folder with --out, or replace it with --overwrite")


def _recorded(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"
