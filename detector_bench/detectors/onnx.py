"""`kind: onnx`: any classifier that is an ONNX file, made a detector by a study file alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from detector_bench.declarations import Declaration
from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.detectors.reading import Reading, stages_of, verdict_of
from detector_bench.perception.boxes import Crop
from detector_bench.perception.networks.onnx_networks import OnnxInput, OnnxOutputs
from detector_bench.perception.stage import Batch, Frame, Stage
from detector_bench.weights.files import WeightsField


@detector(
    "onnx",
    attributes=("gender", "age", "race"),
    extra="onnx",
    modules=("onnxruntime", "cv2"),
    needs_parameters=True,
    card=Card(
        summary="Any ONNX classifier, described in the study file: weights, input, crop, filters, outputs",
        licence="that of the weights",
        source="the study file",
    ),
)
class OnnxDetector(Declaration):
    """Filter, crop, classify, read.

    The image goes through `filters` in their order; the first that objects gives the reason. Then `crop` decides
    what the network sees, and `outputs` how its numbers become a label for each attribute. With a face filter, a
    single-subject filter on person boxes and a crop to the largest person, this is the composition of CLIP-Enhance
    (Lyu 2025, section 5.1) with another classifier.
    """

    network: WeightsField
    input: OnnxInput
    crop: Crop = Field(default_factory=Crop)
    filters: tuple[Filter, ...] = ()
    outputs: dict[str, Reading] = Field(min_length=1)
    """By attribute: how the network's numbers become one of its classes."""

    @model_validator(mode="after")
    def _labels_are_known(self) -> OnnxDetector:
        for name, reading in self.outputs.items():
            require_classes(name, reading.labels)
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the outputs are read for."""
        return tuple(self.outputs)

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the labels that its readings can give."""
        return {name: reading.labels for name, reading in self.outputs.items()}

    @property
    def classifier(self) -> OnnxOutputs:
        """The stage that runs the network."""
        names = tuple(dict.fromkeys(reading.output for reading in self.outputs.values()))
        return OnnxOutputs(network=self.network, input=self.input, crop=self.crop, outputs=names)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The classifier, and what filters, crop and readings need."""
        filters = (each.stage() for each in self.filters)
        return (self.classifier, *filters, *self.crop.inputs(), *stages_of(self.outputs))

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        classifier = self.classifier
        for frame in batch:
            reason = first_reason(self.filters, frame)
            outputs = frame[classifier]
            if reason is None and not outputs:
                reason = self.crop.missing_reason
            for attribute, reading in self.outputs.items():
                yield self._judge(frame, attribute, reading, outputs=outputs, reason=reason)

    def _judge(
        self, frame: Frame, attribute: str, reading: Reading, *, outputs: Any, reason: str | None
    ) -> Prediction:
        if reason is not None:
            return Prediction.filtered(frame, attribute, reason)
        found = verdict_of(reading, frame, attribute, outputs[reading.output])
        if found.reason is not None:
            return Prediction.filtered(frame, attribute, found.reason, score=found.score, raw=found.raw)
        return Prediction.clear(frame, attribute, found.label, score=found.score, value=found.value, raw=found.raw)
