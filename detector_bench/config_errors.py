"""Turns pydantic's validation errors into messages that name the place, the value and the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from detector_bench.errors import ConfigError, nearest_hint


def config_error_from(error: ValidationError, *, place: str, model: type[BaseModel]) -> ConfigError:
    """Describe all mistakes that pydantic found, a line each.

    Args:
        error: what pydantic raised.
        place: where the configuration comes from, a file or a detector's name.
        model: the model that was validated, to find the names that are known at each place.
    """
    lines = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            known = _known_names(model, item["loc"][:-1])
            message = f"unknown key {str(item['loc'][-1])!r}: {nearest_hint(str(item['loc'][-1]), known)}"
        elif item["type"] == "missing":
            message = "is missing"
        elif item["type"] == "union_tag_not_found":
            message = f"the key {item['ctx']['discriminator']} is missing"
        elif isinstance(item["input"], str | int | float | bool) and repr(item["input"]) not in message:
            message += f"; got {item['input']!r}"
        lines.append(f"{place}: {where + ': ' if where else ''}{message}")
    return ConfigError("\n".join(lines))


def _known_names(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    current: list[Any] = [model]
    for part in path:
        following: list[Any] = []
        for each in current:
            if _is_model(each) and part in each.model_fields:
                following += _models_in(each.model_fields[str(part)].annotation)
        # Positions in lists, keys of mappings and tags of unions stay at the same models.
        current = following or current
    return sorted({name for each in current if _is_model(each) for name in each.model_fields})


def _models_in(annotation: Any) -> list[Any]:
    if _is_model(annotation):
        # What a registry chose by a name, such as a score system, derives from the model of the field.
        return [annotation, *annotation.__subclasses__()]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)
