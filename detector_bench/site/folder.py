"""The folder that a report is written to: what an earlier report left goes, what is somebody else's stays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from detector_bench.atomic_files import replacing, write_text
from detector_bench.errors import ConfigError, DetectorBenchError

MANIFEST = "report.json"
"""Says that a folder is a report, which files belong to it, and its verdict for programs."""


@dataclass(frozen=True)
class ReportFolder:
    """A folder with the files that the present report has written so far, pictures aside."""

    path: Path
    _earlier: frozenset[str]
    _written: set[str] = field(default_factory=set)

    @classmethod
    def prepare(cls, path: Path) -> Self:
        """Take a folder that is new, empty, or an earlier report.

        Raises:
            ConfigError: it holds something else.
            DetectorBenchError: it cannot be made or read.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            holds_something = any(path.iterdir())
        except OSError as error:
            raise DetectorBenchError(f"cannot write to {str(path)!r}: {error}") from error
        if not holds_something:
            write_text(path / MANIFEST, json.dumps({"report": "unfinished", "files": []}) + "\n")
        elif not (path / MANIFEST).is_file():
            raise ConfigError(
                f"{str(path)!r} holds files and is no report: name a new folder with --out, or empty this one"
            )
        return cls(path, frozenset(_listed(path / MANIFEST)))

    def __truediv__(self, name: str) -> Path:
        """A file of this report; naming it here makes it one that stays."""
        self._written.add(name)
        return self.path / name

    def add(self, *paths: Path) -> None:
        """Count files in that something else has written."""
        self._written.update(path.relative_to(self.path).as_posix() for path in paths)

    def copy(self, source: Path, name: str) -> None:
        """Copy a file, whole or not at all.

        Raises:
            DetectorBenchError: it cannot be read, or not be written.
        """
        with replacing(self / name) as temporary:
            temporary.write_bytes(source.read_bytes())

    def finish(self, about: Mapping[str, Any]) -> None:
        """Remove what only the earlier report had, and write the manifest.

        Raises:
            DetectorBenchError: files cannot be removed or written.
        """
        for name in sorted(self._earlier - self._written):
            target = self.path / name
            try:
                target.unlink(missing_ok=True)
            except OSError as error:
                raise DetectorBenchError(f"cannot remove {str(target)!r} of an earlier report: {error}") from error
            for folder in target.parents:
                if folder == self.path:
                    break
                with suppress(OSError):  # not empty
                    folder.rmdir()
        manifest = {**about, "files": sorted(self._written)}
        write_text(self.path / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def _listed(manifest: Path) -> list[str]:
    """The files of an earlier report; a manifest that somebody altered can name nothing outside the folder."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
    parts = {name: name.split("/") for name in names}
    return [
        name for name in names if all(part not in ("", ".", "..") and "\\" not in part for part in parts[name])
    ]
