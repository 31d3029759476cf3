"""Detectors as rows: what there is, what one detector is made of, and what it lacks on this machine.

Rows are mappings of texts, so that listing needs no data frame; `pandas.DataFrame` takes them. `entry_of` is the
way back from a built detector to the mapping that a study has for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from detector_bench_next import registry
from detector_bench_next.detector import Detector, Settings, Stage, build, with_inputs
from detector_bench_next.errors import DetectorBenchError
from detector_bench_next.weights import Where


def list_detectors(
    detectors: Sequence[Detector] | None = None, where: Where | None = None
) -> list[dict[str, str]]:
    """Detectors of a study, or all kinds: name, kind, attributes, licence, weights, and what a run lacks here."""
    rows = [{"name": own.name, **_facts(own, where or Where())} for own in detectors or ()]
    for kind in registry.names("detector") if detectors is None else ():
        try:
            rows.append({"name": kind, **_facts(_of_kind(kind), where or Where())})
        except DetectorBenchError as error:  # a plugin that cannot be imported
            rows.append({"name": kind, "lacks": str(error)})
    names = ("name", "kind", "attributes", "licence", "weights", "lacks")
    return [{name: row.get(name, "") for name in names} for row in rows]


def show_detector(detector: Detector | str, where: Where | None = None) -> list[dict[str, str]]:
    """Facts about a detector or a kind, a row each: summary, card, classes, stages, weights, fields, lacks."""
    where, own = where or Where(), _of_kind(detector) if isinstance(detector, str) else detector
    thing = own if isinstance(own, type) else type(own)
    facts = {"summary": (thing.__doc__ or "").strip().split("\n")[0], **_facts(own, where)}
    if isinstance(own, Detector):
        facts = {"name": own.name, **facts, "stages": ", ".join(stage.kind for stage in stages_of(own))}
        for name in own.attributes:
            facts[f"classes of {name}"] = ", ".join(own.attribute_of(name).class_names)
        for weights in weights_of(own):
            told = {**weights.model_dump(exclude_defaults=True), "found": where.find(weights) or "no"}
            facts |= {f"{weights.name}, {name}": str(fact) for name, fact in told.items()}
        facts |= {f"field {name}": as_yaml(value) for name, value in entry_of(own, whole=True).items()}
    else:
        for name, field in own.model_fields.items():
            default = field.get_default(call_default_factory=True, validated_data={})
            facts[f"field {name}"] = (
                "must be given" if field.is_required() else as_yaml(_plain(default, whole=True))
            )
    return [{"fact": name, "value": text} for name, text in facts.items()]


def _of_kind(kind: str) -> Detector | type[Detector]:
    """The detector of a kind; its class where some fields must be given."""
    thing: type[Detector] = registry.find("detector", kind).thing
    fields = getattr(thing, "model_fields", {})  # `build` tells a class that is no detector
    needed = any(field.is_required() for field in fields.values())
    return thing if needed else build("detector", kind)


def _facts(own: Detector | type[Detector], where: Where) -> dict[str, str]:
    entry = registry.find("detector", own.kind)
    facts = {"kind": own.kind, "attributes": ", ".join(entry.facts.get("attributes", ()))}
    if isinstance(own, type):
        needed = [name for name, field in own.model_fields.items() if field.is_required()]
        return {**facts, **entry.facts.get("card", {}), "lacks": f"fields: {', '.join(needed)}"}
    weights = weights_of(own)
    licences = dict.fromkeys(what.licence for what in weights if getattr(what, "licence", ""))
    facts |= {
        "attributes": ", ".join(own.attributes),
        "licence": ", ".join(licences),
        **entry.facts.get("card", {}),
    }
    return facts | {"weights": ", ".join(what.name for what in weights), "lacks": "; ".join(own.lacks(where))}


def stages_of(detector: Detector) -> list[Stage]:
    """Stages that a detector reads, and those that these read, inputs before their users."""
    return with_inputs(detector.stages())


def weights_of(detector: Detector) -> list[Any]:
    """Weights of a detector and its stages, each once."""
    of_stages = (own for stage in stages_of(detector) for own in stage.weights())
    return list(dict.fromkeys([*detector.weights(), *of_stages]))


def as_yaml(value: Any) -> str:
    """A value as YAML, in few lines."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return text.removesuffix("\n").removesuffix("\n...")


def entry_of(detector: Settings, *, whole: bool = False) -> dict[str, Any]:
    """The mapping of which `build` makes an equal detector or stage; `whole`: also fields with their defaults."""
    return dict(_plain(detector, whole=whole))


def _plain(value: Any, *, whole: bool) -> Any:
    if isinstance(value, Settings):
        kind = {"kind": value.kind} if isinstance(value, Stage | Detector) else {}
        names = [n for n in type(value).model_fields if whole or n == "kind" or n in value.model_fields_set]
        return {**kind, **{name: _plain(getattr(value, name), whole=whole) for name in names}}
    if isinstance(value, BaseModel):  # weights
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return {name: _plain(own, whole=whole) for name, own in value.items()}
    return [_plain(own, whole=whole) for own in value] if isinstance(value, list | tuple) else value
