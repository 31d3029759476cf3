"""What study files and attributes' files state: mappings in YAML, parameters with their types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from detector_bench.errors import ConfigError
from detector_bench.limited_text import limited_bytes
from detector_bench.yaml_text import LARGEST_BYTES, YamlMistake, parse_yaml


class Declaration(BaseModel):
    """Parameters out of a study file: they never change, and an unknown key is a mistake, not a wish."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_mapping(path: Path, *, keys: str = "`image_set` and `detectors`") -> dict[str, Any]:
    """Read a YAML file that holds a mapping; `keys` says, in words, which ones to expect.

    Raises:
        ConfigError: no such file, not YAML or beyond its limits (with line and column), or not a mapping.
    """
    try:
        content = parse_yaml(limited_bytes(path, LARGEST_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}") from None
    except YamlMistake as error:
        raise ConfigError(f"{path}{error.place}: {error}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a mapping is expected, with keys such as {keys}")
    return content
