"""`kind: image_classifier`: any published classifier by its name, made a detector by a study file alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from detector_bench.detectors.base import Card, Prediction, detector, require_classes
from detector_bench.detectors.calibrated import Calibrated
from detector_bench.detectors.filters import Filter, first_reason
from detector_bench.detectors.reading import OTHER_CLASS, UNCERTAIN
from detector_bench.perception.boxes import Crop
from detector_bench.perception.networks.label_classes import LabelClasses
from detector_bench.perception.networks.published_outputs import (
    ClassifierClasses,
    ClassifierOutputs,
    PublishedClassifier,
)
from detector_bench.perception.stage import Arrays, Batch, Frame, Stage, text_in
from detector_bench.vocabulary import ATTRIBUTES


class LabelReading(LabelClasses, Calibrated):
    """How labels are read for one attribute, and how sure the network has to be."""

    min_score: float = Field(default=0.0, ge=0, le=1)
    """A winner below this probability is `uncertain`: the image is filtered."""

    @property
    def plain(self) -> LabelClasses:
        """Without what decides after the stages."""
        return LabelClasses(**{name: getattr(self, name) for name in LabelClasses.model_fields})


@detector(
    "image_classifier",
    attributes=("gender", "age", "race"),
    extra="classifiers",
    needs_parameters=True,
    card=Card(
        summary="Any published classifier by its name: transformers, timm, torchvision or a TorchScript file",
        licence="that of the weights",
        source="the study file",
    ),
)
class ImageClassifier(LabelReading):
    """Filter, crop, classify, and read the labels.

    The image goes through `filters` in their order; the first that objects gives the reason. Then `crop` decides
    what the network sees. The class whose labels are likeliest wins, the first of equals; the score is its
    probability. A winner without a class of ours filters the image as `other_class`.

    One attribute is described beside `model`; several, by `outputs`.
    """

    model: PublishedClassifier
    crop: Crop = Field(default_factory=Crop)
    filters: tuple[Filter, ...] = ()
    attribute: str | None = None
    """What the labels are about; by default what the classes in `classes` belong to, or else gender."""
    outputs: dict[str, LabelReading] = Field(default_factory=dict)
    """By attribute, how the labels are read, where they are about several."""

    @model_validator(mode="after")
    def _one_description(self) -> ImageClassifier:
        beside = [name for name in LabelReading.model_fields if getattr(self, name) != _DEFAULTS[name]]
        if self.outputs and (beside or self.attribute is not None):
            given = (["attribute"] if self.attribute is not None else []) + beside
            raise ValueError(f"`outputs` describes each attribute by itself: put {', '.join(given)} into it")
        for attribute, reading in self.readings.items():
            meant = (*reading.table.values(), reading.otherwise)
            require_classes(attribute, [label for label in meant if label not in (None, UNCERTAIN)])
        return self

    @property
    def readings(self) -> dict[str, LabelReading]:
        """By attribute, how the labels are read."""
        if self.outputs:
            return self.outputs
        alone = LabelReading(**{name: getattr(self, name) for name in LabelReading.model_fields})
        return {self.attribute or _attribute_of(self): alone}

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the labels are read for."""
        return tuple(self.readings)

    @property
    def classifier(self) -> ClassifierOutputs:
        """The stage that runs the network."""
        return ClassifierOutputs(model=self.model, crop=self.crop)

    @property
    def by_attribute(self) -> dict[str, ClassifierClasses]:
        """The stages that read its numbers."""
        plain = {attribute: reading.plain for attribute, reading in self.readings.items()}
        return {
            attribute: ClassifierClasses(
                outputs=self.classifier,
                attribute=attribute,
                reading=reading,
                elsewhere=tuple((name, other) for name, other in plain.items() if name != attribute),
            )
            for attribute, reading in plain.items()
        }

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The readings of the network's numbers, and what filters, crop and calibration need."""
        filters = (each.stage() for each in self.filters)
        calibrations = (stage for name, each in self.readings.items() for stage in each.calibration_stages(name))
        return (*self.by_attribute.values(), *filters, *self.crop.inputs(), *calibrations)

    def predict(self, batch: Batch) -> Iterator[Prediction]:
        """Judge a batch; see `Predicts.predict`."""
        stages, readings = self.by_attribute, self.readings
        for frame in batch:
            reason = first_reason(self.filters, frame)
            for attribute, stage in stages.items():
                found = frame[stage]
                why = reason if reason is not None or found else self.crop.missing_reason
                if why is not None:
                    yield Prediction.filtered(frame, attribute, why)
                else:
                    yield _judged(frame, attribute, found, readings[attribute])


_DEFAULTS: dict[str, Any] = {name: field.get_default() for name, field in LabelReading.model_fields.items()}


def _attribute_of(reading: LabelReading) -> str:
    """The attribute that the classes of a table belong to; gender without one."""
    target = getattr(reading.classes, "target", None)
    if target is not None:
        return str(target.attribute)
    meant = {*reading.table.values(), reading.otherwise} - {None, UNCERTAIN}
    fitting = [name for name, attribute in ATTRIBUTES.items() if meant <= {*attribute.classes}]
    return fitting[0] if meant and fitting else "gender"


def _judged(frame: Frame, attribute: str, found: Arrays, reading: LabelReading) -> Prediction:
    classes = ATTRIBUTES[attribute].classes
    probabilities, words = found["probabilities"], text_in(found["words"])
    winner = int(np.argmax(probabilities))
    score = float(probabilities[winner])
    if winner == len(classes):
        return Prediction.filtered(frame, attribute, OTHER_CLASS, raw=words)
    if winner > len(classes):
        return Prediction.filtered(frame, attribute, UNCERTAIN, score=score, raw=words)
    score, kept = reading.weighed(score, reading.calibration_of(frame, attribute))
    if score < reading.min_score or not kept:
        return Prediction.filtered(frame, attribute, UNCERTAIN, score=score, raw=words)
    years = float(found["years"])
    value = None if np.isnan(years) else years
    return Prediction.clear(frame, attribute, classes[winner], score=score, value=value, raw=words)
