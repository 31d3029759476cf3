"""What is known of weights before they are found: one file, or a checkpoint, a folder as transformers saves it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from detector_bench.declarations import Declaration
from detector_bench.errors import WeightsError
from detector_bench.limited_text import check_path


def _lower_case(value: Any) -> Any:
    # Some systems print a sha256 in capitals.
    return value.strip().lower() if isinstance(value, str) else value


Sha256 = Annotated[str, BeforeValidator(_lower_case), StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""64 hexadecimal digits."""


class GraphModel(Declaration):
    """A network as TensorFlow.js keeps it, inside a package's archive, and what of it goes into an ONNX file."""

    archive: str
    """Where the archive, a `.tgz`, is downloaded."""
    archive_sha256: Sha256
    archive_bytes: int
    """What the download takes."""
    topology: str
    """The model's `.json`, by its path in the archive."""
    weights: str
    """The model's `.bin`, likewise."""
    outputs: dict[str, str]
    """By the name that the ONNX network's output gets, the node that it comes from, in this order."""


class WeightsFile(Declaration):
    """One file of weights, pinned by its content.

    In a study file, a bare string stands for `{path: that string}`. Two descriptions with the same pinned content
    are equal wherever the file lies and whatever is said about it, so that stages that use it are shared.

    An `.onnx` file may refer to side files, which lie beside it and hold its tensors' numbers. They count as its
    content does: whoever pins the file pins them, too.
    """

    path: str
    """File name, or a path: absolute, or relative to the study file."""
    sha256: Sha256 | None = None
    """Pinned content. Without it, whatever file is found is used, and its sha256 is recorded."""
    side_files: dict[str, Sha256] = Field(default_factory=dict)
    """Pinned content of all its side files, by their path as seen from the file."""
    licence: str = "not stated"
    source: str = "not stated"
    also_named: tuple[str, ...] = ()
    """Other names under which its authors or others publish it, or that docs/weights.md gives to a conversion of
    it; a file with one of them is found, too."""
    url: str | None = None
    """Where `weights fetch` downloads it; only with a pinned sha256."""
    made_from: GraphModel | None = None
    """What `weights fetch` makes it from, where nobody publishes it as it is; only with a pinned sha256."""
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
        return check_path(path)

    @field_validator("also_named")
    @classmethod
    def _names_files(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if Path(name).name != name or name in ("", ".."):
                raise ValueError(f"a name of a file, without folders, is expected; got {name!r}")
        return names

    @model_validator(mode="after")
    def _pins_are_whole(self) -> WeightsFile:
        if self.side_files and self.sha256 is None:
            raise ValueError("side_files are pinned together with the file itself: give its sha256, too")
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightsFile) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[Any, ...]:
        if self.sha256 is not None:
            return (self.sha256, *sorted(self.side_files.items()))
        return (self.path, self.package, self.package_path)

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return Path(self.path).name

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which it may lie somewhere, its own first."""
        return tuple(dict.fromkeys((self.name, *self.also_named)))

    @property
    def pins(self) -> dict[str, str]:
        """The pinned sha256 of the file and its side files, by their path as seen from its folder."""
        return {} if self.sha256 is None else {self.name: self.sha256, **self.side_files}

    @property
    def pinned_content(self) -> str | None:
        """One sha256 for file and side files, where they are pinned."""
        return self.digest_of(self.pins) if self.pins else None

    def digest_of(self, contents: Mapping[str, str]) -> str:
        """One sha256 for the file and its side files, by name; without side files that of the file itself."""
        own, beside = contents[self.name], {name: each for name, each in contents.items() if name != self.name}
        return content_digest({"file": own, "side_files": beside}) if beside else own

    @property
    def downloadable(self) -> bool:
        """Whether it can be fetched: an address, its own or that of what it is made from, and a pinned content."""
        return (self.url is not None or self.made_from is not None) and self.sha256 is not None

    @property
    def origin(self) -> str | None:
        """The address that is asked when it is fetched."""
        return self.url if self.made_from is None else self.made_from.archive


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

CODE = "*.py"
_CHAT_TEMPLATES = "additional_chat_templates"

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
    """Pinned content, by file name. What a folder holds besides counts as it is found, see `counted_in`."""
    files: tuple[str, ...] = SAFE_FILES
    """Patterns of the files that are downloaded and make it complete."""
    licence: str = "not stated"
    source: str = "not stated"
    download_bytes: int | None = None
    """About what a download takes."""

    @field_validator("path")
    @classmethod
    def _names_a_folder(cls, path: str) -> str:
        return check_path(path)

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
    def pins(self) -> dict[str, str]:
        """The pinned sha256s, by file name."""
        return dict(self.sha256)

    @property
    def pinned_content(self) -> str | None:
        """One sha256 for revision and pins; None without pins."""
        return self.digest_of(self.pins) if self.pins else None

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

    def counted_in(self, folder: Path) -> list[str]:
        """The files in a folder that decide what it computes, as paths relative to it, sorted.

        More than `files`: packages such as transformers read what they know by name, asked for or not, and chat
        templates and program code from folders below.
        """
        patterns = (*SAFE_FILES, *self.files)
        names = {
            path.name
            for path in folder.iterdir()
            if path.is_file() and any(fnmatch(path.name, pattern) for pattern in patterns)
        }
        below = [f"{_CHAT_TEMPLATES}/*.jinja", *([f"**/{CODE}"] if CODE in self.files else [])]
        names |= {
            path.relative_to(folder).as_posix() for each in below for path in folder.glob(each) if path.is_file()
        }
        return sorted(names)

    def digest_of(self, contents: Mapping[str, str]) -> str:
        """One sha256 for those of its files, by name; with pins, for the revision, too."""
        files = dict(contents)
        return content_digest({"revision": self.revision, "files": files} if self.sha256 else {"files": files})


def _parts(folder: Path, names: set[str]) -> set[str]:
    """The files that large weights are split into."""
    index = "model.safetensors.index.json"
    if index not in names:
        return set()
    try:
        return set(json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        return {index + " (unreadable)"}


def content_digest(value: Any) -> str:
    """The sha256 of plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


CheckpointField = Annotated[Checkpoint, BeforeValidator(_from_string)]
"""A `Checkpoint` in a configuration, where a bare name or path is allowed."""
