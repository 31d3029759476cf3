"""A study's lock: which commit each name on the Hugging Face hub stood for when the study first used it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from detector_bench.atomic_files import write_text
from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError, DetectorBenchError
from detector_bench.weights.download import commit_on_hub

_COMMIT = re.compile(r"[0-9a-f]{40}")
_KEY = "revisions"
_HEADING = """\
# The commits that names on the Hugging Face hub stood for when this study first used them. Keep this
# file beside the study, and the same weights are used. A line that is taken out is looked up anew.
"""


def lock_beside(study_file: Path) -> Path:
    """Where a study's lock lies: `STUDY.lock.yaml` beside `STUDY.yaml`."""
    return study_file.with_name(f"{study_file.stem}.lock.yaml")


class RevisionLock:
    """Gives a name its commit: the one that is written down, or the present one, which is written down then.

    Args:
        places: lock files. What the first of them says counts; a new commit goes into the first that can be
        written.
    """

    def __init__(self, places: Sequence[Path] = ()) -> None:
        self.places = tuple(places)
        self._unwritten: dict[str, str] = {}

    def known(self, name: str) -> str | None:
        """The commit that is written down.

        Raises:
            ConfigError: a lock file is damaged.
        """
        for place in self.places:
            if (found := _read(place).get(name)) is not None:
                return found
        return self._unwritten.get(name)

    def settle(self, name: str) -> str:
        """The commit that is written down, or else that of the hub's main branch, which is written down.

        Raises:
            ConfigError: a lock file is damaged.
            MissingExtraError, WeightsError: see `commit_on_hub`.
        """
        if (known := self.known(name)) is not None:
            return known
        commit = commit_on_hub(name)
        self._unwritten[name] = commit
        for place in self.places:
            try:
                write_lock(place, {**_read(place), name: commit})
            except ConfigError:
                raise
            except DetectorBenchError:  # a folder that only its owner may write to
                continue
            break
        return commit

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """The commits of those names that have one, by name."""
        found = {name: self.known(name) for name in sorted(set(names))}
        return {name: commit for name, commit in found.items() if commit is not None}


def write_lock(path: Path, commits: dict[str, str]) -> None:
    """Write a lock file.

    Raises:
        DetectorBenchError: the disk is full, read-only or the like.
    """
    write_text(path, _HEADING + yaml.safe_dump({_KEY: dict(sorted(commits.items()))}))


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    content = read_mapping(path, keys=f"`{_KEY}`")
    found = content.get(_KEY)
    if set(content) != {_KEY} or not isinstance(found, dict):
        raise ConfigError(f"{path}: a lock holds `{_KEY}`, a mapping of names to commits, and nothing else")
    for name, commit in found.items():
        if not isinstance(name, str) or not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise ConfigError(
                f"{path}: {_KEY}.{name}: {commit!r} is no commit (accepted: 40 hexadecimal digits, in quotes if "
                "need be)"
            )
    return found
