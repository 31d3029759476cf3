"""Checkpoints that bring program code of their own: it counts as content, and nobody else's is loaded with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detector_bench.errors import ConfigError, WeightsError
from detector_bench.weights.files import CODE, SAFE_FILES

NEEDS_CODE = (
    "brings its own program code, and loading it runs that with your rights: read it, then set "
    "run_checkpoint_code: true, and allow it on your machine with `detector-bench trust code`"
)
"""What to do about a checkpoint whose code the study does not ask for; behind its name."""


def with_program_files(given: Any) -> Any:
    """A checkpoint in a configuration, with its program files among those that count: they decide the results."""
    found = {"path": str(given)} if isinstance(given, str | Path) else given
    if isinstance(found, Mapping) and CODE not in found.get("files", ()):
        found = {**found, "files": (*found.get("files", SAFE_FILES), CODE)}
    return found


def settings_of(folder: Path, name: str) -> dict[str, Any]:
    """A checkpoint's `config.json`.

    Raises:
        WeightsError: it cannot be read, or is no mapping.
    """
    found = _json(folder / "config.json", name)
    if not isinstance(found, dict):
        raise WeightsError(f"the config.json of checkpoint {name!r} holds no mapping")
    return found


def require_own_code(folder: Path, name: str) -> None:
    """Refuse a checkpoint whose settings name code that does not lie beside them.

    Those of its processor and its parts count as well: transformers takes the code of each from where they say,
    and no settings belong to what the user of the machine has allowed.

    Raises:
        WeightsError: its settings cannot be read.
        ConfigError: it has none, or another repository's.
    """
    own = list(_places(settings_of(folder, name).get("auto_map", {})))
    files = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(".index.json")]
    anywhere = (place for path in files for place in _named_anywhere(_json(path, name)))
    places = list(dict.fromkeys([*own, *anywhere]))
    if (folder / "adapter_config.json").exists():
        raise ConfigError(f"checkpoint {name!r} has an adapter_config.json, which would load another one's code")
    # Before "--" stands another repository, from which transformers would take the code; a path may lead anywhere.
    if not own or not all(part.isidentifier() for place in places for part in place.split(".")):
        raise ConfigError(f"checkpoint {name!r} does not bring its own program code (auto_map: {places})")


def _json(path: Path, name: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"the {path.name} of checkpoint {name!r} cannot be read: {error}") from error


def _named_anywhere(settings: Any) -> Iterator[str]:
    """The places of code in settings, and in those of their parts."""
    if isinstance(settings, Mapping):
        yield from _places(settings.get("auto_map", {}))
        for value in settings.values():
            yield from _named_anywhere(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from _named_anywhere(value)


def _places(found: Any) -> Iterator[str]:
    """What an `auto_map` says; an auto class may have two places, or none for one of its forms."""
    if isinstance(found, Mapping):
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from _places(each)
    elif found is not None:
        yield str(found)
