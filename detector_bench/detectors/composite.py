"""One judge made of several: each attribute is judged by a detector of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from detector_bench.detectors.base import Card, Detector, Prediction, build_detector, detector
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.perception.stage import Batch, Stage
from detector_bench.vocabulary import ATTRIBUTES


@detector(
    "composite",
    attributes=tuple(ATTRIBUTES),
    needs_parameters=True,
    card=Card(
        summary="One judge made of others, such as gender and age by one and skin tone by another",
        licence="those of its parts",
        source="its parts",
        hardware="that of its parts",
    ),
)
class Composite(BaseModel):
    """Takes the verdicts on each attribute from another detector.

    A score that combines attributes, such as BiasPainter's table of gender, age and skin tone, needs one judge for
    all of them. Verdicts, scores and values are those of the parts; an attribute is an error where its own part
    failed, and nowhere else. Stages that parts share, with each other or with other detectors of the study, run
    once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parts: dict[str, Any] = Field(min_length=1)
    """By attribute, the detector that judges it: the name of another detector of the study, a registered name, or
    a mapping with the registered name as `kind` and parameters."""

    @field_validator("parts")
    @classmethod
    def _parts_judge_their_attributes(cls, parts: dict[str, Any]) -> dict[str, Any]:
        described = {}
        for attribute, part in parts.items():
            if attribute not in ATTRIBUTES:
                raise ValueError(f"unknown attribute {attribute!r}: {nearest_hint(attribute, ATTRIBUTES)}")
            described[attribute] = _described(part, attribute)
            try:
                judged = _built(described[attribute]).attributes
            except ConfigError as error:
                raise ValueError(f"{attribute}: {error}") from error
            if attribute not in judged:
                kind = described[attribute]["kind"]
                raise ValueError(f"{kind!r} does not judge {attribute!r} (it judges: {', '.join(judged)})")
        return described

    @cached_property
    def judges(self) -> Mapping[str, Detector]:
        """By attribute, its detector; attributes with equal parts share one."""
        built: list[tuple[Any, Detector]] = []
        judges = {}
        for attribute, part in self.parts.items():
            known = next((each for description, each in built if description == part), None)
            judges[attribute] = known or _built(part)
            if known is None:
                built.append((part, judges[attribute]))
        return judges

    @property
    def attributes(self) -> tuple[str, ...]:
        """What it judges."""
        return tuple(self.parts)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Those of all its parts, each once."""
        return tuple(dict.fromkeys(stage for part in self.judges.values() for stage in part.stages))

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the classes that its part can give."""
        return {attribute: part.classes[attribute] for attribute, part in self.judges.items()}

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        for part in {id(part): part for part in self.judges.values()}.values():
            yield from (each for each in part.predict(batch) if self.judges.get(each.attribute) is part)

    @field_serializer("parts")
    def _with_all_settings(self, parts: dict[str, Any]) -> dict[str, Any]:
        return {name: {"kind": parts[name]["kind"], **part.settings} for name, part in self.judges.items()}


def _described(part: Any, attribute: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"kind": part}
    if not isinstance(part, Mapping) or not isinstance(part.get("kind"), str):
        raise ValueError(f"{attribute}: a detector is its name, or a mapping with `kind`; got {part!r}")
    return dict(part)


def _built(described: Mapping[str, Any]) -> Detector:
    parameters = {name: value for name, value in described.items() if name not in ("kind", "name")}
    return build_detector(described["kind"], parameters=parameters)
