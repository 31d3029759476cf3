"""What study files and attributes' files state: YAML without a key twice, parameters with their types."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from detector_bench.errors import ConfigError


class Declaration(BaseModel):
    """Parameters out of a study file: they never change, and an unknown key is a mistake, not a wish."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Strict(yaml.constructor.SafeConstructor):
    """Refuses a mapping with the same key twice, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<` brings in keys that the mapping's own keys may replace
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here a second time", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _StrictLoader(_Strict, yaml.SafeLoader):
    pass


class _QuickLoader(_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def read_mapping(path: Path, *, keys: str = "`image_set` and `detectors`") -> dict[str, Any]:
    """Read a YAML file that holds a mapping; `keys` says, in words, which ones to expect.

    Raises:
        ConfigError: no such file, not YAML (with line and column), or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
        try:
            content = yaml.load(text, Loader=_QuickLoader)  # noqa: S506 - derived from SafeLoader
        except yaml.YAMLError:
            content = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - its message says more
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{place}: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a mapping is expected, with keys such as {keys}")
    return content
