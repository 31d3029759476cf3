"""Several detectors of one attribute that vote: by majority, by weight, or through a learnt stacking
classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

from detector_bench.detectors.base import Card, Detector, Prediction, build_detector, detector
from detector_bench.detectors.combining import by_stacking, by_votes, stacking_inputs
from detector_bench.errors import ConfigError, nearest_hint
from detector_bench.perception.stage import DESCRIPTIVE, Batch, Frame, Stage
from detector_bench.vocabulary import ATTRIBUTES, Status

NO_MAJORITY = "no_majority"
"""The reason for filtering an image that members filter, or that they cannot agree on."""


@detector(
    "ensemble",
    attributes=tuple(ATTRIBUTES),
    needs_parameters=True,
    card=Card(
        summary="Several detectors that vote: by majority, by weight, or by a stacking classifier",
        licence="those of its members",
        source="its members; `detector-bench search` learns weights and coefficients",
        hardware="that of its members",
    ),
)
class Ensemble(BaseModel):
    """Judges one attribute by the verdicts of others.

    Filtering is a vote like any other. An image on which a member fails is an error. Stages that members share,
    with each other or with other detectors of the study, run once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attribute: str = "gender"
    members: tuple[dict[str, Any], ...] = Field(min_length=2, max_length=50, json_schema_extra=DESCRIPTIVE)
    """Detectors: the registered name as `kind`, and parameters. What of them decides verdicts counts as that of
    the voters; here stands also where and how they work, such as the place of another Python."""
    decide: Literal["votes", "stacking"] = "votes"
    weights: tuple[FiniteFloat, ...] | None = None
    """Of `votes`, what each member's vote counts for; null: all alike."""
    coefficients: tuple[tuple[FiniteFloat, ...], ...] | None = None
    """Of `stacking`, a row for each class and one for filtered; see `combining.stacking_inputs`."""

    @field_validator("members")
    @classmethod
    def _with_all_settings(cls, members: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        full = []
        for number, member in enumerate(members):
            if not isinstance(member.get("kind"), str):
                raise ValueError(f"{number}: a detector is a mapping with `kind`; got {member!r}")
            try:
                full.append({"kind": member["kind"], **_built(member).settings})
            except ConfigError as error:
                raise ValueError(f"{number}: {error}") from error
        return tuple(full)

    @model_validator(mode="after")
    def _fits(self) -> Ensemble:
        if self.attribute not in ATTRIBUTES:
            raise ValueError(f"unknown attribute {self.attribute!r}: {nearest_hint(self.attribute, ATTRIBUTES)}")
        for number, voter in enumerate(self.voters):
            if self.attribute not in voter.attributes:
                raise ValueError(f"members: {number}: {voter.kind.name!r} does not judge {self.attribute!r}")
        if self.weights is not None and (
            len(self.weights) != len(self.members) or min(self.weights) < 0 or sum(self.weights) <= 0
        ):
            raise ValueError(f"weights: one of 0 or more for each of {len(self.members)} members, not all 0")
        if (self.coefficients is not None) != (self.decide == "stacking"):
            raise ValueError("coefficients belong to `decide: stacking`, and to nothing else")
        if self.coefficients is not None:
            classes = len(ATTRIBUTES[self.attribute].classes)
            columns = 1 + classes * len(self.members)
            if len(self.coefficients) != classes + 1 or any(len(row) != columns for row in self.coefficients):
                raise ValueError(f"coefficients: {classes + 1} rows of {columns} numbers")
        return self

    @cached_property
    def voters(self) -> tuple[Detector, ...]:
        """The members, in their order."""
        return tuple(_built(member) for member in self.members)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The one attribute that the members vote on."""
        return (self.attribute,)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Those of all members, each once."""
        return tuple(dict.fromkeys(stage for member in self.voters for stage in member.stages))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        found = [
            {each.image_id: each for each in member.predict(batch) if each.attribute == self.attribute}
            for member in self.voters
        ]
        for frame in batch:
            yield self._decided(frame, [of[frame.image_id] for of in found])

    def _decided(self, frame: Frame, said: list[Prediction]) -> Prediction:
        classes = ATTRIBUTES[self.attribute].classes
        verdicts = np.array(
            [
                [classes.index(each.label) if each.status is Status.CLEAR and each.label else len(classes)]
                for each in said
            ],
            dtype=np.int8,
        )
        if self.coefficients is None:
            weights = np.ones(len(said)) if self.weights is None else np.array(self.weights)
            verdict, share = by_votes(verdicts, classes=len(classes), weights=weights)
        else:
            scores = np.array([[np.nan if each.score is None else each.score] for each in said])
            inputs = stacking_inputs(verdicts, scores, classes=len(classes))
            verdict, share = by_stacking(inputs, np.array(self.coefficients))
        score = float(np.clip(share[0], 0, 1))
        if verdict[0] == len(classes):
            return Prediction.filtered(frame, self.attribute, NO_MAJORITY, score=score)
        return Prediction.clear(frame, self.attribute, classes[verdict[0]], score=score)


def _built(described: Mapping[str, Any]) -> Detector:
    parameters = {name: value for name, value in described.items() if name not in ("kind", "name")}
    return build_detector(described["kind"], parameters=parameters)
