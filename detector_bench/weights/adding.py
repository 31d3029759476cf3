"""Puts weights that the user has into the weights folder, under the name by which they are found."""

from __future__ import annotations

import shutil
from pathlib import Path

from detector_bench.errors import WeightsError
from detector_bench.weights.files import Checkpoint, WeightsFile, sha256_of


def place_of(file: WeightsFile | Checkpoint, source: Path, folder: Path) -> Path:
    """Where weights belong in a weights folder: under their own name, or one that ends as the source does."""
    if isinstance(file, Checkpoint):
        return folder / file.path
    fitting = [name for name in file.names if Path(name).suffix == source.suffix]
    return folder / (file.name if file.name in fitting or not fitting else fitting[0])


def put(source: Path, place: Path, *, link: bool = False) -> bool:
    """Copy a file or folder, or link to it; False where the same already lies there.

    Raises:
        WeightsError: something else lies there, or the system refuses.
    """
    try:
        if place.exists() or place.is_symlink():
            if _same(source, place):
                return False
            raise WeightsError(f"{str(place)!r} is another file already; take it away first")
        place.parent.mkdir(parents=True, exist_ok=True)
        if link:
            place.symlink_to(source.resolve(), target_is_directory=source.is_dir())
            return True
        partial = place.with_name(f"{place.name}.partial")
        if source.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(source, partial)
        else:
            shutil.copyfile(source, partial)
        partial.replace(place)
    except (OSError, shutil.Error) as error:
        raise WeightsError(f"cannot store {str(place)!r}: {error}") from error
    return True


def _same(source: Path, place: Path) -> bool:
    if source.is_dir() or place.is_dir() or not place.exists():
        return place.exists() and source.samefile(place)
    return source.stat().st_size == place.stat().st_size and sha256_of(source) == sha256_of(place)
