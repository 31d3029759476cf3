"""Detectors in a Python environment of their own: filters, a crop, then a script in another process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, JsonValue, ValidationError, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.detectors.isolated_reading import SaidLabelReading, ScriptReading, read_output
from detector_bench.errors import ConfigError
from detector_bench.isolated.adapters import ADAPTERS
from detector_bench.perception.boxes import Crop
from detector_bench.perception.networks.isolated_outputs import FILTERED, IsolatedOutputs, Requirements
from detector_bench.perception.stage import DESCRIPTIVE, Arrays, Batch, Frame, Stage, text_in
from detector_bench.vocabulary import ATTRIBUTES
from detector_bench.weights.files import WeightsField

_FIELDS = IsolatedOutputs.model_fields
_REASON = re.compile(r"[a-z][a-z0-9_]{0,60}")


@detector(
    "isolated",
    attributes=("gender", "age", "race"),
    needs_parameters=True,
    card=Card(
        summary="Any package in a Python of its own: by a script, or an adapter (deepface, insightface, mivolo)",
        licence="that of the package and its weights",
        source="the study file; docs/isolated-detectors.md",
    ),
)
class IsolatedDetector(Declaration):
    """Filter, crop, ask the other process, read.

    As `onnx`, with a script in place of the network: what it says about the crop of an image is read by `outputs`.
    An adapter brings its readings and files along. See `IsolatedOutputs` for what describes the process.
    """

    script: WeightsField | None = None
    adapter: str | None = None
    python: str | None = Field(default=None, json_schema_extra=DESCRIPTIVE)
    requirements: Requirements | None = None
    python_version: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    files: dict[str, WeightsField] = Field(default_factory=dict)
    crop: Crop = Field(default_factory=Crop)
    batch: int = Field(default=_FIELDS["batch"].default, json_schema_extra=DESCRIPTIVE)
    timeout: float = Field(default=_FIELDS["timeout"].default, json_schema_extra=DESCRIPTIVE)
    start_timeout: float = Field(default=_FIELDS["start_timeout"].default, json_schema_extra=DESCRIPTIVE)
    filters: tuple[Filter, ...] = ()
    outputs: dict[str, ScriptReading] = Field(min_length=1)
    """By attribute: how what the script says becomes one of its classes."""

    @model_validator(mode="before")
    @classmethod
    def _as_the_adapter_says(cls, values: Any) -> Any:
        adapter = ADAPTERS.get(str(values.get("adapter"))) if isinstance(values, Mapping) else None
        if adapter is None:
            return values
        outputs = values.get("outputs") or adapter.outputs
        roles = {role for attribute in outputs for role in adapter.files_of.get(attribute, ())}
        files = {
            role: {"path": path, "source": adapter.origins[role], "licence": adapter.licence}
            for role, path in adapter.files.items()
            if role in roles
        }
        return {**values, "outputs": outputs, "files": values.get("files", files)}

    @model_validator(mode="after")
    def _stage_and_labels_fit(self) -> IsolatedDetector:
        try:
            _ = self.stage
        except ValidationError as error:
            raise ValueError("; ".join(_told(each) for each in error.errors())) from None
        for name, reading in self.outputs.items():
            require_classes(name, reading.labels)
        return self

    @property
    def stage(self) -> IsolatedOutputs:
        """The stage that asks the process."""
        return IsolatedOutputs(**{name: getattr(self, name) for name in IsolatedOutputs.model_fields})

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the outputs are read for."""
        return tuple(self.outputs)

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the labels that its readings can give."""
        return {name: reading.labels or ATTRIBUTES[name].classes for name, reading in self.outputs.items()}

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage that asks the process, and what filters and crop read."""
        return (self.stage, *(each.stage() for each in self.filters), *self.crop.inputs())

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        stage = self.stage
        for frame in batch:
            outputs = frame[stage]
            reason = first_reason(self.filters, frame)
            if reason is None:
                reason = _filtered(outputs) if outputs else self.crop.missing_reason
            for attribute, reading in self.outputs.items():
                yield _judged(frame, attribute, reading, outputs=outputs, reason=reason)


def _judged(
    frame: Frame, attribute: str, reading: ScriptReading, *, outputs: Arrays, reason: str | None
) -> Prediction:
    if reason is not None:
        return Prediction.filtered(frame, attribute, reason)
    try:
        found = read_output(reading, outputs)
    except ConfigError as error:
        # Of a network it would be the same for each image; a script may say anything of one.
        raise ValueError(str(error)) from error
    if found.reason is not None:
        return Prediction.filtered(frame, attribute, found.reason, score=found.score, raw=found.raw)
    if isinstance(reading, SaidLabelReading):
        require_classes(attribute, [found.label])
    return Prediction.clear(frame, attribute, found.label, score=found.score, value=found.value, raw=found.raw)


def _filtered(outputs: Arrays) -> str | None:
    if FILTERED not in outputs:
        return None
    reason = text_in(outputs[FILTERED])
    if not _REASON.fullmatch(reason):
        raise ValueError(f"the script gives {reason[:60]!r} as a reason (accepted: one word such as no_face)")
    return reason


def _told(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
