"""The description of one weights file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class WeightsFile(BaseModel):
    """One file of weights, pinned by its content.

    In a study file, a bare string stands for `{path: that string}`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1)
    """File name, or a path: absolute, or relative to the study file."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Pinned content. Without it, whatever file is found is used, and its sha256 is recorded."""
    licence: str = "not stated"
    source: str = "not stated"
    url: str | None = None
    """Where `weights fetch` downloads it; only with a pinned sha256."""
    package: str | None = None
    """Python package that carries the file."""
    package_path: str | None = None
    """Path inside that package's folder."""
    package_extra: str | None = None
    """The extra of detector-bench that installs that package."""

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return Path(self.path).name


def _from_string(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


WeightsField = Annotated[WeightsFile, BeforeValidator(_from_string)]
"""A `WeightsFile` in a configuration, where a bare path is allowed."""


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
