"""What is known of weights before they are found: one file, or a checkpoint, a folder as transformers saves it."""

from __future__ import annotations

import hashlib
import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import WeightsError


def _lower_case(value: Any) -> Any:
    # Some systems print a sha256 in capitals.
    return value.strip().lower() if isinstance(value, str) else value


class WeightsFile(Declaration):
    """One file of weights, pinned by its content.

    In a study file, a bare string stands for `{path: that string}`. Two descriptions with the same pinned content
    are equal wherever the file lies and whatever is said about it, so that stages that use it are shared.
    """

    path: str
    """File name, or a path: absolute, or relative to the study file."""
    sha256: Annotated[str, BeforeValidator(_lower_case)] | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Pinned content. Without it, whatever file is found is used, and its sha256 is recorded."""
    licence: str = "not stated"
    source: str = "not stated"
    url: str | None = None
    """Where `weights fetch` downloads it; only with a pinned sha256."""
    download_bytes: int | None = None
    """About what a download takes."""
    package: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Python package that carries the file. Without dots: to find a package's part, Python imports the package."""
    package_path: str | None = None
    """Path inside that package's folder."""
    package_extra: str | None = None
    """The extra of detector-bench that installs that package."""

    @field_validator("path")
    @classmethod
    def _names_a_file(cls, path: str) -> str:
        if Path(path).name in ("", ".."):
            raise ValueError("a path ends with the name of a file")
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightsFile) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[str | None, ...]:
        if self.sha256 is not None:
            return (self.sha256,)
        return (self.path, self.package, self.package_path)

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return Path(self.path).name

    @property
    def downloadable(self) -> bool:
        """Whether it can be fetched: an address and a pinned content."""
        return self.url is not None and self.sha256 is not None


def _from_string(value: Any) -> Any:
    return {"path": str(value)} if isinstance(value, str | Path) else value


WeightsField = Annotated[WeightsFile, BeforeValidator(_from_string)]
"""A `WeightsFile` in a configuration, where a bare path is allowed."""


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file's content.

    Raises:
        WeightsError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise WeightsError(f"weights file {str(path)!r} cannot be read: {error}") from error


SAFE_FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What is read from a checkpoint. Pickles (`*.bin`, `*.pt`), which can run code, and program files are not."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Checkpoint(Declaration):
    """A folder of weights, or its name on the Hugging Face hub.

    In a study file, a bare string stands for `{path: that string}`. From the hub it is downloaded only with a
    `revision`, and weights are read from `.safetensors` files only, so that loading runs none of their code.
    """

    path: str
    """`owner/name` on the hub, or a folder: absolute, or relative to the study file or a weights folder."""
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """The commit on the hub that is downloaded; a branch or tag could change under the same name."""
    sha256: dict[str, str] = Field(default_factory=dict)
    """Pinned content, by file name."""
    files: tuple[str, ...] = SAFE_FILES
    """Patterns of the files that belong to it."""
    licence: str = "not stated"
    source: str = "not stated"
    download_bytes: int | None = None
    """About what a download takes."""

    @model_validator(mode="after")
    def _pins_are_sha256(self) -> Checkpoint:
        for name, pin in self.sha256.items():
            if not _SHA256.fullmatch(pin):
                raise ValueError(f"sha256 of {name!r}: {pin!r} is not 64 lower-case hexadecimal digits")
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[Any, ...]:
        return (self.path, self.revision, tuple(sorted(self.sha256.items())), self.files)

    @property
    def name(self) -> str:
        """The name on the hub, or that of the folder."""
        return self.path if self.hub_name is not None else Path(self.path).name

    @property
    def hub_name(self) -> str | None:
        """`owner/name`, if the path can be one."""
        return self.path if _HUB_NAME.fullmatch(self.path) else None

    @property
    def downloadable(self) -> bool:
        """Whether it can be fetched: a name on the hub with a pinned commit."""
        return self.hub_name is not None and self.revision is not None

    def found_in(self, folder: Path) -> list[Path]:
        """The files in a folder that belong to the checkpoint, by name."""
        if not folder.is_dir():
            return []
        files = (path for path in folder.iterdir() if path.is_file())
        return sorted(path for path in files if any(fnmatch(path.name, pattern) for pattern in self.files))

    def complete_in(self, folder: Path) -> bool:
        """Whether a folder holds settings, weights, and every file that is pinned or named by an index."""
        names = {path.name for path in self.found_in(folder)}
        weights = {name for name in names if name.endswith(".safetensors")}
        settings = any(name.endswith("config.json") for name in names)
        return bool(weights) and settings and (set(self.sha256) | _parts(folder, names)) <= names

    def content_of(self, folder: Path) -> str:
        """One sha256 for the content of all its files in a folder.

        Raises:
            WeightsError: a file cannot be read.
        """
        contents = {path.name: sha256_of(path) for path in self.found_in(folder)}
        return _digest({"files": contents})

    @property
    def pinned_content(self) -> str | None:
        """One sha256 for revision and pins; None without pins."""
        return _digest({"revision": self.revision, "files": self.sha256}) if self.sha256 else None


def _parts(folder: Path, names: set[str]) -> set[str]:
    """The files that large weights are split into."""
    index = "model.safetensors.index.json"
    if index not in names:
        return set()
    try:
        return set(json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        return {index + " (unreadable)"}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


CheckpointField = Annotated[Checkpoint, BeforeValidator(_from_string)]
"""A `Checkpoint` in a configuration, where a bare name or path is allowed."""
