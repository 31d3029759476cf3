"""What a stage or detector is, reduced to plain data and its sha256: equal fingerprints share results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from detector_bench.errors import ConfigError
from detector_bench.perception.stage import ADDED_LATER, DESCRIPTIVE, Stage
from detector_bench.plugins import source_fingerprint
from detector_bench.sealed import digest_of
from detector_bench.weights import Checkpoint, Weights, WeightsFile, WeightsLocator


def fingerprint(part: BaseModel, *, weights: WeightsLocator) -> str:
    """Sha256 over all that decides a stage's result: name, version, parameters, input stages, weights.

    Of a plugged-in stage its source counts, too (see `source_fingerprint`). Weights count with their content, not
    with their path. Library versions are not part of it; they are in `run.json`.

    Raises:
        ConfigError, WeightsError, MissingExtraError: see `canonical`.
    """
    return digest_of(canonical(part, weights=weights))


@runtime_checkable
class TakesSettings(Protocol):
    """A part of a configuration with a word, such as `auto`, that stands for one thing here and another there."""

    def settings_taken(self) -> Mapping[str, Any]:
        """By field, what the word stands for on this machine."""


NOT_TOLD = "(not told)"
"""What stands in a declared identity for weights without a pin and for what depends on the machine."""


def canonical(value: Any, *, weights: WeightsLocator | None) -> Any:
    """Reduce parameters to plain JSON data, weights files to their content's sha256.

    Fields marked `DESCRIPTIVE` are left out, and those marked `ADDED_LATER` where they are their default; of a
    field that depends on the machine (`TakesSettings`) what was taken counts.

    Args:
        value: a stage, a detector's parameters, or a part of them.
        weights: where weights are found. None: no file is looked at, and `NOT_TOLD` stands for what is found out
            on the machine that computes; such an identity has no fingerprint.

    Raises:
        ConfigError: a parameter that is no text, number, list, mapping or model of these.
        WeightsError: a weights file without a pinned sha256 that is not there.
        MissingExtraError: what is taken depends on a package that is not installed.
    """
    if isinstance(value, WeightsFile | Checkpoint):
        return {"weights": _content(value, weights)}
    if isinstance(value, BaseModel):
        taken = _taken(value, weights)
        parameters = {
            name: canonical(taken.get(name, getattr(value, name)), weights=weights)
            for name, field in type(value).model_fields.items()
            if _counts(field, getattr(value, name))
        }
        return {
            "kind": getattr(value, "kind", type(value).__name__),
            "version": getattr(value, "version", 1),
            "parameters": parameters,
            "weights": [_content(file, weights) for file in _own_weights(value)],
            **_plugged_in(value, weights=weights),
        }
    if isinstance(value, Mapping):
        return {str(key): canonical(item, weights=weights) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item, weights=weights) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigError(
        f"a parameter of type {type(value).__name__} cannot be part of a fingerprint: {value!r} "
        "(accepted: text, numbers, true or false, lists, mappings, stages, weights files)"
    )


def _counts(field: FieldInfo, value: Any) -> bool:
    if field.json_schema_extra == ADDED_LATER:
        return bool(value != field.get_default(call_default_factory=True, validated_data={}))
    return field.json_schema_extra != DESCRIPTIVE


def _content(file: Weights, weights: WeightsLocator | None) -> str | dict[str, str]:
    if weights is not None:
        return weights.identity(file)
    pinned = file.pinned_content
    return NOT_TOLD if pinned is None else pinned


def _taken(value: BaseModel, weights: WeightsLocator | None) -> Mapping[str, Any]:
    if not isinstance(value, TakesSettings):
        return {}
    if weights is not None:
        return value.settings_taken()
    return {name: NOT_TOLD for name in type(value).model_fields if getattr(value, name) == "auto"}


def _plugged_in(value: BaseModel, *, weights: WeightsLocator | None) -> dict[str, Any]:
    """What counts besides for a model from elsewhere; nothing for those of detector_bench."""
    source = source_fingerprint(type(value))
    if source is None:
        return {}
    # A stage need not have its inputs as fields.
    inputs = [canonical(each, weights=weights) for each in value.inputs()] if isinstance(value, Stage) else []
    return {"source": source, "inputs": inputs}


def _own_weights(value: BaseModel) -> tuple[Weights, ...]:
    return value.weights() if isinstance(value, Stage) else ()
