"""`local_paths.json`: where things lie on this machine that all other files of a result folder only name.

Nothing that is published names a folder, a user or a machine. What lies below the result folder is named by its
path there; of all else the published files have the name alone, and this file says where it is, as seen from the
result folder, so that both can be moved together. Who gets a folder without this file says where things are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from detector_bench.atomic_files import remove, write_text
from detector_bench.errors import ConfigError

NAME = "local_paths.json"

LOCAL_FILES = (NAME, "predictions/shards/call.json", "predictions/shards/*.failed.json", "logs/*", "paid/*")
"""Patterns of the files of a result folder that are about this machine, or its owner's bills, alone: they are not
published."""

_ABOUT = (
    "Where things lie on the machine that wrote this folder, as seen from it. Leave this file out of what you "
    "publish: all other files name them only. Without it, say --image-set DIR and the like."
)


class LocalPaths(BaseModel):
    """The content of `local_paths.json`: by published name, the path as seen from the result folder."""

    model_config = ConfigDict(frozen=True)

    about: str = _ABOUT
    image_set: dict[str, str] = {}
    predictions: dict[str, str] = {}
    """Of another result folder's predictions, where the numbers come from these."""
    weights: dict[str, str] = {}
    score_files: dict[str, str] = {}
    """Files of score systems."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What a result folder says; nothing where the file is missing, as in one that was published.

        Raises:
            ConfigError: the file is there, and cannot be read or understood.
        """
        path = folder / NAME
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValidationError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds something else"
            raise ConfigError(
                f"{path}: cannot be read ({why}): remove it, and say --image-set DIR where the images are"
            ) from error

    def write(self, folder: Path) -> None:
        """Write it; where everything lies in the folder itself, there is no such file.

        Raises:
            DetectorBenchError: the disk is full, read-only or the like.
        """
        if self == type(self)():
            remove(folder / NAME)
            return
        write_text(folder / NAME, json.dumps(self.model_dump(), indent=2, ensure_ascii=False) + "\n")


def is_local(path: str) -> bool:
    """Whether a file of a result folder, by its path there, is about this machine alone."""
    return any(fnmatchcase(path, pattern) for pattern in LOCAL_FILES)


def place_of(folder: Path, name: str, known: Mapping[str, str]) -> Path:
    """Where something lies that a file in a folder names.

    Args:
        folder: of the file.
        name: what it says.
        known: those names that stand for another path, as seen from the folder.
    """
    return folder / known.get(name, name)


def folder_with_predictions(folder: Path) -> Path:
    """The folder itself; of results that were made of another folder's predictions, the folder of these."""
    if (folder / "predictions").is_dir():
        return folder
    elsewhere = list(LocalPaths.read(folder).predictions.values())
    return folder / elsewhere[0] if len(elsewhere) == 1 else folder


class PublishedNames:
    """Gives paths the names that a result folder may publish, no two the same.

    Attributes:
        elsewhere: by name, the path as seen from the folder, of what does not lie below it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.elsewhere: dict[str, str] = {}

    def name(self, path: Path, *, fewest: int = 1) -> str:
        """The path below the folder; of what lies elsewhere its name, longer only where two have the same.

        Args:
            path: the file or folder.
            fewest: how many parts a name of what lies elsewhere has at least.
        """
        seen = path_from(self._folder, path)
        if not (os.path.isabs(seen) or seen == os.pardir or seen.startswith(f"{os.pardir}/")):  # noqa: PTH117
            return seen
        parts = path.resolve().parts
        shortest = "/".join(parts)
        for length in range(fewest, len(parts) + 1):
            shortest = "/".join(parts[-length:])
            if self.elsewhere.setdefault(shortest, seen) == seen:
                break
        return shortest


def published_predictions(out: Path, judged: Path) -> tuple[str, dict[str, str]]:
    """What a result folder calls the predictions that its numbers come from; of another folder's, also where.

    The folder of predictions is called the same everywhere, so that the name of the folder that it is in counts.
    """
    names = PublishedNames(out)
    return names.name(judged, fewest=2), names.elsewhere


def path_from(folder: Path, path: Path) -> str:
    """A path as seen from a folder. Links are resolved, because `..` behind a link leads elsewhere."""
    return PurePath(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
