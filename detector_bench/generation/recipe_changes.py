"""Says what differs between a recipe and the one that an image set was made by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from detector_bench.declarations import read_mapping
from detector_bench.errors import ConfigError
from detector_bench.generation.recipe import Recipe

_MOST_KEYS = 5


def changed_keys(recipe: Recipe, before: Path) -> str:
    """The keys in which a recipe differs from an earlier one, for a message; the first of many.

    Args:
        recipe: as it is now.
        before: the file of the earlier one.
    """
    try:
        earlier = read_mapping(before)
    except ConfigError:
        return "nobody knows in what"
    then, now = dict(_leaves(earlier)), dict(_leaves(recipe.document()))
    keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    more = f" and {len(keys) - _MOST_KEYS:,} more" if len(keys) > _MOST_KEYS else ""
    elsewhere = "a file that it names, a T2I model's code, or a key before the last run"
    return ", ".join(keys[:_MOST_KEYS]) + more if keys else elsewhere


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The single values of a recipe, by where they stand; a T2I model's by its name."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            name = item.get("name", position) if isinstance(item, dict) else position
            yield from _leaves(item, f"{place}.{name}")
    else:
        yield place, value
