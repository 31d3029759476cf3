"""The description of one weights file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from detector_bench.errors import WeightsError


def _lower_case(value: Any) -> Any:
    # Some systems print a sha256 in capitals.
    return value.strip().lower() if isinstance(value, str) else value


class WeightsFile(BaseModel):
    """One file of weights, pinned by its content.

    In a study file, a bare string stands for `{path: that string}`. Two descriptions with the same pinned content
    are equal wherever the file lies and whatever is said about it, so that stages that use it are shared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    package: str | None = None
    """Python package that carries the file."""
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
